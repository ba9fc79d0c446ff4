"""Graphs that need less than a full conversion, recognised by their nodes.

One line for each case.
"""

from __future__ import annotations

import collections
import re
from typing import AbstractSet, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config, in_words
from graphmp.errors import GraphmpError, warning
from graphmp.graph.edit.mark import differing, read_mark, same_conversion
from graphmp.graph.structure.functions import called_functions
from graphmp.graph.structure.gradient_names import differentiated
from graphmp.graph.structure.gradient_record import RecordedCall
from graphmp.graph.structure.values import constant
from graphmp.graph.structure.view import GraphView
from graphmp.naming import is_clone
from graphmp.policy.dtypes import FLOAT32, FLOAT64, HALF, INVALID, compute_dtype
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.rewrite.by_hand import trained_by_hand
from graphmp.rewrite.without_effect import without_effect
from graphmp.scaling.losses.inside import training_functions

_INSERTED = re.compile(r"_graphmp_(float16|bfloat16|float32)(_\d+)?$")
_BY_HAND = re.compile(r"(^|/)fp32_vars/")  # NVIDIA's recipe keeps float32 copies of variables there
_SCALE_NAME = re.compile(
    r"(^|/)(current_)?loss_scal(e|er|ing)(_\d+)?(/|$)|LossScale", re.IGNORECASE
)
_PASSES = frozenset(("Identity", "Cast"))
_HALF = "half"  # both half-precision types, counted together


class Recognised(NamedTuple):
    """The special cases of a graph.

    Attributes:
        warnings: rows of the report, `code`, `node`, `message`.
        leave: whether the graph must not be changed.
        scales_itself: whether it scales its loss, so that nothing is scaled or clipped.
    """

    warnings: List[Dict[str, str]]
    leave: bool
    scales_itself: bool = False


def recognise(
    meta_graph: tf.MetaGraphDef,
    view: GraphView,
    config: Config,
    policy: Policy,
    gradients: AbstractSet[str],
    recorded: Sequence[RecordedCall] = (),
    goes_on: bool = False,
) -> Recognised:
    """Detect an earlier conversion, half precision, float64, loss scaling, and missing training.

    Args:
        meta_graph: the graph.
        view: its nodes.
        config: the options.
        policy: the op lists.
        gradients: the main graph's gradient code.
        recorded: recorded calls of `tf.gradients`, for those inside functions.
        goes_on: whether a graph that graphmp converted trains on as it is, whatever the flags.

    Raises:
        GraphmpError: GMP022 for a graph that graphmp converted with other flags or in another
            version.
    """
    converted = _converted_before(meta_graph, view, config, goes_on)
    if converted:
        return Recognised(converted, True)
    trains = bool(
        gradients
        or training_functions(meta_graph.graph_def, recorded)
        & set(called_functions(meta_graph.graph_def))
    )
    warnings = [] if trains else [_without_gradients(meta_graph, view, config)]
    bodies = [
        meta_graph.graph_def.node,
        *(function.node_def for function in meta_graph.graph_def.library.function),
    ]
    warnings += without_effect(config, ((node.name, node.op) for nodes in bodies for node in nodes))
    scaling = own_loss_scaling(view, gradients)
    if scaling:
        warnings.append(
            warning(
                "GMP107",
                scaling,
                "this graph scales its loss itself: that is left to it, and so is clipping",
            )
        )
    precision = _precision(view, policy)
    if precision:
        warnings.append(warning("GMP108", "", precision))
    return Recognised(warnings, bool(precision), bool(scaling))


def _without_gradients(
    meta_graph: tf.MetaGraphDef, view: GraphView, config: Config
) -> Dict[str, str]:
    """The warning for a graph without gradient code."""
    found = trained_by_hand(meta_graph, view)
    if found is None:
        return warning("GMP105", "", "no training in this graph: no gradient code was found")
    text = "%s, by a gradient that tf.gradients didn't compute: it is not scaled" % (found,)
    if config.compute_dtype == "float16":
        text += (
            ", so that values below 6e-8 vanish in float16; --compute_dtype=bfloat16 has the range"
            " of float32"
        )
    return warning("GMP105", found.write, text)


def is_inserted(name: str) -> bool:
    """Whether a conversion gave a node its name: a cast, or a session's copy of a node."""
    return bool(_INSERTED.search(name) or is_clone(name))


def _converted_before(
    meta_graph: tf.MetaGraphDef, view: GraphView, config: Config, goes_on: bool
) -> List[Dict[str, str]]:
    """Warnings about a graph that graphmp converted; empty for others. Raises GMP022."""
    found = read_mark(meta_graph)
    node = next((name for name in view.nodes if is_inserted(name)), None)
    if found is not None and same_conversion(found, config):
        text = "this graph was converted with the same flags: nothing to change"
        return [warning("GMP108", "", text)]
    if found is None and node is None:
        return []
    how = (
        "before (node %s)" % node
        if found is None
        else "%s with %s" % (found.get("graphmp_version"), _flags(found["flags"]))
    )
    if not goes_on:
        text = "the graph was converted by graphmp %s; convert the original again"
        raise GraphmpError("GMP022", text % how)
    rows = [
        warning("GMP108", "", "the graph was converted by graphmp %s: it trains as it is" % how)
    ]
    now = differing(found, config)[1] if found is not None else ""
    if now:
        text = "%s: no effect on a graph that is converted; convert the original for that" % now
        rows.append(warning("GMP124", "", text))
    return rows


