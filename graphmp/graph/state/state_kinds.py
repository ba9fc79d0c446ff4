"""Uses of references and handles by kind of op; an unlisted op writes."""

from __future__ import annotations

from typing import Any, Tuple

from graphmp.policy import tables
from graphmp.policy.dtypes import RESOURCE

_KINDS = tables.sets("state_kinds.txt")
_KIND = {op: kind for kind, ops in _KINDS.items() for op in ops}

GO_ON = {  # why: ops that change state other than variables, in a skipped step too
    "accumulator": "gradients that are taken out of an accumulator are gone, and steps are counted",
    "iterator": "an iterator's next batch is taken: it is no variable",
    "queue": "a queue's next elements are taken or put: it is no variable",
    "random": "random numbers are drawn: their state is no variable",
    "reader": "a reader reads on: it is no variable",
    "table": "a table of keys is changed: it is no variable",
}
PASS_REFERENCES, PASS_HANDLES = _KINDS["passes_reference"], _KINDS["passes_handle"]


def kind(op_type: str) -> str:
    """The kind of an op by the table; empty for ops that write the state they take."""
    return _KIND.get(op_type, "pipeline" if "Dataset" in op_type else "")


def takes(definition: Any, slot: int, attributes: Any) -> bool:
    """Whether an op takes a reference or handle in a data input, not a value; an unknown op may.

    Args:
        definition: the op's definition, or None.
        slot: the input.
        attributes: the node's attributes, which hold the lengths of lists.
    """
    if definition is None:
        return True
    for argument in definition.input_arg:
        slot -= _length(argument, attributes)
        if slot < 0:
            return bool(argument.is_ref) or argument.type == RESOURCE
    return False


def returned_references(definition: Any) -> Tuple[int, ...]:
    """The outputs of an op that are references, to the target of its first reference."""
    return (
        ()
        if definition is None
        else tuple(place for place, argument in enumerate(definition.output_arg) if argument.is_ref)
    )


def _length(argument: Any, attributes: Any) -> int:
    if argument.number_attr:
        return int(attributes[argument.number_attr].i) if argument.number_attr in attributes else 1
    if argument.type_list_attr:
        return (
            len(attributes[argument.type_list_attr].list.type)
            if argument.type_list_attr in attributes
            else 1
        )
    return 1
