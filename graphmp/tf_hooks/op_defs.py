"""Op definitions, and the dtypes of all inputs and outputs of a node according to them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import parse_input
from graphmp.policy.dtypes import FLOAT32, INVALID
from graphmp.tf_hooks.op_definitions import defaults, op_definitions

# Ops whose later version keeps statistics in float32 (attribute U) while data is half: their types
# are those of that version.
WIDER = {"FusedBatchNorm": "FusedBatchNormV2", "FusedBatchNormGrad": "FusedBatchNormGradV2"}

_MOST_OUTPUTS = 3  # that a message names


class PortType(NamedTuple):
    """The type of one input or output.

    Attributes:
        dtype: DataType enum value; 0 if unknown.
        attribute: the type attribute that determines it; empty if the op fixes it.
        place: its index in a list attribute, -1 for a single one.
        is_ref: whether it is a reference to a variable.
    """

    dtype: int
    attribute: str = ""
    place: int = -1
    is_ref: bool = False


UNKNOWN = PortType(INVALID)


class Signature(NamedTuple):
    """The types of a node's data inputs and outputs, with lists expanded.

    `outputs_of` is (first, end) by output name.
    """

    inputs: Tuple[PortType, ...]
    outputs: Tuple[PortType, ...]
    outputs_of: Dict[str, Tuple[int, int]]

    def output(self, number: int) -> PortType:
        """The type of an output; `UNKNOWN` if there is none of this number."""
        return self.outputs[number] if 0 <= number < len(self.outputs) else UNKNOWN


def refuse_missing_output(said: str, text: str, signature: Optional[Signature]) -> None:
    """Refuse a tensor whose node has no output of its number.

    Args:
        said: the option or argument that names the tensor, as the message repeats it.
        text: a node, a tensor or a control input.
        signature: the node's; None if unknown, then nothing is refused.

    Raises:
        GraphmpError: GMP002 for a number behind the node's last output.
    """
    port = parse_input(text.lstrip("^"))
    if signature is None or port.node == text.lstrip("^") or port.output < len(signature.outputs):
        return
    outputs = ["%s:%d" % (port.node, index) for index in range(len(signature.outputs))]
    raise GraphmpError(
        "GMP002",
        "%s: the node has no such output; accepted are %s"
        % (said, ", ".join([port.node, *outputs[:_MOST_OUTPUTS]])),
    )


class OpDefs:
    """Op definitions: of the TensorFlow in the process, of functions, of the `stripped_op_list`."""

    def __init__(self, meta_graph: tf.MetaGraphDef):
        """Read the graph's own definitions; nothing is registered."""
        self._definition = op_definitions(meta_graph)
        self._typed_by: Dict[str, List[Tuple[str, str]]] = {}
        self._allowed: Dict[Tuple[str, str, int], bool] = {}
        self._signatures: Dict[Tuple[Any, ...], Optional[Signature]] = {}

    def get(self, op: str) -> Optional[Any]:
        """The OpDef of an op type; None for an unknown one."""
        return self._definition(op)

    def signature(self, node: tf.NodeDef) -> Optional[Signature]:
        """The types of a node's inputs and outputs; None for an unknown op or wrong attributes."""
        op, attributes = node.op, node.attr
        if op not in self._typed_by:
            self._typed_by[op] = self._type_attributes(op)
        key = (op, *[_attribute_key(attributes, name, kind) for name, kind in self._typed_by[op]])
        if key not in self._signatures:
            definition = self.get(WIDER.get(op, op))
            self._signatures[key] = None if definition is None else signature_of(node, definition)
        return self._signatures[key]

    def slot_named(self, op: str, *arguments: str) -> int:
        """The first data input of an op that has one of some names; -1 if none.

        Each argument counts as one input: an op with a list before it has other slots.
        """
        definition = self.get(op)
        names = (
            [argument.name for argument in definition.input_arg] if definition is not None else []
        )
        return next((slot for slot, name in enumerate(names) if name in arguments), -1)

    def _type_attributes(self, op: str) -> List[Tuple[str, str]]:
        """The attributes that determine an op's port types, with their kinds."""
        definition = self.get(WIDER.get(op, op))
        return (
            [(a.name, a.type) for a in definition.attr if a.type in ("type", "int", "list(type)")]
            if definition is not None
            else []
        )

    def allows(self, op: str, attribute: str, dtype: int) -> bool:
        """Whether a type attribute of an op may be `dtype`."""
        key = (op, attribute, dtype)
        if key not in self._allowed:
            definition = self.get(WIDER.get(op, op))
            found = (
                next(
                    (a.allowed_values.list.type for a in definition.attr if a.name == attribute),
                    None,
                )
                if definition is not None
                else None
            )
            self._allowed[key] = found is not None and (not found or dtype in found)
        return self._allowed[key]


def _attribute_key(attributes: Any, name: str, kind: str) -> Any:
    if name not in attributes:
        return None
    value = attributes[name]
    return value.type if kind == "type" else value.i if kind == "int" else tuple(value.list.type)


def signature_of(node: tf.NodeDef, definition: Any) -> Optional[Signature]:
    """The types of a node's inputs and outputs by an OpDef; None for wrong attributes."""
    unset = defaults(definition)

    def value(name: str) -> Any:
        return node.attr[name] if name in node.attr else unset.get(name)

    def ports(arguments: Any) -> List[List[PortType]]:
        return [_argument(a, value) for a in arguments]

    try:
        inputs, outputs = ports(definition.input_arg), ports(definition.output_arg)
    except LookupError:
        return None
    ranges, start = {}, 0
    for argument, types in zip(definition.output_arg, outputs):
        ranges[argument.name] = (start, start + len(types))
        start += len(types)
    return Signature(
        tuple(p for types in inputs for p in types),
        tuple(p for types in outputs for p in types),
        ranges,
    )


def _argument(argument: Any, value: Any) -> List[PortType]:
    """The ports of one argument. Raises LookupError if the node lacks a needed attribute."""
    if argument.type_list_attr:
        listed = value(argument.type_list_attr)
        if listed is None:
            raise LookupError(argument.type_list_attr)
        return [
            PortType(dtype, argument.type_list_attr, i) for i, dtype in enumerate(listed.list.type)
        ]
    if argument.type_attr:
        attribute = value(argument.type_attr)
        dtype = (
            attribute.type
            if attribute is not None
            else FLOAT32
            if argument.type_attr == "U"
            else None
        )  # U: an op of WIDER
        if dtype is None:
            raise LookupError(argument.type_attr)
        port = PortType(dtype, argument.type_attr, -1, argument.is_ref)
    else:
        port = PortType(argument.type, "", -1, argument.is_ref)
    if not argument.number_attr:
        return [port]
    count = value(argument.number_attr)
    if count is None:
        raise LookupError(argument.number_attr)
    return [port] * count.i
