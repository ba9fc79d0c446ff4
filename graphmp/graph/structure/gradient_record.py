"""Recorded calls of `tf.gradients` and of gradient tapes: the nodes that each call made.

A record names nodes of the graph in which the call was made. It doesn't apply to a graph in which
these names belong to other nodes, or to none.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port


class RecordedCall(NamedTuple):
    """One call, with the calls inside it.

    Attributes:
        scope: its name scope, or a replacement for one.
        nodes: its gradient code: op types by node.
        forward: nodes that it made in loops of the forward pass: accumulators, counters.
        seeds: the initial gradients: ones, or copies of the `grad_ys`.
        losses: the nodes that it differentiates.
        results: the returned gradients, each after the node with respect to which it is taken.
        in_function: whether it was made in the body of a function.
    """

    scope: str
    nodes: Mapping[str, str]
    forward: Tuple[str, ...]
    seeds: Tuple[Port, ...]
    losses: Tuple[str, ...]
    results: Tuple[Tuple[str, Port], ...]
    in_function: bool

    def as_json(self) -> Dict[str, Any]:
        """As JSON values."""
        return self._asdict()

    @classmethod
    def from_json(cls, values: Dict[str, Any]) -> RecordedCall:
        """The inverse of `as_json`, also after a round trip through JSON."""
        read = dict(values, forward=tuple(values["forward"]), losses=tuple(values["losses"]))
        read["seeds"] = tuple(Port(*port) for port in values["seeds"])
        read["results"] = tuple((name, Port(*port)) for name, port in values["results"])
        return cls(**read)


def valid(
    recorded: Sequence[RecordedCall],
    nodes: Iterable[tf.NodeDef],
    given: Sequence[str] = (),
    in_function: bool = False,
) -> List[RecordedCall]:
    """The recorded calls that a graph contains, each with a scope of its own.

    Args:
        recorded: the calls.
        nodes: the graph's nodes.
        given: scopes that hold gradient code by definition, except those of recorded calls.
        in_function: whether the graph is the body of a function.
    """
    calls = [call for call in recorded if call.in_function == in_function]
    if not calls:
        return []
    ops = {node.name: node.op for node in nodes}
    found: List[RecordedCall] = []
    known: Set[str] = set()
    scopes: Set[str] = set()
    for call in sorted(calls, key=lambda call: -len(call.nodes)) if in_function else calls:
        if known.isdisjoint(call.nodes) and _holds(call, ops) and not _overruled(call, given):
            call = call._replace(scope=_free(call.scope, scopes))
            scopes.add(call.scope)
            known.update(call.nodes)
            found.append(call)
    return found


def _holds(call: RecordedCall, ops: Mapping[str, str]) -> bool:
    """Whether a graph has the nodes that a call made and the nodes that it was given."""
    ports = [*call.seeds, *(gradient for _, gradient in call.results)]
    return all(ops.get(name) == op for name, op in call.nodes.items()) and all(
        port.node in ops for port in ports
    )


def _overruled(call: RecordedCall, given: Sequence[str]) -> bool:
    scopes = [scope.strip("/") for scope in given]
    return call.scope not in scopes and any(
        name.startswith(scope + "/") for scope in scopes for name in call.nodes
    )


def _free(scope: str, taken: Set[str]) -> str:
    number, free = 1, scope
    while free in taken:
        number, free = number + 1, "%s (%d)" % (scope, number + 1)
    return free
