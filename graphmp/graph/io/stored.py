"""A MetaGraphDef as bytes, for reading: each node is parsed when it is read.

A graph that is parsed as a whole takes six to eight times the memory.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from array import array
from typing import (
    Any,
    Dict,
    ItemsView,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
    ValuesView,
)

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from graphmp.graph.io.wire_format import counted, counted_key, fields
from graphmp.once import once

_GRAPH_DEF, _NODE = (
    2,
    1,
    # fields of MetaGraphDef and GraphDef (tensorflow/core/protobuf/meta_graph.proto,
    # framework/graph.proto)
)
_SMALL = (
    1 << 20
)  # bytes of a graph whose parsed nodes are all kept: a few megabytes, and each is read often
_KEPT = 16  # nodes kept of a larger graph: a restore op has thousands of consumers that read it


class StoredMetaGraph:
    """Reads like the MetaGraphDef that it was made from; `graph_def.node` is a sequence of copies.

    Attributes:
        data: the binary form of the graph: the same bytes for the same graph, in any process.
        rest: a MetaGraphDef without the nodes.
        graph_def: its GraphDef, also stored.
        recorded: calls of `tf.gradients` that were recorded while it was built
            (`gradient_record.py`).
        view: the view of its main graph, once there is one (`view.view_of`).
    """

    def __init__(self, data: bytes, recorded: Sequence[Any] = ()):
        """`data` is the binary form of a MetaGraphDef, from `messages.serialize`."""
        self.data, self.recorded = data, recorded
        self.view: Any = None
        self._held: Optional[tf.MetaGraphDef] = None
        self.rest = tf.MetaGraphDef()
        bounds = array("Q")
        for field in fields(self.data, 0, len(self.data)):
            if field.number != _GRAPH_DEF:
                self.rest.MergeFromString(self.data[field.start : field.end])
                continue
            for inner in fields(self.data, field.content, field.end):
                if inner.number == _NODE:
                    bounds.extend((inner.content, inner.end))
                else:
                    self.rest.graph_def.MergeFromString(self.data[inner.start : inner.end])
        self.graph_def = StoredGraphDef(self.rest.graph_def, StoredNodes(self.data, bounds))

    def parsed(self) -> tf.MetaGraphDef:
        """The MetaGraphDef itself, a new one each time."""
        return tf.MetaGraphDef.FromString(self.data)

    @contextlib.contextmanager
    def held(self) -> Iterator[tf.MetaGraphDef]:
        """Keep the graph parsed for a block that reads its nodes many times.

        Yields:
            The parsed graph, shared by all that read it: it must not be changed.
        """
        if self._held is not None:
            yield self._held
            return
        self._held = self.parsed()
        try:
            with self.graph_def.nodes.held(self._held.graph_def.node):
                yield self._held
        finally:
            self._held = None

    def __getattr__(self, name: str) -> Any:
        return _field(self.__dict__.get("rest"), name)


class StoredNodes(Mapping[str, tf.NodeDef]):
    """The nodes of a stored graph by name, in the graph's order, parsed when read; read-only.

    Raises:
        GraphmpError: GMP008 at the first access if two nodes share a name.
    """

    def __init__(self, data: bytes, bounds: array[int]):
        """`bounds` has two numbers for each node, its start and end in `data`."""
        self._data, self._bounds = data, bounds
        self._held: Optional[Sequence[tf.NodeDef]] = None
        self._is_small = len(data) <= _SMALL
        self._parsed = functools.lru_cache(maxsize=None if self._is_small else _KEPT)(
            functools.partial(_node, data, bounds)
        )

    @once
    def _numbers(self) -> Dict[str, int]:
        numbers: Dict[str, int] = {}
        for number, node in enumerate(self._all()):
            name = sys.intern(node.name)
            if numbers.setdefault(name, number) != number:
                raise not_unique(name)
        return numbers

    def _all(self) -> Iterator[tf.NodeDef]:
        """The nodes in order."""
        if self._held is not None:
            return iter(self._held)
        parse = (
            self._parsed if self._is_small else functools.partial(_node, self._data, self._bounds)
        )
        return map(parse, range(len(self)))

    @contextlib.contextmanager
    def held(self, nodes: Sequence[tf.NodeDef]) -> Iterator[None]:
        """Take nodes from `nodes`, all of the graph, for a block, instead of parsing each."""
        self._held = nodes
        try:
            yield
        finally:
            self._held = None

    @property
    def size(self) -> int:
        """The bytes of the whole graph."""
        return len(self._data)

    def serialized(self, name: str) -> bytes:
        """A node's binary form, the same bytes for the same node."""
        return _slice(self._data, self._bounds, self._numbers[name])

    def items(self) -> ItemsView[str, tf.NodeDef]:
        """The names with the nodes, each parsed once."""
        return _Items(self)

    def values(self) -> ValuesView[tf.NodeDef]:
        """The nodes, each parsed once."""
        return _Nodes(self)

    def __getitem__(self, name: str) -> tf.NodeDef:
        number = self._numbers[name]
        return self._parsed(number) if self._held is None else self._held[number]

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._bounds) // 2


