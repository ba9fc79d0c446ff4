"""Nodes as numbers: op, device, attributes and inputs, each distinct text stored once."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, NamedTuple, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.compare.render.page_data.strings import Strings
from graphmp.compare.render.page_data.tree import TreeSide
from graphmp.compare.values import array_text, attribute_text, tensor_text
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.values import array
from graphmp.graph.structure.view import CONTROL
from graphmp.policy.dtypes import dtype_text
from graphmp.wording import printable

MOST_CHARACTERS = 160  # of an attribute
MOST_BYTES = 4096  # of a value that is compared without conversion, or unpacked
MOST_ELEMENTS = (
    65536  # of a constant that is unpacked: a few bytes can represent any number of elements
)

_MAIN_DTYPES = (
    "T",
    "dtype",
)  # the attributes that determine a node's compute dtype, the first that it has

Output = Union[int, str]


class NodeRow(NamedTuple):
    """A node in numbers.

    Attributes:
        op: index of the text.
        device: index of the text.
        attributes: index of the set of attributes.
        inputs: two numbers for each input: the distance to its producer's row, and its output;
            CONTROL for a control input. An output inside a function may be a text.
    """

    op: int
    device: int
    attributes: int
    inputs: Tuple[Output, ...]


class Attributes:
    """Distinct sets of attributes: a graph has far fewer of them than nodes.

    Attributes:
        pairs: indices of the texts of name and value.
        sets: the main dtype's text, then the indices of the pairs.
    """

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._pair_of: Dict[Tuple[str, bytes], int] = {}
        self._set_of: Dict[Tuple[int, ...], int] = {}
        self.pairs: List[Tuple[int, int]] = []
        self.sets: List[Tuple[int, ...]] = [(0,)]

    def number(self, node: tf.NodeDef) -> int:
        """The index of a node's set."""
        key = tuple(
            [self._pair(name, value) for name, value in sorted(node.attr.items())]
        )  # sorted, since protobuf's maps are unordered
        found = self._set_of.get(key)
        if found is None:
            found = self._set_of[key] = len(self.sets)
            self.sets.append((self._strings[_main_dtype(node)], *key))
        return found

    def _pair(self, name: str, value: tf.AttrValue) -> int:
        data = serialize(value)
        key = name, data if len(data) <= MOST_BYTES else hashlib.sha256(data).digest()
        found = self._pair_of.get(key)
        if found is None:
            found = self._pair_of[key] = len(self.pairs)
            self.pairs.append((self._strings[name], self._strings[_short(_value_text(value))]))
        return found


def recorded(name: str, side: TreeSide, attributes: Attributes, strings: Strings) -> NodeRow:
    """A node in numbers; an empty one if it is only known from changes."""
    if side.view is None or name not in side.view.nodes:
        return NodeRow(0, 0, 0, ())
    node, rows = side.view.nodes[name], side.rows
    row = rows[name].row
    inputs: List[Output] = []
    for port in side.view.inputs(name):
        inputs += (
            row - rows[port.node].row,
            port.output if isinstance(port.output, int) else printable(port.output),
        )
    for before in side.view.controls(name):
        inputs += (row - rows[before].row, CONTROL)
    return NodeRow(strings[node.op], strings[node.device], attributes.number(node), tuple(inputs))


def same_node(name: str, before: TreeSide, after: TreeSide) -> bool:
    """Whether both graphs have the same node: its records are then equal."""
    if (
        before.view is None
        or after.view is None
        or name not in before.view.nodes
        or name not in after.view.nodes
    ):
        return False
    return before.view.serialized(name) == after.view.serialized(name)


def _main_dtype(node: tf.NodeDef) -> str:
    """The compute dtype of a node: `float16`, and for a cast `float32→float16`."""
    types = {name: value.type for name, value in sorted(node.attr.items()) if value.type}
    if "SrcT" in types and "DstT" in types:
        return "%s→%s" % (dtype_text(types["SrcT"]), dtype_text(types["DstT"]))
    first = next((types[name] for name in _MAIN_DTYPES if name in types), None)
    return dtype_text(first or next(iter(types.values()))) if types else ""


def _value_text(value: tf.AttrValue) -> str:
    return (
        _tensor_text(value.tensor)
        if value.WhichOneof("value") == "tensor"
        else attribute_text(value)
    )


def _tensor_text(tensor: Any) -> str:
    """The first elements if there are few, else dtype and shape."""
    elements = 1
    for dim in tensor.tensor_shape.dim:
        elements *= dim.size
    if elements > MOST_ELEMENTS or tensor.ByteSize() > MOST_BYTES:
        return tensor_text(tensor)
    value = array(tensor)
    return tensor_text(tensor) if value is None else array_text(value, 0)


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "..."
