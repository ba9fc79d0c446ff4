"""One call of `tf.gradients` in a graph: its seeds, what it differentiates, and its results.

1. Seeds are the recorded ones, else ones, or the user's `grad_ys`, among the leaves of its scope.
2. Nodes between two parts of its code belong to it, by any name, unless the call is recorded.
3. State with a name below it, or made in it, does not: a moving average of a gradient has a
   variable with the gradient's name.
"""

from __future__ import annotations

import itertools
from typing import AbstractSet, Any, Iterator, List, Optional, Set, Tuple

from graphmp.graph.structure.values import all_equal
from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import CALLS, FILLS, IDENTITIES, NEXT_ITERATIONS, VARIABLE_OPS
from graphmp.policy.traits import FORGETS_VALUES
from graphmp.scaling.degrees.code import ScaledCode
from graphmp.scaling.degrees.homogeneity import ScaleEffect, degrees
from graphmp.scaling.losses.model import GradientScope
from graphmp.scaling.losses.training_graph import TrainingGraph


def gradient_scope(graph: TrainingGraph, scope: str, nodes: AbstractSet[str]) -> GradientScope:
    """Analyse one call of `tf.gradients`: its name scope, and the gradient code below that."""
    call = graph.recorded.get(scope)
    nodes = _without_state(graph, nodes)
    nodes = nodes if call is not None else _whole(graph, nodes)
    seeds = tuple(_seeds(graph, scope, nodes))
    code = ScaledCode(
        graph.view,
        nodes,
        frozenset(seeds),
        graph.is_float,
        graph.is_list,
        graph.functions | CALLS,
        graph.looped,
        graph.called,
    )
    leaving = [
        port
        for name in graph.view.in_graph_order(nodes)
        for port in _read_outside(graph, name, nodes)
        if graph.is_float(port)
    ]
    losses = (
        call.losses
        if call is not None
        else dict.fromkeys(loss for seed in seeds for loss in _differentiated(graph, seed, nodes))
    )
    others = (graph.view.behind(seed, IDENTITIES).node for seed in seeds)
    goes_on = bool(seeds) and all(name in graph.gradients and name not in nodes for name in others)
    return GradientScope(
        scope, nodes, seeds, tuple(losses), degrees(code), tuple(leaving), goes_on=goes_on
    )


def call_scope(graph: TrainingGraph, call: str) -> GradientScope:
    """A call of gradient-taking functions, as a scope of gradient code."""
    leaving = [port for port in graph.read_ports(call) if graph.carries(port)]
    return GradientScope(call, {call}, (), (), ScaleEffect({}, {}, [], []), tuple(leaving), call)


def _differentiated(graph: TrainingGraph, seed: Port, nodes: AbstractSet[str]) -> List[str]:
    """The loss of a seed.

    The forward node of its consumer; for several consumers, the node where these first meet.
    """
    view = graph.view
    shape = (
        view.nodes[view.inputs(seed.node)[0].node] if view.nodes[seed.node].op == "Fill" else None
    )
    if shape is not None and shape.op == "Shape":
        return [view.inputs(shape.name)[0].node]
    names = {
        graph.differentiated(c.node)
        for c in view.consumers(seed.node)
        if c.output == seed.output and c.node in nodes
    }
    named = [name for name in names if name is not None]
    found = named or (_first_located(graph, seed, nodes) if graph.forward else [])
    if len(found) > 1:
        inside = nodes if graph.forward else graph.gradients
        after = {name: view.followed([name], lambda n: n not in inside) for name in found}
        found = [
            name
            for name in found
            if not any(other in after[name] for other in found if other != name)
        ]
        common = set.intersection(*(after[name] for name in found)) if len(found) > 1 else set()
        common = {
            name
            for name in common
            if named
            or (graph.is_float(Port(name, 0)) and graph.shape(Port(name, 0)) == graph.shape(seed))
        }
        found = [name for name in view.nodes if name in common][:1] or found
    return sorted(found if named else {_of_shape(graph, name, graph.shape(seed)) for name in found})


def _first_located(graph: TrainingGraph, seed: Port, nodes: AbstractSet[str]) -> List[str]:
    """The forward nodes of the first nodes of gradient code that have one."""

    def after(name: str) -> Iterator[str]:
        if name == seed.node or graph.differentiated(name) is None:
            yield from (c.node for c in graph.view.consumers(name) if c.node in nodes)

    seen = reached([seed.node], after) - {seed.node}
    return sorted(own for own in set(map(graph.differentiated, seen)) if own is not None)


def _of_shape(graph: TrainingGraph, name: str, shape: Optional[Any]) -> str:
    """A forward node, or its first sole consumer of a given shape; itself if there is none."""
    at = name
    while shape is not None and graph.shape(Port(at, 0)) != shape:
        after = {
            c.node
            for c in graph.view.consumers(at)
            if c.node not in graph.gradients and graph.is_float(Port(c.node, 0))
        }
        after = {name for name in after if graph.view.nodes[name].op not in FORGETS_VALUES}
        if len(after) != 1:
            return name
        at = after.pop()
    return at


