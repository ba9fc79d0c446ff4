"""Measuring the operations of a step: traces in both types, in turns, one op at a time."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.bench.bench import TOO_SLOW
from graphmp.bench.processes.processes import Process, Trouble
from graphmp.bench.timing import schedule
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import parse_input
from graphmp.policy.dtypes import FLOAT32 as FLOAT32_TYPE
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.node_times import signature_in
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning.assemble import (
    Assembled,
    Node,
    Ran,
    TracedStep,
    added_up,
    assemble,
    cast_times,
    scaled,
    slower,
)
from graphmp.tuning.costs import (
    FLOAT32,
    HALF,
    OPERATIONS,
    CastTime,
    Costs,
    Machine,
    Time,
)

# Traced steps of a type: at least, unless they take twice the time; at most.
_STEPS = (6, 200)
_TURN = 0.5  # seconds of traced steps of one type before those of the other
_CASTS = 0.1  # of the time
# Seconds for the first step in half precision: at least; in times that of float32.
_PATIENCE = (30.0, 5.0)
_LARGEST = 2**24  # elements of a cast that is timed alone
Tell = Callable[[float], None]


class Traces:
    """What was measured so far, whenever it ends.

    Attributes:
        steps: traced steps, by FLOAT32 and HALF.
        casts: dtype, elements and samples of casts timed alone.
        start: nanoseconds to start one more operation.
        given_up: seconds after which the step in half precision was given up; 0 if it wasn't.
        complete: whether all was measured that was to be.
    """

    def __init__(
        self,
        original: tf.MetaGraphDef,
        half: tf.MetaGraphDef,
        targets: Sequence[str],
        tensors: Dict[str, Any],
    ):
        """Nothing is measured yet.

        Args:
            original: the float32 graph.
            targets: the nodes of a step.
            half: the same with everything in half precision that may be.
            tensors: runs and outputs of each node, as the order `tensors` answers.
        """
        self.steps: Dict[str, List[TracedStep]] = {FLOAT32: [], HALF: []}
        self.casts: List[Tuple[str, int, List[float]]] = []
        self.start = 0.0
        self.given_up = 0.0
        self.complete = False
        self._targets = targets
        self._tensors = tensors
        self._graph = TypedGraph(shaped(original.graph_def, tensors), OpDefs(original))
        self._half = half.graph_def

    def sizes(self) -> List[int]:
        """Sizes of casts to time alone: powers of four up to the largest tensor."""
        most = max([4**3, *(_elements(row) for rows in self._outputs() for row in rows)])
        return [4**power for power in range(2, 13) if 4**power <= min(4 * most, _LARGEST)]

    def costs(
        self, machine: Machine, compute_dtype: str, source: str, batch_size: Optional[int]
    ) -> Costs:
        """The costs by what was measured."""
        float32, half = self.steps[FLOAT32], self.steps[HALF]
        found: Assembled = assemble(self._nodes(), float32, half)
        steps = {
            OPERATIONS % name: added_up(each, self.start)
            for name, each in self.steps.items()
            if each
        }
        if self.given_up:
            limit = 1e9 * self.given_up
            steps[HALF] = Time(limit, limit, float("inf"), 0)
        return Costs(
            machine=machine,
            compute_dtype=compute_dtype,
            measurements=found.measurements,
            casts=self._cast_times(),
            nodes=found.nodes,
            overhead=self.start,
            steps=steps,
            source=source,
            batch_size=batch_size,
            complete=self.complete,
            faster=FLOAT32 if self.given_up else "",
        )

    def _nodes(self) -> Dict[str, Node]:
        """The nodes of a step that have a float32 type."""
        graph, view = self._graph, self._graph.view
        step = view.ancestors(self._targets)
        return {
            name: Node(
                signature_in(graph, name),
                tuple(port.node for port in view.inputs(name)),
                tuple({consumer.node for consumer in view.consumers(name)} & step),
                self._tensors.get(name, (1,))[0],
            )
            for name in view.nodes
            if name in step and graph.units_of(name)
        }

    def _cast_times(self) -> Tuple[CastTime, ...]:
        """Casts in the traces of the half-precision step, and those timed alone.

        The latter find their tensors in the cache: they are slowed down as much as traced ones of
        their size are slower.
        """
        traced = cast_times(self._traced_casts())
        alone = cast_times(self.casts)
        found: List[CastTime] = []
        for to in (FLOAT32, HALF):
            there = [cast for cast in traced if cast.to == to]
            here = [cast for cast in alone if cast.to == to]
            factor = slower(there, here)
            sizes = {cast.elements for cast in there}
            found += there
            found += [scaled(cast, factor) for cast in here if cast.elements not in sizes]
        return tuple(sorted(found))

    def _traced_casts(self) -> Iterator[Tuple[str, int, List[float]]]:
        for node in self._half.node:
            if node.op != "Cast" or node.name in self._graph.view.nodes:
                continue
            port = parse_input(node.input[0])
            runs, outputs = self._tensors.get(port.node, (0, ()))
            size = next((_elements(row) for row in outputs if row[0] == port.output), 0)
            to = FLOAT32 if node.attr["DstT"].type == FLOAT32_TYPE else HALF
            times = [
                step.nodes[node.name].nanoseconds / max(1, runs)
                for step in self.steps[HALF]
                if node.name in step.nodes and step.nodes[node.name].op == "Cast"
            ]
            if size and times:
                yield to, size, times

    def _outputs(self) -> Iterator[List[Any]]:
        for name, (_, outputs) in self._tensors.items():
            node = self._graph.view.nodes.get(name)
            if node is not None and self._graph.units_of(name) and node.op not in MOVES_NOTHING:
                yield outputs


def measure(
    traces: Traces, process: Process, path: str, dtype: str, ends: float, tell: Tell
) -> None:
    """Measure until the time is up.

    Args:
        traces: what is measured is put into them at once.
        process: runs the graphs FLOAT32 and HALF.
        path: of the batches.
        dtype: the half precision.
        ends: when the time is up, by `schedule.now`.
        tell: receives the number of seconds left.

    Raises:
        GraphmpError: GMP024 if the float32 step doesn't run.
    """
    seconds = ends - schedule.now()
    traces.start, rows = process.ask("casts", dtype, traces.sizes(), _CASTS * seconds)
    for to, elements, times in rows:
        traces.casts.append((to, elements, times))
    if not _opened(traces, process, path):
        traces.complete = True
        return
    number, late = 0, ends + seconds
    order = (FLOAT32, HALF)
    while True:
        began = schedule.now()
        for variant in order:
            traces.steps[variant] += _traced(process, variant, path)
        order = order[::-1]
        number = len(traces.steps[HALF])
        tell(max(0.0, ends - schedule.now()))
        limit = late if number < _STEPS[0] else ends
        if number >= _STEPS[1] or 2 * schedule.now() - began > limit:
            break
    traces.complete = True


def _opened(traces: Traces, process: Process, path: str) -> bool:
    """Warm up both types; False if the first step in half precision is given up."""
    for variant in (FLOAT32, HALF):
        _ask(process, variant, "open_for_traces", variant)
    least, times = _PATIENCE
    limit = max(least, times * _ask(process, FLOAT32, "first_step", FLOAT32, path))
    traces.steps[FLOAT32] += _traced(process, FLOAT32, path)
    try:
        process.ask("first_step", HALF, path, limit=limit)
    except Trouble as trouble:
        if trouble.status != TOO_SLOW:
            raise _failed(HALF, trouble) from None
        traces.given_up = limit
        return False
    return True


def _traced(process: Process, variant: str, path: str) -> Iterator[TracedStep]:
    """A turn of traced steps."""
    for nodes in _ask(process, variant, "trace", variant, path, _TURN):
        yield TracedStep({name: Ran(row[0], row[2]) for name, row in nodes.items()})


def _ask(process: Process, variant: str, order: str, *arguments: Any) -> Any:
    try:
        return process.ask(order, *arguments)
    except Trouble as trouble:
        raise _failed(variant, trouble) from None


def _failed(variant: str, trouble: Trouble) -> GraphmpError:
    return GraphmpError(
        "GMP024",
        "the step in %s does not run: %s: %s" % (variant, trouble.status, trouble.message),
    )


def shaped(graph_def: tf.GraphDef, tensors: Mapping[str, Any]) -> tf.GraphDef:
    """A copy of a graph that records the shapes of a step."""
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        _, outputs = tensors.get(node.name, (0, ()))
        if not outputs:
            continue
        shapes = node.attr["_output_shapes"].list.shape
        while len(shapes) <= max(row[0] for row in outputs):
            shapes.add(unknown_rank=True)
        for slot, _, dims in outputs:
            shapes[slot].Clear()
            for size in dims:
                shapes[slot].dim.add(size=size)
    return copy


def _elements(output: Sequence[Any]) -> int:
    """Elements of an output: its slot, dtype and dimensions."""
    size = 1
    for dim in output[2]:
        size *= dim
    return size
