"""Regions: their order and halves, the search among them, and when it is wanted."""

from __future__ import annotations

import pytest

from graphmp.bench.tune import halving
from graphmp.bench.tune.halving import Halving, starting_point
from graphmp.bench.tune.regions import HalfPart, narrowed
from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import BFLOAT16
from graphmp.tuning.costs import Costs
from tests.support.costed import MACHINE
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

LINES = (
    "x Placeholder dtype=float32",
    "b/mm MatMul x x",
    "b/y Tanh b/mm",
    "a/mm MatMul x x",
    "gradients/b/mm_grad/mm MatMul b/y b/y",
    "kept Exp x",
    "a/z Neg a/mm",
)
HALF = ("b/mm", "b/y", "a/mm", "gradients/b/mm_grad/mm", "a/z")


def converted(names):
    """The graph with some nodes in half precision."""
    graph = meta_graph(*LINES)
    for node in graph.graph_def.node:
        if node.name in names:
            node.attr["T"].type = BFLOAT16
    return graph


def part(names=HALF):
    return HalfPart(GraphView(meta_graph(*LINES).graph_def), converted(names))


def test_a_component_is_together_and_a_gradient_beside_its_forward_node():
    found = part()
    assert found.names == ["a/mm", "a/z", "b/mm", "gradients/b/mm_grad/mm", "b/y"]
    assert found.ends == {2}
    assert part(()).names == []


def search(slow, times=None, questions=99):
    """Nodes found if those in `slow` are slower in half precision; and the questions asked."""
    asked = []

    def is_faster(nodes, others):
        asked.append(sorted(nodes ^ others))
        return len(nodes ^ slow) < len(others ^ slow)

    found = narrowed(part(), times or {}, is_faster, lambda: len(asked) < questions)
    return found, asked


def test_components_are_told_apart_first():
    found, asked = search({"a/mm", "a/z"})
    assert found == {"a/mm", "a/z"} and asked[0] == ["a/mm", "a/z"]
    assert search(set())[0] == frozenset()


@pytest.mark.parametrize("slow", HALF)
def test_a_single_node_is_found(slow):
    found, asked = search({slow})
    assert found == {slow} and len(asked) <= 10


def test_what_is_better_in_half_precision_of_a_region_gets_it_back():
    found, asked = search({"b/mm", "b/y"})
    assert found == {"b/mm", "b/y"} and asked[1] == ["b/mm", "b/y", "gradients/b/mm_grad/mm"]


def test_the_longer_region_is_halved_first():
    _, asked = search(set(), {"b/mm": 900.0, "a/mm": 400.0, "a/z": 400.0}, questions=3)
    assert asked[2] == ["b/mm"]


def test_no_question_is_asked_without_time():
    assert search({"a/mm"}, questions=0) == (frozenset(), [])


FASTER = {"float32": [[5.0], [5.1]], "bytes": [[4.4], [4.5]], "tuned": [[4.0], [4.1]]}
SLOWER = {"float32": [[4.0], [4.1]], "bytes": [[5.0], [5.1]], "tuned": [[5.4], [5.5]]}


@pytest.mark.parametrize(
    "rounds, predicted, in_half, base",
    [
        (FASTER, {"tuned": 1.25, "bytes": 1.1}, ("bytes", "tuned"), None),
        (FASTER, {"tuned": 1.6, "bytes": 1.1}, ("bytes", "tuned"), "tuned"),  # not as predicted
        (FASTER, {}, ("bytes", "tuned"), None),
        (SLOWER, {"tuned": 0.75, "bytes": 0.8}, ("bytes", "tuned"), "bytes"),
        (SLOWER, {"tuned": 0.75, "bytes": 0.8}, ("tuned",), "tuned"),
        (SLOWER, {}, (), None),
        ({"float32": [[1.0], [1.1]], "bytes": [[3.0], [3.1]]}, {}, ("bytes",), None),  # emulated
        ({"tuned": [[1.0]]}, {}, ("tuned",), None),
    ],
)
def test_when_regions_are_timed(rounds, predicted, in_half, base):
    assert starting_point(rounds, predicted, in_half.__contains__) == base


