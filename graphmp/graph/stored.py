"""A MetaGraphDef as bytes, for reading: a node is parsed when it is asked for. Parsed as a whole, a graph takes six to eight times as much."""

from __future__ import annotations

import functools
from array import array
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.once import once

_GRAPH_DEF, _NODE = 2, 1  # fields of MetaGraphDef and GraphDef (tensorflow/core/protobuf/meta_graph.proto, framework/graph.proto)
# How a field is written (https://protobuf.dev/programming-guides/encoding); groups are long deprecated, but a field that nobody knows may be one.
_VARINT, _EIGHT_BYTES, _COUNTED, _GROUP, _END_OF_GROUP, _FOUR_BYTES = range(6)
_KEPT = 16  # nodes that stay parsed: a restore op has thousands of readers, each of which looks at it, and as many outputs


class StoredMetaGraph:
    """Reads like the MetaGraphDef that it was made from, with `graph_def.node` as a sequence of copies.

    Attributes:
        data: the binary form of the graph: the same bytes for the same graph, in any process.
        rest: a MetaGraphDef of all but the nodes.
        graph_def: its GraphDef, stored too.
    """

    def __init__(self, data: bytes):
        """`data` is a MetaGraphDef's binary form as `SerializeToString(deterministic=True)` gives it."""
        self.data = data
        self.rest = tf.MetaGraphDef()
        bounds = array("Q")
        for field in _fields(self.data, 0, len(self.data)):
            if field.number != _GRAPH_DEF:
                self.rest.MergeFromString(self.data[field.start : field.end])
                continue
            for inner in _fields(self.data, field.content, field.end):
                if inner.number == _NODE:
                    bounds.extend((inner.content, inner.end))
                else:
                    self.rest.graph_def.MergeFromString(self.data[inner.start : inner.end])
        self.graph_def = StoredGraphDef(self.rest.graph_def, StoredNodes(self.data, bounds))

    def parsed(self) -> tf.MetaGraphDef:
        """The MetaGraphDef itself, a new one each time."""
        return tf.MetaGraphDef.FromString(self.data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rest, name)


class StoredNodes(Mapping[str, tf.NodeDef]):
    """The nodes of a stored graph by name, in the order of the graph, parsed when they are looked at. They are to be read, not changed.

    Raises:
        GraphmpError: GMP008 at the first look if two nodes share a name.
    """

    def __init__(self, data: bytes, bounds: array[int]):
        """`bounds` has two numbers a node, where it starts and ends in `data`."""
        self._data, self._bounds = data, bounds
        self._parsed = functools.lru_cache(maxsize=_KEPT)(functools.partial(_node, data, bounds))

    @once
    def _numbers(self) -> Dict[str, int]:
        numbers: Dict[str, int] = {}
        for number in range(len(self)):
            name = _node(self._data, self._bounds, number).name
            if numbers.setdefault(name, number) != number:
                raise GraphmpError("GMP008", "two nodes have the name %s; accepted are unique names" % name)
        return numbers

    def message(self, name: str) -> bytes:
        """A node's binary form, the same bytes for the same node."""
        return _message(self._data, self._bounds, self._numbers[name])

    def __getitem__(self, name: str) -> tf.NodeDef:
        return self._parsed(self._numbers[name])

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._bounds) // 2


def _message(data: bytes, bounds: array[int], number: int) -> bytes:
    return data[bounds[2 * number] : bounds[2 * number + 1]]


def _node(data: bytes, bounds: array[int], number: int) -> tf.NodeDef:
    return tf.NodeDef.FromString(_message(data, bounds, number))


class StoredGraphDef:
    """Reads like a GraphDef.

    Attributes:
        nodes: the nodes by name.
        node: the nodes.
    """

    def __init__(self, rest: tf.GraphDef, nodes: StoredNodes):
        self._rest, self.nodes, self.node = rest, nodes, nodes.values()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)


Readable = Union[tf.MetaGraphDef, StoredMetaGraph]


def stored(meta_graph: Readable) -> StoredMetaGraph:
    """The graph as it is now, stored; itself where it is already."""
    return meta_graph if isinstance(meta_graph, StoredMetaGraph) else StoredMetaGraph(meta_graph.SerializeToString(deterministic=True))


def emptied(meta_graph: tf.MetaGraphDef) -> StoredMetaGraph:
    """The graph, stored; the MetaGraphDef, which has nodes, loses them. At once, protobuf would take three times the bytes besides (upb)."""
    nodes = [_counted(_NODE, node.SerializeToString(deterministic=True)) for node in meta_graph.graph_def.node]
    del meta_graph.graph_def.node[:]
    rest = meta_graph.SerializeToString(deterministic=True)
    graph = next(field for field in _fields(rest, 0, len(rest)) if field.number == _GRAPH_DEF)  # nodes have the lowest number in it: they come first
    key = _key(_GRAPH_DEF, sum(map(len, nodes)) + graph.end - graph.content)
    return StoredMetaGraph(b"".join((rest[: graph.start], key, *nodes, rest[graph.content :])))


def copied(meta_graph: Readable) -> tf.MetaGraphDef:
    """A MetaGraphDef of its own, which may be changed."""
    if isinstance(meta_graph, StoredMetaGraph):
        return meta_graph.parsed()
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    return copy


class _Field(NamedTuple):
    """One field of a message: its number, where it starts, where its content does, and where both end."""

    number: int
    start: int
    content: int
    end: int


def _fields(data: bytes, start: int, end: int) -> Iterator[_Field]:
    """The fields of a message that lies in `data`, in the order of the bytes."""
    while start < end:
        key, content = _varint(data, start)
        content, after = _content(data, key & 7, content)
        yield _Field(key >> 3, start, content, after)
        start = after


def _content(data: bytes, kind: int, position: int) -> Tuple[int, int]:
    """Where the content of a field starts and ends; `position` is behind its key."""
    if kind == _COUNTED:
        size, start = _varint(data, position)
        return start, start + size
    if kind == _GROUP:
        start, kind = position, _GROUP
        while kind != _END_OF_GROUP:
            key, position = _varint(data, position)
            kind = key & 7
            position = position if kind == _END_OF_GROUP else _content(data, kind, position)[1]
        return start, position
    return position, _varint(data, position)[1] if kind == _VARINT else position + {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}[kind]


def _counted(number: int, content: bytes) -> bytes:
    """A whole field."""
    return _key(number, len(content)) + content


def _key(number: int, size: int) -> bytes:
    """What stands before the content of a counted field."""
    key = bytearray([number << 3 | _COUNTED])
    while size >= 0x80:
        key.append(size & 0x7F | 0x80)
        size >>= 7
    key.append(size)
    return bytes(key)


def _varint(data: bytes, position: int) -> Tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while data[position] >= 0x80:
        value |= (data[position] & 0x7F) << shift
        position, shift = position + 1, shift + 7
    return value | data[position] << shift, position + 1
