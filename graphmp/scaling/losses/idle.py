"""Gradient code whose gradients train nothing: no loss scale reaches it.

Gradients that are fetched, counted in a statistic or multiplied by a vector. Not those that another
loss reads that trains, such as a gradient penalty's: they are a part of its forward pass.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, Iterator, NamedTuple, Sequence, Tuple

from graphmp.graph.structure.calls import functions_by_name
from graphmp.naming import in_body, of_function
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.returned import calls_of, gradient_code, taking
from graphmp.scaling.losses.scopes import gradient_scope
from graphmp.scaling.losses.training_graph import TrainingGraph


class IdleCode(NamedTuple):
    """The gradient code of one start.

    Attributes:
        nodes: the paths of its nodes.
        kept: the path of a write of a value that is made of its gradients: state that updates may
            read. Empty if there is none.
    """

    nodes: AbstractSet[str]
    kept: str


def idle_code(graph: TrainingGraph, losses: Sequence[Loss], body: str = "") -> Dict[str, IdleCode]:
    """The idle gradient code of a graph, by the node that it starts from; all as paths.

    Args:
        graph: the main graph, or a function's body.
        losses: all its losses that train.
        body: the name of the function; empty for the main graph.
    """
    read = _read_in_training(graph, losses)
    found = {}
    for start, nodes in _idle(graph, losses):
        if read.isdisjoint(nodes):
            kept = _kept(graph, nodes)
            paths = {in_body(body, name) for name in nodes}
            found[in_body(body, start)] = IdleCode(paths, kept and in_body(body, kept))
    return found


def idle_functions(
    graph: TrainingGraph, losses: Sequence[Loss], served: AbstractSet[str]
) -> Dict[str, IdleCode]:
    """The idle gradient code of functions that write nothing, as `idle_code`.

    Args:
        graph: the main graph.
        losses: all its losses that train.
        served: functions whose gradients train.
    """
    graph_def = graph.meta_graph.graph_def
    functions = taking(graph_def, graph.state.writing_functions) - served
    library, read = functions_by_name(graph_def), _read_in_training(graph, losses)
    calls = calls_of(graph_def, functions)
    into = {name for call, names in calls.items() if call in read for name in names}
    idle = {name for names in calls.values() for name in names} - into
    return {
        of_function(name): IdleCode(
            {in_body(name, node) for node in gradient_code(library[name].node_def)},
            _kept(graph, (call for call, names in calls.items() if name in names)),
        )
        for name in sorted(idle)
    }


def _kept(graph: TrainingGraph, nodes: Iterable[str]) -> str:
    """The first write that values of some nodes lead to; empty without any."""
    reached = graph.view.followed(nodes, lambda name: name not in graph.state.initializers)
    writes = [name for name in graph.state.writes if name in reached]
    return next(iter(graph.view.in_graph_order(writes)), "")


def _read_in_training(graph: TrainingGraph, losses: Sequence[Loss]) -> AbstractSet[str]:
    """Gradient code that trains, and all nodes before it."""
    scopes = [scope for loss in losses for scope in loss.scopes]
    return graph.view.ancestors({name for scope in scopes for name in scope.nodes}, control=False)


def _idle(graph: TrainingGraph, losses: Sequence[Loss]) -> Iterator[Tuple[str, AbstractSet[str]]]:
    """Calls of `tf.gradients` of no loss, by the nodes of their first seeds."""
    trains = {scope.scope for loss in losses for scope in loss.scopes}
    for name, nodes in graph.code.items():
        scope = gradient_scope(graph, name, nodes) if name not in trains else None
        if scope is not None and scope.seeds:
            yield scope.seeds[0].node, scope.nodes
