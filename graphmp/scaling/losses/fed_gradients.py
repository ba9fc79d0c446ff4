"""Losses whose gradients are fetched, processed in Python, and fed back through placeholders.

Their updates belong to the scope that differentiates by the variables they write, else to those
that differentiate by variables of the same shapes (a worker's copy, in A3C).
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from graphmp.graph.state.variables import variables
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import ADDS_OF_MANY, PLACEHOLDERS
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.training_graph import TrainingGraph


def fed_losses(
    graph: TrainingGraph,
    idle: List[GradientScope],
    chosen: Optional[AbstractSet[str]],
    taken: AbstractSet[str],
) -> Iterator[Loss]:
    """Losses whose gradients are fetched and fed back.

    Args:
        graph: the graph.
        idle: gradient scopes that reach no update by data.
        chosen: writes that count; None for all.
        taken: updates that belong to other losses.
    """
    fed: Dict[str, Tuple[Port, ...]] = {}
    for name in graph.state.writes:
        slot = graph.slot_named(name, "grad", "delta")
        if slot >= 0 and name not in taken and (chosen is None or name in chosen):
            ports = tuple(_placeholders(graph, graph.view.inputs(name)[slot]))
            if ports:
                fed[name] = ports
    left: List[Tuple[GradientScope, Dict[str, List[Port]]]] = []
    for scope in idle if fed else ():
        by_variable = _results(graph, scope)
        updates = [name for name in fed if graph.state.written(name) & set(by_variable)]
        if updates:
            written = {variable for name in updates for variable in graph.state.written(name)}
            final = dict.fromkeys(
                port
                for variable, ports in by_variable.items()
                if variable in written
                for port in ports
            )
            yield _fed_loss([scope], final, updates, fed)
        elif by_variable:
            left.append((scope, by_variable))
    yield from _fed_elsewhere(graph, left, fed)


def _fed_loss(
    scopes: List[GradientScope],
    gradients: Iterable[Port],
    updates: List[str],
    fed: Dict[str, Tuple[Port, ...]],
) -> Loss:
    arrivals = dict.fromkeys(port for name in updates for port in fed.pop(name))
    ports, names = tuple(gradients), tuple(sorted(updates))
    return Loss(
        tuple(scopes), ports, ports, False, len(scopes) > 1, tuple(arrivals), True, names, names
    )


def _fed_elsewhere(
    graph: TrainingGraph,
    left: List[Tuple[GradientScope, Dict[str, List[Port]]]],
    fed: Dict[str, Tuple[Port, ...]],
) -> Iterator[Loss]:
    """Gradients with respect to a copy's variables that update others (A3C), matched by shape."""
    shapes = {
        variable.name: str(variable.shape) for variable in variables(graph.meta_graph.graph_def)
    }
    optimizers: Dict[Tuple[str, ...], List[str]] = {}  # by the nodes that wait for their updates
    for name in fed:
        optimizers.setdefault(graph.view.control_consumers(name), []).append(name)
    for updates in optimizers.values():
        wanted = collections.Counter(
            shapes[v]
            for name in updates
            for v in graph.state.written(name)
            & (graph.state.collected("trainable_variables") or set())
        )
        alike = [
            (s, results)
            for s, results in left
            if wanted and not wanted - collections.Counter(shapes[v] for v in results)
        ]
        if alike:
            final = dict.fromkeys(
                port for _, results in alike for ports in results.values() for port in ports
            )
            yield _fed_loss([scope for scope, _ in alike], final, updates, fed)
            left = [row for row in left if row not in alike]


def _placeholders(graph: TrainingGraph, gradient: Port) -> List[Port]:
    """The placeholders that a gradient depends on; empty if it depends on gradient code."""
    if gradient.node in graph.gradients:
        return []
    before = graph.view.ancestors([gradient.node], control=False)
    if before & graph.gradients:
        return []
    return [
        Port(name, 0)
        for name in sorted(before)
        if graph.view.nodes[name].op in PLACEHOLDERS and graph.is_float(Port(name, 0))
    ]


def _results(graph: TrainingGraph, scope: GradientScope) -> Dict[str, List[Port]]:
    """Results of gradient code by the variable that they may belong to: one of the same shape.

    All, if none has its shape.
    """
    found: Dict[str, List[Port]] = {}
    if scope.scope in graph.recorded:
        for x, port in graph.recorded[scope.scope].results:
            variable = graph.state.variable(x)
            if variable is not None and port.node in scope.degrees.of and graph.is_float(port):
                found.setdefault(variable, []).append(port)
        return found
    for name in graph.view.nodes:
        if name in scope.degrees.of:
            for port in (port for port in graph.outputs(name) if _is_final(graph, scope, port)):
                for variable in _differentiated_by(graph, name):
                    found.setdefault(variable, []).append(port)
    declared = {variable.name: variable.shape for variable in variables(graph.meta_graph.graph_def)}
    for variable, ports in found.items():
        shape = declared[variable]
        alike = [p for p in ports if shape is not None and graph.shape(p) == list(shape)]
        found[variable] = alike or ports
    return found


def _is_final(graph: TrainingGraph, scope: GradientScope, port: Port) -> bool:
    """Whether an output of gradient code is a result: nothing in its scope reads it."""
    return graph.is_float(port) and not any(
        c.output == port.output and c.node in scope.nodes for c in graph.view.consumers(port.node)
    )


def _differentiated_by(graph: TrainingGraph, name: str) -> Set[str]:
    """The variables that the forward node of a node reads; for a sum, those of all its terms."""
    forward = graph.differentiated(name)
    if forward is None:
        summed = (
            [_differentiated_by(graph, port.node) for port in graph.view.inputs(name)]
            if graph.view.nodes[name].op in ADDS_OF_MANY
            else []
        )
        return set.intersection(*summed) if summed else set()
    found = {graph.state.variable(port.node) for port in graph.view.inputs(forward)}
    return {variable for variable in found if variable is not None}
