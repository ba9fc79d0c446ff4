"""Op creation inside a decorated call: each op gets its inputs in the planned dtype.

Rules, in the order they are tried; `h` is a half-precision tensor, `f` a float32 one:

1. A write: assign(v, h) -> assign(v, float32(h)); under a dynamic scale v keeps its value if the
   new one is not finite, unless it comes from a checkpoint (`writes.py`).
2. In gradient code, the sum of a shared weight's gradients: AddN(h, h) -> AddN(f, f). Likewise an
   op that is slow in half precision for its size: bias_add_grad(h) -> bias_add_grad(float32(h)).
3. An op of the plan's half part that the policy or the tables of kernels deny is repaired:
   mean(h) -> half(mean(float32(h))). Outputs of another type, such as the mean and the variance of
   a batch, stay as they are.
4. An op of the half part with a float32 variable: matmul(h, v) -> matmul(h, half(v)), likewise
   bias_add; TensorFlow refuses any other float32 input.
5. Results of ops that bring float32 into the half part (a cast from integers, an embedding look-up,
   one-hot rows) are cast.
6. The last op of the half part returns float32 to its consumers.
7. Any other forward op is float32: softmax(h) -> softmax(float32(h)). So is an array that is
   created there: TensorArray(h.dtype) holds float32.
8. What half precision has no room for is float32 in between: random_uniform(h.dtype) ->
   half(random_uniform(float32)), cast(i, h.dtype) -> half(float32(i)) for whole numbers i, and
   cast(h, i.dtype) -> cast(float32(h), i.dtype).
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Dict, FrozenSet, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.shapes.shapes import elements
from graphmp.graph.state.live import is_tensor, variable_op
from graphmp.patterns import matches
from graphmp.policy.op_sets import (
    ASSIGNS,
    CHOICES,
    ENTERS,
    EXITS,
    MERGES,
    NEXT_ITERATIONS,
    SHAPE_OPS,
    SWITCHES,
    WHILES,
)
from graphmp.policy.policy import Policy
from graphmp.policy.traits import LOOK_UPS, SLOW_ELEMENTS, SLOW_IN_HALF
from graphmp.recipe import state as states
from graphmp.recipe import writes
from graphmp.recipe.arguments import draws, float32_attribute, mapped, same_dtype, tensors_of, whole
from graphmp.recipe.kernels import forbidden
from graphmp.recipe.plan import FLOATS, SEEDS, Plan
from graphmp.recipe.refusal import functional_control_flow, mixed_product
from graphmp.rewrite.placement.costs import SLOW_KERNEL
from graphmp.tf_hooks.internals import accepts, op_def
from graphmp.tf_hooks.op_creation import Creation
from graphmp.tf_hooks.op_defs import signature_of

LEFT_ALONE = frozenset(["Cast", "PlaceholderWithDefault"])
# A loop variable or TensorArray has only one dtype; shapes don't depend on the dtype.
CONTROL_FLOW = ENTERS | EXITS | SWITCHES | MERGES | NEXT_ITERATIONS
_ACTIVE = threading.local()


class DecoratedCall:
    """A decorated call in progress, in one thread: colours the ops that it creates."""

    def __init__(self, config: Config, policy: Policy, plan: Optional[Plan]):
        self.config = config
        self.half = tf.as_dtype(config.compute_dtype)
        self._graph = tf.get_default_graph()
        self.state = states.of(self._graph)
        self.in_gradients = False
        self.differentiated: Optional[Any] = None  # the op whose gradient is being made
        self._policy = policy
        self._plan = plan

    def expected_gradients(self) -> FrozenSet[str]:
        """Variables that have a gradient in the float32 build."""
        return self._plan.connected if self._plan is not None else frozenset()

    def create(self, creation: Creation) -> Optional[tuple]:
        """Make the op by the rules above; None leaves it to TensorFlow.

        Raises:
            GraphmpError: GMP012 for a conditional or loop made of functions, whose bodies are
                graphs of their own.
        """
        if (
            tf.get_default_graph() is not self._graph
        ):  # the body of a function, tf.data's for example
            return None
        if creation.op_type in WHILES | CHOICES and self._has_half(creation.arguments):
            raise functional_control_flow(creation.op_type)
        creation = creation._replace(arguments=mapped(creation.arguments, whole))
        if creation.op_type in ASSIGNS:
            gated = self.config.loss_scale == "dynamic" and not self.in_gradients
            return writes.written(creation, self.state, self.half, gated)
        name = creation.full_name()
        seeds = self._plan.seeds.get(name) if self._plan is not None else None
        if seeds is not None:
            creation = creation._replace(
                arguments=dict(creation.arguments, **dict(zip(SEEDS, seeds)))
            )
        key = float32_attribute(creation, self.half) if self.half != tf.float32 else None
        if key is not None:
            return self._by_float32(creation, name, key)
        if seeds is not None:
            return creation.make(creation.arguments).result()
        if self.half == tf.float32:
            return None
        if creation.op_type in LEFT_ALONE and not self._is_source(creation):
            return None
        if self.in_gradients:
            return self._in_gradients(creation, name)
        if self._plan is None or name not in self._plan.forward:
            return self._repair(creation, name) if self._denied(creation, name) else None
        if name in self._plan.half:
            return self._in_half(creation, name)
        return self._past_half(creation, name)

    def _by_float32(self, creation: Creation, name: str, key: str) -> tuple:
        """An op with an attribute set to float32, its inputs and result cast."""
        reason = "half precision has no room for whole and random numbers"
        arguments = self._promoted(creation.arguments, name, reason)
        if creation.arguments[key] != self.half:
            return creation.make(arguments).result()
        made = creation.make(dict(arguments, **{key: tf.float32}))
        return made.result(
            [
                self._cast(t, self.half, tf.float32, "%s: %s" % (name, reason))
                for t in made.op.outputs
            ]
        )

    def _in_gradients(self, creation: Creation, name: str) -> Optional[tuple]:
        op = self.differentiated
        if creation.op_type == "AddN" and op is not None and self._casts_variable(op):
            reason = "gradients of a shared weight summed in float32"
            return creation.make(self._promoted(creation.arguments, name, reason)).result()
        if self._is_slow(creation, name):
            if op is not None and op.type == "BiasAdd" and self._casts_variable(op.inputs[1].op):
                return creation.make(self._promoted(creation.arguments, name, SLOW_KERNEL)).result()
            return self._repair(creation, name, SLOW_KERNEL)
        return self._repair(creation, name) if self._denied(creation, name) else None

    def _is_slow(self, creation: Creation, name: str) -> bool:
        """Whether an op reads so much in half precision that its kernel is slow."""
        if creation.op_type not in SLOW_IN_HALF or matches(self.config.force_compute, name):
            return False
        sizes = (
            elements(t.shape.as_proto())
            for t in tensors_of(creation.arguments)
            if t.dtype == self.half
        )
        return max(sizes, default=0) in SLOW_ELEMENTS

    def _casts_variable(self, op: Any) -> bool:
        """Whether an op is a cast of a variable's value, ours or the function's own."""
        return self.state.casts_variable(op) or (
            op.type == "Cast" and variable_op(op.inputs[0]) is not None
        )

    def _in_half(self, creation: Creation, name: str) -> Optional[tuple]:
        if _is_mixed_product(creation) and not self._is_kept(name):
            raise mixed_product()
        if self._denied(creation, name):
            return self._repair(creation, name)
        made = creation.make(self._variables_in_half(creation))
        # a plan is what told that the op is half
        if name in self._plan.boundary:  # type: ignore[union-attr]
            return made.result(
                [
                    self._cast(t, self._wide(name), self.half, "end of the half-precision part")
                    for t in made.op.outputs
                ]
            )
        if self._is_source(creation):
            return made.result(
                [
                    self._cast(
                        t, self.half, tf.float32, "value that enters the half-precision part"
                    )
                    for t in made.op.outputs
                ]
            )
        return made.result()

    def _past_half(self, creation: Creation, name: str) -> Optional[tuple]:
        if creation.op_type.startswith("TensorArray"):
            return self._of_array(creation, name)
        if (
            _is_structure(creation.op_type)
            or not self._reaches_past_half(creation.arguments)
            or matches(self.config.force_compute, name)
        ):
            return None
        return creation.make(
            self._promoted(
                creation.arguments, name, "loss and outputs are float32", self._wide(name)
            )
        ).result()

    def _of_array(self, creation: Creation, name: str) -> Optional[tuple]:
        """Make an array created behind the half part float32.

        Its reads and writes follow its dtype.
        """
        handle: Any = creation.arguments.get("handle")
        made = _array(handle) if is_tensor(handle) else None
        wide = self._wide(name) if handle is None else made and tf.as_dtype(made.get_attr("dtype"))
        if wide not in (self.half, *FLOATS):
            return None
        arguments = dict(creation.arguments)
        if arguments.get("dtype") in (self.half, *FLOATS):
            arguments["dtype"] = wide
        value: Any = arguments.get("value")
        if is_tensor(value) and value.dtype in (self.half, *FLOATS):
            arguments["value"] = self.state.cast(
                value, wide, "%s: goes by the dtype of its array" % name
            )
        return creation.make(arguments).result()

    def _why_denied(self, creation: Creation) -> str:
        why = {"deny": "on the deny list", "unlisted": "on no list"}.get(
            self._policy.category(creation.op_type), "kept in float32"
        )
        why = forbidden(creation, self.config.compute_dtype) or why
        return "%s is %s" % (creation.op_type, why)

    def _repair(self, creation: Creation, name: str, why: str = "") -> tuple:
        reason = why or self._why_denied(creation)
        made = creation.make(self._promoted(creation.arguments, name, reason))
        self.state.repaired.append(made.op.name)
        halves = self._half_outputs(creation, made.op)
        return made.result(
            [
                self._cast(t, self.half, tf.float32, "back to half after " + made.op.name)
                if is_half
                else t
                for t, is_half in zip(made.op.outputs, halves)
            ]
        )

    def _half_outputs(self, creation: Creation, op: Any) -> List[bool]:
        """Whether each output has the type of a half argument: no statistics of a batch have."""
        definition = op_def(creation.op_type)
        halves = {
            argument.type_attr or argument.type_list_attr
            for argument in definition.input_arg
            if self._has_half({"": creation.arguments.get(argument.name)})
        }
        signature = signature_of(op.node_def, definition)
        assert signature is not None, "TensorFlow made a node with wrong attributes"
        return [port.attribute in halves for port in signature.outputs]

    def _denied(self, creation: Creation, name: str) -> bool:
        if not self._has_half(creation.arguments) or matches(self.config.force_compute, name):
            return False
        if self._is_kept(name) or not accepts(creation.op_type, self.half):
            return True
        if forbidden(creation, self.config.compute_dtype):
            return True
        repairs = not self.config.engine_strict
        return (
            repairs
            and self._policy.wants_float32(creation.op_type)
            and not op_def(creation.op_type).is_stateful
        )

    def _is_kept(self, name: str) -> bool:
        return matches(self.config.float32_nodes + self._policy.keep_float32, name)

    def _is_source(self, creation: Creation) -> bool:
        """Whether an op of the half part makes float32 from integers, or from a float32 table."""
        arguments = creation.arguments
        if creation.op_type == "Cast":
            x: Any = arguments.get("x")
            return is_tensor(x) and not x.dtype.is_floating and arguments.get("DstT") == tf.float32
        if creation.op_type == "OneHot":
            return not self._has_half(arguments)
        return (
            creation.op_type in LOOK_UPS
            and variable_op(arguments.get("params", arguments.get("resource"))) is not None
        )

    def _reaches_past_half(self, arguments: Dict[str, Any]) -> bool:
        """Whether values of the half part are arguments.

        The function's own half constants and random numbers may stay.
        """
        tensors = [t for t in tensors_of(arguments) if t.dtype.is_floating]
        half = [t for t in tensors if t.dtype == self.half]
        from_half_part = any(map(self._is_of_half_part, half))
        return from_half_part or 0 < len(half) < len(tensors)

    def _is_of_half_part(self, tensor: Any) -> bool:
        plan: Any = self._plan  # as above
        name = tensor.op.name
        source = self.state.half_casts.get(name)
        if source is not None and draws(self._graph.get_operation_by_name(source).type):
            return False
        is_gradient = name not in plan.forward
        return name in plan.half or source is not None or is_gradient

    def _wide(self, name: str) -> Any:
        """The dtype of an op in the float32 build."""
        # as above
        return tf.float64 if name in self._plan.float64 else tf.float32  # type: ignore[union-attr]

    def _has_half(self, arguments: Dict[str, Any]) -> bool:
        return any(t.dtype == self.half for t in tensors_of(arguments))

    def _promoted(
        self, arguments: Dict[str, Any], name: str, reason: str, wide: Any = tf.float32
    ) -> Dict[str, Any]:
        return mapped(
            arguments, lambda t: self._cast(t, wide, self.half, "%s: %s" % (name, reason))
        )

    def _variables_in_half(self, creation: Creation) -> Dict[str, Any]:
        """The arguments, with casts of float32 variables that share a type with half tensors."""
        changed, beside = dict(creation.arguments), tensors_of(creation.arguments)
        for names in same_dtype(creation.op_type):
            group = {name: creation.arguments[name] for name in names if name in creation.arguments}
            if self._has_half(group):
                change = functools.partial(self._variable_in_half, beside=beside)
                changed.update(mapped(group, change))
        return changed

    def _variable_in_half(self, value: Any, beside: List[Any]) -> Any:
        variable = self.state.variable_of(value)
        if variable_op(variable) is None or variable.dtype.base_dtype not in FLOATS:
            return value
        if variable is not value and not states.after_writes(variable, beside):
            return value  # a cast, and no write since
        return self.state.cast_variable(variable, self.half, beside)

    def _cast(self, tensor: Any, dtype: Any, only: Any, reason: str) -> Any:
        return (
            self.state.cast(tensor, dtype, reason)
            if is_tensor(tensor) and tensor.dtype == only
            else tensor
        )


def variable_in_half(value: Any, dtype: Any = None, name: Any = None, as_ref: bool = False) -> Any:
    """Convert a float32 variable to half precision if a decorated call asks for it.

    NotImplemented elsewhere.
    """
    build = active()
    if build is None or as_ref or dtype is None or value.dtype.base_dtype not in FLOATS:
        return NotImplemented
    half = tf.as_dtype(dtype).base_dtype == build.half and build.half not in FLOATS
    return build.state.cast_variable(value, build.half) if half else NotImplemented


def active() -> Optional[DecoratedCall]:
    """The decorated call of this thread, or None."""
    return getattr(_ACTIVE, "build", None)


def run_active(build: Optional[DecoratedCall], function: Callable[[], Any]) -> Any:
    """Run `function` with this thread's ops coloured by `build` (None: not coloured)."""
    before = active()
    _ACTIVE.build = build
    try:
        return function()
    finally:
        _ACTIVE.build = before


def _array(handle: Any) -> Optional[Any]:
    """The op that created the array of a handle; None for an array of gradients."""
    op = handle.op
    while op.type in CONTROL_FLOW and op.inputs:
        op = op.inputs[0].op
    return op if op.type == "TensorArrayV3" else None


def _is_mixed_product(creation: Creation) -> bool:
    """Whether it is `tf.matmul` of bfloat16 and float32, neither said to be sparse."""
    return creation.op_type == "SparseMatMul" and not (
        creation.arguments.get("a_is_sparse") or creation.arguments.get("b_is_sparse")
    )


def _is_structure(op_type: str) -> bool:
    return (
        op_type in CONTROL_FLOW
        or op_type in SHAPE_OPS
        or op_type.startswith(("TensorArray", "Stack", "TensorList"))
    )
