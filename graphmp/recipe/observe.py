"""Observing a build function's float32 build, to plan where half precision goes."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
import threading
from types import ModuleType
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf
from absl import logging

from graphmp.config import Config
from graphmp.graph.state.live import connected_variables, is_tensor, variable_op
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.recipe import seeds
from graphmp.recipe.inputs import Call, flat, replaced
from graphmp.recipe.plan import Observation, Plan, make_plan
from graphmp.recipe.refusal import first_line
from graphmp.recipe.storage import nested
from graphmp.tf_hooks import gradients, internals, op_creation, patch
from graphmp.tf_hooks.op_creation import Creation

VARIABLE_SCOPE_STORE = (
    "__varscope",
)  # the collection in which TensorFlow 1.15 to 2.21 counts a graph's variable scopes
_STAND_IN = "graphmp/stand_in"
_LOCAL = threading.local()


def observed(
    function: Callable[[], Any], arguments: List[Any], policy: Policy, config: Config
) -> Tuple[Any, Plan]:
    """Call `function` in the default graph unchanged, and make a plan from the ops that it creates.

    Args:
        function: builds with the given flat arguments, tensors of the default graph among them.

    Returns:
        The function's result, and the plan.
    """
    gradients.install(_recorded_gradients)
    graph = tf.get_default_graph()
    start, seen = len(graph.get_operations()), _Gradients()
    outer, _LOCAL.gradients = getattr(_LOCAL, "gradients", None), seen
    try:
        result = function()
    finally:
        _LOCAL.gradients = outer
    backward = {i for first, last in seen.ranges for i in range(first, last)}
    forward = [
        op for i, op in enumerate(graph.get_operations()) if i >= start and i not in backward
    ]
    variables = [op for op in forward if op.type in VARIABLE_OPS]
    return result, make_plan(
        Observation(forward, arguments, variables, frozenset(seen.connected)), policy, config
    )


def observing() -> bool:
    """Whether this thread is in a function under observation."""
    return getattr(_LOCAL, "gradients", None) is not None


class _Gradients:
    """Gradients of an observed function: ranges of op indices, and the variables that have one."""

    def __init__(self) -> None:
        self.ranges: List[Tuple[int, int]] = []
        self.connected: Set[str] = set()


class Rehearsed(NamedTuple):
    """Outcome of a rehearsal: a plan, or why there is none, and whether the function has state."""

    plan: Optional[Plan]
    problem: str = ""
    keeps_state: bool = False


def rehearsed(
    function: Callable[..., Any], call: Call, policy: Policy, config: Config
) -> Rehearsed:
    """Call the function once in a scratch graph, and make a plan from that.

    Tensors and variables of the live graph are replaced, in the arguments and where the function
    uses them directly. Names are the same as in the live graph. The random states of Python and
    NumPy are restored.

    Returns:
        The plan; none if the rehearsal failed, which need not be the function's fault, or if it
        would change objects that outlive it.
    """
    kept = _keeps_state(function, call)
    if kept:
        return Rehearsed(
            None, "it uses %s, made outside of it, which remembers its first call" % kept, True
        )
    try:
        plan = in_scratch(
            function, call, lambda scratch: _rehearsal(function, scratch, policy, config)
        )
    except Exception as error:  # an error of the function: the real build will show the cause
        logging.vlog(1, "rehearsal of %s failed", function, exc_info=True)
        return Rehearsed(
            None,
            "it can't be built in a graph of its own: %s: %s"
            % (type(error).__name__, first_line(error)),
        )
    return Rehearsed(
        dataclasses.replace(plan, seeds={})
    )  # TensorFlow derives them from the number of the live graph's ops


def _rehearsal(function: Callable[..., Any], call: Call, policy: Policy, config: Config) -> Plan:
    graph, before = tf.get_default_graph(), len(_LOCAL.made)
    start = internals.op_count(graph)
    with seeds.collecting(lambda: len(_LOCAL.made) - before) as counts:
        plan = observed(lambda: function(*call[0], **call[1]), flat(call), policy, config)[1]
    size = internals.op_count(graph) - start - (len(_LOCAL.made) - before)
    return dataclasses.replace(
        plan, counts=tuple(counts), size=size, outside=_outside() if plan.connected else ()
    )


def _outside() -> Tuple[str, ...]:
    """Names of the live graph's trainable variables that a rehearsal used."""
    used = {op for op in map(variable_op, _LOCAL.foreign) if op is not None}
    trained = {
        variable_op(variable)
        for op in used
        for variable in op.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    }
    return tuple(sorted(op.name for op in used & trained))


