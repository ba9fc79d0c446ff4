"""Gradients of which a loss reads the direction alone: their sign, or their quotient by their size.

Adversarial examples and power iterations are made of them. A gradient of an input is as small as
its example's loss; where it vanishes in float16, its sign is 0, though float32 has one. Steps of
optimizers aren't meant: their gradients are of variables, and the loss scale is made for them.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, NamedTuple, Optional, Sequence

from graphmp.graph.structure.values import number
from graphmp.graph.structure.walk import reached
from graphmp.naming import in_body
from graphmp.policy.op_sets import ADDS
from graphmp.policy.traits import DIVIDES, KEEPS_VALUES, REDUCES, SQUARES
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.scopes import gradient_scope
from graphmp.scaling.losses.training_graph import TrainingGraph

_MOVES = KEEPS_VALUES | {"Cast"}
_ROOTS = frozenset(("Inv", "Reciprocal", "Rsqrt", "Sqrt"))
_GUARDS = ADDS | {"Maximum"}  # of a quotient, by a small constant
_SIZES = _MOVES | _ROOTS | _GUARDS | REDUCES | SQUARES | {"Abs", "Max", "Mul"}
_SMALL = 1e-3


class Direction(NamedTuple):
    """A direction of gradients that a loss reads.

    Attributes:
        nodes: the paths of the gradient code.
        reader: the path of the node that takes the direction.
    """

    nodes: AbstractSet[str]
    reader: str


def directions(
    graph: TrainingGraph, losses: Sequence[Loss], body: str = ""
) -> Dict[str, Direction]:
    """The gradient code whose direction is read, by the node that it starts from; all as paths.

    Args:
        graph: the main graph, or a function's body.
        losses: all its losses that train.
        body: the name of the function; empty for the main graph.
    """
    trained = {name for loss in losses for scope in loss.scopes for name in scope.nodes}
    before = graph.view.ancestors(trained, control=False) - graph.gradients
    found = {}
    for name, nodes in graph.code.items():
        reader = next(_readers(graph, nodes, before), None) if before else None
        scope = gradient_scope(graph, name, nodes) if reader is not None else None
        if reader is not None and scope is not None and scope.seeds:
            paths = {in_body(body, node) for node in scope.nodes}
            found[in_body(body, scope.seeds[0].node)] = Direction(paths, in_body(body, reader))
    return found


def _readers(
    graph: TrainingGraph, gradients: AbstractSet[str], before: AbstractSet[str]
) -> Iterator[str]:
    """The nodes that take the direction of some gradients, of those before trained ones."""
    view = graph.view
    moved = view.followed(
        gradients,
        lambda name: name in gradients or (name in before and view.nodes[name].op in _MOVES),
    )
    readers = {c.node for name in moved for c in view.consumers(name)} & before
    for name in view.in_graph_order(readers):
        if view.nodes[name].op == "Sign" or _is_by_size(graph, name, moved):
            yield name


def _is_by_size(graph: TrainingGraph, name: str, moved: AbstractSet[str]) -> bool:
    """Whether a node divides moved values by their size."""
    if graph.view.nodes[name].op not in DIVIDES | {"Mul"}:
        return False
    others = [port for port in graph.view.inputs(name)[:2] if port.node not in moved]
    return len(others) == 1 and _is_size(graph, others[0].node, moved)


def _is_size(graph: TrainingGraph, size: str, moved: AbstractSet[str]) -> bool:
    """Whether a node is made of moved values by a root or a sum, with no guard but a small one."""
    view = graph.view
    passed = reached(
        [size],
        lambda name: [port.node for port in view.inputs(name)],
        lambda name: name not in moved and view.nodes[name].op in _SIZES,
    )
    ops = {view.nodes[name].op for name in passed}
    return (
        any(port.node in moved for name in passed for port in view.inputs(name))
        and not ops.isdisjoint(_ROOTS | REDUCES | {"Max"})
        and all(_is_small(graph, name) for name in passed if view.nodes[name].op in _GUARDS)
    )


def _is_small(graph: TrainingGraph, guard: str) -> bool:
    """Whether one operand of a node is a small constant."""
    values: List[Optional[float]] = [
        number(graph.view.nodes[port.node]) for port in graph.view.inputs(guard)
    ]
    return any(value is not None and abs(value) <= _SMALL for value in values)