class Timer:
    """Steps whose time depends on the nodes in float32, against which all of them is 1."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.now = 0.0

    def convert(self, costs):
        graph = converted(set(HALF) - set(costs.float32_nodes))
        return graph

    def timed(self, graphs, seconds):
        self.now += seconds
        found = {}
        for name, graph in graphs.items():
            nodes = {n.name for n in graph.graph_def.node if n.attr["T"].type == BFLOAT16}
            found[name] = [[self.seconds(nodes) * slow] for slow in (1.0, 1.01, 2.0)]
        return found


@pytest.fixture
def searching(monkeypatch):
    """A search over steps of a given time, and their timer."""

    def made(seconds):
        timer = Timer(seconds)
        monkeypatch.setattr(halving.schedule, "now", lambda: timer.now)
        graphs = {"float32": converted(()), "tuned": converted(HALF)}
        costs = Costs(MACHINE, "bfloat16", placement="x")
        return Halving("tuned", costs, graphs, timer.convert, timer.timed), timer

    return made


@pytest.fixture
def asking(searching):
    """A search that has ended, after so many seconds."""

    def asked(seconds, ends=1000.0):
        found, timer = searching(seconds)
        found.search(ends, 0.001)
        return found, timer.now

    return asked


def test_what_slows_a_step_down_is_found_by_timed_steps(asking):
    found, _ = asking(lambda half: 1.0 - 0.1 * len(half) + 0.5 * ("b/y" in half))
    assert found.nodes == {"b/y"} and found.settled() == ("tuned", ("b/y",))
    assert found.rounds["regions"][0][0] == pytest.approx(0.6)


def test_a_conversion_that_stays_slower_than_float32_is_not_kept(asking):
    found, _ = asking(lambda half: 1.0 + 0.1 * len(half & {"a/mm", "b/mm"}) + 0.1 * bool(half))
    assert found.nodes == set(HALF) and found.settled() == ("float32", ())


def test_all_but_what_never_pays_is_kept(asking):
    found, _ = asking(lambda half: 1.3 - 0.1 * len(half) + 0.5 * len(half & {"a/mm", "a/z"}))
    assert found.nodes == {"a/mm", "a/z"} and found.settled()[0] == "tuned"


def test_regions_that_are_not_enough_are_not_kept(asking):
    slow = {"b/y", "gradients/b/mm_grad/mm"}
    found, _ = asking(lambda half: 1.0 + 0.3 * bool(half) + 0.1 * len(half & slow), ends=12.5)
    assert found.nodes and found.nodes != set(HALF)
    assert found.settled() == ("float32", ())


@pytest.mark.parametrize(
    "last, kept",
    [
        ({"float32": 1.0, "tuned": 1.1, "regions": 1.05}, ("float32", ())),
        ({"float32": 1.0, "tuned": 0.9, "regions": 0.95}, ("tuned", ())),
        ({"float32": 1.0, "tuned": 0.9, "regions": 0.85}, ("tuned", ("b/y",))),
        ({"float32": 1.0, "tuned": 0.9}, ("", ())),  # it couldn't be timed
    ],
)
def test_the_last_comparison_decides(asking, monkeypatch, last, kept):
    """Not the few rounds of a question, which noise may have answered."""
    timed = Timer.timed

    def noisy(self, graphs, seconds):
        answers = timed(self, graphs, seconds)
        return {name: [[last[name]]] for name in last} if "tuned" in graphs else answers

    monkeypatch.setattr(Timer, "timed", noisy)
    found, _ = asking(lambda half: 1.0 - 0.1 * len(half) + 0.5 * ("b/y" in half), ends=30.0)
    assert found.nodes == {"b/y"} and found.settled() == kept


def test_an_interrupted_search_keeps_what_its_questions_found(searching, monkeypatch):
    timed = Timer.timed

    def interrupted(self, graphs, seconds):
        if "tuned" in graphs:
            raise KeyboardInterrupt
        return timed(self, graphs, seconds)

    monkeypatch.setattr(Timer, "timed", interrupted)
    found, _ = searching(lambda half: 1.0 - 0.1 * len(half) + 0.5 * ("b/y" in half))
    with pytest.raises(KeyboardInterrupt):
        found.search(1000.0, 0.001)
    assert found.settled() == ("tuned", ("b/y",))


def test_a_search_ends_with_its_time(asking):
    found, now = asking(lambda half: 1.0 - 0.1 * len(half), ends=7.0)
    assert found.nodes == frozenset() and now <= 7.0


def test_steps_that_cannot_be_timed_decide_nothing(asking, monkeypatch):
    monkeypatch.setattr(Timer, "timed", lambda self, graphs, seconds: {})
    assert asking(lambda half: 1.0, ends=0.5)[0].nodes == frozenset()
