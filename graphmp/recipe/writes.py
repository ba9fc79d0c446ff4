"""Writes of variables inside a decorated call, outside optimizers: in the variable's own dtype.

Moving averages, mostly. Under a dynamic scale they take no value that is not finite.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import is_tensor, variable_op
from graphmp.loss_scale import gate
from graphmp.loss_scale.gradients import is_finite
from graphmp.loss_scale.words import ONLY_FINITE
from graphmp.policy.op_sets import ADD_ASSIGNS, IDENTITIES, OVERWRITES, RESTORES
from graphmp.recipe.state import GraphState
from graphmp.tf_hooks.internals import waiting_as
from graphmp.tf_hooks.op_creation import Creation

_SAME_VALUES = IDENTITIES | {"Cast", "Reshape"}  # of what a Saver restores


def written(creation: Creation, state: GraphState, half: Any, gated: bool) -> Optional[tuple]:
    """An assignment with its value cast to the variable's dtype; None leaves it to TensorFlow.

    Args:
        creation: of an assignment.
        state: of the graph.
        half: the compute dtype.
        gated: whether the variable keeps its value if the new one is not finite, unless that comes
            from a checkpoint.

    Raises:
        GraphmpError: GMP012 for a variable that is cast before a loop and written in it.
    """
    arguments = dict(creation.arguments)
    target, value = target_of(creation), arguments["value"]
    variable = variable_op(target)
    if variable is None or not is_tensor(value) or _is_initial(creation, variable):
        return None
    state.check_loop(variable)
    stored = tf.as_dtype(variable.get_attr("dtype")).base_dtype
    if value.dtype == half and stored in (tf.float32, tf.float64):
        value = state.cast(value, stored, "variables are %s" % stored.name)
    if gated and value.dtype.is_floating and not _is_restored(value):
        value = _only_finite(creation.op_type, target, value, state)
    return creation.make(dict(arguments, value=value)).result()


def _is_initial(creation: Creation, variable: Any) -> bool:
    return creation.full_name() == variable.name + "/Assign"


def _only_finite(op_type: str, target: Any, value: Any, state: GraphState) -> Any:
    with waiting_as(value.op):
        finite = is_finite(value, "moving_averages")
    gated = written_if(finite, op_type, target, value, "moving_averages")
    state.note(
        gated.op.name,
        "add %s" % gated.op.type,
        ONLY_FINITE,
    )
    return gated


def target_of(creation: Creation) -> Any:
    """The reference or resource that an assignment writes."""
    return creation.arguments.get("ref", creation.arguments.get("resource"))


def written_if(finite: Any, op_type: str, target: Any, value: Any, scope: str) -> Any:
    """The value of an assignment if a flag is true, else one that changes nothing.

    That is the present value, or a zero delta (-0 for additions).
    """

    def zeros(dead: Any) -> Any:  # tf.zeros_like may be a constant, which isn't dead
        found = tf.raw_ops.ZerosLike(x=dead, name="zeros")
        return tf.negative(found, name="negative_zeros") if op_type in ADD_ASSIGNS else found

    def present(_: Any) -> Any:
        return tf.raw_ops.Switch(data=old, pred=finite, name="switch_old").output_false

    with own_scope(scope):
        if op_type in OVERWRITES:
            with tf.control_dependencies([value]):  # it may wait for another write of the variable
                old = _present(target, value.dtype)
        with waiting_as(value.op):
            return gate.value_if(finite, value, present if op_type in OVERWRITES else zeros)


def _present(target: Any, dtype: Any) -> Any:
    """The present value of a variable, not a copy that was read before."""
    if target.dtype != tf.resource:
        return tf.identity(target if is_tensor(target) else target.op.outputs[0], "old")
    return tf.raw_ops.ReadVariableOp(resource=target, dtype=dtype, name="old")


def _is_restored(value: Any) -> bool:
    """Whether a tensor is read from a checkpoint."""
    while value.op.type in _SAME_VALUES and value.op.inputs:
        value = value.op.inputs[0]
    return value.op.type in RESTORES
