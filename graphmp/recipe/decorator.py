"""`@graphmp.mixed_precision`: the recipe around a function that builds a training graph."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.state.live import is_tensor
from graphmp.policy import policy as policies
from graphmp.recipe import creation, observe, seeds
from graphmp.recipe import state as states
from graphmp.recipe.gradients import scaled_gradients, summed_gradients
from graphmp.recipe.inputs import Call, cast_arguments, flat, map_back
from graphmp.recipe.plan import FLOATS, Plan
from graphmp.recipe.refusal import (
    blames,
    check_constants,
    check_coverage,
    check_variables,
    recipe_refused,
)
from graphmp.recipe.storage import make_getter, nested
from graphmp.recipe.training import before_run, configured
from graphmp.recipe.updates import apply_gradients, finite_histogram, gate_assign
from graphmp.tf_hooks import conversions, gradients, op_creation, optimizers, sessions
from graphmp.tf_hooks.internals import op_count
from graphmp.tf_hooks.op_creation import Creation

REFUSALS = ("GMP012", "GMP014", "GMP015", "GMP016")
FallBack = Callable[[GraphmpError], ContextManager[None]]


def build(
    function: Callable[..., Any],
    config: Config,
    call: Call,
    plan: Optional[Plan] = None,
    fall_back: Optional[FallBack] = None,
) -> Any:
    """Call `function` under the recipe, with a given plan or one from a rehearsal.

    Raises the errors of `graphmp.mixed_precision`.

    Args:
        function: the build function.
        config: the options.
        call: its arguments.
        plan: the plan of half precision; made from a rehearsal if None.
        fall_back: if the recipe doesn't fit, the call builds the float32 graph inside
            `fall_back(reason)`.
    """
    # nested: the outer call does everything
    if creation.active() is not None or observe.observing():
        return function(*call[0], **call[1])
    if tf.executing_eagerly():
        raise GraphmpError(
            "GMP011",
            "%s was called while TensorFlow executes eagerly: call tf.disable_v2_behavior() first,"
            " or build inside `with tf.Graph().as_default()`"
            % getattr(function, "__qualname__", function),
        )
    install()
    policy = policies.load(config.compute_dtype, config.op_policy)
    if plan is not None:
        return _build(function, config, call, policy, plan, proven=True)
    rehearsed = observe.rehearsed(function, call, policy, config)
    refusal = _refusal(function, config, call, policy, rehearsed) if fall_back else None
    if refusal is None:
        return _build(function, config, call, policy, rehearsed.plan, proven=False)
    assert fall_back is not None  # else nothing was refused
    with fall_back(refusal):
        return function(*call[0], **call[1])


def _refusal(
    function: Callable[..., Any],
    config: Config,
    call: Call,
    policy: policies.Policy,
    rehearsed: observe.Rehearsed,
) -> Optional[GraphmpError]:
    """Why the recipe doesn't fit, found in a scratch graph.

    None if it fits, or if the error is the function's own.
    """
    plan = rehearsed.plan
    if plan is None:
        blind = rehearsed.keeps_state and any(
            is_tensor(leaf) and leaf.dtype in FLOATS for leaf in flat(call)
        )
        return None if blind else GraphmpError("GMP012", rehearsed.problem)
    if not plan.half and config.compute_dtype != "float32":
        return GraphmpError(
            "GMP015", "it makes no matmul or convolution that may be %s" % config.compute_dtype
        )
    if plan.outside:
        return GraphmpError(
            "GMP014", "it trains %s, a variable made outside of it" % plan.outside[0]
        )
    try:
        observe.in_scratch(
            function,
            call,
            lambda scratch: _build(function, config, scratch, policy, plan, proven=False),
        )
    except GraphmpError as error:
        return error if error.code in REFUSALS else None
    except Exception:  # an error of the function: the real build shows it
        return None
    return None


def install() -> None:
    """Install the recipe's listeners; they ignore graphs that it didn't build."""
    op_creation.install(on_creation)
    conversions.install(creation.variable_in_half)
    gradients.install(scaled_gradients)
    gradients.install_aggregation(summed_gradients)
    gradients.install_bfloat16()
    optimizers.install(apply_gradients)
    sessions.install(before_run)
    sessions.configure(configured)


def on_creation(made: Creation) -> Optional[tuple]:
    """Colour an op of a decorated call, or gate a user's accumulator or histogram of gradients."""
    gated = gate_assign(made) or finite_histogram(made)
    current = creation.active()
    return gated if gated is not None or current is None else current.create(made)


def _build(
    function: Callable[..., Any],
    config: Config,
    call: Call,
    policy: policies.Policy,
    plan: Optional[Plan],
    proven: bool,
) -> Any:
    """Call the function under the recipe. `proven`: its float32 build is known to work."""
    graph = tf.get_default_graph()
    current = creation.DecoratedCall(config, policy, plan)
    start, before = len(graph.get_operations()), op_count(graph)
    half = tf.as_dtype(config.compute_dtype)
    chosen = frozenset() if half == tf.float32 else None if plan is None else plan.arguments
    cast, originals = cast_arguments(call, chosen, half, current.state)
    scope = tf.get_variable_scope()
    outer = scope.custom_getter
    scope.set_custom_getter(nested(outer, make_getter(plan.variables if plan else {})))
    try:
        with seeds.repeating(
            plan.counts if plan is not None else (),
            op_count(graph) - before + current.state.surplus,
        ):
            result = creation.run_active(current, lambda: function(*cast[0], **cast[1]))
    except (TypeError, ValueError) as error:
        if not proven and not blames(error, config.compute_dtype):
            raise
        raise recipe_refused(error, function) from error
    finally:
        scope.set_custom_getter(outer)
    current.state.surplus += (
        op_count(graph) - before - plan.size if plan is not None and plan.size else 0
    )
    check_variables(plan, graph, start, config.compute_dtype)
    check_constants(plan, graph, start, config.compute_dtype)
    if plan is not None or config.engine == "recipe" or config.engine_strict:
        check_coverage(graph, start, policy, config)
    if plan is None:
        current.state.warn(
            "GMP101",
            getattr(function, "__qualname__", ""),
            "every float argument was cast to %s" % config.compute_dtype,
        )
    result = map_back(result, originals, current.state)
    _tag(result, config, current.state)
    return result


def _tag(result: Any, config: Config, state: states.GraphState) -> None:
    """Store the options for gradients that are taken outside the call of what it made."""
    for name in state.half_casts:
        state.owner_of.setdefault(name, config)
    for leaf in flat(result):
        if hasattr(leaf, "op") and hasattr(leaf, "dtype") and leaf.dtype.is_floating:
            state.owner_of.setdefault(leaf.op.name, config)
