"""Buffers: the memory of tensors, and its size in a step.

A buffer is named by the tensor that allocated it (`aliases.py`). That of a TensorArray or
TensorList is named by its handle and is as large as all that is written into it, in function bodies
too; a tensor that is written unchanged becomes part of it. Values saved in a Stack, or written in a
loop, count once for each iteration; any other tensor of a loop counts once.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, NamedTuple, Tuple

from graphmp.graph.shapes.shapes import UNKNOWN_DIMENSION
from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.view import Port
from graphmp.inspect.memory.aliases import HANDS_ON, Aliases
from graphmp.inspect.memory.functions import Library
from graphmp.inspect.sizes import Sizes
from graphmp.policy.op_sets import ARRAY_READS, ARRAY_WRITES, CHOICES, WHILES
from graphmp.policy.traits import HANDLE_OPS
from graphmp.rewrite.units import TypedGraph

# The input that an op writes into the target of its first input.
_WRITTEN = {
    **ARRAY_WRITES,
    "TensorListPushBack": 1,
    "TensorListScatterIntoExistingList": 1,
    "TensorListSetItem": 2,
}
_COPIED = frozenset(
    ("TensorArrayScatterV3", "TensorArraySplitV3", "TensorListScatterIntoExistingList")
)
# They take the handle of a TensorArray and don't read its contents: its gradient has its size.
_READ_NOTHING = {op for op in HANDLE_OPS if op.startswith("TensorArray")} - ARRAY_READS
_NOTHING: Mapping[Port, Port] = {}


class WrittenTensors(NamedTuple):
    """The tensors that a node writes into an array or list in a step, also inside functions."""

    node: str
    dtype: int
    bytes: int


class Buffers:
    """The buffers of a graph.

    Attributes:
        contents: the tensors written into each TensorArray and TensorList, by its buffer.
    """

    def __init__(
        self,
        graph: TypedGraph,
        sizes: Sizes,
        library: Library,
        given: Mapping[Port, Port] = _NOTHING,
    ):
        """Find what is saved and written; all else is computed on demand.

        Args:
            graph: the graph, or a function's.
            sizes: its sizes.
            library: the functions that it calls.
            given: tensors that equal others for reasons outside of the graph.
        """
        self._graph = graph
        self._sizes = sizes
        self._aliases = Aliases(graph, sizes, {**library.passed_through(graph, sizes), **given})
        self._joined: Dict[Port, Port] = {}
        self.contents: Dict[Port, List[WrittenTensors]] = {}
        for name in graph.view.nodes:
            for handle, written in [*self._written(name), *self._written_inside(name, library)]:
                self.contents.setdefault(self._aliases.maker(handle), []).append(written)
        self._saved = {self.of(element) for element in self._aliases.saved.values()}

    def of(self, port: Port) -> Port:
        """The buffer behind a tensor."""
        maker = self._aliases.maker(port)
        return self._joined.get(maker, maker)

    def read(self, name: str) -> Iterator[Port]:
        """The buffers that a node reads.

        A TensorArray or TensorList isn't read by ops that write it, ask for its size or pass its
        handle on.
        """
        op = self._graph.view.nodes[name].op
        for slot, port in enumerate(self._graph.view.inputs(name)):
            buffer = self.of(port)
            if (slot or op not in _READ_NOTHING) and (
                op not in HANDS_ON or buffer not in self.contents
            ):
                yield buffer

    def written(self, name: str) -> Iterator[Port]:
        """The buffers that a node allocates, passes on or writes into."""
        signature, op = self._graph.signature(name), self._graph.view.nodes[name].op
        for output in range(len(signature.outputs) if signature is not None else 0):
            buffer = self.of(Port(name, output))
            if op not in HANDS_ON or buffer not in self.contents:
                yield buffer
        if op in _WRITTEN:
            yield self.of(self._graph.view.inputs(name)[0])

    def bytes(self, buffer: Port) -> int:
        """Bytes of a buffer over a step."""
        if buffer in self.contents:
            return sum(written.bytes for written in self.contents[buffer])
        trips = self._graph.trips(buffer.node) if buffer in self._saved else 1
        return self._sizes.tensor_bytes(buffer) * trips

    def dtype(self, buffer: Port) -> int:
        """The dtype of a buffer's contents."""
        return (
            self.contents[buffer][0].dtype if buffer in self.contents else self._sizes.dtype(buffer)
        )

    def _written(self, name: str) -> Iterator[Tuple[Port, WrittenTensors]]:
        """The tensors that a node writes, with their handles.

        Without those that are part of another already.
        """
        graph = self._graph
        op, inputs = graph.view.nodes[name].op, graph.view.inputs(name)
        if op in _WRITTEN:
            value, holder = inputs[_WRITTEN[op]], self._aliases.maker(inputs[0])
            made = self._aliases.maker(value)
            is_part = (
                op not in _COPIED
                and graph.view.inputs(made.node)
                and graph.frame(made.node) == graph.frame(name)
            )
            if is_part and self._joined.setdefault(made, holder) != holder:
                return
            trips = max(1, graph.trips(name) // graph.trips(holder.node))
            yield (
                inputs[0],
                WrittenTensors(
                    name, self._sizes.dtype(value), self._sizes.tensor_bytes(value) * trips
                ),
            )

    def _written_inside(self, name: str, library: Library) -> Iterator[Tuple[Port, WrittenTensors]]:
        """The tensors that a node's functions write, with the handles passed to them."""
        node, inputs = self._graph.view.nodes[name], self._graph.view.inputs(name)
        given = inputs[1:] if node.op in CHOICES else inputs
        trips = UNKNOWN_DIMENSION if node.op in WHILES else 1
        for function in functions_named(node):
            body = library.body(
                function, [self._sizes.dimensions(port) for port in given], self._sizes.unknown
            )
            if body is not None:
                contents = Buffers(
                    body.graph,
                    body.sizes,
                    library,
                    body.looped() if node.op in WHILES else _NOTHING,
                ).contents
                for port, argument in zip(given, body.arguments):
                    yield from (
                        (port, WrittenTensors(name, row.dtype, row.bytes * trips))
                        for row in contents.get(argument, ())
                    )
