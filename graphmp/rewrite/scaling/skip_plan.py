"""What is written in a training step, and what decides whether it is: the losses' flags, or the value itself.

Of all writes but initialisers, each goes by the first rule that holds.

1. What gradients reach in this step: by their loss's flag.
2. Gradients pushed into an accumulator: always. The check comes after they are taken out.
3. The global step: always where gradients come out of accumulators, which count steps, or where --count_skipped_steps says so.
4. A global variable that takes a value of the batch (moving averages of a batch normalisation, the state of an RNN): by whether
   that value is finite. The gradients' flag may depend on it. It takes one if a matmul or convolution leads there, if it is
   one of UPDATE_OPS, or if it is written with the step and something that is fed or read leads there.
5. What runs after an update (beta powers, step counters, zeroed sums), or before it or beside it and never without it
   (what sparse Adam decays; parts of one train op; not metrics, which are local): by the flags of those losses. Of several,
   where the optimizer of one reads or writes the variable, by that one's; else it is written where any of them is trained.
6. Everything else: always.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, Iterator, List, NamedTuple, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.calls import CALLS
from graphmp.graph.live import ASSIGNS
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.rewrite.scaling.model import Loss
from graphmp.rewrite.scaling.training_graph import TrainingGraph


class SkipPlan(NamedTuple):
    """What decides on each write.

    Attributes:
        by_loss: for a write, numbers of the losses by whose flags it goes; it is written where any holds.
        by_value: writes of what must be finite itself.
    """

    by_loss: Dict[str, FrozenSet[int]]
    by_value: List[str]


def plan_skips(graph: TrainingGraph, losses: Sequence[Loss], activations: AbstractSet[str], count_skipped_steps: bool) -> SkipPlan:
    """Decides on every write of a graph.

    Args:
        graph: the graph.
        losses: its losses.
        activations: nodes that a matmul or convolution leads to; rule 4 looks at what depends on them.
        count_skipped_steps: rule 3.
    """
    return _Planner(graph, losses, activations, count_skipped_steps).plan()


class _Planner:
    def __init__(self, graph: TrainingGraph, losses: Sequence[Loss], activations: AbstractSet[str], count_skipped_steps: bool):
        self._graph, self._losses, self._activations = graph, losses, activations
        self._count_skipped_steps = count_skipped_steps
        self._direct = {name for loss in losses for name in loss.direct}
        self._before: Dict[int, AbstractSet[str]] = {}
        self._after = [graph.view.descendants(loss.direct) for loss in losses]
        self._global_steps = _global_steps(graph)
        self._globals = graph.state.collected(tf.GraphKeys.GLOBAL_VARIABLES)
        collections = graph.meta_graph.collection_def
        self._update_ops = set(collections[tf.GraphKeys.UPDATE_OPS].node_list.value) if tf.GraphKeys.UPDATE_OPS in collections else set()
        self._fed = graph.view.followed(_sources(graph), lambda name: True)

    def plan(self) -> SkipPlan:
        step = SkipPlan({}, [])
        candidates = [name for name in self._graph.state.writes if name not in self._direct]
        beside = [self._never_without(number, candidates) for number in range(len(self._losses))]
        for name in self._graph.state.writes:
            if name in self._direct:
                step.by_loss[name] = frozenset([number for number, loss in enumerate(self._losses) if name in loss.direct])
                continue
            if self._graph.view.nodes[name].op.endswith("AccumulatorApplyGradient"):
                continue
            numbers = {n for n in range(len(self._losses)) if name in self._after[n]} or {n for n in range(len(self._losses)) if name in beside[n]}
            early = any(name in self._before_gradients(n) for n in range(len(self._losses)))
            numbers = {n for n in numbers if name not in self._before_gradients(n)}
            if self._steps_always(name, numbers):
                continue
            if self._takes_batch(name, early or bool(numbers)):
                step.by_value.append(name)
            elif numbers:
                step.by_loss[name] = self._closest(name, numbers)
        return step

    def _never_without(self, number: int, candidates: List[str]) -> AbstractSet[str]:
        """Writes all of whose results end in something that runs after an update of the loss: nobody runs them alone."""
        after, view = self._after[number], self._graph.view
        joined = view.ancestors(after)
        found = [name for name in candidates if name in joined and name not in after and self._is_global(name)]
        if not found:
            return frozenset()
        # An assignment to a resource variable comes with a read of it, which mostly nobody uses.
        ends = [
            n for n in view.nodes if n not in after and not view.consumers(n) and not view.control_consumers(n) and not self._graph.state.variable(n)
        ]
        elsewhere = view.ancestors(ends)
        return {name for name in found if name not in elsewhere}

    def _before_gradients(self, number: int) -> AbstractSet[str]:
        """All that a loss's flag depends on."""
        if number not in self._before:
            loss = self._losses[number]
            self._before[number] = self._graph.view.ancestors([port.node for port in (loss.arrivals or loss.checked)])
        return self._before[number]

    def _steps_always(self, name: str, numbers: AbstractSet[int]) -> bool:
        if not self._graph.state.written(name) & self._global_steps:
            return False
        return self._count_skipped_steps or any(self._losses[n].arrivals and not self._losses[n].fetched for n in numbers)

    def _is_global(self, name: str) -> bool:
        return self._globals is None or bool(self._graph.state.written(name) & self._globals)

    def _takes_batch(self, name: str, in_step: bool) -> bool:
        inputs = self._graph.view.inputs(name)
        if self._graph.view.nodes[name].op not in ASSIGNS or len(inputs) < 2 or not self._graph.is_float(inputs[1]) or not self._is_global(name):
            return False
        source = inputs[1].node
        return source in self._activations or ((in_step or self._is_update_op(name)) and source in self._fed)

    def _is_update_op(self, name: str) -> bool:
        return name in self._update_ops or name + ":0" in self._update_ops

    def _closest(self, name: str, numbers: AbstractSet[int]) -> FrozenSet[int]:
        if len(numbers) > 1:
            written = self._graph.state.written(name)
            owners = {n for n in numbers if written & self._optimizer_state(n)}
            numbers = owners or numbers
        return frozenset(numbers)

    def _optimizer_state(self, number: int) -> AbstractSet[str]:
        """Variables that a loss's updates write, or read outside gradient code."""
        graph, loss = self._graph, self._losses[number]
        found: Set[str] = {variable for name in loss.direct for variable in graph.state.written(name)}
        seen: Set[str] = set()
        waiting = list(loss.direct)
        while waiting:
            name = waiting.pop()
            if name in seen or name in graph.gradients or name in self._activations:
                continue
            seen.add(name)
            variable = graph.state.variable(name)
            if variable is not None:
                found.add(variable)
            waiting.extend(port.node for port in graph.view.inputs(name))
        return found


def activations(graph: TrainingGraph, allow: AbstractSet[str]) -> Set[str]:
    """Nodes outside gradient code that the result of a matmul or convolution leads to, by data."""
    calls = graph.functions | CALLS
    starts = [name for name, node in graph.view.nodes.items() if (node.op in allow or node.op in calls) and name not in graph.gradients]
    return graph.view.followed(starts, lambda name: name not in graph.gradients)


def _sources(graph: TrainingGraph) -> List[str]:
    """What brings values into the graph: neither constants nor variables."""
    nodes = graph.view.nodes.items()
    return [name for name, node in nodes if not graph.view.inputs(name) and node.op not in VARIABLE_OPS and node.op not in ("Const", "NoOp")]


def _global_steps(graph: TrainingGraph) -> AbstractSet[str]:
    """The variables that count steps: the collection's, and those that bear the name."""
    return {*(graph.state.collected(tf.GraphKeys.GLOBAL_STEP) or ()), *_named(graph)}


def _named(graph: TrainingGraph) -> Iterator[str]:
    for name in graph.view.nodes:
        if name.rsplit("/", 1)[-1] == "global_step" and graph.state.variable(name) == name:
            yield name