def own_loss_scaling(view: GraphView, gradients: AbstractSet[str]) -> str:
    """The node by which a graph scales its loss itself; empty if it doesn't."""
    for name, node in view.nodes.items():
        named = node.op in VARIABLE_OPS and _SCALE_NAME.search(name)
        if named and not (gradients and gradients.isdisjoint(view.descendants([name]))):
            return name
    return _common_divisor(view, gradients)


def _common_divisor(view: GraphView, gradients: AbstractSet[str]) -> str:
    """A scalar that divides two or more gradients as they leave gradient code, and all.

    A constant, or a quotient of constants: such as the reciprocal that gradients are multiplied by.
    """
    divisors: Set[str] = set()
    scaled = 0
    for name in gradients:
        for consumer in view.consumers(name):
            node = view.nodes[consumer.node]
            if consumer.node in gradients or node.op in _PASSES:
                continue
            others = [port.node for port in view.inputs(consumer.node) if port.node != name]
            if (
                node.op not in ("Mul", "RealDiv")
                or len(others) != 1
                or not _is_scale(_scalar(view, others[0]), node.op)
            ):
                return ""
            divisors.add(others[0])
            scaled += 1
    values = {_scalar(view, name) for name in divisors}
    return (
        sorted(divisors)[0]
        if scaled >= 2 and len(values) == 1 and _loss_is_scaled(view, gradients, values.pop() or 1)
        else ""
    )


def _loss_is_scaled(view: GraphView, gradients: AbstractSet[str], factor: float) -> bool:
    """Whether a scalar that gradient code starts from was multiplied by the gradients' divisor.

    A learning rate has no such counterpart.
    """
    for forward in {differentiated(name, view.nodes.keys()) for name in gradients}:
        if forward is not None and view.nodes[forward].op in ("Mul", "RealDiv"):
            for value in (_scalar(view, port.node) for port in view.inputs(forward)):
                if value and any(abs(value * other - 1) < 1e-6 for other in (factor, 1 / factor)):
                    return True
    return False


def _is_scale(value: Optional[float], op: str) -> bool:
    return value is not None and (value >= 8 if op == "RealDiv" else 0 < value <= 1 / 8)


def _scalar(view: GraphView, name: str) -> Optional[float]:
    """The number that a node is: a constant, or a quotient of two."""
    if view.nodes[name].op != "RealDiv":
        return _constant_scalar(view.nodes[name])
    over, under = (_constant_scalar(view.nodes[port.node]) for port in view.inputs(name))
    return over / under if over is not None and under else None


def _constant_scalar(node: Any) -> Optional[float]:
    if node.op != "Const" or "value" not in node.attr or node.attr["value"].tensor.tensor_shape.dim:
        return None
    value = constant(node)
    return float(value) if value is not None and value.dtype.kind == "f" else None


def _precision(view: GraphView, policy: Policy) -> str:
    """Why nothing is left to convert, by the dtypes of matmuls; empty if something is."""
    counts = collections.Counter(
        _HALF if dtype in HALF else dtype for dtype in _dtypes(view, policy) if dtype != INVALID
    )
    total = sum(counts.values())
    by_hand = next((name for name in view.nodes if _BY_HAND.search(name)), None)
    if counts[_HALF] and by_hand:
        text = (
            "already mixed precision by hand (%d of %d matmuls and convolutions in half, float32"
            " variables below %s): left as it is"
        )
        return text % (
            counts[_HALF],
            total,
            by_hand[: by_hand.index("fp32_vars/") + len("fp32_vars")],
        )
    if counts[_HALF] and counts[_HALF] >= counts[FLOAT32]:
        return "already half precision (%d of %d matmuls and convolutions): left as it is" % (
            counts[_HALF],
            total,
        )
    if counts[FLOAT64] and not counts[FLOAT32]:
        return (
            "float64 throughout (%d matmuls and convolutions): left as it is; half precision is for"
            " float32 models" % counts[FLOAT64]
        )
    return ""


def _dtypes(view: GraphView, policy: Policy) -> Iterator[int]:
    for node in list(view.nodes.values()) + [
        n for f in view.graph_def.library.function for n in f.node_def
    ]:
        if node.op in policy.allow:
            yield compute_dtype(node)


def _flags(flags: Dict[str, Any]) -> str:
    default = Config.make(compute_dtype=flags.get("compute_dtype", "float16")).as_flags()
    default["compute_dtype"] = ""  # always named
    text = [
        in_words(name, value)
        for name, value in sorted(flags.items())
        if default.get(name) != value and name != "engine"
    ]
    return " ".join(text) or "other flags"
