"""Placeholders that hold the probability of a dropout.

`tf.nn.dropout` takes a scalar, which old programs feed to `tf.placeholder(tf.float32)`, of unknown
rank. All that it scales, and its gradients, then have an unknown rank too. It is found where random
numbers are compared with it, or are added to it ahead of a Floor, and it also scales what is kept.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, Set

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import ENTERS, SWITCHES

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderWithDefault"})
_COMPARES = frozenset({"Greater", "GreaterEqual", "Less", "LessEqual"})
_ADDS = frozenset({"Add", "AddV2"})
_SHIFTS = frozenset({"Add", "AddV2", "Mul", "RandomUniform"})  # of tf.random_uniform
_SCALES = frozenset({"Div", "Mul", "RealDiv"})
_HANDS_ON = frozenset({"Cast", "Identity", "Sub"}) | ENTERS | SWITCHES
_MOST_STEPS = 8


def probabilities(view: GraphView) -> AbstractSet[str]:
    """The placeholders of unknown rank that hold a probability of dropout: scalars."""
    found: Set[str] = set()
    for name, node in view.nodes.items():
        if node.op == "RandomUniform":
            found.update(
                source
                for threshold in _thresholds(view, name)
                for source in _sources(view, threshold)
                if _scales(view, source)
            )
    return frozenset(found)


def _thresholds(view: GraphView, uniform: str) -> Iterator[Port]:
    """Tensors that random numbers are compared with, or added to ahead of a Floor."""
    numbers = view.followed([uniform], lambda name: view.nodes[name].op in _SHIFTS)
    readers = {consumer.node for name in numbers for consumer in view.consumers(name)}
    for name in sorted(readers | numbers):
        op = view.nodes[name].op
        if op in _COMPARES or (
            op in _ADDS and any(view.nodes[c.node].op == "Floor" for c in view.consumers(name))
        ):
            yield from (port for port in view.inputs(name) if port.node not in numbers)


def _sources(view: GraphView, threshold: Port) -> Iterator[str]:
    """The placeholder of unknown rank of which a threshold is `p` or `1 - p`."""
    port = threshold
    for _ in range(_MOST_STEPS):
        node = view.nodes[port.node]
        if node.op in _PLACEHOLDERS and _has_unknown_rank(view, port.node):
            yield port.node
        inputs = [each for each in view.inputs(port.node) if view.nodes[each.node].op != "Const"]
        if node.op not in _HANDS_ON or not inputs:
            return
        port = inputs[0]


def _scales(view: GraphView, source: str) -> bool:
    """Whether a product or quotient reads a placeholder, maybe computed with constants."""
    waiting, seen = [source], {source}
    while waiting:
        for consumer in view.consumers(waiting.pop()):
            if view.nodes[consumer.node].op in _SCALES:
                return True
            if view.nodes[consumer.node].op in _HANDS_ON and consumer.node not in seen:
                seen.add(consumer.node)
                waiting.append(consumer.node)
    return False


def _has_unknown_rank(view: GraphView, name: str) -> bool:
    """Whether neither the recorded shape of a placeholder nor its attribute tells its rank.

    An attribute without dimensions doesn't: old graphs write an unknown shape so.
    """
    node = view.nodes[name]
    return recorded_dimensions(node, 0, -1) is None and (
        "shape" not in node.attr
        or node.attr["shape"].shape.unknown_rank
        or not node.attr["shape"].shape.dim
    )
