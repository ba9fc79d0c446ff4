"""The recipe's data about a graph: casts, loss groups, changes."""

from __future__ import annotations

import contextlib
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.edit.building import cast_beside, own_scope
from graphmp.graph.state.live import ancestors, is_half, variable_op, writes_of
from graphmp.loss_scale import scales
from graphmp.loss_scale.gradients import all_finite_by_sums, values
from graphmp.policy.reason import Done, Reason
from graphmp.recipe.refusal import written_in_loop
from graphmp.tf_hooks.internals import awaited, in_loop, init_scope


@dataclass
class LossGroup:
    """Gradients of the same variables, which share a loss scale."""

    scale: scales.NoLossScale
    variables: FrozenSet[str]
    config: Config
    checked: Dict[str, List[Any]] = field(
        default_factory=dict
    )  # unscaled gradients by the name of the flag that tells whether they are finite
    updates: Dict[str, Any] = field(default_factory=dict)  # update op by the name of its flag

    def check(self, gradients: List[Any]) -> Any:
        """A scalar bool tensor: whether all of the unscaled gradients are finite."""
        finite = all_finite_by_sums(gradients, self.scale.scope, self.scale.device)
        self.checked[finite.name] = gradients
        return finite


@dataclass
class GradientCall:
    """One call of tf.gradients that was scaled and unscaled.

    Attributes:
        group: the owner of its scale.
        scope: name scope of the gradient code.
        seeds: ops that the gradient code starts from.
        gradients: ops whose outputs leave it, before the unscale.
        losses: ops that it differentiates.
        unscaled: ops that divide the gradients by the scale.
        finite: scalar bool tensor, whether all unscaled gradients are finite; None if the scale
            isn't dynamic.
    """

    group: LossGroup
    scope: str
    seeds: List[str]
    gradients: List[str]
    losses: List[str]
    unscaled: List[str]
    finite: Optional[Any]


