"""The writes that gradients of one scope reach by data, accumulators, queues and variables.

Neither a test of finiteness nor the predicate of a conditional hands a gradient on: what depends on
gradients by these alone is the model's own handling of bad ones, not an update.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Consumer, Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import (
    ACCUMULATOR_PUSHES,
    ARRAY_READS,
    ASSIGNS,
    ENQUEUES,
    EXITS,
    FINITE_TESTS,
    STAGES,
    SWITCHES,
    UPDATE_PREFIXES,
)
from graphmp.scaling.losses.model import GradientScope
from graphmp.scaling.losses.training_graph import TrainingGraph


class GradientFlow(NamedTuple):
    """The destinations of the gradients of a scope.

    Attributes:
        gradients: outputs that reach a write.
        checked: those without an all-reduce on the way, and the complete results of the last
            all-reduces.
        reduced: whether there are all-reduces.
        direct: writes, through edges, accumulators and queues; if gradients are taken out of such,
            only those behind.
        later: training writes reached through a variable that holds gradients for a later step.
        trained: all writes that train a variable.
        taken: outputs that take gradients out of accumulators or queues.
        emerging: outputs by which functions of gradients leave while loops on their way to a write.
    """

    gradients: Tuple[Port, ...]
    checked: Tuple[Port, ...]
    reduced: bool
    direct: AbstractSet[str]
    later: AbstractSet[str]
    trained: AbstractSet[str]
    taken: Tuple[Port, ...]
    emerging: Tuple[Port, ...]


def gradient_flow(
    graph: TrainingGraph, scope: GradientScope, chosen: Optional[AbstractSet[str]]
) -> GradientFlow:
    """Follow the gradients of a scope; with `chosen`, only these writes count.

    Through queues and staging areas only if they train in no other way: else what is put there is
    a priority, or to be shown.
    """
    flow = _flow(graph, scope, chosen, ACCUMULATOR_PUSHES)
    if flow.trained or not graph.queued:
        return flow
    queued = _flow(graph, scope, chosen, ACCUMULATOR_PUSHES | STAGES | ENQUEUES)
    return queued if queued.trained else flow


def _flow(
    graph: TrainingGraph,
    scope: GradientScope,
    chosen: Optional[AbstractSet[str]],
    puts: AbstractSet[str],
) -> GradientFlow:
    """Follow the gradients of a scope, without edges where ops of `puts` put them."""
    trainable = _trainable(graph, scope)

    def writes(names: Iterable[str]) -> Set[str]:
        """The writes among nodes, those that count."""
        return {
            name
            for name in names
            if graph.state.is_write(name) and (chosen is None or name in chosen)
        }

    def training(names: AbstractSet[str]) -> Set[str]:
        return {name for name in names if _trains(graph, name, trainable)}

    leaving = [c for port in scope.leaving for c in _readers(graph, port)]
    after, taken = _follow(graph, leaving, scope.nodes, puts)
    takers = [c for port in taken for c in _readers(graph, port)]
    behind = _follow(graph, takers, scope.nodes, puts)[0] if taken else after
    direct = {name for name in writes(behind) if not _is_push(graph, name)}
    trained = training(direct)
    later = training(writes(_behind_held(graph, direct - trained, puts) - direct))
    into = _toward(graph, direct, after)
    read = _read_in(graph, scope.leaving, into)
    gradients = [port for port in read if graph.is_float(port)]
    checked = _checked(graph, gradients, direct, after)
    reduced = any(port.node in graph.reduces.whole for port in checked)
    return GradientFlow(
        tuple(gradients),
        tuple(checked),
        reduced,
        direct,
        later,
        trained | later,
        tuple(taken),
        tuple(_emerging(graph, read, into)),
    )


def _trains(graph: TrainingGraph, name: str, trainable: AbstractSet[str]) -> bool:
    """Whether a write trains a variable; else it may hold gradients for a later step."""
    written = graph.state.written(name)
    is_update = graph.view.nodes[name].op.startswith(UPDATE_PREFIXES)
    return is_update or not written or bool(written & trainable)


def _behind_held(
    graph: TrainingGraph, holding: AbstractSet[str], puts: AbstractSet[str]
) -> Set[str]:
    """The nodes behind variables to which some writes add gradients for a later step."""
    held = {variable for name in holding for variable in graph.state.written(name)}
    reads = [
        c
        for variable in held
        for c in graph.view.consumers(variable)
        if c.slot or graph.view.nodes[c.node].op not in ASSIGNS
    ]
    return _follow(graph, reads, frozenset(), puts)[0]


def _read_in(graph: TrainingGraph, ports: Iterable[Port], among: AbstractSet[str]) -> List[Port]:
    """The outputs that some of the nodes read."""
    return [
        p
        for p in ports
        if any(c.output == p.output and c.node in among for c in graph.view.consumers(p.node))
    ]


def _checked(
    graph: TrainingGraph, gradients: List[Port], direct: AbstractSet[str], after: AbstractSet[str]
) -> List[Port]:
    """Gradients as they leave gradient code, or complete behind the last all-reduce on their way.

    Not behind a write of theirs, a sum over several steps: that write waits for the check.
    """
    into = _toward(graph, direct, after)
    found = graph.reduces.whole & into
    found -= graph.view.descendants(direct) if found else set()
    if not found:
        return gradients
    before = _toward(graph, found, into)
    last = {
        name
        for name in found
        if not any(consumer.node in before for consumer in graph.view.consumers(name))
    }
    whole = [
        port
        for name in graph.view.in_graph_order(last)
        for port in graph.read_ports(name)
        if graph.is_float(port)
    ]
    return _read_in(graph, gradients, _toward(graph, direct, after - last)) + _read_in(
        graph, whole, into
    )


def _emerging(graph: TrainingGraph, gradients: List[Port], into: AbstractSet[str]) -> List[Port]:
    """Where values leave while loops, or TensorArrays and TensorLists filled there.

    The first ones.
    """
    lists = [port for port in gradients if not graph.is_float(port)]
    if lists:
        return _out_of_lists(graph, lists, into)
    if not any(graph.looped(port.node) for port in gradients):
        return []
    outside = [name for name in graph.view.nodes if name in into and not graph.looped(name)]
    names = [
        name
        for name in outside
        if graph.view.nodes[name].op in ARRAY_READS | EXITS and not graph.is_flow(name)
    ]
    behind = graph.view.followed(
        [c.node for name in names for c in graph.view.consumers(name)], lambda name: name in into
    )
    return [Port(name, 0) for name in names if name not in behind and graph.is_float(Port(name, 0))]


def _out_of_lists(graph: TrainingGraph, lists: List[Port], into: AbstractSet[str]) -> List[Port]:
    """The first reads out of TensorLists."""
    readers = {
        c.node for port in lists for c in graph.view.consumers(port.node) if c.output == port.output
    }
    among = graph.view.followed(readers, lambda name: name in into)
    found = [name for name in among if any(graph.is_list(port) for port in graph.view.inputs(name))]
    return [
        port
        for name in graph.view.in_graph_order(found)
        for port in graph.read_ports(name)
        if graph.is_float(port)
    ]


def _trainable(graph: TrainingGraph, scope: GradientScope) -> AbstractSet[str]:
    """Variables that an assignment may train: trainable ones, and those that gradients are of.

    The latter are those that the scope's code depends on: what is written to them changes the loss.
    """
    before = graph.view.ancestors(scope.nodes, control=False)
    read = {name for name in before if graph.state.variable(name) == name}
    return read | (graph.state.collected(tf.GraphKeys.TRAINABLE_VARIABLES) or frozenset())


def _follow(
    graph: TrainingGraph,
    starts: Iterable[Consumer],
    inside: AbstractSet[str],
    puts: AbstractSet[str],
) -> Tuple[Set[str], List[Port]]:
    """Nodes reached by data outside gradient code, and outputs among them at which it arrives."""
    seen: Set[str] = set()
    taken: Dict[Port, None] = {}
    waiting = list(starts)
    while waiting:
        consumer = waiting.pop()
        name, slot = consumer.node, consumer.slot
        if name in inside or name in graph.gradients:
            continue
        if graph.view.nodes[name].op in puts:
            for port in graph.transfers.arrivals(name, slot):
                if graph.is_float(port) and port not in taken:
                    taken[port] = None
                    seen.add(port.node)
                    waiting.extend(_readers(graph, port))
        if name not in seen:
            seen.add(name)
            waiting.extend(value_readers(graph, name))
    return seen, list(taken)


def _readers(graph: TrainingGraph, port: Port) -> Iterator[Consumer]:
    """The consumers of an output that hand on what is computed from it."""
    return (c for c in value_readers(graph, port.node) if c.output == port.output)


def _is_push(graph: TrainingGraph, name: str) -> bool:
    return graph.view.nodes[name].op in ACCUMULATOR_PUSHES


def value_readers(graph: TrainingGraph, name: str) -> Iterator[Consumer]:
    """The consumers of a node's outputs that hand on what is computed from them."""
    for consumer in graph.view.consumers(name):
        if graph.view.nodes[consumer.node].op not in FINITE_TESTS and not (
            consumer.slot and _is_switch(graph, consumer.node)
        ):
            yield consumer


def _is_switch(graph: TrainingGraph, name: str) -> bool:
    return graph.view.nodes[name].op in SWITCHES


def _toward(graph: TrainingGraph, targets: Iterable[str], among: AbstractSet[str]) -> Set[str]:
    """Those of `among` that lead to the targets, by data, accumulators and queues."""

    def before(name: str) -> Iterator[str]:
        ports = graph.view.inputs(name)
        yield from (port.node for port in ports[: 1 if _is_switch(graph, name) else None])
        yield from graph.transfers.puts(name)

    return reached(targets, before, among.__contains__)
