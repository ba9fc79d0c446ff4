"""Writes of variables inside a decorated call, outside optimizers: in the variable's own dtype.

Moving averages, mostly. Under a dynamic scale they take no value that is not finite.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import is_tensor, variable_op
from graphmp.loss_scale import gate
from graphmp.loss_scale.gradients import all_finite
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
    old = old_value(op_type, target, value, "moving_averages")
    with waiting_as(value.op):
        finite = all_finite([value], "moving_averages")
        gated = gate.value_if(finite, value, old, "moving_averages")
    state.note(
        gated.op.name,
        "add %s" % gated.op.type,
        ONLY_FINITE,
    )
    return gated


def target_of(creation: Creation) -> Any:
    """The reference or resource that an assignment writes."""
    return creation.arguments.get("ref", creation.arguments.get("resource"))


def old_value(op_type: str, target: Any, value: Any, scope: str) -> Any:
    """The neutral value of an assignment: the present value, or a zero delta (-0 for additions)."""
    with own_scope(scope):
        if op_type not in OVERWRITES:
            with waiting_as(value.op):
                zeros = tf.zeros_like(value)
                return tf.negative(zeros) if op_type in ADD_ASSIGNS else zeros
        with tf.control_dependencies([value]):  # it may wait for another write of the variable
            if target.dtype != tf.resource:
                # Not a copy that was read before.
                return tf.identity(target if is_tensor(target) else target.op.outputs[0], "old")
            return tf.raw_ops.ReadVariableOp(resource=target, dtype=value.dtype, name="old")


def _is_restored(value: Any) -> bool:
    """Whether a tensor is read from a checkpoint."""
    while value.op.type in _SAME_VALUES and value.op.inputs:
        value = value.op.inputs[0]
    return value.op.type in RESTORES
