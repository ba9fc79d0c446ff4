"""The three kinds of loss scale, with the same methods.

Dynamic scaling follows TensorFlow's and Keras's constants: start at 2^15, halve on overflow, double
after 2000 good steps (the idea is described in Micikevicius et al., Mixed Precision Training, ICLR
2018). Without a given start the first step runs at the floor, 1, as does the next one where it
isn't finite; with a lower floor it runs at 1 too, and where it isn't finite the scale is 1/2. It
measures the gradients, and the scale then becomes the largest that leaves room for larger ones, but
2^15 unless gradients are so small that most of them would vanish there. Gradients that overflow at
2^15 thus cost no step; other frameworks skip steps until halving has reached their range. Nor do
small ones: doubling every 2,000 steps takes 20,000 to reach those of 1e-6.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config, fixed_scale
from graphmp.errors import GraphmpError
from graphmp.graph.edit.building import own_scope, select
from graphmp.loss_scale.gradients import largest
from graphmp.naming import SCOPE
from graphmp.tf_hooks.internals import init_scope

COLLECTION = "graphmp_loss_scale"
# room for gradients to grow after the first step; in the examples they grew 27 times in 20 steps
HEAD_ROOM = 32
# a function and its callers must name the same device to share one variable
BESIDE_CALLS = "/device:CPU:0"
_FLOAT16_MAX = 65504.0
_FLOAT16_TINY = 2.0**-24  # the smallest gradient that a first step in half precision measures
_TINY = 2.0**-110  # divisor in place of 0


class NoLossScale:
    """Leaves losses and gradients alone; gradients are still returned in float32."""

    kind = "none"
    device = ""  # of its state, and of values computed from it
    initial: Optional[float] = None
    skips = False
    variables: Tuple[Any, ...] = ()

    def __init__(self, scope: str):
        self.scope = scope

    def scale(self, loss: Any, name: str = "scaled_loss") -> Any:
        """Multiply the loss, or the gradients that backpropagation starts from, by the scale.

        The result has the same shape and dtype.
        """
        return loss

    def unscale(self, gradient: Any) -> Any:
        """Returns the gradient, a dense tensor, in float32 (float64 stays) divided by the scale."""
        return _at_least_float32(gradient)

    def update(self, finite: Any, gradients: Sequence[Any] = ()) -> Any:
        """An op that adapts the scale.

        To finite or infinite gradients, in a first step to their size.

        Args:
            finite: scalar bool, whether this step's gradients were finite.
            gradients: the unscaled gradients; empty if something else replaces `largest`.
        """
        return tf.no_op()


class FixedLossScale(NoLossScale):
    """A number, a scalar tensor, or a tensor made from the global step.

    Attributes:
        current: a float32 scalar tensor, the scale.
    """

    kind = "fixed"

    def __init__(self, scope: str, value: Any):
        super().__init__(scope)
        with init_scope(), own_scope(scope):
            if callable(value):
                value = value(_global_step())
            known = tf.get_static_value(value) if hasattr(value, "graph") else value
            if known is not None:
                fixed_scale(known)
            self.initial = float(value) if isinstance(value, (int, float)) else None
            self.current = (
                tf.cast(value, tf.float32)
                if hasattr(value, "graph")
                else tf.constant(value, tf.float32, name="current")
            )
            if self.current.op.name.split("/")[-1] != "current":
                self.current = tf.identity(self.current, name="current")

    def scale(self, loss: Any, name: str = "scaled_loss") -> Any:
        with own_scope(self.scope):
            return tf.multiply(loss, tf.cast(self.in_step, loss.dtype), name=name)

    def unscale(self, gradient: Any) -> Any:
        with own_scope(self.scope):
            gradient = _at_least_float32(gradient)
            scale = tf.cast(self.in_step, gradient.dtype)
            return tf.raw_ops.RealDiv(x=gradient, y=scale, name="unscale")

    @property
    def in_step(self) -> Any:
        """The factor of this step's loss, a float32 scalar tensor."""
        return self.current


class EnteredLossScale(FixedLossScale):
    """A loss scale inside a while loop: its value is the output of an Enter."""

    def __init__(self, scope: str, current: Any):
        NoLossScale.__init__(self, scope)
        self.current = current


