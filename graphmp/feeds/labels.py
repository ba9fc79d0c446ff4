"""Labels of hand-written cross entropies, and learning rates, by the products that read them."""

from __future__ import annotations

import re
from typing import Sequence

from graphmp.feeds.shapes import Shapes
from graphmp.feeds.uses import ValueUse, carried_from, scalar
from graphmp.feeds.wanted import Shape, Wanted
from graphmp.graph.state.live import is_update, is_write
from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import ADDS, SELECTS, UPDATE_PREFIXES

_LOGISTIC_LOSS = re.compile(r"(^|/)logistic_loss(_\d+)?/")
_LOGS = frozenset(("Log", "LogSoftmax"))
_POSITIVE_PARTS = SELECTS | {"Maximum", "Relu"}
_RATES = ("alpha", "learning_rate", "lr")  # names of the input in update kernels
_RATE_NAME = re.compile(r"(^|[/_])(lr|learning_?rate)([/_\d]|$)", re.IGNORECASE)
_SCALES = frozenset(
    (
        "Cast",
        "Enter",
        "Identity",
        "Maximum",
        "Merge",
        "Minimum",
        "Mul",
        "Neg",
        "RealDiv",
        "Reshape",
        "Squeeze",
        "StridedSlice",
        "Sub",
        "Switch",
    )
    + tuple(ADDS | SELECTS)
)


def are_binary(view: GraphView, uses: Sequence[ValueUse]) -> bool:
    """Whether values are labels of two classes.

    They are if sigmoid_cross_entropy_with_logits reads them, or if both y and 1 - y are factors.
    """
    if any(is_sigmoid_label(view, use) for use in uses):
        return True
    return any(use.node.op == "Mul" for use in uses) and any(
        _is_complement(view, use) for use in uses
    )


def is_sigmoid_label(view: GraphView, use: ValueUse) -> bool:
    """Whether a node is the product in max(x, 0) - x * labels, by its name or its surroundings."""
    if use.node.op != "Mul":
        return False
    if _LOGISTIC_LOSS.search(use.node.name):
        return True
    logits = _factor(view, use)
    subtractions = [
        c.node
        for c in view.consumers(use.node.name)
        if view.nodes[c.node].op == "Sub" and c.slot == 1
    ]
    return any(_is_positive_part(view, view.inputs(name)[0], logits) for name in subtractions)


def is_log_label(view: GraphView, use: ValueUse) -> bool:
    """Whether a node is the product with a logarithm, as in a cross entropy."""
    if use.node.op != "Mul":
        return False
    other = _factor(view, use)
    if view.nodes[other.node].op == "Neg":
        other = carried_from(view, view.inputs(other.node)[0])
    return view.nodes[other.node].op in _LOGS


def is_rate(shapes: Shapes, tensor: Wanted) -> bool:
    """Whether a tensor of one element is a factor of an optimizer's step, or has such a name.

    Formulas of decay lie between: a difference from the last rate, a choice by the step.
    """
    nodes = shapes.view.nodes
    scalars = reached(
        [tensor.node],
        lambda name: [c.node for c in shapes.view.consumers(name)],
        lambda name: (
            name == tensor.node
            or (nodes[name].op in _SCALES and is_single(shapes.of(Port(name, 0))))
        ),
    )
    return _RATE_NAME.search(tensor.node) is not None or any(
        _is_rate_of_kernel(shapes, consumer)
        or (nodes[consumer.node].op == "Mul" and _is_written(shapes, consumer.node))
        for name in scalars
        for consumer in shapes.view.consumers(name)
    )


def is_single(shape: Shape) -> bool:
    """Whether a static shape has one element."""
    return shape is not None and all(size == 1 for size in shape)


def _factor(view: GraphView, use: ValueUse) -> Port:
    """The other operand of a product."""
    return carried_from(view, view.inputs(use.node.name)[1 - use.slot])


def _is_positive_part(view: GraphView, port: Port, logits: Port) -> bool:
    return view.nodes[port.node].op in _POSITIVE_PARTS and logits in [
        carried_from(view, p) for p in view.inputs(port.node)
    ]


def _is_complement(view: GraphView, use: ValueUse) -> bool:
    """Whether a node is 1 - labels."""
    return (
        use.node.op == "Sub"
        and use.slot == 1
        and scalar(view, view.inputs(use.node.name)[0]) == 1.0
    )


def _is_rate_of_kernel(shapes: Shapes, consumer: Consumer) -> bool:
    """Whether an update kernel reads its learning rate here."""
    if not shapes.view.nodes[consumer.node].op.startswith(UPDATE_PREFIXES):
        return False
    arguments = shapes.graph.get_operation_by_name(consumer.node).op_def.input_arg
    return consumer.slot < len(arguments) and arguments[consumer.slot].name in _RATES


def _is_written(shapes: Shapes, name: str) -> bool:
    """Whether a node's result is written to a variable."""
    readers = (
        shapes.graph.get_operation_by_name(reader.node) for reader in shapes.view.consumers(name)
    )
    return any(is_write(reader) and not is_update(reader) for reader in readers)