def in_scratch(function: Callable[..., Any], call: Call, build: Callable[[Call], Any]) -> Any:
    """Call `build(call)` in a scratch graph, with a call's arguments replaced; return its result.

    Tensors of the live graph are replaced, names are the same as there, and the random states of
    Python and NumPy are restored, as are the optimizers that the function can reach.
    """
    live = tf.get_default_graph()
    scope, variable_scope = live.get_name_scope(), tf.get_variable_scope()
    with _random_state_kept(), _optimizers_kept(
        _reached(function, call)
    ), tf.Graph().as_default() as graph, _standing_in(graph) as stand_in:
        graph.seed = live.seed
        _reserve_names(live, graph)
        leaves = [stand_in(leaf) if is_tensor(leaf) else leaf for leaf in flat(call)]
        with _same_variable_scope(variable_scope, live), tf.name_scope(
            scope + "/" if scope else None
        ):
            return build(replaced(call, leaves))


def _recorded_gradients(
    original: Callable[..., Any], ys: Any, xs: Any, *args: Any, **kwargs: Any
) -> Any:
    seen = getattr(_LOCAL, "gradients", None)
    if seen is None:
        return original(ys, xs, *args, **kwargs)
    graph = tf.get_default_graph()
    first = len(graph.get_operations())
    results = original(ys, xs, *args, **kwargs)
    seen.ranges.append((first, len(graph.get_operations())))
    seen.connected.update(connected_variables(xs, results))
    return results


@contextlib.contextmanager
def _standing_in(graph: Any) -> Iterator[Callable[[Any], Any]]:
    """Replace tensors of other graphs that this thread's ops use by placeholders of `graph`.

    Variables are replaced by variables.
    """
    made: Dict[str, Any] = {}
    foreign: List[Any] = []

    def stand_in(tensor: Any) -> Any:
        if tensor.graph is graph:
            return tensor
        if tensor.name not in made:
            with tf.name_scope(None), tf.control_dependencies(None):
                made[tensor.name] = _stand_in_for(tensor)
            foreign.append(tensor)
        return made[tensor.name]

    op_creation.install(replace_foreign)
    patch.wrap(internals.framework_ops(), "_get_graph_from_inputs", _graph_of_rehearsal)
    _LOCAL.graph, _LOCAL.stand_in, _LOCAL.made, _LOCAL.foreign = graph, stand_in, made, foreign
    try:
        yield stand_in
    finally:
        _LOCAL.graph = _LOCAL.stand_in = _LOCAL.made = _LOCAL.foreign = None


def _stand_in_for(tensor: Any) -> Any:
    """A variable of the default graph for one's reference or handle, else a placeholder."""
    variable = variable_op(tensor)
    if variable is None or not (tensor.dtype == tf.resource or tensor.dtype._is_ref_dtype):
        return tf.placeholder(tensor.dtype.base_dtype, tensor.shape, name=_STAND_IN)
    make = tf.raw_ops.VarHandleOp if tensor.dtype == tf.resource else tf.raw_ops.VariableV2
    return make(dtype=variable.get_attr("dtype"), shape=variable.get_attr("shape"), name=_STAND_IN)


