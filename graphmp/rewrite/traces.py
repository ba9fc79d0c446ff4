"""What was measured of a graph's operations, and the costs that it makes."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import parse_input
from graphmp.policy.dtypes import FLOAT32 as FLOAT32_TYPE
from graphmp.policy.dtypes import names_half
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.node_times import signature_in
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning.assemble import (
    Assembled,
    Node,
    TracedStep,
    added_up,
    assemble,
    half_scale,
)
from graphmp.tuning.cast_times import cast_times, scaled, slower
from graphmp.tuning.costs import (
    FLOAT32,
    HALF,
    OPERATIONS,
    WHOLE,
    CastTime,
    Costs,
    Machine,
    Time,
    median_time,
    quickest,
)

_LARGEST = 2**24  # elements of a cast that is timed alone


class Traces:
    """What was measured so far, whenever it ends.

    Attributes:
        steps: traced steps, by FLOAT32 and HALF.
        whole: nanoseconds of whole steps between the traces, by FLOAT32 and HALF.
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
        self.whole: Dict[str, List[float]] = {FLOAT32: [], HALF: []}
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
        steps.update(
            (WHOLE % name, median_time(quickest(each))) for name, each in self.whole.items() if each
        )
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
            half_scale=self._half_scale(steps),
        )

    def _half_scale(self, steps: Mapping[str, Time]) -> float:
        """The factor on times in half precision by whole steps; 1 unless they show another."""
        names = [form % name for form in (WHOLE, OPERATIONS) for name in (FLOAT32, HALF)]
        if not all(name in steps for name in names):
            return 1.0
        float32, half, *both = (steps[name] for name in names)
        traced = both[0].nanoseconds, both[1].nanoseconds
        narrow = {node.name for node in self._half.node if names_half(node)}
        ran = [
            TracedStep({name: ran for name, ran in step.nodes.items() if name in narrow})
            for step in self.steps[HALF]
        ]
        in_half = added_up(ran, self.start).nanoseconds
        found, least, most = (
            half_scale(whole, traced, in_half)
            for whole in (
                (float32.nanoseconds, half.nanoseconds),
                (float32.high, half.low),
                (float32.low, half.high),
            )
        )
        return 1.0 if least <= 1.0 <= most else found

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