class _Items(ItemsView[str, tf.NodeDef]):
    """Names and nodes, without a look-up of each."""

    _mapping: StoredNodes

    def __iter__(self) -> Iterator[Tuple[str, tf.NodeDef]]:
        return zip(self._mapping, self._mapping._all())


class _Nodes(ValuesView[tf.NodeDef]):
    """The nodes, without a look-up of each."""

    _mapping: StoredNodes

    def __iter__(self) -> Iterator[tf.NodeDef]:
        return self._mapping._all()


def not_unique(name: str) -> GraphmpError:
    """The error for two nodes with the same name."""
    return GraphmpError("GMP008", "two nodes have the name %s; accepted are unique names" % name)


def _slice(data: bytes, bounds: array[int], number: int) -> bytes:
    return data[bounds[2 * number] : bounds[2 * number + 1]]


def _node(data: bytes, bounds: array[int], number: int) -> tf.NodeDef:
    return tf.NodeDef.FromString(_slice(data, bounds, number))


class StoredGraphDef:
    """Reads like a GraphDef.

    Attributes:
        nodes: the nodes by name.
        node: the nodes.
    """

    def __init__(self, rest: tf.GraphDef, nodes: StoredNodes):
        self._rest, self.nodes, self.node = rest, nodes, nodes.values()

    def ByteSize(self) -> int:  # noqa: N802 - a message's method
        """The bytes of the graph."""
        return self.nodes.size

    def __getattr__(self, name: str) -> Any:
        return _field(self.__dict__.get("_rest"), name)


def _field(message: Any, name: str) -> Any:
    """A field of a message; a method of it would not see the nodes."""
    if message is None or name not in message.DESCRIPTOR.fields_by_name:
        raise AttributeError(name)
    return getattr(message, name)


Readable = Union[tf.MetaGraphDef, StoredMetaGraph]


def stored(meta_graph: Readable, recorded: Sequence[Any] = ()) -> StoredMetaGraph:
    """The graph in its present state, stored; returned itself if it is stored already.

    `recorded` are its recorded calls of `tf.gradients`.
    """
    return (
        meta_graph
        if isinstance(meta_graph, StoredMetaGraph)
        else StoredMetaGraph(serialize(meta_graph), recorded)
    )


def emptied(meta_graph: tf.MetaGraphDef) -> StoredMetaGraph:
    """The graph, stored; its nodes are removed from the MetaGraphDef meanwhile.

    To copy them at once, protobuf (upb) would take three times the bytes besides.
    """
    nodes = [counted(_NODE, serialize(node)) for node in meta_graph.graph_def.node]
    del meta_graph.graph_def.node[:]
    rest = serialize(meta_graph)
    graph = next(
        field for field in fields(rest, 0, len(rest)) if field.number == _GRAPH_DEF
    )  # nodes have the lowest field number: they come first
    key = counted_key(_GRAPH_DEF, sum(map(len, nodes)) + graph.end - graph.content)
    return StoredMetaGraph(b"".join((rest[: graph.start], key, *nodes, rest[graph.content :])))


def copied(meta_graph: Readable) -> tf.MetaGraphDef:
    """A MetaGraphDef that may be changed."""
    if isinstance(meta_graph, StoredMetaGraph):
        return meta_graph.parsed()
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    return copy
