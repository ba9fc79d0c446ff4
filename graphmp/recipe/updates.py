"""What is written with the gradients: skipped as a whole where they are not finite."""

from __future__ import annotations

import threading
from typing import Any, Callable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.building import own_scope
from graphmp.graph.live import ASSIGNS, ancestors, is_initializer, is_tensor, is_update, is_write, variable_op
from graphmp.hooks.internals import init_scope
from graphmp.hooks.op_creation import Creation
from graphmp.hooks.optimizers import delegates
from graphmp.loss_scale import gate
from graphmp.loss_scale.gradients import all_finite, values
from graphmp.recipe import creation as creations
from graphmp.recipe import state as states

_INSIDE = threading.local()


def apply_gradients(original: Callable[..., Any], optimizer: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
    """Stands in for an optimizer's `apply_gradients`; takes and returns what that does.

    Under a dynamic scale the returned op runs the update where the gradients are finite and skips all of it where they
    are not: variables, slots, beta powers, and the global step that it would have advanced.
    """
    state = states.find(tf.get_default_graph())
    if state is None or getattr(_INSIDE, "yes", False) or delegates(optimizer):
        return original(optimizer, grads_and_vars, *args, **kwargs)
    pairs = [(g, state.variable_of(v)) for g, v in grads_and_vars]
    group, finite = _flag(state, pairs)
    before = len(tf.get_default_graph().get_operations())

    def build() -> Any:
        return creations.run_active(None, lambda: original(optimizer, pairs, *args, **kwargs))

    result = build() if finite is None else _gated(state, group, finite, build, optimizer, pairs)
    if group is not None:
        made = tf.get_default_graph().get_operations()[before:]
        written = [op.name for op in made if is_write(op) and not is_initializer(op) and not op.name.startswith("graphmp/")]
        state.applied.setdefault(group.scale.scope, []).extend(written)
    return result


def gate_assign(creation: Creation) -> Optional[tuple]:
    """Gates an assignment that reads an unscaled gradient and stands outside any optimizer: a user's accumulator.

    Returns None, and leaves the op alone, for every other op.
    """
    state = states.find(tf.get_default_graph())
    if state is None or not state.call_of or getattr(_INSIDE, "yes", False):
        return None
    value = creation.arguments.get("value")
    if creation.op_type not in ASSIGNS or not is_tensor(value) or not value.dtype.is_floating:
        return None
    finite = _and([call.finite for call in _calls(state, [value]) if call.finite is not None])
    if finite is None:
        return None
    target = creation.arguments.get("ref", creation.arguments.get("resource"))
    gated = gate.value_if(finite, value, creations.old_value(creation.op_type, target, value), "accumulators")
    return creation.make(dict(creation.arguments, value=gated)).result()


def ungated(graph: Any) -> List[Any]:
    """Update ops of a graph that a half-precision gradient reaches unscaled or, under a dynamic scale, ungated."""
    state = states.find(graph)
    if state is None:
        return []
    found = []
    flags = {call.finite.op for call in state.calls if call.finite is not None}
    gradients = set(state.call_of)
    for op in graph.get_operations():
        if not is_update(op) or not _may_scale(state):
            continue
        above = ancestors([op], control=False)
        if not any(a.name in gradients for a in above):
            if any(a.name in state.half_casts for a in above):
                found.append(op)
        elif _needs_flag(state, above, gradients) and not above & flags:
            found.append(op)
    return found


def _may_scale(state: states.GraphState) -> bool:
    return any(config.loss_scale != "none" for config in state.owner_of.values())


def _needs_flag(state: states.GraphState, above: Any, gradients: Any) -> bool:
    return any(state.call_of[a.name].finite is not None for a in above if a.name in gradients)


def _gated(state: states.GraphState, group: Any, finite: Any, build: Callable[[], Any], optimizer: Any, pairs: List[Tuple[Any, Any]]) -> Any:
    with init_scope():  # slots made inside the conditional would be named after it, and float32 checkpoints would not fit
        optimizer._create_slots([v for g, v in pairs if g is not None])
    collected = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    known = list(collected)
    _INSIDE.yes = True
    try:
        with tf.control_dependencies([_update(group, finite)]):
            result = gate.run_if(finite, build, group.scale.scope)
    finally:
        _INSIDE.yes = False
    if len(collected) > len(known):
        collected[:] = known + [result]
    state.note(result.name, "skip gate", "the update runs only where the gradients are finite")
    return result


def _update(group: states.LossGroup, finite: Any) -> Any:
    """The op that adapts the group's scale: one for each flag, so that two optimizers on one flag count one step."""
    if finite.name not in group.updates:
        with init_scope():
            group.updates[finite.name] = group.scale.update(finite)
    return group.updates[finite.name]


def _flag(state: states.GraphState, pairs: List[Tuple[Any, Any]]) -> Tuple[Any, Any]:
    """The loss group that the pairs belong to and its flag; None for either where there is none.

    Gradients that come out of accumulators (SyncReplicas) or placeholders are checked where they arrive.
    """
    gradients = [g for g, _ in pairs if g is not None]
    calls = _calls(state, gradients)
    if calls:
        return calls[0].group, _and([call.finite for call in calls if call.finite is not None])
    names = {op.name for op in (variable_op(v) for _, v in pairs) if op is not None}
    for group in state.groups:
        if group.variables & names:
            return group, all_finite(gradients, group.scale.scope) if group.scale.skips else None
    return None, None


def _calls(state: states.GraphState, gradients: List[Any]) -> List[states.GradientCall]:
    """The gradient calls whose results the given gradients were made of, in order."""
    ops = [values(g).op for g in gradients if hasattr(values(g), "op")]
    above = ancestors(ops, stop=lambda op: op.name in state.call_of, control=False)
    reached = {id(state.call_of[op.name]) for op in above if op.name in state.call_of}
    return [call for call in state.calls if id(call) in reached]


def _and(flags: List[Any]) -> Any:
    if len(flags) < 2:
        return flags[0] if flags else None
    with own_scope("loss_scale"):
        return tf.reduce_all(tf.stack(flags), name="all_finite")
