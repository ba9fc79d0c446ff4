"""Groups of a step's writes that happen only if all values they take from the batch are finite.

1. A write waits for the values of others only if that adds no computation: if every user of its
   results runs those others too, or if at the same level each needs all inputs, state and gradients
   that the other's values need. A write that takes its results runs what that one waits for.
2. A flag must not wait for itself. A write's level is one more than the highest of such writes that
   it depends on, by data, by control, or by a flag that skips a step; it waits for values of its
   own level and of those below.
3. In a branch of the model's own conditional it waits for values of that branch, and of nodes that
   always run.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Hashable,
    Iterable,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

from graphmp.graph.state.state_kinds import GO_ON, kind
from graphmp.once import once
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.scaling.losses.training_graph import TrainingGraph

_FLAG = "^%d"  # represents a loss's flag among the nodes; no node has such a name


class FlagWaits(NamedTuple):
    """The nodes that flags of losses wait for, and the nodes that wait for flags.

    Attributes:
        checked: for each loss the nodes whose results its flag checks.
        gated: for each write that depends on flags the indices of their losses.
    """

    checked: Sequence[AbstractSet[str]]
    gated: Mapping[str, AbstractSet[int]]


def joint_writes(
    graph: TrainingGraph, groups: Mapping[str, Hashable], flags: FlagWaits
) -> Dict[str, Tuple[str, ...]]:
    """For each write the writes whose values must be finite for it, itself included.

    They are ordered by level; empty if none takes floating-point values.

    Args:
        graph: the graph.
        groups: the group of each write; only writes of one group are written together.
        flags: the flags of the losses.
    """
    order = _order(groups, _after(graph, flags))
    levels, users = _levels(graph, order, groups, flags), _Users(graph, order, groups)
    kinds: Dict[Tuple[Any, ...], List[str]] = {}
    for name in sorted(groups, key=levels.__getitem__):
        kinds.setdefault(
            (groups[name], levels[name], users.run(name), graph.conditions.get(name, frozenset())),
            [],
        ).append(name)
    result: Dict[str, Tuple[str, ...]] = {}
    for (group, level, run, sides), names in kinds.items():
        below = [
            other
            for (its, at, _, there), found in kinds.items()
            if its == group and at <= level and there <= sides
            for other in found
            if graph.floats_written(other)
        ]
        apart = {other for other in below if not users.bits[other] & run}
        for name in names:
            result[name] = tuple(
                other
                for other in below
                if other not in apart
                or other == name
                or (levels[other] == level and users.need_the_same(name, other))
            )
    return result


def _after(graph: TrainingGraph, flags: FlagWaits) -> Callable[[str], List[str]]:
    """Direct dependents of a node.

    Consumers, nodes that wait for it, and for a checked value the nodes that depend on the flag.
    """
    by_flag: Dict[str, List[str]] = {}
    for name, numbers in flags.gated.items():
        for number in numbers:
            by_flag.setdefault(_FLAG % number, []).append(name)
    checks: Dict[str, List[str]] = {}
    for number, nodes in enumerate(flags.checked):
        for name in nodes:
            checks.setdefault(name, []).append(_FLAG % number)

    def after(name: str) -> List[str]:
        if name.startswith("^"):
            return by_flag.get(name, [])
        return _readers(graph, name) + checks.get(name, [])

    return after


def _readers(graph: TrainingGraph, name: str) -> List[str]:
    return [consumer.node for consumer in graph.view.consumers(name)] + list(
        graph.view.control_consumers(name)
    )


def _order(starts: Iterable[str], after: Callable[[str], Iterable[str]]) -> List[str]:
    """All that `after` leads to in topological order, except for loops."""
    order: List[str] = []
    seen: Set[str] = set()
    for start in starts:
        waiting = [(start, False)]
        while waiting:
            name, done = waiting.pop()
            if done:
                order.append(name)
            elif name not in seen:
                seen.add(name)
                waiting.append((name, True))
                waiting.extend((other, False) for other in after(name) if other not in seen)
    return order


def _levels(
    graph: TrainingGraph, order: List[str], writes: Mapping[str, Hashable], flags: FlagWaits
) -> Dict[str, int]:
    after = _after(graph, flags)
    place = {name: number for number, name in enumerate(order)}
    levels = dict.fromkeys(order, 1)
    for _ in range(len(writes) + 1):
        again = False
        for name in reversed(order):
            level = levels[name] + (name in writes)
            for other in after(name):
                if levels[other] < level:
                    levels[other] = level
                    again = again or place[other] > place[name]
        if not again:
            break
    return levels


class _Users:
    """The nodes that users of writes' results run and need.

    Attributes:
        bits: a bit for each write.
    """

    def __init__(self, graph: TrainingGraph, order: List[str], writes: Mapping[str, Hashable]):
        self._graph = graph
        self.bits = {name: 1 << number for number, name in enumerate(writes)}
        self._order = [name for name in order if not name.startswith("^")]
        self._readers = {name: _readers(graph, name) for name in self._order}
        self._run = self._in_common(
            _spread(self._order[::-1], self.bits, self._readers.__getitem__)
        )

    @once
    def _needed(self) -> Dict[str, int]:
        return _needs(self._graph, self._order)

    @once
    def _need(self) -> Dict[str, int]:
        return self._in_common(self._needed)

    def _in_common(self, bits: Mapping[str, int]) -> Dict[str, int]:
        """For each node the bits common to all users of its results.

        Constants, groups, reads of variables, gradient code and other writes are passed through to
        their users.
        """
        found = dict.fromkeys(self._order, -1)
        again = True
        while again:
            again = False
            for name in self._order:
                common = -1
                for reader in self._readers[name]:
                    common &= found[reader] if self._is_on_the_way(reader) else bits[reader]
                again = again or (common != found[name] and self._graph.looped(name))
                found[name] = common
        return found

    def _is_on_the_way(self, name: str) -> bool:
        if name in self._graph.gradients or self._graph.state.variable(name) is not None:
            return True
        is_passed = name in self._for_writes or not self._graph.view.inputs(name)
        return is_passed and bool(self._readers[name])

    @once
    def _for_writes(self) -> AbstractSet[str]:
        """The writes, and the nodes that only they read: a write runs what it will wait for."""
        found = set(self.bits)
        for name in self._order:
            if self._readers[name] and found.issuperset(self._readers[name]):
                found.add(name)
        return found

    def run(self, name: str) -> int:
        """The writes that run whenever the results of one are used; empty if they never are."""
        return max(self._run[name], 0)

    def need_the_same(self, name: str, other: str) -> bool:
        """Whether each of two writes, or every use of it, needs all that the other takes."""
        return self._needs_no_more(name, other) and self._needs_no_more(other, name)

    def _needs_no_more(self, name: str, other: str) -> bool:
        need = max(self._need[name], 0) | self._needed[name]
        values = (
            self._graph.view.inputs(other)[slot].node for slot in self._graph.floats_written(other)
        )
        return not any(self._needed[value] & ~need for value in values)


def _needs(graph: TrainingGraph, nodes: Iterable[str]) -> Dict[str, int]:
    """The inputs, changing state and gradient code that nodes depend on, a bit for each."""

    def before(name: str) -> List[str]:
        return [port.node for port in graph.view.inputs(name)] + list(graph.view.controls(name))

    order = _order(nodes, before)
    scope_of = {name: "^" + scope for scope, nodes in graph.code.items() for name in nodes}
    bits: Dict[str, int] = {}
    own: Dict[str, int] = {}
    for name in order:
        op = graph.view.nodes[name].op
        is_input = (
            not graph.view.inputs(name) and op not in VARIABLE_OPS and op not in ("Const", "NoOp")
        )
        if name in scope_of or is_input or kind(op) in GO_ON or graph.state.is_write(name):
            own[name] = bits.setdefault(scope_of.get(name, name), 1 << len(bits))
    return _spread(order, own, lambda name: _readers(graph, name))


def _spread(
    order: List[str], own: Mapping[str, int], after: Callable[[str], Iterable[str]]
) -> Dict[str, int]:
    """For each node its own bits and those of all its ancestors.

    Passes are repeated until nothing changes: two without loops.
    """
    bits = {name: own.get(name, 0) for name in order}
    again = True
    while again:
        again = False
        for name in order:
            for other in after(name):
                if other in bits and bits[name] & ~bits[other]:
                    bits[other] |= bits[name]
                    again = True
    return bits
