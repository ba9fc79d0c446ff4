"""The minimum cut against brute force: over arcs, and over the colours of small graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.policy.traits import DISCONTINUOUS, MOVES_NOTHING
from graphmp.rewrite import costs, pipeline, placement
from graphmp.rewrite.paint import FLOAT, FREE, HALF
from graphmp.rewrite.placement import SINK, SOURCE
from tests.support import painting

INFINITE = float("inf")
MOST_FREE = 8
often = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def cost(arcs, half):
    """What a colouring costs: the arcs from the half side to the float32 side."""
    side = set(half) | {SOURCE}
    return sum(capacity for a, b, capacity in arcs if a in side and b not in side)


def colourings(vertices):
    return (set(half) for size in range(len(vertices) + 1) for half in itertools.combinations(vertices, size))


def best(arcs):
    """The least cost, and every vertex that is half in some colouring of that cost."""
    vertices = sorted({v for a, b, _ in arcs for v in (a, b) if v > SINK})
    costs = [(cost(arcs, half), half) for half in colourings(vertices)]
    least = min(price for price, _ in costs)
    return least, set().union(*(half for price, half in costs if price == least))


@st.composite
def problems(draw, capacities):
    """Arcs among up to MOST_FREE free vertices; an infinite one never starts at the source, so that all float32 is possible."""
    vertices = list(range(2, 2 + draw(st.integers(1, MOST_FREE))))
    starts, ends = st.sampled_from([SOURCE, *vertices]), st.sampled_from([SINK, *vertices])
    finite = draw(st.lists(st.tuples(starts, ends, capacities), min_size=1, max_size=24))
    infinite = draw(st.lists(st.tuples(st.sampled_from(vertices), ends, st.just(INFINITE)), max_size=5))
    return list(placement._merged(iter(finite + infinite)))


@given(problems(st.integers(1, 6).map(float)))
@often
def test_the_cut_is_the_best_and_the_largest(arcs):
    """Small capacities make ties, which go to half."""
    least, half = best(arcs)
    found = placement._cut(arcs)
    assert cost(arcs, found) == least
    assert found == half


@given(problems(st.integers(1, 2**20).map(float)))
@often
def test_parts_are_cut_one_by_one(arcs):
    assert placement._half_side(arcs) == best(arcs)[1]


@given(problems(st.integers(1, 2**30).map(lambda n: n * 2.0**25)))
@often
def test_capacities_above_32_bits_are_scaled(arcs):
    least, _ = best(arcs)
    assert least <= cost(arcs, placement._cut(arcs)) <= least * (1 + 1e-6) + 2.0**26 * len(arcs)


@given(problems(st.sampled_from([1.0, 2.0**31, 2.0**40, 2.0**62, 1e30])))
@often
def test_capacities_of_all_sizes(arcs):
    least, _ = best(arcs)
    price = cost(arcs, placement._cut(arcs))
    assert least <= price <= least + 1e-6 * sum(c for _, _, c in arcs if c < INFINITE)


@pytest.mark.parametrize(
    "arcs, half",
    [
        ([(SOURCE, 2, 3.0), (2, SINK, 2.0)], {2}),
        ([(SOURCE, 2, 2.0), (2, SINK, 3.0)], set()),
        ([(SOURCE, 2, 2.0), (2, SINK, 2.0)], {2}),  # a tie
        ([(SOURCE, 2, 2.0**40), (2, SINK, 2.0**40)], {2}),
        ([(SOURCE, 2, 5.0), (2, 3, 5.0), (3, SINK, 5.0)], {2, 3}),
        ([(SOURCE, 2, 5.0), (2, SINK, INFINITE)], set()),
        ([(SOURCE, 2, 5.0), (2, 3, INFINITE), (3, SINK, 4.0)], {2, 3}),
        ([(SOURCE, 2, 4.0), (2, 3, INFINITE), (3, SINK, 5.0)], set()),
        ([(SOURCE, 2, 2.0**50), (2, 3, INFINITE), (3, 2, INFINITE), (3, SINK, INFINITE)], set()),
        ([(2, SINK, 5.0)], set()),
        ([(SOURCE, 2, 5.0)], {2}),
        ([(2, 3, INFINITE)], {2, 3}),
        ([(2, 3, 5.0), (3, 2, 5.0)], {2, 3}),
    ],
)
def test_cuts(arcs, half):
    assert placement._cut(arcs) == placement._half_side(arcs) == half


def test_no_arcs():
    assert placement._half_side([]) == placement._cut([]) == set()


def test_parallel_arcs_add_up():
    assert list(placement._merged(iter([(SOURCE, 2, 1.0), (SOURCE, 2, 2.0)]))) == [(SOURCE, 2, 3.0)]


@pytest.mark.parametrize("arc", [(2, 2, 1.0), (SOURCE, SINK, 1.0), (SINK, SOURCE, 1.0), (2, SOURCE, 1.0), (SINK, 2, 1.0)])
def test_arcs_that_decide_nothing_are_dropped(arc):
    assert list(placement._merged(iter([arc]))) == []


@pytest.mark.parametrize("values", [[1.0, 2.0, INFINITE], [2.0**31, INFINITE, INFINITE], [2.0**62] * 9, [1e300, 1.0], [INFINITE], []])
def test_scaled_capacities_fit_32_bits(values):
    scaled = placement._scaled(values).astype(object)
    finite = [c for c, v in zip(scaled, values) if v < INFINITE]
    assert all(c >= 1 for c in scaled) and sum(finite) <= placement._LIMIT + len(values)
    assert all(sum(finite) < c < 2**31 for c, v in zip(scaled, values) if v == INFINITE)


def test_a_cut_that_is_not_worth_the_flow_is_an_error():
    with pytest.raises(ArithmeticError, match="minimum cut 3, maximum flow 4"):
        placement._check([0], [1], np.array([3], np.int32), {1}, 4)


# -- small graphs ------------------------------------------------------------------------------------------------------

_OPS = ("MatMul", "Tanh", "Relu", "Neg", "Identity", "Exp", "Sin", "Floor", "Add", "Mul", "Maximum")
_BINARY = frozenset(("MatMul", "Add", "Mul", "Maximum"))


@st.composite
def graphs(draw):
    """Square tensors of one size, each node reading any before it."""
    side = draw(st.sampled_from([2, 8, 40]))
    names, lines = ["x"], ["x Placeholder shape=[%d,%d]" % (side, side)]
    for number in range(draw(st.integers(3, 11))):
        op = draw(st.sampled_from(_OPS))
        inputs = [draw(st.sampled_from(names[-4:])) for _ in range(1 + (op in _BINARY))]
        names.append("n%d" % number)
        lines.append("%s %s %s" % (names[-1], op, " ".join(inputs)))
    return painting.graph(*lines)


def before_and_after_the_cut(meta_graph):
    """The typed graph, and what its units want before and after the cut."""
    seen = {}

    def place(graph, groups, painted, compute_dtype):
        seen["wanted"] = painted
        return placement.place(graph, groups, painted, compute_dtype)

    decisions = pipeline.decide(meta_graph, Config.make(), Policy.default("float16"), place)[""]
    return decisions.graph, seen["wanted"], decisions.painted


def bytes_moved(graph, colour, elements):
    """By the rules of costs.py's docstring; `colour` says for each unit whether it is half."""
    total = 0.0
    for port, producer, consumers in graph.float32_tensors():
        producer_half = producer >= 0 and colour[producer]
        readers = [(graph.reader(c), graph.view.nodes[c.node].op) for c in consumers]
        if not producer_half and graph.view.nodes[port.node].op not in MOVES_NOTHING:
            total += 2 * elements
        total += sum(2 * elements for unit, op in readers if not (unit >= 0 and colour[unit]) and op not in MOVES_NOTHING)
        if any((unit >= 0 and colour[unit]) != producer_half for unit, _ in readers):
            total += 6 * elements + costs.LAUNCH
        if any(op in DISCONTINUOUS and colour[unit] and not producer_half for unit, op in readers):
            return INFINITE
    return total


