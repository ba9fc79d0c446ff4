"""The plan of half precision, from a float32 build of the function.

Rules, for the forward ops that the call created:

1. `half` contains the ops worth half precision (allow) and all they depend on through
   floating-point tensors: [in] -> conv -> relu -> matmul.
2. A bias that is added to an allow op's output belongs to it: matmul -> [BiasAdd].
3. All other ops of the call are float32: logits -> | softmax, loss, metrics, regularisers.
4. An argument is cast if it feeds an op of `half`, not if it only reaches the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.state.live import is_tensor, variable_op
from graphmp.graph.structure.walk import reached
from graphmp.patterns import matches
from graphmp.policy.formats import FORMATS
from graphmp.policy.op_sets import ADDS, VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.policy.traits import BIAS_ADDS, DIVIDES_BY_RECIPROCAL
from graphmp.recipe.kernels import forbidden_op
from graphmp.recipe.precision import unfit
from graphmp.rewrite.range_guard.ranges import misfit, small_divisor
from graphmp.tf_hooks.internals import accepts

FLOATS = (tf.float32, tf.float64)
_REHEARSED = ("counts", "outside", "size")
SEEDS = ("seed", "seed2")


class Observation(NamedTuple):
    """A float32 build: forward ops, flat arguments, new variables, variables with gradients."""

    forward: Sequence[Any]
    arguments: Sequence[Any]
    variables: Sequence[Any]
    connected: FrozenSet[str]


@dataclass(frozen=True)
class Plan:
    """Where half precision goes, by op name.

    Attributes:
        half: ops that compute in half precision, or pass half values on.
        boundary: ops of `half` that no other op of `half` reads: their outputs become float32.
        forward: all forward ops.
        float64: forward ops that compute in float64.
        arguments: indices of the flat arguments to cast.
        variables: dtype name of each variable that the call created.
        seeds: the two seeds of each random op that has any: the converted graph draws the same
            numbers.
        connected: variables whose gradient was taken in the call and was not None.
        counts: numbers of ops before each call for a seed, in a rehearsal.
        size: the number of ops of the float32 build, in a rehearsal.
        outside: variables made before the call whose gradients it takes, in a rehearsal.
        misfits: constants that the compute dtype can't hold, or whose reciprocal, and why.
        unfit: ops of `half` that need float32's digits, and why.
    """

    half: FrozenSet[str] = frozenset()
    boundary: FrozenSet[str] = frozenset()
    forward: FrozenSet[str] = frozenset()
    float64: FrozenSet[str] = frozenset()
    arguments: FrozenSet[int] = frozenset()
    variables: Dict[str, str] = field(default_factory=dict)
    seeds: Dict[str, List[int]] = field(default_factory=dict)
    connected: FrozenSet[str] = frozenset()
    misfits: Dict[str, str] = field(default_factory=dict)
    unfit: Dict[str, str] = field(default_factory=dict)
    counts: Tuple[int, ...] = ()
    size: int = 0
    outside: Tuple[str, ...] = ()

    def as_json(self) -> Dict[str, Any]:
        """A JSON value; `from_json` restores it, except for fields of a rehearsal."""
        return {
            k: dict(v) if isinstance(v, dict) else sorted(v)
            for k, v in vars(self).items()
            if k not in _REHEARSED
        }

    @classmethod
    def from_json(cls, value: Dict[str, Any]) -> Plan:
        """The inverse of `as_json`."""
        fields: Dict[str, Any] = {
            k: v if isinstance(v, dict) else frozenset(v) for k, v in value.items()
        }
        return cls(**fields)


def make_plan(seen: Observation, policy: Policy, config: Config) -> Plan:
    """Apply the rules above."""
    forward = set(seen.forward)
    consumers = _consumers(forward)
    allow = [op for op in seen.forward if _may_be_half(op, policy, config)]
    half = _closure(allow, forward)
    half.update(*[_bias_adds(op, half, consumers, policy) for op in allow])
    reached = {tensor.name for op in half for tensor in op.inputs}
    names = _names(half)
    digits = unfit(forward, policy, config)
    return Plan(
        half=names,
        boundary=_names(
            op
            for op in half
            if floating(op.outputs) and not any(c in half for c in consumers.get(op, ()))
        ),
        forward=_names(forward),
        float64=_names(
            op for op in forward if any(t.dtype == tf.float64 for t in list(op.inputs) + op.outputs)
        ),
        arguments=frozenset(
            i
            for i, a in enumerate(seen.arguments)
            if is_tensor(a) and a.dtype in FLOATS and a.name in reached
        ),
        variables={
            op.name: tf.as_dtype(op.get_attr("dtype")).base_dtype.name for op in seen.variables
        },
        seeds={
            op.name: [op.get_attr(name) for name in SEEDS] for op in seen.forward if _seeded(op)
        },
        connected=seen.connected,
        misfits=_misfits(seen.forward, config.compute_dtype),
        unfit={name: why for name, why in digits.items() if name in names},
    )


def _may_be_half(op: Any, policy: Policy, config: Config) -> bool:
    kept = matches(config.float32_nodes + policy.keep_float32, op.name) or not accepts(
        op.type, config.compute_dtype
    )
    may_be = op.type in policy.allow and floating(op.outputs) and not kept
    return may_be and not forbidden_op(op, config.compute_dtype)


def _misfits(forward: Sequence[Any], compute_dtype: str) -> Dict[str, str]:
    found = {}
    for op in forward if compute_dtype in FORMATS else ():
        fit = misfit(op.node_def, compute_dtype) if op.type == "Const" else None
        if fit is not None:
            found[op.name] = "holds %g, which %s can't" % (fit.value, compute_dtype)
        elif op.type == "Const" and _divides(op):
            small = small_divisor(op.node_def, compute_dtype)
            if small is not None:
                text = "divides by %g, whose reciprocal %s can't hold"
                found[op.name] = text % (small, compute_dtype)
    return found


def _divides(op: Any) -> bool:
    """Whether something is divided by an op's output."""
    tensor = op.outputs[0]
    return any(
        each.type in DIVIDES_BY_RECIPROCAL and each.inputs[1] is tensor
        for each in tensor.consumers()
    )