def _read_outside(graph: TrainingGraph, name: str, nodes: AbstractSet[str]) -> List[Port]:
    return sorted(
        {
            Port(name, consumer.output)
            for consumer in graph.view.consumers(name)
            if consumer.node not in nodes
        }
    )


def _without_state(graph: TrainingGraph, nodes: AbstractSet[str]) -> AbstractSet[str]:
    """Remove variables and writes, nodes read from such a variable, and nodes only for them."""
    view = graph.view
    variables = {name for name in nodes if view.nodes[name].op in VARIABLE_OPS}
    if not variables:
        return nodes
    apart = view.followed(variables, lambda name: name in nodes) | {
        name for name in nodes if graph.state.is_write(name)
    }
    waiting = [port.node for name in apart for port in view.inputs(name)]
    while waiting:
        name = waiting.pop()
        if (
            name in nodes
            and name not in apart
            and all(consumer.node in apart for consumer in view.consumers(name))
        ):
            apart.add(name)
            waiting += [port.node for port in view.inputs(name)]
    return nodes - apart


def _whole(graph: TrainingGraph, nodes: AbstractSet[str]) -> AbstractSet[str]:
    """Gradient code with the nodes between two of its parts, by any name.

    A custom gradient may open scopes of its own. From one iteration to the next of a loop that
    contains it, the nodes between belong to the model.
    """
    outside = {
        consumer.node
        for name in nodes
        for consumer in graph.view.consumers(name)
        if consumer.node not in nodes
    }
    if not outside:
        return nodes
    around = _around(graph, nodes)

    def leads_back(name: str) -> bool:
        return (
            graph.view.nodes[name].op in NEXT_ITERATIONS
            and graph.loops(name) == around[: len(graph.loops(name))]
        )

    after = graph.view.followed(outside, lambda name: name not in nodes and not leads_back(name))
    again = [
        name
        for name in after
        if any(consumer.node in nodes for consumer in graph.view.consumers(name))
    ]
    if not again:
        return nodes
    return set(nodes) | (after & graph.view.ancestors(again, control=False))


def _around(graph: TrainingGraph, nodes: AbstractSet[str]) -> Tuple[str, ...]:
    """The loops that contain all nodes."""
    paths = {graph.loops(name) for name in nodes}
    shared = itertools.takewhile(lambda frames: len(set(frames)) == 1, zip(*paths))
    return tuple(frames[0] for frames in shared)


def _seeds(graph: TrainingGraph, scope: str, nodes: AbstractSet[str]) -> Iterator[Port]:
    """The seeds of gradients.

    Ones and `grad_ys` among the leaves of a scope, else outside inputs that are no forward values.
    """
    if scope in graph.recorded:
        return (
            seed
            for seed in graph.recorded[scope].seeds
            if graph.is_float(seed) and _is_read(graph, seed, nodes)
        )
    if scope in graph.discovered:
        return iter(graph.discovered[scope].seeds)
    found = [
        port
        for name in graph.view.in_graph_order(nodes)
        if _is_leaf(name, scope)
        for port in _leaf_seed(graph, name)
    ]
    return iter(found or _given_seeds(graph, nodes))


def _is_read(graph: TrainingGraph, port: Port, nodes: AbstractSet[str]) -> bool:
    """Whether an output has consumers; for one from outside gradient code, in gradient code."""
    return any(
        c.output == port.output and (c.node in nodes or port.node in nodes)
        for c in graph.view.consumers(port.node)
    )


def _is_leaf(name: str, scope: str) -> bool:
    return "/" not in name[len(scope) + 1 if scope else 0 :]


def _leaf_seed(graph: TrainingGraph, name: str) -> List[Port]:
    node, consumers = graph.view.nodes[name], graph.view.consumers(name)
    given = name.rsplit("/", 1)[-1].startswith("grad_ys") and node.op in (
        FILLS | {"Const", "Identity"}
    )
    if (
        not consumers
        or not graph.is_float(Port(name, 0))
        or (node.op == "Const" and all(graph.view.nodes[c.node].op == "Fill" for c in consumers))
    ):
        return []
    ones = (
        node.op == "OnesLike"
        or (node.op == "Const" and all_equal(node, 1))
        or (node.op == "Fill" and all_equal(graph.view.nodes[graph.view.inputs(name)[1].node], 1))
    )
    return [Port(name, 0)] if given or ones else []


def _given_seeds(graph: TrainingGraph, nodes: AbstractSet[str]) -> List[Port]:
    """The user's `grad_ys`, if TensorFlow didn't copy them (before 1.5).

    Gradient code of X reads them, and they are neither X nor before it.
    """
    found: Set[Port] = set()
    for name in nodes:
        ports = [
            port
            for port in graph.view.inputs(name)
            if port.node not in nodes and graph.is_float(port)
        ]
        forward = graph.differentiated(name) if ports else None
        if forward is None or any(
            port.node in nodes and graph.is_float(port) for port in graph.view.inputs(name)
        ):
            continue
        values = graph.view.ancestors([forward])
        found.update(port for port in ports if port.node not in values)
    return sorted(found)
