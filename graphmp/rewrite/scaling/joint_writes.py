"""Writes of one step that take what the batch gives: which of them are written together, where all that they take is finite.

1. A write waits for the values of others only where whoever runs it runs those too: where each end that it leads to is an end of theirs.
2. A flag must not wait for itself. A write's level is one more than the highest of such writes that it depends on, by data, by control, or by a
   flag that skips a step; it waits for values of its own level and of those below.
3. In a branch of the model's own conditional it waits for values of that branch, and of what always runs.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Hashable, List, Mapping, NamedTuple, Sequence, Tuple

from graphmp.rewrite.scaling.training_graph import TrainingGraph

_FLAG = "^%d"  # stands for a loss's flag among the nodes; no node has such a name


class Flags(NamedTuple):
    """What the flags of losses wait for, and what waits for them.

    Attributes:
        checked: for each loss the nodes whose results its flag looks at.
        gated: for each write that goes by flags the numbers of their losses.
    """

    checked: Sequence[AbstractSet[str]]
    gated: Mapping[str, AbstractSet[int]]


def joint_writes(graph: TrainingGraph, groups: Mapping[str, Hashable], flags: Flags) -> Dict[str, Tuple[str, ...]]:
    """For each write those whose values must be finite for it, by level, itself included; none where nothing of them is floating point.

    Args:
        graph: the graph.
        groups: what each write belongs to; only those of one group are written together.
        flags: the flags of the losses.
    """
    order = _order(graph, groups, flags)
    levels, ends = _levels(graph, order, groups, flags), _ends(graph, order, groups)
    kinds: Dict[Tuple[Hashable, int, int, Hashable], List[str]] = {}
    for name, group in groups.items():
        kinds.setdefault((group, levels[name], ends[name], graph.conditions.get(name, frozenset())), []).append(name)
    kinds = dict(sorted(kinds.items(), key=lambda item: item[0][1]))
    result: Dict[str, Tuple[str, ...]] = {}
    for (group, level, own, sides), names in kinds.items():
        joined = [
            other
            for (its, at, led_to, there), others in kinds.items()
            if its == group and at <= level and not own & ~led_to and there <= sides  # type: ignore[operator]  # frozensets
            for other in others
            if graph.floats_written(other)
        ]
        result.update((name, tuple(joined)) for name in names)
    return result


def _after(graph: TrainingGraph, flags: Flags) -> Callable[[str], List[str]]:
    """What depends on a node at once: its readers, those that wait for it, and behind what a flag looks at what goes by the flag."""
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
    return [consumer.node for consumer in graph.view.consumers(name)] + list(graph.view.control_consumers(name))


def _order(graph: TrainingGraph, starts: Mapping[str, Hashable], flags: Flags) -> List[str]:
    """All that depends on the writes, each behind what depends on it, save for what goes round in a loop."""
    after = _after(graph, flags)
    order: List[str] = []
    seen = set()
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


def _levels(graph: TrainingGraph, order: List[str], writes: Mapping[str, Hashable], flags: Flags) -> Dict[str, int]:
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


def _ends(graph: TrainingGraph, order: List[str], writes: Mapping[str, Hashable]) -> Dict[str, int]:
    """For each node the ends that it leads to, a bit each: what nothing reads or waits for, reads of variables and of gradients left aside.

    A write that leads nowhere else is an end itself.
    """
    ends = dict.fromkeys(order, 0)
    bit = 1
    for name in order:
        if not name.startswith("^") and not _readers(graph, name) and not graph.state.variable(name) and name not in graph.gradients:
            ends[name] = bit
            bit <<= 1
    again = True
    while again:
        again = False
        for name in order:
            if not name.startswith("^"):
                before = ends[name]
                for other in _readers(graph, name):
                    ends[name] |= ends[other]
                again = again or (ends[name] != before and graph.looped(name))
    for number, name in enumerate(name for name in writes if not ends[name]):
        ends[name] = bit << number
    return ends
