"""The memory of a step of one graph: kept for the backward pass, at its peak, and permanent."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.frames import frames, is_invariant
from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.view import Port
from graphmp.inspect.memory.aliases import HANDS_ON
from graphmp.inspect.memory.buffers import Buffers
from graphmp.inspect.memory.functions import Library
from graphmp.inspect.memory.held import Held, held
from graphmp.inspect.memory.liveness import IN_PLACE, Interval, alive, highest
from graphmp.inspect.sizes import ShapeSource, Sizes
from graphmp.inspect.training_step import Training, is_gradient_code, late_nodes, step_nodes
from graphmp.policy.dtypes import FLOATS
from graphmp.policy.op_sets import PLACEHOLDERS, VARIABLE_OPS
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs

_HELD = VARIABLE_OPS | PLACEHOLDERS | {"Const"}


class Tensor(NamedTuple):
    """A buffer and the tensor that names it.

    Attributes:
        tensor: its name.
        op: the op that makes it.
        dtype: of its contents.
        shape: its dimensions, with numbers for unknown ones; None if the rank is unknown, and for
            TensorArrays and TensorLists.
        bytes: its size over a step.
        reader: its first consumer in the backward pass, preferably one that computes; may be empty.
        reason: why a conversion left it float32; empty if it didn't, or without conversion.
    """

    tensor: str
    op: str
    dtype: str
    shape: Optional[List[int]]
    bytes: int
    reader: str
    reason: str = ""


class KeptTensors(NamedTuple):
    """Tensors of one kind that are kept for the backward pass, the largest first, and their sum."""

    bytes: int
    tensors: List[Tensor]


class Peak(NamedTuple):
    """The peak of the step's tensors: the node that runs then, their sum, and the largest first."""

    bytes: int
    node: str
    tensors: List[Tensor]


class Memory(NamedTuple):
    """The memory of a step.

    Attributes:
        trains: whether there is a backward pass outside of functions.
        activations: floats kept for it that are not copies of variables.
        copies: casts of variables kept for it.
        integers: integers and bools kept for it.
        feeds: feeds that it reads.
        peak: the peak of the step's tensors.
        held: permanent memory.
    """

    trains: bool
    activations: KeptTensors
    copies: KeptTensors
    integers: KeptTensors
    feeds: KeptTensors
    peak: Peak
    held: Held


def memory(meta_graph: tf.MetaGraphDef, training: Training, shapes: ShapeSource) -> Memory:
    """Measure a graph.

    Args:
        meta_graph: the graph, or another conversion of the graph that gave training and shapes.
        training: its step.
        shapes: its shapes, by node name.
    """
    return _Step(meta_graph, training, shapes).memory()


