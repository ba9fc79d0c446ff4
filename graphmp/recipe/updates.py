"""Updates with gradients, skipped as a whole unless these are finite."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Callable, Iterator, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import (
    ancestors,
    is_initializer,
    is_tensor,
    is_update,
    is_write,
    variable_op,
)
from graphmp.loss_scale import gate
from graphmp.loss_scale.gradients import values
from graphmp.loss_scale.words import COUNTS_ALL, COUNTS_SKIPPED
from graphmp.policy.op_sets import ADD_ASSIGNS, ASSIGNS, OVERWRITES, SWITCHES
from graphmp.recipe import creation as creations
from graphmp.recipe import state as states
from graphmp.recipe import writes
from graphmp.recipe.allreduces import reduced
from graphmp.tf_hooks.internals import awaited, init_scope
from graphmp.tf_hooks.op_creation import Creation
from graphmp.tf_hooks.optimizers import delegates

_INSIDE = threading.local()
_KEEPS = (
    "a skipped step keeps what its variable holds: where it begins a sum of gradients, that was"
    " applied already and is applied again; graphmp.Session or `graphmp run`, without the"
    " decorator, write zeros there"
)


def apply_gradients(
    original: Callable[..., Any], optimizer: Any, grads_and_vars: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replaces an optimizer's `apply_gradients`, with its arguments and results.

    Under a dynamic scale the returned op runs the update if the gradients are finite, and else
    skips all of it: variables, slots, beta powers, and the global step. The global step still
    advances with `count_skipped_steps`, and for gradients from accumulators, which count their
    steps and would drop all later gradients as stale.
    """
    state = states.find(tf.get_default_graph())
    if state is None or getattr(_INSIDE, "yes", False) or delegates(optimizer):
        return original(optimizer, grads_and_vars, *args, **kwargs)
    pairs = [(g, state.variable_of(v)) for g, v in grads_and_vars]
    for op in (variable_op(v) for _, v in pairs):
        if op is not None:
            state.check_loop(op)
    group, finite, adapting = _flag(state, pairs)
    before = len(tf.get_default_graph().get_operations())
    global_step = kwargs.get("global_step", args[0] if args else None)
    counts = variable_op(global_step) if finite is not None else None
    if counts is not None and not group.config.count_skipped_steps:
        counts = counts if _from_accumulators(pairs) else None

    def build() -> Any:
        return creations.run_active(None, lambda: original(optimizer, pairs, *args, **kwargs))

    def otherwise() -> Any:
        made = tf.get_default_graph().get_operations()[before:]
        if not any(_adds_to(counts, op) for op in made):
            return tf.no_op()
        counted = creations.run_active(None, lambda: _one_more(global_step))
        state.always.setdefault(group.scale.scope, {})[counted.name] = (
            COUNTS_SKIPPED if group.config.count_skipped_steps else COUNTS_ALL
        )
        return counted

    result = (
        build()
        if finite is None
        else _gated(state, group, finite, adapting, (build, otherwise), optimizer, pairs)
    )
    if group is not None:
        made = tf.get_default_graph().get_operations()[before:]
        written = [
            op.name
            for op in made
            if is_write(op) and not is_initializer(op) and not op.name.startswith("graphmp/")
        ]
        state.applied.setdefault(group.scale.scope, []).extend(written)
    return result


def gate_assign(creation: Creation) -> Optional[tuple]:
    """Gate an assignment of an unscaled gradient outside of optimizers: a user's accumulator.

    Returns None, and doesn't change the op, for every other op.
    """
    state = states.find(tf.get_default_graph())
    if state is None or not state.call_of or getattr(_INSIDE, "yes", False):
        return None
    value: Any = creation.arguments.get("value")
    if creation.op_type not in ASSIGNS or not is_tensor(value) or not value.dtype.is_floating:
        return None
    calls = _calls(state, [value])
    finite = _and(calls)
    if finite is None:
        return None
    gated = writes.written_if(
        finite, creation.op_type, writes.target_of(creation), value, "accumulators"
    )
    adapted = [_update(group, finite) for group in _groups(calls, finite)]
    with tf.control_dependencies(adapted):
        made = creation.make(dict(creation.arguments, value=gated))
    state.summed[made.op.name] = finite
    if creation.op_type in OVERWRITES and _takes_nothing_from(value, writes.target_of(creation)):
        state.warn("GMP112", made.op.name, _KEEPS)
    return made.result()


def _takes_nothing_from(value: Any, target: Any) -> bool:
    """Whether a value that overwrites a variable doesn't depend on what the variable holds."""
    return variable_op(target) not in ancestors([value.op], control=False)


def finite_histogram(creation: Creation) -> Optional[tuple]:
    """Let a histogram of unscaled gradients read 0 in place of values that aren't finite.

    Its kernel refuses them, which would end the run in a step to be skipped. Returns None, and
    doesn't change the op, for every other op.
    """
    state = states.find(tf.get_default_graph())
    value: Any = creation.arguments.get("values")
    if (
        creation.op_type != "HistogramSummary"
        or state is None
        or not state.call_of
        or not is_tensor(value)
        or not value.dtype.is_floating
    ):
        return None
    if all(call.finite is None for call in _calls(state, [value])):
        return None
    with own_scope("histograms"):
        finite = tf.where(tf.is_finite(value), value, tf.zeros_like(value))
    return creation.make(dict(creation.arguments, values=finite)).result()


def ungated(graph: Any) -> List[Any]:
    """Updates that read a half-precision gradient unscaled or, with a dynamic scale, ungated."""
    state = states.find(graph)
    if state is None:
        return []
    found = []
    flags = {graph.get_tensor_by_name(name).op for group in state.groups for name in group.checked}
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