class DynamicLossScale(FixedLossScale):
    """A scale that halves when gradients overflow and grows after a run of good steps.

    Its state is three variables: `scale`, `good_steps` since the last change, and `skipped_steps`
    in all. They are float32 and int64 scalars in the collections of global variables and
    `graphmp_loss_scale`. Uninitialised, they read as their initial values, so that an init op made
    before them does no harm. A function holds no variables: inside one, the state consists of
    handles of resource variables of the calling graph.

    Attributes:
        first_step: a scalar bool tensor, whether this step finds the initial scale; None if it is
            given.
        largest: the largest absolute value that such a step assumes where it measures none: 0 by
            default.
    """

    kind = "dynamic"
    skips = True

    def __init__(self, scope: str, config: Config, by_handle: bool = False):
        NoLossScale.__init__(self, scope)
        self.initial = config.loss_scale_initial
        self._config = config
        with init_scope(), own_scope(scope):
            self.variables = tuple(
                (_Handle if by_handle else _variable)(*row) for row in _state(config)
            )
        self._scale, self._good_steps, self._skipped_steps = self.variables
        self.device = self._scale.device
        with init_scope(), own_scope(scope), tf.device(self.device):
            # A maximum, not an identity: an identity of a reference variable shares its buffer and
            # could change within the step.
            self.current = tf.maximum(read(self._scale), config.loss_scale_min, name="current")
            self._skipped = tf.identity(read(self._skipped_steps), name="skipped")
            self.first_step = self._step = None
            if config.tries_first_step:
                self.first_step = tf.logical_and(
                    tf.equal(read(self._good_steps), 0),
                    tf.equal(read(self._scale), config.loss_scale_initial),
                    name="first_step",
                )
                self.largest = tf.constant(0.0, name="first_step/largest")
                self._step = tf.identity(
                    select(
                        self.first_step, tf.constant(max(config.loss_scale_min, 1.0)), self.current
                    ),
                    name="in_step",
                )

    @property
    def in_step(self) -> Any:
        return self.current if self._step is None else self._step

    def update(self, finite: Any, gradients: Sequence[Any] = ()) -> Any:
        with own_scope(self.scope + "/update"), tf.device(self.device):
            good = read(self._good_steps) + 1
            grows = good >= self._config.loss_scale_growth_interval
            if self.first_step is not None:  # its own measurement is what the next step takes
                grows = tf.logical_and(grows, tf.logical_not(self.first_step))
            grown = self.current * self._config.loss_scale_growth_factor
            # A scale that would leave float32's range stays where it is.
            grown = select(tf.is_finite(grown), grown, self.current)
            goes_lower = self._config.loss_scale_min < 1  # than the scale of a first step
            tried = self.in_step if goes_lower else self.current
            shrunk = tf.maximum(
                tried * self._config.loss_scale_backoff_factor, self._config.loss_scale_min
            )
            if self.first_step is not None and not goes_lower:  # the next step measures
                shrunk = select(self.first_step, self.current, shrunk)
            scale = select(finite, select(grows, grown, self._fitting(gradients)), shrunk)
            skipped = self._skipped + tf.cast(tf.logical_not(finite), tf.int64)
            goes_on = tf.logical_and(finite, tf.logical_not(grows))
            good = select(goes_on, good, self._changed(scale, finite))
            with tf.control_dependencies([scale, good, skipped]):
                pairs = zip(
                    self.variables,
                    (scale, good, skipped),
                    ("new_scale", "new_good_steps", "new_skipped_steps"),
                )
                return tf.group(
                    *[tf.assign(variable, value, name=name) for variable, value, name in pairs],
                    name="step",
                )

    def _changed(self, scale: Any, finite: Any) -> Any:
        """The good steps since a change of the scale.

        None; but 1 where the state would be that before a first step, which comes again only after
        one that isn't finite.
        """
        if self.first_step is None:
            return tf.constant(0, tf.int64)
        like_new = tf.equal(scale, self._config.loss_scale_initial)
        measures = tf.logical_and(self.first_step, tf.logical_not(finite))
        return tf.cast(tf.logical_and(like_new, tf.logical_not(measures)), tf.int64)

    def _fitting(self, gradients: Sequence[Any]) -> Any:
        """The scale after a good step: unchanged; after a first step what fits its gradients."""
        if self.first_step is None:
            return self.current
        return tf.cond(
            self.first_step, lambda: self._fits(self._size(gradients)), lambda: self.current
        )

    def _fits(self, size: Any) -> Any:
        """The scale for gradients of a size: the initial value if it leaves HEAD_ROOM.

        Otherwise the largest power of two that does. So it is too if the largest gradient would
        stay below 1: then the upper 16 of float16's 40 powers of two are unused.
        """
        initial = self._config.loss_scale_initial
        fits = _power_of_two_below(_FLOAT16_MAX / HEAD_ROOM / tf.maximum(size, _TINY))
        vanishes = tf.logical_and(size >= _FLOAT16_TINY, size < 1.0 / initial)
        highest = select(vanishes, fits, tf.constant(initial))
        return tf.maximum(tf.minimum(fits, highest), self._config.loss_scale_min)

    def _size(self, gradients: Sequence[Any]) -> Any:
        return (
            tf.maximum(largest(gradients), self.largest) if gradients else tf.identity(self.largest)
        )


def make(config: Config, scope: str, by_handle: bool = False) -> NoLossScale:
    """Build the loss scale that a config asks for, under `graphmp/<scope>/` of the default graph.

    The default graph may be the body of a function.
    """
    if config.loss_scale == "none":
        return NoLossScale(scope)
    if config.loss_scale == "dynamic":
        return DynamicLossScale(scope, config, by_handle)
    return FixedLossScale(scope, config.loss_scale)