class _Step:
    def __init__(self, meta_graph: tf.MetaGraphDef, training: Training, shapes: ShapeSource):
        op_defs = OpDefs(meta_graph)
        self._meta_graph = meta_graph
        self._training = training
        self._graph = TypedGraph(meta_graph.graph_def, op_defs, shapes.graph_def)
        self._view = self._graph.view
        self._sizes = Sizes(self._graph, shapes)
        self._buffers = Buffers(self._graph, self._sizes, Library(meta_graph, op_defs))
        self._order = in_order(self._view, step_nodes(self._view, training))
        self._late = late_nodes(self._view, training)
        self._readers = self._read_late()

    def memory(self) -> Memory:
        lives = self._lives()
        fed = {buffer for buffer in lives if self._op(buffer) in PLACEHOLDERS}
        made = {buffer: life for buffer, life in lives.items() if self._op(buffer) not in _HELD}
        kept = {buffer: self._kept_bytes(buffer) for buffer in made if buffer in self._readers}
        copies = {buffer: size for buffer, size in kept.items() if self._copies_variable(buffer)}
        floats = {
            buffer: size
            for buffer, size in kept.items()
            if self._buffers.dtype(buffer) in FLOATS and buffer not in copies
        }
        return Memory(
            bool(self._training.seeds),
            self._kept(floats),
            self._kept(copies),
            self._kept(
                {
                    buffer: size
                    for buffer, size in kept.items()
                    if buffer not in floats and buffer not in copies
                }
            ),
            self._kept(
                {buffer: self._buffers.bytes(buffer) for buffer in fed if buffer in self._readers}
            ),
            self._peak(made),
            held(self._meta_graph, self._graph, self._sizes, self._training, lives.keys(), fed),
        )

    def _op(self, buffer: Port) -> str:
        return self._view.nodes[buffer.node].op

    def _copies_variable(self, buffer: Port) -> bool:
        return (
            self._op(buffer) == "Cast"
            and self._op(self._buffers.of(self._view.inputs(buffer.node)[0])) in VARIABLE_OPS
        )

    def _read_late(self) -> Dict[Port, str]:
        """The first consumer in the backward pass of each buffer, preferably one that computes."""
        nodes = self._view.nodes
        backward = [
            name
            for name in self._order
            if name in self._late and is_gradient_code(nodes[name], self._training)
        ]
        found: Dict[Port, str] = {}
        for name in sorted(backward, key=lambda name: nodes[name].op in HANDS_ON):
            for buffer in self._buffers.read(name):
                found.setdefault(buffer, name)
        return found

    def _lives(self) -> Dict[Port, Interval]:
        """The first and last use of each buffer; unchanged inputs of a loop live to its end."""
        inside = frames(self._view)
        ends = {inside.get(name): place for place, name in enumerate(self._order)}
        lives: Dict[Port, Interval] = {}
        for place, name in enumerate(self._order):
            last = (
                ends[inside[name]]
                if is_invariant(self._view.nodes[name]) and name in inside
                else place
            )
            for buffer in [*self._buffers.read(name), *self._buffers.written(name)]:
                first, before = lives.get(buffer, (place, place))
                lives[buffer] = (min(first, place), max(before, last))
        return lives

    def _kept_bytes(self, buffer: Port) -> int:
        """Bytes of a buffer that are made before the backward pass."""
        if buffer in self._buffers.contents:
            return sum(
                written.bytes
                for written in self._buffers.contents[buffer]
                if written.node not in self._late
            )
        return 0 if buffer.node in self._late else self._buffers.bytes(buffer)

    def _kept(self, kept: Mapping[Port, int]) -> KeptTensors:
        tensors = [self._tensor(buffer, size) for buffer, size in kept.items() if size]
        return KeptTensors(sum(tensor.bytes for tensor in tensors), _largest_first(tensors))

    def _peak(self, lives: Mapping[Port, Interval]) -> Peak:
        sizes = {buffer: self._buffers.bytes(buffer) for buffer in lives}
        lives = self._reused(lives, sizes)
        place, total = highest(sizes, lives, len(self._order))
        tensors = [
            self._tensor(buffer, sizes[buffer]) for buffer in alive(lives, place) if sizes[buffer]
        ]
        return Peak(total, self._order[place] if self._order else "", _largest_first(tensors))

    def _reused(
        self, lives: Mapping[Port, Interval], sizes: Mapping[Port, int]
    ) -> Dict[Port, Interval]:
        """Shorten lifetimes where ops can compute in place of an input with no later use."""
        shorter = dict(lives)
        for place, name in enumerate(self._order):
            if self._view.nodes[name].op in IN_PLACE:
                made = self._buffers.of(Port(name, 0))
                for buffer in self._buffers.read(name):
                    if (
                        buffer in shorter
                        and shorter[buffer][1] == place
                        and self._alike(buffer, made, sizes)
                    ):
                        shorter[buffer] = (shorter[buffer][0], place - 1)
                        break
        return shorter

    def _alike(self, one: Port, other: Port, sizes: Mapping[Port, int]) -> bool:
        return (
            one != other
            and sizes[one] == sizes.get(other)
            and self._buffers.dtype(one) == self._buffers.dtype(other)
        )

    def _tensor(self, buffer: Port, size: int) -> Tensor:
        dtype = self._buffers.dtype(buffer)
        dimensions = None if buffer in self._buffers.contents else self._sizes.dimensions(buffer)
        shape = None if dimensions is None else list(dimensions)
        return Tensor(
            str(buffer),
            self._op(buffer),
            tf.as_dtype(dtype).name,
            shape,
            size,
            self._readers.get(buffer, ""),
        )


def _largest_first(tensors: List[Tensor]) -> List[Tensor]:
    return sorted(tensors, key=lambda tensor: (-tensor.bytes, tensor.tensor))