class GraphState:
    """The recipe's data for one graph."""

    def __init__(self) -> None:
        self.done: List[Done] = []
        self.repaired: List[str] = []
        self.warnings: List[Dict[str, str]] = []
        self.owner_of: Dict[
            str, Config
        ] = {}  # options of the decorated call behind a cast or a returned tensor, by op name
        self.half_casts: Dict[
            str, str
        ] = {}  # op name of each cast to the compute dtype -> name of its source
        self.groups: List[LossGroup] = []
        self.calls: List[GradientCall] = []
        self.call_of: Dict[str, GradientCall] = {}  # by the op name of a returned gradient
        self.applied: Dict[str, List[str]] = {}  # update ops by the scope of their loss group
        self.always: Dict[str, Dict[str, str]] = {}  # those that also run in skipped steps, and why
        self.summed: Dict[
            str, Any
        ] = {}  # by the op that adds gradients to a variable: whether these are finite
        self.surplus = 0  # number of ops that the graph has more than its float32 build
        self.checked_version = -1
        self.told = False  # whether the first training run reported facts about the whole graph
        self.violations: List[Any] = []
        self._casts: Dict[Any, Any] = {}
        self._sources: Dict[str, Any] = {}
        self._variables: Dict[str, Any] = {}

    def cast(self, tensor: Any, dtype: Any, reason: str, after: Sequence[Any] = ()) -> Any:
        """A cast of `tensor`, one for each tensor, dtype and control flow context.

        A cast back returns the tensor that was cast.

        Args:
            tensor: any tensor.
            dtype: another dtype.
            reason: for the report.
            after: ops that the cast waits for.
        """
        if tensor.dtype.base_dtype == dtype:
            return tensor
        source = self._sources.get(tensor.name)
        if source is not None and source.dtype.base_dtype == dtype:
            return source
        context = id(tensor.graph._get_control_flow_context())
        key = (tensor.name, tf.as_dtype(dtype), context, tuple(op.name for op in after))
        if key not in self._casts:
            with tf.control_dependencies(after):
                cast = cast_beside(tensor, dtype)
            self._casts[key] = cast
            self.came_from(cast, tensor)
            self.note(
                cast.op.name,
                "cast %s to %s" % (tensor.dtype.base_dtype.name, tf.as_dtype(dtype).name),
                reason,
            )
        return self._casts[key]

    def came_from(self, cast: Any, source: Any) -> None:
        """Record that `cast` holds the values of `source` in another dtype."""
        self._sources.setdefault(cast.name, source)
        if is_half(cast.dtype):
            self.half_casts[cast.op.name] = source.op.name

    def cast_variable(self, variable: Any, dtype: Any, beside: Iterable[Any] = ()) -> Any:
        """A cast of a float32 variable's value, on the variable's device.

        It is outside any loop, and one for all that reads the variable; but what reads it after a
        write has a cast of its own, after the write.

        Args:
            variable: a tf.Variable.
            dtype: half precision.
            beside: the other tensors that the reader takes.
        """
        after = after_writes(variable, beside)
        with own_scope("read/%s" % variable.op.name):
            tensor = tf.convert_to_tensor(variable)
        place = contextlib.nullcontext() if after else init_scope()
        with place, tf.device(variable.device or None):
            reason = "variable kept %s, cast on read" % tensor.dtype.base_dtype.name
            cast = self.cast(tensor, dtype, reason, after)
        self._variables[cast.name] = variable
        return cast

    def variable_of(self, tensor: Any) -> Any:
        """The variable behind a cast on read, or the argument itself."""
        return self._variables.get(getattr(tensor, "name", ""), tensor)

    def casts_variable(self, op: Any) -> bool:
        """Whether an op is a cast on read of a variable."""
        return bool(op.outputs) and op.outputs[0].name in self._variables

    def check_loop(self, variable: Any) -> None:
        """Refuse a write in a loop of a variable, given its op, that was cast before.

        Raises:
            GraphmpError: GMP012.
        """
        if in_loop(variable.graph) and any(
            variable_op(each) is variable for each in self._variables.values()
        ):
            raise written_in_loop(variable.name)

    def note(self, node: str, change: str, reason: str) -> None:
        """Add a row to the changes in the report."""
        self.done.append(Done(node, change, Reason("", reason)))

    def warn(self, code: str, node: str, message: str) -> None:
        """Adds a row to the report's `warnings`."""
        self.warnings.append(warning(code, node, message))

    def add_call(self, call: GradientCall, gradients: List[Any]) -> None:
        """Record a call and its results."""
        self.calls.append(call)
        self.hand_out(call, gradients)

    def hand_out(self, call: GradientCall, gradients: List[Any]) -> None:
        """Record the call of gradients that are returned to the caller."""
        self.call_of.update((values(g).op.name, call) for g in gradients if g is not None)

    def group_for(self, xs: List[Any], config: Config) -> LossGroup:
        """The group whose variables overlap with `xs`, else a new one with its own scale."""
        names = frozenset(op.name for op in map(variable_op, xs) if op is not None)
        for group in self.groups:
            if group.variables & names and group.config is config:
                group.variables |= names
                return group
        scope = "loss_scale_%d" % len(self.groups) if self.groups else "loss_scale"
        group = LossGroup(scales.make(config, scope), names, config)
        self.groups.append(group)
        return group


def after_writes(variable: Any, beside: Iterable[Any]) -> List[Any]:
    """The ops that wait for a write of the variable, of those that its reader waits for."""
    op = variable_op(variable)
    writes = set(writes_of(op)) if op is not None else set()
    if op is None or not writes:
        return []
    waits = dict.fromkeys([*awaited(op.graph), *(tensor.op for tensor in beside)])
    return [each for each in waits if not writes.isdisjoint(ancestors([each]))]


_STATES: weakref.WeakKeyDictionary[Any, GraphState] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def find(graph: Any) -> Optional[GraphState]:
    """The state of a graph built by the recipe, or None."""
    return _STATES.get(graph)


def of(graph: Any) -> GraphState:
    """The state of a graph, created on first use."""
    with _LOCK:
        return _STATES.setdefault(graph, GraphState())


def has_converted(graph: Any) -> bool:
    """Whether the recipe inserted half precision or a loss scale into a graph."""
    state = find(graph)
    return state is not None and bool(state.half_casts or state.groups)