def _gated(
    state: states.GraphState,
    group: Any,
    finite: Any,
    adapting: List[states.LossGroup],
    builds: Tuple[Callable[[], Any], Callable[[], Any]],
    optimizer: Any,
    pairs: List[Tuple[Any, Any]],
) -> Any:
    """Build the update, and what takes its place in a skipped step."""
    build, otherwise = builds
    # slots made inside the conditional would be named after it, and float32 checkpoints would not
    # fit
    with init_scope():
        optimizer._create_slots([v for g, v in pairs if g is not None])
    collected = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    known = list(collected)
    adapted = [_update(each, finite) for each in adapting]
    with _unlistened(), tf.control_dependencies(adapted):
        result = gate.run_if(finite, build, group.scale.scope, otherwise)
    if len(collected) > len(known):
        collected[:] = known + [result]
    state.note(result.name, "skip gate", "the update runs only where the gradients are finite")
    return result


@contextlib.contextmanager
def _unlistened() -> Iterator[None]:
    """Make this thread's updates and assignments unchanged."""
    before, _INSIDE.yes = getattr(_INSIDE, "yes", False), True
    try:
        yield
    finally:
        _INSIDE.yes = before


def _update(group: states.LossGroup, finite: Any) -> Any:
    """The op that adapts the group's scale: two optimizers with the same flag count one step."""
    if finite.name not in group.updates:
        with _unlistened(), init_scope():
            group.updates[finite.name] = creations.run_active(
                None, lambda: group.scale.update(finite, group.checked[finite.name])
            )
    return group.updates[finite.name]


def _flag(
    state: states.GraphState, pairs: List[Tuple[Any, Any]]
) -> Tuple[Any, Any, List[states.LossGroup]]:
    """A loss group of the pairs, their flag, and the groups whose scale this update adapts.

    Gradients that come out of accumulators (SyncReplicas, or a user's own) or placeholders are
    checked where they arrive; if they were gated before an accumulator, the scale was adapted
    there. Sums that are added up in the same run must have been finite then, too.
    """
    gradients = [g for g, _ in pairs if g is not None]
    calls = _calls(state, gradients)
    if calls:
        group, whole = calls[0].group, reduced(gradients, state.call_of)
        finite = group.check(whole) if whole and group.scale.skips else _and(calls)
        return group, finite, _groups(calls, finite)
    names = {op.name for op in (variable_op(v) for _, v in pairs) if op is not None}
    for group in state.groups:
        if group.variables & names:
            finite = group.check(gradients) if group.scale.skips else None
            adapting = [] if group.updates else [group]
            return group, _and_of_sums(state, group, gradients, finite), adapting
    return None, None, []


def _and_of_sums(state: states.GraphState, group: Any, gradients: List[Any], finite: Any) -> Any:
    """A flag, and those of all gradients that are added to variables before an update is built."""
    ahead = ancestors([*(values(g).op for g in gradients), *awaited(tf.get_default_graph())])
    flags = (
        {state.summed[op.name] for op in ahead if op.name in state.summed}
        if finite is not None
        else ()
    )
    if not flags:
        return finite
    with own_scope(group.scale.scope):
        after = []
        for flag in sorted(flags, key=lambda flag: flag.name):
            with tf.control_dependencies([group.updates[flag.name]]):
                after.append(tf.identity(flag))
        return tf.reduce_all(tf.stack([finite, *after]), name="all_finite")


def _calls(state: states.GraphState, gradients: List[Any]) -> List[states.GradientCall]:
    """The gradient calls that the given gradients depend on, in order."""
    ops = [values(g).op for g in gradients if hasattr(values(g), "op")]
    above = ancestors(ops, stop=lambda op: op.name in state.call_of, control=False)
    reached = {id(state.call_of[op.name]) for op in above if op.name in state.call_of}
    return [call for call in state.calls if id(call) in reached]


def _adds_to(variable: Any, op: Any) -> bool:
    """Whether an op adds to a variable: as an optimizer does that counts its steps there."""
    if variable is None or op.type not in ADD_ASSIGNS:
        return False
    target = op.inputs[0].op
    while target.type in SWITCHES:  # of the conditional
        target = target.inputs[0].op
    return bool(target is variable)


def _one_more(variable: Any) -> Any:
    """An op that adds 1 to a variable, of which the graph may know no more than its reference."""
    if isinstance(variable, tf.Tensor):
        return tf.assign_add(variable, 1, name="count").op
    return variable.assign_add(1, name="count", read_value=False)


def _from_accumulators(pairs: List[Tuple[Any, Any]]) -> bool:
    """Whether gradients are taken from accumulators, as under SyncReplicas."""
    above = ancestors([values(g).op for g, _ in pairs if g is not None], control=False)
    return any(op.type.endswith("AccumulatorTakeGradient") for op in above)


def _and(calls: List[states.GradientCall]) -> Any:
    """Whether the gradients of all calls are finite; None if no scale is dynamic."""
    flags = [call.finite for call in calls if call.finite is not None]
    if len(flags) < 2:
        return flags[0] if flags else None
    with own_scope("loss_scale"):
        return tf.reduce_all(tf.stack(flags), name="all_finite")


def _groups(calls: List[states.GradientCall], finite: Any) -> List[states.LossGroup]:
    """The loss groups of calls that share a flag; each measures its own gradients under it."""
    found = {id(call.group): call.group for call in calls if call.finite is not None}
    for group in found.values() if finite is not None else ():
        flags = [call.finite for call in calls if call.group is group and call.finite is not None]
        gradients = [gradient for flag in flags for gradient in group.checked[flag.name]]
        group.checked.setdefault(finite.name, gradients)
    return list(found.values())
