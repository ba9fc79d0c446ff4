"""Placement by hand-made times: against brute force over all placements, and its reasons."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.policy.policy import Policy
from graphmp.policy.traits import DISCONTINUOUS
from graphmp.rewrite import pipeline
from graphmp.rewrite.painting.paint import FLOAT, FREE, HALF
from graphmp.rewrite.placement import placement_by_time
from graphmp.rewrite.placement.node_times import NodeTimes
from graphmp.tuning import files
from graphmp.tuning.costs import NodeCost, Time
from graphmp.tuning.prediction import Prediction
from tests.support import painting
from tests.support.costed import exactly, of_nodes
from tests.support.placed import often

pytestmark = pytest.mark.unit

# None that half precision would only move: test_only_moved.py
_OPS = ("MatMul", "Tanh", "Relu", "Abs", "Exp", "Floor", "Add", "Mul")
_BINARY = frozenset(("MatMul", "Add", "Mul"))
_MOST_GROUPS = 8


@st.composite
def timed_graphs(draw):
    """A graph of square tensors, nanoseconds of each node in both types, and those of a cast."""
    names, lines, times = ["x"], ["x Placeholder shape=[4,4]"], {}
    for number in range(draw(st.integers(3, 9))):
        op = draw(st.sampled_from(_OPS))
        inputs = [draw(st.sampled_from(names[-4:])) for _ in range(1 + (op in _BINARY))]
        names.append("%s%d" % (op, number))
        lines.append("%s %s %s" % (names[-1], op, " ".join(inputs)))
        times[names[-1]] = (draw(st.integers(0, 90)), draw(st.integers(0, 90)))
    return painting.graph(*lines), times, draw(st.integers(1, 60))


def decided(meta_graph, costs):
    """The graph, its groups, the loosened paint, and the placement by time."""
    decisions = pipeline.decide(meta_graph, Config.make(), Policy.default("float16"))[""]
    graph, groups, wanted = decisions.graph, decisions.groups, decisions.wanted
    times = NodeTimes(graph, Prediction(costs), "")
    timed = placement_by_time.place_by_time(graph, groups, wanted, "float16", times, costs)
    return graph, groups, placement_by_time.loosened(graph, groups, wanted), timed


def step(graph, is_half, times, cast):
    """Nanoseconds of a step: nodes in their type, and one cast for each tensor and type."""
    total = 0.0
    for number, unit in enumerate(graph.units):
        total += times.get(unit.node, (0, 0))[is_half[number]]
    for _, producer, consumers in graph.float32_tensors():
        from_half = producer >= 0 and is_half[producer]
        readers = [graph.reader(consumer) for consumer in consumers]
        if any((unit >= 0 and is_half[unit]) != from_half for unit in readers):
            total += cast
        for unit, consumer in zip(readers, consumers):
            rounds = graph.view.nodes[consumer.node].op in DISCONTINUOUS
            if rounds and unit >= 0 and is_half[unit] and not from_half:
                return float("inf")
    return total


@given(timed_graphs())
@settings(often, max_examples=40)
def test_the_step_is_the_shortest_of_all_placements(case):
    meta_graph, times, cast = case
    costs = of_nodes(meta_graph, times, cast)
    graph, groups, loose, timed = decided(meta_graph, costs)
    free = sorted({groups.of[n] for n, p in enumerate(loose) if p.colour == FREE})
    assume(0 < len(free) <= _MOST_GROUPS)
    best = min(
        step(
            graph,
            [
                p.colour == HALF or (p.colour == FREE and groups.of[n] in half)
                for n, p in enumerate(loose)
            ],
            times,
            cast,
        )
        for size in range(len(free) + 1)
        for half in map(set, itertools.combinations(free, size))
    )
    placed = [p.colour == HALF for p in timed.placed]
    assert step(graph, placed, times, cast) == best
    assert all(p.colour == FLOAT for p, q in zip(timed.placed, loose) if q.colour == FLOAT)
    in_float32 = step(graph, [False] * len(placed), times, cast)
    assert timed.saved["tuned"] == pytest.approx(in_float32 - best)


def rewritten(tmp_path, meta_graph, costs, **options):
    path = tmp_path / "x.costs"
    path.write_bytes(files.dumps(costs))
    return painting.decide(meta_graph, costs=str(path), **options)


CHAIN = {"a1": (41e3, 63e3), "i2": (1e3, 1e3), "a3": (90e3, 20e3), "d4": (5e3, 0.0)}


@pytest.mark.parametrize(
    "times, cast, half, reasons",
    [
        (
            CHAIN,
            10.0,
            "xaIAd",
            {"a1": "measured: 41 µs in float32, 63 µs in float16 with its casts"},
        ),
        (
            CHAIN,
            40e3,
            "xaiad",
            {"a3": "measured: 90 µs in float32, 100 µs in float16 with its casts"},
        ),
        (
            dict(CHAIN, a1=(0, 0), d4=(0, 5e3)),
            90e3,
            "xaiad",
            {"a1": "measured: takes no time in a step, and float32 needs fewer casts here"},
        ),
        (dict(CHAIN, a1=(41e3, 41e3)), 10.0, "xAIAd", {}),  # ties become half
        (dict(CHAIN, a1=(41e3, 40.9e3)), 10.0, "xAIAd", {}),
    ],
)
def test_a_chain(tmp_path, times, cast, half, reasons):
    chain = painting.chain(half)
    found = rewritten(tmp_path, chain, of_nodes(chain, times, cast))
    assert painting.spelled(half, found.half) == half
    for name, text in reasons.items():
        assert found.reasons[name] == text


def test_a_difference_within_the_noise_buys_no_casts(tmp_path):
    chain = painting.chain("xa")
    costs = of_nodes(chain, {"a1": (41e3, 40e3)}, 100.0)
    noisy = costs.measurements[0]._replace(half=Time(40e3, 35e3, 45e3, 6))
    for measurement, half in ((costs.measurements[0], {"a1"}), (noisy, set())):
        found = rewritten(tmp_path, chain, dataclasses.replace(costs, measurements=(measurement,)))
        assert found.half & {"a1"} == half
    assert found.reasons["a1"] == (
        "measured: 41 µs in float32, 40.1 µs in float16 with its casts, less of a difference than"
        " the measurements spread"
    )


def test_what_numerics_forbid_stays_forbidden(tmp_path):
    """Exp is denied: that it is quicker in half precision changes nothing."""
    times = {"a1": (90.0, 1.0), "d2": (90e6, 1.0), "a3": (90.0, 1.0)}
    chain = painting.chain("xada")
    found = rewritten(tmp_path, chain, of_nodes(chain, times, 1.0))
    assert painting.spelled("xada", found.half) == "xAdA"


def test_what_is_forced_stays_half(tmp_path):
    costs = of_nodes(painting.chain("xa"), {"a1": (1.0, 90e6)}, 1.0)
    assert "a1" not in rewritten(tmp_path, painting.chain("xa"), costs).half
    found = rewritten(tmp_path, painting.chain("xa"), costs, force_compute=["^a1$"])
    assert "a1" in found.half


def test_a_fused_node_has_the_type_of_its_kernel(tmp_path):
    """A Relu whose kernel is the MatMul before it too: a cast between them would split it."""
    costs = of_nodes(painting.chain("xaca"), {"c2": (50e3, 10e3), "a3": (1e3, 90e3)}, 100.0)
    nodes = dict(costs.nodes, a1=NodeCost(-1, 1.0, "c2"))
    found = rewritten(tmp_path, painting.chain("xaca"), dataclasses.replace(costs, nodes=nodes))
    assert painting.spelled("xaca", found.half) == "xACa"


@pytest.mark.parametrize(
    "faster, half", [("", "xAi"), ("tuned", "xAi"), ("float32", "xai"), ("bytes", "xAI")]
)
def test_the_fastest_whole_step_is_taken(tmp_path, faster, half):
    costs = of_nodes(painting.chain("xai"), {"a1": (90e3, 1e3), "i2": (1e3, 90e3)}, 100.0)
    costs = dataclasses.replace(costs, steps={"float32": exactly(5e6), "tuned": exactly(5.5e6)})
    digest = decided(painting.chain("xai"), costs)[3].digest
    costs = dataclasses.replace(costs, faster=faster, placement=digest)
    found = rewritten(tmp_path, painting.chain("xai"), costs)
    assert painting.spelled("xai", found.half) in (half, half.replace("I", "i"))
    if faster == "float32":
        text = "measured: the whole step takes 5 ms in float32, 5.5 ms with parts of it in float16"
        assert found.reasons["a1"] == text


STEP = ("x Placeholder shape=[4,4]", "a MatMul x x", "b MatMul a a")


@pytest.mark.parametrize(
    "lines, runs",
    [
        ([*STEP, "evaluation MatMul x x"], 2),
        (["y Placeholder shape=[4,4]", "c MatMul y y", "d MatMul c c", "e MatMul y y"], 3),
    ],
    ids=["beside the measured step", "in another graph"],
)
def test_a_step_counts_what_it_runs(tmp_path, lines, runs):
    path, times = tmp_path / "x.costs", {"x": (0, 0), "a": (90, 20), "b": (90, 20)}
    path.write_bytes(files.dumps(of_nodes(painting.graph(*STEP), times, 0)))
    meta_graph, config = painting.graph(*lines), Config.make(costs=str(path))
    decisions = pipeline.decide(meta_graph, config, Policy.default("float16"))[""]
    assert decisions.timed.saved["half"] == pytest.approx(runs * 70)
    assert decisions.half_nodes() == {line.split()[0] for line in lines[1:]}


@pytest.mark.parametrize("step, half", [(100e3, {"a1"}), (1e6, {"a1"}), (9e6, set())])
def test_what_saves_little_of_a_step_stays_float32(tmp_path, step, half):
    chain = painting.chain("xa")
    steps = {"float32_operations": exactly(step)}
    found = rewritten(tmp_path, chain, of_nodes(chain, {"a1": (90e3, 1e3)}, 100.0, steps=steps))
    assert found.half & {"a1"} == half
    if not half:
        assert found.reasons["a1"] == (
            "measured: the best placement of float16 saves less than 2% of a step"
        )


def test_another_placement_than_the_timed_one_stays(tmp_path):
    costs = of_nodes(
        painting.chain("xa"), {"a1": (90e3, 1e3)}, 100.0, faster="float32", placement="other"
    )
    assert "a1" in rewritten(tmp_path, painting.chain("xa"), costs).half


def test_costs_of_another_type_are_refused(tmp_path):
    costs = of_nodes(painting.chain("xa"), {"a1": (90e3, 1e3)}, 100.0)
    with pytest.raises(
        GraphmpError, match=r"GMP027: .*measured with --compute_dtype=float16, found"
    ):
        rewritten(tmp_path, painting.chain("xa"), costs, compute_dtype="bfloat16")


def test_without_a_file_nothing_changes():
    flags = Config.make().as_flags()
    assert "costs" not in flags
    assert Config.make(costs="x.costs").as_flags() == dict(flags, costs="x.costs")
    assert Config.make(costs="x.costs").flagfile_lines() == ["--costs=x.costs"]


REGIONS = dict.fromkeys(("a1", "i2", "a3", "a5"), (90000.0, 1000.0))


@pytest.mark.parametrize(
    "faster, nodes, half",
    [
        ("", ["a1"], "xaIAcA"),
        ("tuned", ["a1", "i2"], "xaiAcA"),
        ("tuned", ["a1", "i2", "a3"], "xaiacA"),
        ("bytes", ["a3"], "xAIacA"),
        ("float32", ["a1"], "xaiaca"),
        ("tuned", ["gone", "x0"], "xAIAcA"),
    ],
)
def test_regions_that_timed_steps_keep_in_float32(tmp_path, faster, nodes, half):
    chain = painting.chain("xaiaca")
    costs = of_nodes(chain, REGIONS, 100.0, faster=faster)
    costs = dataclasses.replace(
        costs, placement=decided(chain, costs)[3].digest, float32_nodes=tuple(nodes)
    )
    found = rewritten(tmp_path, chain, costs)
    assert painting.spelled("xaiaca", found.half).replace("C", "c") == half
    known = 0 if faster == "float32" else len([name for name in nodes if name in REGIONS])
    assert decided(chain, costs)[3].apart == known
    if faster == "tuned" and "a1" in nodes:
        assert found.reasons["a1"] == "measured: steps are faster with this region in float32"


def test_regions_of_another_placement_are_none(tmp_path):
    chain = painting.chain("xa")
    costs = of_nodes(chain, {"a1": (90e3, 1e3)}, 100.0, placement="other", float32_nodes=("a1",))
    assert "a1" in rewritten(tmp_path, chain, costs).half


def test_what_is_forced_stays_half_in_a_region_too(tmp_path):
    chain = painting.chain("xa")
    costs = of_nodes(chain, {"a1": (90e3, 1e3)}, 100.0)
    costs = dataclasses.replace(
        costs, placement=decided(chain, costs)[3].digest, float32_nodes=("a1",)
    )
    assert "a1" not in rewritten(tmp_path, chain, costs).half
    assert "a1" in rewritten(tmp_path, chain, costs, force_compute=["^a1$"]).half
