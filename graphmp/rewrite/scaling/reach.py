"""What the gradients of one scope come to: writes, by data, through accumulators and variables that hold them; not through other gradient code."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.live import ASSIGNS, OTHER_WRITES
from graphmp.graph.view import Port
from graphmp.rewrite.scaling.built import Built
from graphmp.rewrite.scaling.model import GradientScope

_PUSHES, _TAKES = "AccumulatorApplyGradient", "TakeGradient"


class Reach(NamedTuple):
    """What the gradients of a scope come to.

    Attributes:
        gradients: those outputs that come to a write.
        checked: those of them that no all-reduce is on the way of, and what the last all-reduces have made whole.
        reduced: whether there are such ones.
        direct: writes, by way of edges and accumulators alone; where there are accumulators, only those behind them.
        later: writes that train, by way of a variable that holds gradients for a later step.
        trained: all that train a variable.
        taken: outputs that take gradients out of accumulators.
    """

    gradients: Tuple[Port, ...]
    checked: Tuple[Port, ...]
    reduced: bool
    direct: AbstractSet[str]
    later: AbstractSet[str]
    trained: AbstractSet[str]
    taken: Tuple[Port, ...]


def reach(built: Built, scope: GradientScope, chosen: Optional[AbstractSet[str]]) -> Reach:
    """Follows the gradients of a scope; only writes among `chosen` count, where that is given."""
    state, trainable = built.state, _trainable(built, scope)

    def is_chosen(name: str) -> bool:
        return chosen is None or name in chosen

    def is_training(name: str) -> bool:
        return (built.view.nodes[name].op not in ASSIGNS and not _is_scatter(built, name)) or bool(state.written(name) & trainable)

    after, taken = _follow(built, [c.node for port in scope.leaving for c in built.view.consumers(port.node) if c.output == port.output], scope.nodes)
    from_taken = _follow(built, [c.node for port in taken for c in built.view.consumers(port.node)], scope.nodes)[0] if taken else after
    direct = {name for name in from_taken if state.is_write(name) and is_chosen(name) and not built.view.nodes[name].op.endswith(_PUSHES)}
    held = {variable for name in direct if not is_training(name) for variable in state.written(name)}
    reads = [c.node for variable in held for c in built.view.consumers(variable) if c.slot or built.view.nodes[c.node].op not in ASSIGNS]
    later = {name for name in _follow(built, reads, frozenset())[0] - direct if state.is_write(name) and is_chosen(name) and is_training(name)}
    into = _toward(built, direct, after)
    gradients = _read_in(built, scope.leaving, into)
    checked = _checked(built, gradients, direct, after)
    reduced = any(port.node in built.reduces.whole for port in checked)
    trained = {name for name in direct if is_training(name)} | later
    return Reach(tuple(gradients), tuple(checked), reduced, direct, later, trained, tuple(taken))


def _read_in(built: Built, ports: Iterable[Port], among: AbstractSet[str]) -> List[Port]:
    """Those outputs that some of the nodes read."""
    return [p for p in ports if any(c.output == p.output and c.node in among for c in built.view.consumers(p.node))]


def _checked(built: Built, gradients: List[Port], direct: AbstractSet[str], after: AbstractSet[str]) -> List[Port]:
    """Gradients as they leave gradient code; those that come to an all-reduce as the last one on their way has made them whole.

    Not one behind a write of theirs, a sum over several steps: that write waits for the check.
    """
    into = _toward(built, direct, after)
    found = built.reduces.whole & into
    found -= built.view.descendants(direct) if found else set()
    if not found:
        return gradients
    before = _toward(built, found, into)
    last = {name for name in found if not any(consumer.node in before for consumer in built.view.consumers(name))}
    whole = [port for name in built.view.nodes if name in last for port in built.read_ports(name) if built.is_float(port)]
    return _read_in(built, gradients, _toward(built, direct, after - last)) + _read_in(built, whole, into)


def _is_scatter(built: Built, name: str) -> bool:
    op = built.view.nodes[name].op
    return op.startswith(tuple(prefix for prefix in OTHER_WRITES if "Accumulator" not in prefix))


def _trainable(built: Built, scope: GradientScope) -> AbstractSet[str]:
    """Variables that an assignment may train: those of the collection, and those that the gradient code or its forward pass reads."""
    collected = built.state.collected(tf.GraphKeys.TRAINABLE_VARIABLES)
    if collected is not None:
        return collected
    before = built.view.ancestors(scope.nodes, control=False)
    return {name for name in before if built.state.variable(name) == name}


def _follow(built: Built, starts: Iterable[str], inside: AbstractSet[str]) -> Tuple[Set[str], List[Port]]:
    """Nodes that data leads to outside gradient code, and outputs of accumulators among them."""
    nodes = built.view.nodes
    seen: Set[str] = set()
    taken: List[Port] = []
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name in seen or name in inside or name in built.gradients:
            continue
        seen.add(name)
        waiting.extend(consumer.node for consumer in built.view.consumers(name))
        if nodes[name].op.endswith(_PUSHES):
            for consumer in built.view.consumers(built.view.inputs(name)[0].node):
                if nodes[consumer.node].op.endswith(_TAKES) and consumer.node not in seen:
                    taken += [port for port in built.read_ports(consumer.node) if built.is_float(port)]
                    waiting.append(consumer.node)
    return seen, taken


def _toward(built: Built, targets: Iterable[str], among: AbstractSet[str]) -> Set[str]:
    """Those of `among` that lead to the targets, through data and accumulators."""
    handles: Dict[str, List[str]] = {}
    for name in among:
        if built.view.nodes[name].op.endswith(_PUSHES):
            handles.setdefault(built.view.inputs(name)[0].node, []).append(name)
    seen: Set[str] = set()
    waiting = list(targets)
    while waiting:
        name = waiting.pop()
        if name in seen or name not in among:
            continue
        seen.add(name)
        waiting.extend(port.node for port in built.view.inputs(name))
        if built.view.nodes[name].op.endswith(_TAKES):
            waiting.extend(handles.get(built.view.inputs(name)[0].node, ()))
    return seen