def replace_foreign(creation: Creation) -> Optional[tuple]:
    """Make an op of a rehearsal with replacements for tensors of the live graph."""
    stand_in = getattr(_LOCAL, "stand_in", None)
    if stand_in is None or tf.get_default_graph() is not _LOCAL.graph:
        return None

    written = {
        argument.name
        for argument in internals.op_def(creation.op_type).input_arg
        if argument.is_ref
    }

    def of(value: Any, is_ref: bool) -> Any:
        if isinstance(value, (list, tuple)):
            return [of(v, is_ref) for v in value]
        if (
            not is_tensor(value)
            and hasattr(value, "initializer")
            and value.graph is not _LOCAL.graph
        ):
            value = (
                value._ref() if is_ref and hasattr(value, "_ref") else tf.convert_to_tensor(value)
            )
        return stand_in(value) if is_tensor(value) else value

    return creation.make(
        {key: of(value, key in written) for key, value in creation.arguments.items()}
    ).result()


def _graph_of_rehearsal(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    graph = getattr(_LOCAL, "graph", None)
    return (
        graph
        if graph is not None and tf.get_default_graph() is graph
        else original(*args, **kwargs)
    )


@contextlib.contextmanager
def _same_variable_scope(scope: Any, live: Any) -> Iterator[None]:
    """A root variable scope with the caller's properties.

    Variables to reuse are created instead.
    """

    def create_or_reuse(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("reuse"):
            kwargs["reuse"] = tf.AUTO_REUSE
        return getter(name, *args, **kwargs)

    current = tf.get_variable_scope()
    counts = live.get_collection_ref(VARIABLE_SCOPE_STORE)
    if counts:
        tf.get_collection_ref(VARIABLE_SCOPE_STORE)[0].variable_scopes_count.update(
            counts[0].variable_scopes_count
        )
    current._name, current._reuse = scope.name, tf.AUTO_REUSE if scope.reuse else scope.reuse
    for name in ("initializer", "regularizer", "partitioner", "dtype"):
        getattr(current, "set_" + name)(getattr(scope, name))
    current.set_use_resource(scope.use_resource)
    current.set_custom_getter(nested(scope.custom_getter, create_or_reuse))
    yield


@contextlib.contextmanager
def _random_state_kept() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextlib.contextmanager
def _optimizers_kept(reached: List[Any]) -> Iterator[None]:
    """Restore the state of optimizers made outside of the build function.

    SyncReplicasOptimizer, for example, collects its accumulators.
    """
    held = [
        (thing, {name: _copied(value) for name, value in vars(thing).items()})
        for thing in reached
        if isinstance(thing, tf.train.Optimizer)
    ]
    try:
        yield
    finally:
        for optimizer, values in held:
            for value in vars(optimizer).values():
                if hasattr(
                    value, "mark_used"
                ):  # TensorFlow would warn on deletion that it was never used
                    value.mark_used()
            vars(optimizer).clear()
            vars(optimizer).update(values)


def _copied(value: Any) -> Any:
    """Copies of lists and dictionaries, at any depth, with the same elements."""
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return {key: _copied(item) for key, item in value.items()} if type(value) is dict else value


def _reserve_names(live: Any, graph: Any) -> None:
    """Reserve the live graph's names, so that new names are made unique alike."""
    names: Set[str] = set()
    for op in live.get_operations():
        parts = op.name.split("/")
        names.update("/".join(parts[: i + 1]) for i in range(len(parts)))
    for name in sorted(names):
        graph.unique_name(name)


def _keeps_state(function: Callable[..., Any], call: Call) -> str:
    """The class of a reachable layer, cell or template from outside, which keeps state.

    Empty if there is none.
    """
    things = (
        thing
        for thing in _reached(function, call)
        if isinstance(thing, tf.Module) or hasattr(thing, "_variables_created")
    )
    return next((type(thing).__name__ for thing in things), "")


def _reached(function: Callable[..., Any], call: Call) -> List[Any]:
    """Arguments, globals and closure of a function, and their attributes."""
    target = inspect.unwrap(function)
    reach: List[Any] = flat(call) + [getattr(target, "__self__", None)]
    code = getattr(target, "__code__", None)
    names = code.co_names if code is not None else ()
    reach += [target.__globals__.get(name) for name in names] if code is not None else []
    reach += [
        cell.cell_contents for cell in (getattr(target, "__closure__", None) or ()) if _filled(cell)
    ]
    for thing in list(reach):
        if not isinstance(thing, (ModuleType, type)):
            reach += list(getattr(thing, "__dict__", {}).values())
    return reach


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
