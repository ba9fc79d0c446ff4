"""The minimum cut on small graphs against brute force over their colours."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.policy.traits import DISCONTINUOUS, MOVES_NOTHING
from graphmp.rewrite import pipeline
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF
from graphmp.rewrite.placement import costs, placement
from graphmp.rewrite.placement.placement import SINK, SOURCE
from tests.support import painting
from tests.support.placed import INFINITE, MOST_FREE, colourings, often, problems

pytestmark = pytest.mark.unit

# None that half precision would only move: test_only_moved.py
_OPS = ("MatMul", "Tanh", "Relu", "Abs", "Exp", "Sin", "Floor", "Add", "Mul", "Maximum")

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
    decisions = pipeline.decide(meta_graph, Config.make(), Policy.default("float16"))[""]
    return decisions.graph, decisions.wanted, decisions.placed


def bytes_moved(graph, colour, elements):
    """By the rules of costs.py's docstring; `colour` says for each unit whether it is half."""
    total = 0.0
    for port, producer, consumers in graph.float32_tensors():
        producer_half = producer >= 0 and colour[producer]
        readers = [(graph.reader(c), graph.view.nodes[c.node].op) for c in consumers]
        if not producer_half and graph.view.nodes[port.node].op not in MOVES_NOTHING:
            total += 2 * elements
        total += sum(
            2 * elements
            for unit, op in readers
            if not (unit >= 0 and colour[unit]) and op not in MOVES_NOTHING
        )
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
    elements = (
        next(
            node.attr["shape"].shape
            for node in meta_graph.graph_def.node
            if node.op == "Placeholder"
        )
        .dim[0]
        .size
        ** 2
    )
    fixed = {number for number, p in enumerate(wanted) if p.colour == HALF}

    def price(half):
        return bytes_moved(
            graph, [number in half or number in fixed for number in range(len(wanted))], elements
        )

    assert price({number for number in free if decided[number].colour == HALF}) == min(
        map(price, colourings(free))
    )
    assert all(decided[number].colour != FREE for number in range(len(wanted)))
    assert all(p == decided[number] for number, p in enumerate(wanted) if p.colour == FLOAT)


def test_ties_go_to_half_without_any_arc_too():
    """The matmul's result is cast for Lgamma, and an Identity of it moves nothing."""
    painted = painting.decide(
        painting.graph("x Placeholder", "m MatMul x x", "s Lgamma m", "y Identity m")
    )
    assert "y" in painted.half, painted.reasons["y"]


@often
@given(st.lists(problems(st.integers(0, 50)), min_size=2, max_size=6))
def test_parts_that_share_a_flow_are_cut_as_each_alone(parts):
    arcs, alone = [], set()
    for number, part in enumerate(parts):
        shifted = [
            tuple(v if v <= SINK else v + number * (MOST_FREE + 2) for v in arc[:2]) + arc[2:]
            for arc in part
        ]
        arcs += shifted
        alone |= placement._half_side(shifted)
    assert placement._half_side(arcs) == alone


@pytest.mark.unit
@pytest.mark.parametrize("count, capacity, expected", [(200, 1.0, 2), (1, 2.0**29 + 1, 1)])
def test_parts_share_a_flow_up_to_a_number_and_a_sum(count, capacity, expected):
    parts = [[(SOURCE, SINK + 1 + number, capacity)] * count for number in range(4)]
    batches = list(placement._batches(parts))
    assert [len(batch) for batch in batches] == [expected * count] * (4 // expected)
    assert [*chain(*batches)] == [*chain(*parts)]