def floating(tensors: Iterable[Any]) -> bool:
    """Whether any of the tensors is float32 or float64."""
    return any(t.dtype.base_dtype in FLOATS for t in tensors)


def _seeded(op: Any) -> bool:
    attributes = op.node_def.attr
    return all(name in attributes for name in SEEDS) and any(attributes[name].i for name in SEEDS)


def _names(ops: Iterable[Any]) -> FrozenSet[str]:
    return frozenset(op.name for op in ops)


def _consumers(forward: Set[Any]) -> Dict[Any, List[Any]]:
    """Forward ops that read a floating-point output of each op."""
    consumers: Dict[Any, List[Any]] = {}
    for op in forward:
        for tensor in op.inputs:
            if floating([tensor]):
                consumers.setdefault(tensor.op, []).append(op)
    return consumers


def _closure(allow: Sequence[Any], forward: Set[Any]) -> Set[Any]:
    """The allow ops and the forward ops that they depend on through floating-point tensors.

    Variables are float32 and not included.
    """
    return reached(
        allow,
        lambda op: [t.op for t in op.inputs if floating([t])],
        lambda op: op in forward and op.type not in VARIABLE_OPS,
    )


def _bias_adds(
    op: Any, half: Set[Any], consumers: Dict[Any, List[Any]], policy: Policy
) -> Set[Any]:
    """Ops that add a variable to an allow op's output, and the reshapes between."""
    found: Set[Any] = set()
    for consumer in consumers.get(op, ()):
        if consumer in half or consumer in found:
            continue
        if consumer.type in ADDS | BIAS_ADDS and any(_holds_variable(t) for t in consumer.inputs):
            found.add(consumer)
        elif consumer.type in ("Reshape", "Squeeze", "Transpose") and consumer.type in policy.clear:
            below = _bias_adds(consumer, half, consumers, policy)
            found.update(below | {consumer} if below else ())
    return found


def _holds_variable(tensor: Any) -> bool:
    """Whether a tensor is a read of a variable, or the joined parts of a partitioned one."""
    op = tensor.op
    if op.type == "Identity":
        op = op.inputs[0].op
    parts = [t for t in op.inputs if floating([t])] if op.type == "ConcatV2" else [tensor]
    return all(variable_op(t) is not None for t in parts)
