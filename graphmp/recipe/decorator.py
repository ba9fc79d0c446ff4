"""`@graphmp.mixed_precision`: the recipe around a function that builds a training graph."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.hooks import conversions, gradients, op_creation, optimizers, sessions
from graphmp.hooks.op_creation import Creation
from graphmp.policy import policy as policies
from graphmp.recipe import creation, observe
from graphmp.recipe import state as states
from graphmp.recipe.gradients import scaled_gradients, summed_gradients
from graphmp.recipe.inputs import Call, cast_arguments, flat, map_back
from graphmp.recipe.plan import Plan
from graphmp.recipe.refusal import blames, check_coverage, check_variables, recipe_refused
from graphmp.recipe.storage import make_getter, nested
from graphmp.recipe.training import refuse_unscaled
from graphmp.recipe.updates import apply_gradients, gate_assign


def mixed_precision(function: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
    """Makes a function that builds a training graph build it in mixed precision.

    Use it with or without arguments, on functions and methods:

        @graphmp.mixed_precision(loss_scale=128., clip_norm=5.)
        def build_training_model(inputs, labels, nlabel): ...

    Floating tensor arguments that feed a matmul or convolution are cast to the compute dtype; variables are stored in
    float32; what comes after the last matmul or convolution, the loss above all, is float32; gradients of any optimizer
    built in or after the call are scaled and unscaled. The function is called once more, in a graph that is thrown
    away, to find out which part is which.

    Args:
        function: the function, where the decorator is used without arguments.
        **options: fields of `graphmp.config.Config`, which are the command line's flags.

    Returns:
        The decorated function, of the same signature. What it returns is what the original returns: the caller's own
        tensors where it returns an argument, float32 for what it computed in half precision.

    Raises:
        GraphmpError: GMP002 for a bad option. The decorated function raises GMP011 under eager execution, GMP012 where
            the model mixes float32 into its half-precision part, GMP014 where a variable would change.
    """
    config = Config.make(**options)
    if config.engine == "rewrite":
        text = "engine=rewrite: a decorated function takes engine=auto or engine=recipe; `graphmp convert FILE --engine=rewrite` rewrites the graph"
        raise GraphmpError("GMP020", text)
    if config.names_training:
        raise GraphmpError("GMP020", "%s=: it is for graphs that are built already; a decorated function's losses are known" % config.names_training)

    def decorate(target: Any) -> Any:
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(decorate(target.__func__))

        @functools.wraps(target)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return build(target, config, (args, kwargs))

        return wrapper

    return decorate if function is None else decorate(function)


def build(function: Callable[..., Any], config: Config, call: Call, plan: Optional[Plan] = None) -> Any:
    """Calls `function` under the recipe, by `plan` or by one made from a rehearsal. Raises as `mixed_precision` says."""
    if creation.active() is not None or observe.observing():  # nested: the outer call has it all
        return function(*call[0], **call[1])
    if tf.executing_eagerly():
        raise GraphmpError(
            "GMP011",
            "%s was called while TensorFlow executes eagerly: call tf.disable_v2_behavior() first, or build inside `with tf.Graph().as_default()`"
            % getattr(function, "__qualname__", function),
        )
    install()
    policy = policies.load(config.compute_dtype, config.op_policy)
    if plan is not None:
        return _build(function, config, call, policy, plan, proven=True)
    return _build(function, config, call, policy, observe.rehearsed(function, call, policy, config), proven=False)


def install() -> None:
    """Puts the recipe's listeners in; they do nothing for graphs that it has not touched."""
    op_creation.install(on_creation)
    conversions.install(creation.variable_in_half)
    gradients.install(scaled_gradients)
    gradients.install_aggregation(summed_gradients)
    optimizers.install(apply_gradients)
    sessions.install(refuse_unscaled)


def on_creation(made: Creation) -> Optional[tuple]:
    """Colours an op of a decorated call; gates a user's accumulator after one."""
    gated = gate_assign(made)
    current = creation.active()
    return gated if gated is not None or current is None else current.create(made)


def _build(function: Callable[..., Any], config: Config, call: Call, policy: policies.Policy, plan: Optional[Plan], proven: bool) -> Any:
    """Calls the function under the recipe. `proven`: a float32 build of it has been seen to work."""
    graph = tf.get_default_graph()
    current = creation.Build(config, policy, plan)
    start = len(graph.get_operations())
    half = tf.as_dtype(config.compute_dtype)
    chosen = frozenset() if half == tf.float32 else None if plan is None else plan.arguments
    cast, originals = cast_arguments(call, chosen, half, current.state)
    scope = tf.get_variable_scope()
    outer = scope.custom_getter
    scope.set_custom_getter(nested(outer, make_getter(plan.variables if plan else {})))
    try:
        result = creation.run_active(current, lambda: function(*cast[0], **cast[1]))
    except (TypeError, ValueError) as error:
        if not proven and not blames(error, config.compute_dtype):
            raise
        raise recipe_refused(error, function) from error
    finally:
        scope.set_custom_getter(outer)
    check_variables(plan, graph, start, config.compute_dtype)
    check_coverage(plan, graph, start, policy.allow, config.compute_dtype)
    if plan is None:
        current.state.warn("GMP101", getattr(function, "__qualname__", ""), "every float argument was cast to %s" % config.compute_dtype)
    result = map_back(result, originals, current.state)
    _tag(result, config, current.state)
    return result


def _tag(result: Any, config: Config, state: states.GraphState) -> None:
    """Remembers the options for gradients that are taken outside the call from what it made."""
    for name in state.half_casts:
        state.owner_of.setdefault(name, config)
    for leaf in flat(result):
        if hasattr(leaf, "op") and hasattr(leaf, "dtype") and leaf.dtype.is_floating:
            state.owner_of.setdefault(leaf.op.name, config)