def state_for_functions(config: Config, scope: str) -> Tuple[Any, ...]:
    """The resource variables behind the handles of a scale inside functions, for the calling graph.

    The collection `graphmp_loss_scale` holds their values: an imported handle can't be run.
    """
    variables = []
    for name, value, dtype in _state(config):
        with own_scope(scope), tf.device(BESIDE_CALLS):
            made = tf.Variable(
                value,
                trainable=False,
                collections=[tf.GraphKeys.GLOBAL_VARIABLES],
                name=name,
                dtype=dtype,
                use_resource=True,
            )
        with own_scope("%s/%s" % (scope, name)):
            tf.add_to_collection(COLLECTION, tf.identity(read(made), name="value"))
        variables.append(made)
    return tuple(variables)


def skipped_between(states: Sequence[Tuple[Any, ...]]) -> Tuple[List[str], List[str], Any]:
    """Tell whether the consumers of some scales' handles skipped no step.

    Args:
        states: the variables of each scale.

    Returns:
        The ops that it must wait for, the ops that must wait for it, and a scalar bool tensor.
    """
    before, after, same = [], [], []
    for *_, skipped in states:
        with own_scope(skipped.op.name[len(SCOPE) + 1 :]), tf.device(BESIDE_CALLS):
            old = tf.identity(read(skipped), name="before")
            new = tf.raw_ops.ReadVariableOp(resource=skipped.handle, dtype=tf.int64, name="after")
            before.append(old.op.name)
            after.append(new.op.name)
            same.append(tf.equal(old, new, name="finite"))
    return before, after, same[0] if len(same) == 1 else tf.reduce_all(tf.stack(same))


def shown(row: Dict[str, Any]) -> Tuple[str, str]:
    """The nodes whose output 0 shows a scale and its number of skipped steps.

    Empty without a scale.

    Args:
        row: a row of the report's `scales`.
    """
    scope = "%s/%s/" % (SCOPE, row["scope"])
    if row["kind"] != "dynamic":
        return "" if row.get("handles") or row["kind"] == "none" else scope + "current", ""
    return (
        (scope + "scale/value", scope + "skipped_steps/value")
        if row.get("handles")
        else (scope + "current", scope + "skipped")
    )


def _state(config: Config) -> Tuple[Tuple[str, Any, Any], ...]:
    """Name, initial value and dtype of each variable of a dynamic scale."""
    return (
        ("scale", config.loss_scale_initial, tf.float32),
        ("good_steps", 0, tf.int64),
        ("skipped_steps", 0, tf.int64),
    )


def _variable(name: str, value: Any, dtype: Any) -> Any:
    # Reference variables: a collection of them survives export and import as tensors that can be
    # run (1.15.5, 2.21).
    collections = [tf.GraphKeys.GLOBAL_VARIABLES, COLLECTION]
    return tf.Variable(
        value, trainable=False, collections=collections, name=name, dtype=dtype, use_resource=False
    )


class _Handle:
    """A resource variable as a function sees it: by its name in the session, for any caller."""

    def __init__(self, name: str, value: Any, dtype: Any):
        self._value, self.dtype = value, dtype
        with tf.name_scope(name) as variable, tf.name_scope("handle") as self._scope, tf.device(
            BESIDE_CALLS
        ):
            self._handle = tf.raw_ops.VarHandleOp(
                dtype=dtype, shape=[], shared_name=variable[:-1], name="of"
            )
        self.device = self._handle.device

    def initialized_value(self) -> Any:
        """Its value, or the initial one."""
        with tf.name_scope(self._scope):
            present = tf.raw_ops.VarIsInitializedOp(resource=self._handle)
            return tf.cond(present, self._read, lambda: tf.constant(self._value, self.dtype))

    def _read(self) -> Any:
        return tf.raw_ops.ReadVariableOp(resource=self._handle, dtype=self.dtype)

    def assign(self, value: Any, name: str) -> Any:
        """The op that assigns; `tf.assign` calls this."""
        return tf.raw_ops.AssignVariableOp(resource=self._handle, value=value, name=name)


def _power_of_two_below(value: Any) -> Any:
    """The largest power of two not above a positive float32: its sign and exponent alone."""
    return tf.bitcast(
        tf.bitwise.bitwise_and(tf.bitcast(value, tf.int32), tf.constant(0x7F800000, tf.int32)),
        tf.float32,
    )


def _global_step() -> Any:
    step = tf.train.get_global_step()
    if step is None:
        raise GraphmpError(
            "GMP002",
            "loss_scale is a function of the global step and the graph has none; make it first:"
            " tf.train.get_or_create_global_step()",
        )
    return step


def read(variable: Any) -> Any:
    """The value of a scale's variable; its initial value until something initialises it."""
    if isinstance(variable, _Handle) or variable.dtype != variable.dtype.base_dtype:
        return variable.initialized_value()
    return tf.cond(
        tf.is_variable_initialized(variable), variable.read_value, lambda: variable.initial_value
    )


def _at_least_float32(gradient: Any) -> Any:
    return gradient if gradient.dtype in (tf.float32, tf.float64) else tf.cast(gradient, tf.float32)
