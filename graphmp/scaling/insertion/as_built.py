"""The values of scaled gradient code as the script built it: fetched and fed without the scale."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from graphmp.graph.structure.view import Port
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.losses.model import GradientScope, Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import copies_unscaled


class Scaled(NamedTuple):
    """An output of the converted graph: a value of the original times a power of the scale."""

    port: Port
    power: int


class AsBuilt(NamedTuple):
    """The converted graph's outputs for those of one loss's gradient code.

    Attributes:
        scale: the node of the scale in a step; empty without one.
        finite: the node of the finite check; empty without one.
        largest: the node that a first step's measure replaces; empty without one.
        nodes: the gradient code.
        fetched: the output that has the value of an original one, where that isn't its own.
        fed: the outputs to feed for an original one, where that isn't its own alone.
    """

    scale: str
    finite: str
    largest: str
    nodes: AbstractSet[str]
    fetched: Mapping[Port, Scaled]
    fed: Mapping[Port, Tuple[Scaled, ...]]


def as_built(graph: TrainingGraph, loss: Loss, made: Arithmetic) -> AsBuilt:
    """The values of the gradient code of a loss that is scaled, outside of while loops."""
    fetched: Dict[Port, Scaled] = {}
    fed: Dict[Port, Tuple[Scaled, ...]] = {}
    for scope in (scope for scope in loss.scopes if not scope.call):
        for port in _outputs(graph, scope):
            own, unscaled = _own(graph, scope, made, port), made.unscaled_port(port)
            if own.power:
                fetched[port] = own if unscaled is None else Scaled(unscaled, 0)
            stands = list(_read(graph, scope, made, own, unscaled))
            if stands != [Scaled(port, 0)]:
                fed[port] = tuple(stands)
    return AsBuilt(
        made.in_step,
        made.finite,
        made.first_step.largest if made.first_step is not None else "",
        frozenset(name for scope in loss.scopes for name in scope.nodes),
        fetched,
        fed,
    )


def _outputs(graph: TrainingGraph, scope: GradientScope) -> Iterator[Port]:
    """The floating-point outputs of gradient code that a run can fetch or feed."""
    for name in graph.view.in_graph_order(scope.nodes):
        if not graph.looped(name):
            yield from (port for port in graph.outputs(name) if graph.is_float(port))


def _own(graph: TrainingGraph, scope: GradientScope, made: Arithmetic, port: Port) -> Scaled:
    """The power at which the converted graph has an output's value under its name."""
    unscaled = not made.current or port in made.moved or copies_unscaled(graph, scope, port.node)
    return Scaled(port, 0 if unscaled else scope.degrees.at(port))


def _read(
    graph: TrainingGraph,
    scope: GradientScope,
    made: Arithmetic,
    own: Scaled,
    unscaled: Optional[Port],
) -> Iterator[Scaled]:
    """The outputs that are read for a value: scaled by gradient code, unscaled by all else."""
    inside = any(
        consumer.output == own.port.output and consumer.node in scope.nodes
        for consumer in graph.view.consumers(own.port.node)
    )
    if inside and own.port in made.moved:
        yield Scaled(made.moved[own.port], scope.degrees.at(own.port))
    if inside or not own.power or unscaled is None:
        yield own
    if unscaled is not None and unscaled != own.port:
        yield Scaled(unscaled, 0)
