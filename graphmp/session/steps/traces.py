"""Measurements of a graph's operations, and the costs made of them."""

from __future__ import annotations

import collections
from typing import AbstractSet, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.inlined import Inlined
from graphmp.naming import in_body
from graphmp.policy.dtypes import names_half
from graphmp.policy.traits import MOVES_NOTHING
from graphmp.rewrite.placement.node_times import signature_in
from graphmp.rewrite.problem import Body, bodies
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning.assemble import (
    Assembled,
    MeasuredNode,
    Ran,
    RanCast,
    TracedStep,
    added_up,
    assemble,
    half_scale,
    start_of_one,
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
    """The measurements so far, whenever they end.

    Attributes:
        steps: traced steps, by FLOAT32 and HALF.
        whole: nanoseconds of whole steps between the traces, by FLOAT32 and HALF.
        casts: dtype, elements and samples of casts timed alone.
        start: nanoseconds to start one more operation, where nothing else is to be done.
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
        self._inlined = Inlined(original.graph_def)
        self._tensors = _by_path(tensors, self._inlined)
        op_defs = OpDefs(original)
        self._bodies = {
            body.name: TypedGraph(shaped(body.graph_def, self._of_body(body)), op_defs)
            for body in bodies(original, op_defs)
        }
        self._graph = self._bodies[""]
        self._half = half.graph_def

    def sizes(self) -> List[int]:
        """Sizes of casts to time alone: powers of four up to the largest tensor."""
        most = max([4**3, *(_elements(row) for rows in self._outputs() for row in rows)])
        return [4**power for power in range(2, 13) if 4**power <= min(4 * most, _LARGEST)]

    def costs(
        self, machine: Machine, compute_dtype: str, source: str, batch_size: Optional[int]
    ) -> Costs:
        """The costs by what was measured."""
        float32, half = ([*map(self._with_paths, self.steps[name])] for name in (FLOAT32, HALF))
        found: Assembled = assemble(self._nodes(), float32, half)
        start = max(self.start, start_of_one([*self.steps[FLOAT32], *self.steps[HALF]]))
        steps = {
            OPERATIONS % name: added_up(each, start) for name, each in self.steps.items() if each
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
            overhead=start,
            steps=steps,
            source=source,
            batch_size=batch_size,
            complete=self.complete,
            faster=FLOAT32 if self.given_up else "",
            half_scale=self._half_scale(steps, start),
        )

    def _half_scale(self, steps: Mapping[str, Time], start: float) -> float:
        """The factor on times in half precision by whole steps; 1 unless they show another."""
        names = [form % name for form in (WHOLE, OPERATIONS) for name in (FLOAT32, HALF)]
        if not all(name in steps for name in names):
            return 1.0
        float32, half, *both = (steps[name] for name in names)
        traced = both[0].nanoseconds, both[1].nanoseconds
        inlined = Inlined(self._half)
        run = {name for step in self.steps[HALF] for name in step.nodes}
        narrow = {name for name in run if names_half(inlined.node(name) or tf.NodeDef())}
        ran = [
            TracedStep({name: ran for name, ran in step.nodes.items() if name in narrow})
            for step in self.steps[HALF]
        ]
        in_half = added_up(ran, start).nanoseconds
        found, least, most = (
            half_scale(whole, traced, in_half)
            for whole in (
                (float32.nanoseconds, half.nanoseconds),
                (float32.high, half.low),
                (float32.low, half.high),
            )
        )
        return 1.0 if least <= 1.0 <= most else found

    def _of_body(self, body: Body) -> Dict[str, Any]:
        """Runs and outputs of the nodes of a body."""
        paths = ((node.name, in_body(body.name, node.name)) for node in body.graph_def.node)
        return {name: self._tensors[path] for name, path in paths if path in self._tensors}

    def _with_paths(self, step: TracedStep) -> TracedStep:
        """A step with the nodes of functions by their paths, those of all calls added up."""
        nodes: Dict[str, Ran] = {}
        for name, ran in step.nodes.items():
            path = self._inlined.path(name) or name
            before = nodes[path].nanoseconds if path in nodes else 0.0
            nodes[path] = Ran(before + ran.nanoseconds, ran.op)
        return step._replace(nodes=nodes)

    def _nodes(self) -> Dict[str, MeasuredNode]:
        """The nodes of a step that have a float32 type; those of functions by their paths."""
        step = self._graph.view.ancestors(self._targets)
        found: Dict[str, MeasuredNode] = {}
        for body, graph in self._bodies.items():
            for name in graph.view.nodes:
                path = in_body(body, name)
                runs = name in step if not body else path in self._tensors
                if runs and graph.units_of(name):
                    found[path] = self._node(body, name, step)
        return found

    def _node(self, body: str, name: str, step: AbstractSet[str]) -> MeasuredNode:
        graph = self._bodies[body]
        view = graph.view
        readers = {consumer.node for consumer in view.consumers(name)}
        return MeasuredNode(
            signature_in(graph, name),
            tuple(in_body(body, port.node) for port in view.inputs(name)),
            tuple(in_body(body, reader) for reader in (readers if body else readers & step)),
            self._tensors.get(in_body(body, name), (1,))[0],
        )

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
        """Samples of each cast."""
        found: Dict[RanCast, List[float]] = collections.defaultdict(list)
        for step in self.steps[HALF]:
            for cast in step.casts:
                found[cast._replace(nanoseconds=0.0)].append(cast.nanoseconds)
        for cast, times in found.items():
            yield cast.to, cast.elements, times

    def _outputs(self) -> Iterator[List[Any]]:
        for name, (_, outputs) in self._tensors.items():
            node = self._graph.view.nodes.get(name)
            if node is not None and self._graph.units_of(name) and node.op not in MOVES_NOTHING:
                yield outputs


def _by_path(tensors: Mapping[str, Any], inlined: Inlined) -> Dict[str, Any]:
    """Runs and outputs by the paths of nodes, the runs of all calls of a function added up."""
    found: Dict[str, Any] = {}
    for name, (runs, outputs) in tensors.items():
        path = inlined.path(name) or name
        before, known = found.get(path, (0, ()))
        found[path] = [before + runs, known or outputs]
    return found


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
