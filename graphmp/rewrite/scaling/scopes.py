"""One call of `tf.gradients` in a graph: where it starts, what it takes the gradient of, what leaves it.

1. Seeds are those on record, else ones, or the user's `grad_ys`, among the leaves of its name scope.
2. What lies between two parts of its code belongs to it, by whatever name, where the call is not on record.
3. State that is named below it, or made in it, does not: a moving average of a gradient has a variable of the gradient's name.
"""

from __future__ import annotations

from typing import AbstractSet, Iterator, List, Set

from graphmp.graph.calls import CALLS
from graphmp.graph.gradient_names import differentiated
from graphmp.graph.values import all_equal
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import Port
from graphmp.rewrite.scaling.homogeneity import Code, degrees
from graphmp.rewrite.scaling.model import GradientScope
from graphmp.rewrite.scaling.training_graph import TrainingGraph


def gradient_scope(graph: TrainingGraph, scope: str, nodes: AbstractSet[str]) -> GradientScope:
    """Reads one call of `tf.gradients`: its name scope, and the gradient code below that."""
    call = graph.recorded.get(scope)
    nodes = _without_state(graph, nodes)
    nodes = nodes if call is not None else _whole(graph, nodes)
    seeds = tuple(_seeds(graph, scope, nodes))
    code = Code(graph.view, nodes, frozenset(seeds), graph.is_float, graph.is_list, graph.functions | CALLS, graph.looped, graph.called)
    leaving = [port for name in graph.view.nodes if name in nodes for port in _read_outside(graph, name, nodes) if graph.is_float(port)]
    losses = call.losses if call is not None else dict.fromkeys(loss for seed in seeds for loss in _differentiated(graph, seed, nodes))
    return GradientScope(scope, nodes, seeds, tuple(losses), degrees(code), tuple(leaving))


def _differentiated(graph: TrainingGraph, seed: Port, nodes: AbstractSet[str]) -> List[str]:
    """What a seed is the gradient of: the forward node of its reader; of several (a sum has no node of its own) what they first come together in."""
    view = graph.view
    shape = view.nodes[view.inputs(seed.node)[0].node] if view.nodes[seed.node].op == "Fill" else None
    if shape is not None and shape.op == "Shape":
        return [view.inputs(shape.name)[0].node]
    names = {differentiated(c.node, view.nodes.keys()) for c in view.consumers(seed.node) if c.output == seed.output and c.node in nodes}
    found = [name for name in names if name is not None]
    if len(found) > 1:
        after = {name: graph.view.followed([name], lambda n: n not in graph.gradients) for name in found}
        found = [name for name in found if not any(other in after[name] for other in found if other != name)]
        common = set.intersection(*(after[name] for name in found)) if len(found) > 1 else set()
        found = [name for name in view.nodes if name in common][:1] or found
    return sorted(found)


def _read_outside(graph: TrainingGraph, name: str, nodes: AbstractSet[str]) -> List[Port]:
    return sorted({Port(name, consumer.output) for consumer in graph.view.consumers(name) if consumer.node not in nodes})


def _without_state(graph: TrainingGraph, nodes: AbstractSet[str]) -> AbstractSet[str]:
    """Less variables and writes, what is read from such a variable, and what is computed for them alone."""
    view = graph.view
    variables = {name for name in nodes if view.nodes[name].op in VARIABLE_OPS}
    if not variables:
        return nodes
    apart = view.followed(variables, lambda name: name in nodes) | {name for name in nodes if graph.state.is_write(name)}
    waiting = [port.node for name in apart for port in view.inputs(name)]
    while waiting:
        name = waiting.pop()
        if name in nodes and name not in apart and all(consumer.node in apart for consumer in view.consumers(name)):
            apart.add(name)
            waiting += [port.node for port in view.inputs(name)]
    return nodes - apart


def _whole(graph: TrainingGraph, nodes: AbstractSet[str]) -> AbstractSet[str]:
    """Gradient code and what lies between two parts of it, by whatever name: a custom gradient may open scopes of its own."""
    outside = {consumer.node for name in nodes for consumer in graph.view.consumers(name) if consumer.node not in nodes}
    if not outside:
        return nodes
    after = graph.view.followed(outside, lambda name: name not in nodes)
    again = [name for name in after if any(consumer.node in nodes for consumer in graph.view.consumers(name))]
    if not again:
        return nodes
    return set(nodes) | (after & graph.view.ancestors(again, control=False))


def _seeds(graph: TrainingGraph, scope: str, nodes: AbstractSet[str]) -> Iterator[Port]:
    """What gradients start from: ones and `grad_ys` among the leaves of a scope; else what they take from outside that is no forward value."""
    if scope in graph.recorded:
        return (seed for seed in graph.recorded[scope].seeds if graph.is_float(seed) and _is_read(graph, seed, nodes))
    if scope in graph.discovered:
        return iter(graph.discovered[scope].seeds)
    found = [port for name in graph.view.nodes if name in nodes and _is_leaf(name, scope) for port in _leaf_seed(graph, name)]
    return iter(found or _given_seeds(graph, nodes))


def _is_read(graph: TrainingGraph, port: Port, nodes: AbstractSet[str]) -> bool:
    """Whether something reads an output: gradient code, where it comes from outside of that."""
    return any(c.output == port.output and (c.node in nodes or port.node in nodes) for c in graph.view.consumers(port.node))


def _is_leaf(name: str, scope: str) -> bool:
    return "/" not in name[len(scope) + 1 if scope else 0 :]


def _leaf_seed(graph: TrainingGraph, name: str) -> List[Port]:
    node, consumers = graph.view.nodes[name], graph.view.consumers(name)
    given = name.rsplit("/", 1)[-1].startswith("grad_ys") and node.op in ("Identity", "Const", "Fill", "OnesLike")
    if not consumers or not graph.is_float(Port(name, 0)) or (node.op == "Const" and all(graph.view.nodes[c.node].op == "Fill" for c in consumers)):
        return []
    ones = (
        node.op == "OnesLike"
        or (node.op == "Const" and all_equal(node, 1))
        or (node.op == "Fill" and all_equal(graph.view.nodes[graph.view.inputs(name)[1].node], 1))
    )
    return [Port(name, 0)] if given or ones else []


def _given_seeds(graph: TrainingGraph, nodes: AbstractSet[str]) -> List[Port]:
    """The user's `grad_ys` where TensorFlow did not copy them (before 1.5): read by gradient code of X, and neither X nor before it."""
    found: Set[Port] = set()
    names = graph.view.nodes.keys()
    for name in nodes:
        ports = [port for port in graph.view.inputs(name) if port.node not in nodes and graph.is_float(port)]
        forward = differentiated(name, names) if ports else None
        if forward is None or any(port.node in nodes and graph.is_float(port) for port in graph.view.inputs(name)):
            continue
        values = graph.view.ancestors([forward])
        found.update(port for port in ports if port.node not in values)
    return sorted(found)
