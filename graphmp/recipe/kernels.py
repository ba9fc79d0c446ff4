"""Ops that the tables of half-precision kernels forbid: without a kernel, or with a faulty one."""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import as_list, is_tensor
from graphmp.graph.structure.reciprocals import NO_RECIPROCAL, becomes_reciprocal
from graphmp.policy.layout import Dimensions, channels_last, data_format
from graphmp.policy.shape_faults import fault
from graphmp.policy.traits import WIDER_STATISTICS, without_kernel
from graphmp.tf_hooks.internals import op_def
from graphmp.tf_hooks.op_creation import Creation
from graphmp.tf_hooks.op_defs import signature_of

_FROM_FAULT = "kept from a fault: "
_Inputs = Sequence[Tuple[str, Any]]  # the type attribute of each, and the tensor or variable


def forbidden(creation: Creation, compute_dtype: str) -> str:
    """Why an op that is about to be created can't be half; empty if it can."""
    inputs = [
        (argument.type_attr, value)
        for argument in op_def(creation.op_type).input_arg
        for value in _listed(creation.arguments.get(argument.name))
    ]
    order = tf.compat.as_str(creation.arguments.get("data_format") or "")
    return _why(creation.op_type, compute_dtype, inputs, order)


def forbidden_op(op: Any, compute_dtype: str) -> str:
    """Why an op of a float32 graph can't be half; empty if it can."""
    return _why(op.type, compute_dtype, list(_inputs(op)), data_format(op.node_def))


def _inputs(op: Any) -> Iterator[Tuple[str, Any]]:
    signature = signature_of(op.node_def, op_def(op.type))
    types = signature.inputs if signature is not None else ()
    return (
        ("" if port.place >= 0 else port.attribute, tensor)  # no attribute for those of a list
        for port, tensor in zip(types, op.inputs)
    )


def _why(op_type: str, compute_dtype: str, inputs: _Inputs, order: str) -> str:
    if op_type in without_kernel(compute_dtype):
        return "without a kernel of %s on every device" % compute_dtype
    ops = [getattr(value, "op", None) for _, value in inputs]
    if becomes_reciprocal(op_type, compute_dtype, ops, _behind):
        return _FROM_FAULT + NO_RECIPROCAL
    found = fault(op_type, compute_dtype, list(_shapes(op_type, inputs, order)))
    return "" if found is None else _FROM_FAULT + str(found)


def _behind(op: Any) -> Tuple[str, Sequence[Any]]:
    """The type of an op, None for a number of Python's, and the ops of its inputs."""
    return ("Const", ()) if op is None else (op.type, [tensor.op for tensor in op.inputs])


def _shapes(op_type: str, inputs: _Inputs, order: str) -> Iterator[Optional[Dimensions]]:
    """The shapes of the inputs that may be half, channels last; None for an unknown rank."""
    for attribute, value in inputs:
        is_statistics = attribute == "U" and op_type in WIDER_STATISTICS
        if not attribute or is_statistics or not value.dtype.base_dtype.is_floating:
            continue
        shape = value.shape
        yield channels_last(None if shape.rank is None else shape.as_list(), order)


def _listed(value: Any) -> List[Any]:
    """The tensors and variables of an argument."""
    return [each for each in as_list(value) if is_tensor(each) or hasattr(each, "initializer")]
