"""Every symbolic gradient of the recipe's graph: scaled, unscaled in float32, checked, clipped."""

from __future__ import annotations

import re
import threading
from typing import Any, Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.state.live import (
    ancestors,
    as_list,
    connected_variables,
    is_half,
    is_tensor,
    variable_op,
)
from graphmp.loss_scale.gradients import clip, unscale, values
from graphmp.policy import policy as policies
from graphmp.recipe import creation
from graphmp.recipe import state as states
from graphmp.recipe.updates import apply_gradients
from graphmp.tf_hooks import optimizers
from graphmp.tf_hooks.internals import place

_INSIDE = threading.local()


def scaled_gradients(
    original: Callable[..., Any],
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Replaces TensorFlow's gradient function, with its arguments and results.

    Gradients of variables that the half-precision part of the graph affects are returned in
    float32, divided by the loss scale by which the losses were multiplied. IndexedSlices stay
    IndexedSlices, None stays None. Other gradients (of inputs, inside a gradient penalty) don't
    change.
    """
    graph = tf.get_default_graph()
    state = states.find(graph)
    if state is None or getattr(_INSIDE, "yes", False):
        return original(ys, xs, grad_ys, name, *args, **kwargs)
    ys, xs = as_list(ys), [state.variable_of(x) for x in as_list(xs)]
    config = _config(state, ys)
    if config is None:
        return original(ys, xs, grad_ys, name, *args, **kwargs)
    optimizers.install(apply_gradients)  # the script's own optimizer classes are defined by now

    def take(ys: List[Any], grad_ys: Any) -> List[Any]:
        _INSIDE.yes = True
        try:
            return _in_gradient_code(
                config, lambda: original(ys, xs, grad_ys, name, *args, **kwargs)
            )
        finally:
            _INSIDE.yes = False

    if not any(variable_op(x) is not None for x in xs):
        return take(ys, grad_ys)
    return _scaled(state, config, ys, xs, grad_ys, take)


def _scaled(
    state: states.GraphState,
    config: Config,
    ys: List[Any],
    xs: List[Any],
    grad_ys: Any,
    take: Callable[..., List[Any]],
) -> List[Any]:
    graph = tf.get_default_graph()
    shared = len(state.groups)
    group = state.group_for(xs, config)
    scale = group.scale
    ys = [
        state.cast(y, tf.float32, "loss is float32") if is_tensor(y) and is_half(y.dtype) else y
        for y in ys
    ]
    given = as_list(grad_ys) if grad_ys is not None else [None] * len(ys)
    scaled_ys = [scale.scale(y) if g is None else y for y, g in zip(ys, given)]
    scaled_given = [
        None if g is None else scale.scale(tf.cast(g, y.dtype)) for y, g in zip(ys, given)
    ]
    created = len(graph.get_operations())
    raw = take(scaled_ys, scaled_given if grad_ys is not None else None)
    _check_connected(xs, raw)
    _receive_in_half(raw, xs)
    seeds = _seeds(graph.get_operations()[created:]) or [
        g.op.name for g in scaled_given if g is not None
    ]
    gradients = unscale(scale, raw, xs)
    present = [g for g in gradients if g is not None]
    finite = group.check(present) if scale.skips and present else None
    call = states.GradientCall(
        group,
        seeds[0].rsplit("/", 1)[0] if seeds else "",
        seeds,
        _names(raw),
        _names(ys),
        _names(gradients),
        finite,
    )
    state.add_call(call, gradients)
    if config.clip_norm and present:
        gradients = clip(gradients, config.clip_norm, scale.scope)
        state.hand_out(call, gradients)
        if shared == len(state.groups):
            state.warn(
                "GMP103",
                group.scale.scope,
                "the gradients of %s are taken more than once: each set is clipped by itself"
                % ", ".join(sorted(group.variables)[:3]),
            )
    return gradients


def _receive_in_half(gradients: List[Any], xs: List[Any]) -> None:
    """Move a gradient's cast to float32 to the variable's device: half the bytes are sent there.

    Such a cast is the gradient of a cast on read.
    """
    for gradient, x in zip(gradients, xs):
        ops = [values(gradient).op] if gradient is not None else []
        while ops and ops[-1].type == "Reshape":  # of an embedding's rows
            ops.append(ops[-1].inputs[0].op)
        if ops and ops[-1].type == "Cast" and is_half(ops[-1].inputs[0].dtype):
            for op in ops:
                place(op, x.device)


def _names(tensors: Sequence[Any]) -> List[str]:
    """Names of the ops that make tensors or the values of sparse ones."""
    return [values(tensor).op.name for tensor in tensors if tensor is not None]


def _seeds(ops: Sequence[Any]) -> List[str]:
    """The start of gradient code: the ops that TensorFlow names grad_ys_0, grad_ys_1 and so on."""
    return [op.name for op in ops if re.search(r"(^|/)grad_ys_\d+$", op.name)]


def _check_connected(xs: List[Any], gradients: List[Any]) -> None:
    """Refuse a build in which a variable lost the gradient that it has in float32."""
    build = creation.active()
    names = {op.name for op in map(variable_op, xs) if op is not None}
    lost = (
        sorted((names & build.expected_gradients()) - connected_variables(xs, gradients))
        if build is not None
        else []
    )
    if lost:
        raise GraphmpError(
            "GMP012",
            "variable %s has a gradient in the float32 build and none under the recipe" % lost[0],
        )


def summed_gradients(
    original: Callable[..., Any], grads: Any, op: Any, *args: Any, **kwargs: Any
) -> Any:
    """Replaces the sum of the gradients of `op`'s outputs, made just before those of its inputs."""
    build = creation.active()
    if build is not None:
        build.differentiated = op
    return original(grads, op, *args, **kwargs)


def _in_gradient_code(config: Config, function: Callable[[], Any]) -> Any:
    build = creation.active() or creation.DecoratedCall(
        config, policies.load(config.compute_dtype, config.op_policy), None
    )
    before = build.in_gradients, build.differentiated
    build.in_gradients, build.differentiated = True, None
    try:
        return creation.run_active(build, function)
    finally:
        build.in_gradients, build.differentiated = before


def _config(state: states.GraphState, ys: Sequence[Any]) -> Optional[Config]:
    """The options of the first decorated call that `ys` depend on; None if there is none."""
    build = creation.active()
    if build is not None:
        return build.config
    ops = [y.op for y in ys if hasattr(y, "op")]
    above = {op.name for op in ancestors(ops, control=False)}
    return next((config for name, config in state.owner_of.items() if name in above), None)
