"""The model's own clips between gradients and updates: kind, norm, and side of the unscale.

They are found by structure:

1. `tf.clip_by_global_norm`, `tf.clip_by_norm` and hand-written equivalents bound a function of a
   norm. This is a Minimum or Maximum of a constant and of the result of a Sqrt or Rsqrt behind sums
   of gradients.
2. A value is clipped by ClipByValue, or by a Minimum and a Maximum with constants in sequence.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Sequence, Set

from graphmp.graph.structure.values import number
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.op_sets import SELECTS

GLOBAL_NORM, NORM, VALUE = "global norm", "norm", "value"
_BOUNDS = frozenset(["Maximum", "Minimum"])
_ROOTS = frozenset(["Rsqrt", "Sqrt"])
_SUMS = frozenset(["L2Loss", "Sum"])
_KEEP = frozenset(["Cast", "Enter", "Identity", "Reshape", "Squeeze"])
_UNARY = frozenset(["Inv", "Neg", "Reciprocal", "Square"])
_ARITHMETIC: Dict[str, Callable[..., float]] = {
    "Add": operator.add,
    "AddV2": operator.add,
    "Inv": lambda x: 1 / x,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "RealDiv": operator.truediv,
    "Reciprocal": lambda x: 1 / x,
    "Square": lambda x: x * x,
    "Sub": operator.sub,
}
# The input at `place` of an op that returns `result` when its other input is `other`.
_INVERSES: Dict[str, Callable[[float, float, int], float]] = {
    "Add": lambda result, other, place: result - other,
    "AddV2": lambda result, other, place: result - other,
    "Inv": lambda result, other, place: 1 / result,
    "Mul": lambda result, other, place: result / other,
    "Neg": lambda result, other, place: -result,
    "RealDiv": lambda result, other, place: other / result if place else result * other,
    "Reciprocal": lambda result, other, place: 1 / result,
    "Square": lambda result, other, place: math.sqrt(result),
    "Sub": lambda result, other, place: other - result if place else result + other,
}
_DEEPEST = 30  # steps of arithmetic


def user_clips(view: GraphView, loss: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The model's own clips of one loss.

    Args:
        view: the converted graph.
        loss: a row of the report's `losses`.

    Returns:
        One row for each clip: `node`; `kind`, one of the constants above; `norm`, if it is a
        constant; `limits` of a clip of values; `after_unscale`, None if nothing is scaled.
    """
    if loss.get("calls"):
        return []  # inside a function
    gradients = frozenset(parse_input(port).node for port in loss["gradients"])
    unscales = frozenset(loss["unscale"])
    between = view.descendants(gradients | unscales, control=False) & view.ancestors(
        loss["updates"], control=False
    )
    unscaled = view.descendants(unscales, control=False) if unscales else None
    finder = _ClipFinder(view, between, (gradients, unscales))
    rows = []
    for name in sorted(between):
        found = None if name.startswith(SCOPE + "/") else finder.clip(name)
        if found is not None:
            rows.append(
                dict(found, node=name, after_unscale=None if unscaled is None else name in unscaled)
            )
    return rows


def _row(
    kind: str, norm: Optional[float] = None, limits: Optional[List[Optional[float]]] = None
) -> Dict[str, Any]:
    return {"kind": kind, "norm": None if norm is None else float("%.5g" % norm), "limits": limits}


class _ClipFinder:
    def __init__(self, view: GraphView, between: Set[str], gradients: Sequence[FrozenSet[str]]):
        self._view = view
        self._between = between
        self._gradients = gradients

    def clip(self, name: str) -> Optional[Dict[str, Any]]:
        op = self._view.nodes[name].op
        inputs = self._inputs(name)
        if op == "ClipByValue":
            return _row(VALUE, limits=[self._value(inputs[1]), self._value(inputs[2])])
        if op not in _BOUNDS:
            return None
        inner = [each for each in inputs if each in self._between]
        if len(inner) != 1:
            return None
        bound = self._value(next(each for each in inputs if each not in self._between))
        root = self._root(inner[0])
        if root is not None:
            kind = self._kind(root)
            return (
                _row(kind, norm=self._solved(inner[0], root, bound) if bound else None)
                if kind
                else None
            )
        return self._of_value(inner[0], op, bound)

    def _of_value(self, inner: str, op: str, bound: Optional[float]) -> Optional[Dict[str, Any]]:
        """The outer of the two ops that clip a value."""
        below = self._through(inner)
        if bound is None or self._view.nodes[below].op not in _BOUNDS - {op}:
            return None
        other = [self._value(each) for each in self._inputs(below) if each not in self._between]
        if len(other) != 1 or other[0] is None:
            return None
        limits: List[Optional[float]] = [*sorted([bound, other[0]])]
        return _row(VALUE, limits=limits)

    def _inputs(self, name: str) -> List[str]:
        return [port.node for port in self._view.inputs(name)]

    def _through(self, name: str) -> str:
        while self._view.nodes[name].op in _KEEP:
            name = self._inputs(name)[0]
        return name

    def _root(self, name: str, depth: int = 0) -> Optional[str]:
        """The Sqrt or Rsqrt that a scalar factor is computed from, by arithmetic with constants.

        Not by way of graphmp's own clip, which the model's may follow.
        """
        if name.startswith(SCOPE + "/"):
            return None
        op = self._view.nodes[name].op
        if op in _ROOTS:
            return name
        if depth > _DEEPEST or (op not in _KEEP and op not in SELECTS and op not in _INVERSES):
            return None
        found = (
            self._root(each, depth + 1) for each in self._inputs(name) if each in self._between
        )
        return next((each for each in found if each is not None), None)

    def _kind(self, root: str) -> Optional[str]:
        """The norm that a root computes; None for a root of each element, as in optimizers."""
        behind = self._view.ancestors([root], control=False) & self._between
        if not any(self._view.nodes[name].op in _SUMS for name in behind):
            return None
        return GLOBAL_NORM if any(len(behind & each) > 1 for each in self._gradients) else NORM

    def _solved(self, name: str, root: str, target: float) -> Optional[float]:
        """The norm for which a node has the value `target`."""
        op = self._view.nodes[name].op
        if name == root:
            return target if op == "Sqrt" else 1 / target
        inputs = self._inputs(name)
        place = next(
            number
            for number, each in enumerate(inputs)
            if each in self._between and self._root(each) == root
        )
        if op in _KEEP or op in SELECTS:
            return self._solved(inputs[place], root, target)
        other = self._value(inputs[1 - place]) if len(inputs) == 2 else None
        if op not in _UNARY and other is None:
            return None
        try:
            return self._solved(inputs[place], root, _INVERSES[op](target, other or 0.0, place))
        except (ZeroDivisionError, ValueError):  # ValueError: no real number has this square
            return None

    def _value(self, name: str, depth: int = 0) -> Optional[float]:
        """The value of a scalar node that is computed from constants alone."""
        node, inputs = self._view.nodes[name], self._inputs(name)
        if node.op == "Const":
            return number(node)
        if depth > _DEEPEST or (node.op not in _KEEP and node.op not in _ARITHMETIC):
            return None
        if node.op in _KEEP:
            return self._value(inputs[0], depth + 1) if inputs else None
        values = [self._value(each, depth + 1) for each in inputs]
        if any(value is None for value in values):
            return None
        try:
            return float(_ARITHMETIC[node.op](*values))
        except (ZeroDivisionError, TypeError):  # TypeError: too few inputs
            return None