@given(graphs())
@settings(often, max_examples=60)
def test_graphs_are_cut_where_the_fewest_bytes_move(meta_graph):
    graph, wanted, decided = before_and_after_the_cut(meta_graph)
    free = [number for number, p in enumerate(wanted) if p.colour == FREE]
    assume(0 < len(free) <= MOST_FREE)
    elements = next(node.attr["shape"].shape for node in meta_graph.graph_def.node if node.op == "Placeholder").dim[0].size ** 2
    fixed = {number for number, p in enumerate(wanted) if p.colour == HALF}

    def price(half):
        return bytes_moved(graph, [number in half or number in fixed for number in range(len(wanted))], elements)

    assert price({number for number in free if decided[number].colour == HALF}) == min(map(price, colourings(free)))
    assert all(decided[number].colour != FREE for number in range(len(wanted)))
    assert all(p == decided[number] for number, p in enumerate(wanted) if p.colour == FLOAT)


def test_ties_go_to_half_without_any_arc_too():
    """The matmul's result is cast for Sin, and an Identity of it moves nothing."""
    painted = painting.decide(painting.graph("x Placeholder", "m MatMul x x", "s Sin m", "y Identity m"))
    assert "y" in painted.half, painted.reasons["y"]


@often
@given(st.lists(problems(st.integers(0, 50)), min_size=2, max_size=6))
def test_parts_that_share_a_flow_are_cut_as_each_alone(parts):
    arcs, alone = [], set()
    for number, part in enumerate(parts):
        shifted = [tuple(v if v <= SINK else v + number * (MOST_FREE + 2) for v in arc[:2]) + arc[2:] for arc in part]
        arcs += shifted
        alone |= placement._half_side(shifted)
    assert placement._half_side(arcs) == alone
