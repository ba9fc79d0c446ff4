"""Queries on a live tf.Graph: ancestors, floating-point tensors, variables."""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state_kinds import PASS_HANDLES, kind, takes
from graphmp.graph.structure.walk import reached
from graphmp.policy.dtypes import HALF
from graphmp.policy.op_sets import (
    EXITS,
    MAY_BE_STATE,
    MERGES,
    OVERWRITES,
    READS,
    RESTORES,
    SWITCHES,
    TABLE_INITIALIZERS,
    UPDATE_PREFIXES,
    VARIABLE_OPS,
)


def is_half(dtype: Any) -> bool:
    """Whether a dtype of TensorFlow's is a half precision."""
    return dtype.as_datatype_enum in HALF


def is_update(op: Any) -> bool:
    """Whether an op is an optimizer's update kernel."""
    return op.type.startswith(UPDATE_PREFIXES)


def is_write(op: Any) -> bool:
    """Whether an op changes a variable or an accumulator.

    A call of a function that takes one may.
    """
    if kind(op.type):
        return False
    taken = [
        (slot, tensor)
        for slot, tensor in enumerate(op.inputs)
        if tensor.dtype == tf.resource or _is_reference(tensor)
    ]
    return any(
        _is_state(tensor)
        and (not _is_reference(tensor) or takes(op.op_def, slot, op.node_def.attr))
        for slot, tensor in taken
    )


def _is_reference(tensor: Any) -> bool:
    return bool(tensor.dtype != tensor.dtype.base_dtype)


def _is_state(tensor: Any) -> bool:
    """Whether a reference or handle may belong to a variable or an accumulator."""
    while tensor.op.inputs and (tensor.op.type in PASS_HANDLES or _is_reference(tensor)):
        tensor = tensor.op.inputs[1 if tensor.op.type == "RefSelect" else 0]
    return tensor.op.type in MAY_BE_STATE


def writes_of(variable: Any) -> Iterator[Any]:
    """The ops that take the reference or handle of a variable's op and change it.

    Those that give it its initial value are left out.
    """
    waiting, seen = list(variable.outputs), set()
    while waiting:
        tensor = waiting.pop()
        for op in tensor.consumers():
            handed_on = [t for t in op.outputs if t.dtype == tf.resource or _is_reference(t)]
            if op in seen or op.inputs[0] is not tensor:
                continue
            seen.add(op)
            waiting.extend(handed_on)
            if is_write(op) and not is_initializer(op):
                yield op


def fills_table(op: Any) -> bool:
    """Whether an op gives a table its first entries; those of a checkpoint are restored."""
    return op.type in TABLE_INITIALIZERS and writes_constants(op)


def writes_constants(op: Any) -> bool:
    """Whether what an op writes, its inputs but the first, is computed from constants alone.

    No variable, resource or feed, which might be missing, is behind it; nor, for a table, a
    checkpoint.
    """
    read = ancestors([*(tensor.op for tensor in op.inputs[1:]), *op.control_inputs])
    return not any(
        each.type in VARIABLE_OPS
        or (each.type in RESTORES and op.type in TABLE_INITIALIZERS)
        or each.type.startswith("Placeholder")
        or tf.resource in [t.dtype for t in each.outputs]
        for each in read
    )


def is_initializer(op: Any) -> bool:
    """Whether an op is the assignment that gives a variable its initial value."""
    variable = variable_op(op.inputs[0]) if op.type in OVERWRITES and op.inputs else None
    return variable is not None and op.name == variable.name + "/Assign"


def ancestors(
    ops: Iterable[Any],
    stop: Optional[Callable[[Any], bool]] = None,
    control: bool = True,
    fed: AbstractSet[str] = frozenset(),
) -> Set[Any]:
    """The given ops and all that they depend on.

    Ops for which `stop` holds are not traversed, and tensors with the names `fed` not computed.
    """

    def before(op: Any) -> Iterator[Any]:
        if stop is None or not stop(op):
            yield from (tensor.op for tensor in op.inputs if tensor.name not in fed)
            yield from op.control_inputs if control else ()

    return reached(ops, before)


def computed_by(ops: AbstractSet[Any], tensors: Iterable[Any]) -> List[Any]:
    """The floating-point outputs of some ops that tensors of other ops are computed of.

    The nearest ones, without the values of variables and what loops and branches compute.
    """
    found: Dict[str, Any] = {}
    seen: Set[Any] = set()
    waiting = list(tensors)
    while waiting:
        tensor = waiting.pop()
        if tensor.op in ops:
            if tensor.dtype.is_floating and variable_op(tensor) is None:
                found[tensor.name] = tensor
        elif tensor.op not in seen and tensor.op.type not in EXITS | MERGES:
            seen.add(tensor.op)
            waiting.extend(tensor.op.inputs)
    return list(found.values())


def descendants(ops: Iterable[Any]) -> Set[Any]:
    """The given ops and all that depend on them, by data or control edges."""

    def after(op: Any) -> Iterator[Any]:
        yield from (consumer for tensor in op.outputs for consumer in tensor.consumers())
        yield from op._control_outputs

    return reached(ops, after)


def as_ops(fetches: Any, graph: Any) -> List[Any]:
    """The ops behind any structure of fetches: tensors, ops, names, variables, sparse values.

    Unknown values are left out.
    """
    found = []
    for item in _leaves(fetches):
        if isinstance(item, (str, bytes)):
            item = _by_name(item, graph)
        parts = (
            [getattr(item, part, None) for part in ("values", "indices", "dense_shape")]
            if hasattr(item, "dense_shape")
            else [item]
        )
        for part in parts:
            op = getattr(part, "op", part)
            if isinstance(op, tf.Operation):
                found.append(op)
    return found


def _leaves(structure: Any) -> Iterable[Any]:
    if isinstance(structure, dict):
        structure = list(structure.values())
    if isinstance(structure, (list, tuple)) and not hasattr(structure, "dense_shape"):
        return [leaf for item in structure for leaf in _leaves(item)]
    if hasattr(structure, "__attrs_attrs__"):
        return [
            leaf for a in structure.__attrs_attrs__ for leaf in _leaves(getattr(structure, a.name))
        ]
    return [structure]


def _by_name(name: Any, graph: Any) -> Any:
    try:
        return graph.as_graph_element(tf.compat.as_str(name))
    except (KeyError, ValueError, TypeError):
        return None


def variable_op(thing: Any) -> Optional[Any]:
    """The op of a variable, given the Variable, its reference or handle, or a read; else None."""
    return _source(getattr(thing, "op", None), READS)


def variable_in_branch(tensor: Any) -> Optional[Any]:
    """As `variable_op`, of an input of a write: in a conditional it comes through a Switch."""
    return _source(tensor.op, READS | SWITCHES)


def _source(op: Any, through: AbstractSet[str]) -> Optional[Any]:
    """The variable whose value an op passes on, through ops of some types; else None."""
    while op is not None and op.type in through and op.inputs:
        op = op.inputs[0].op
    return op if op is not None and op.type in VARIABLE_OPS else None


def as_list(value: Any) -> List[Any]:
    """An argument that may be a list or tuple, or one of what these hold, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def connected_variables(xs: Any, gradients: Iterable[Any]) -> Set[str]:
    """Names of the variables among `xs` whose gradient is not None."""
    pairs = zip(as_list(xs), gradients)
    found = [variable_op(x) for x, gradient in pairs if gradient is not None]
    return {op.name for op in found if op is not None}


def is_tensor(value: Any) -> bool:
    """Whether a value is a graph tensor (2.21 calls its class SymbolicTensor)."""
    return isinstance(value, tf.Tensor)
