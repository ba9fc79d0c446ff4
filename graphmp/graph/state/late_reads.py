"""Reads of references that come after a write in the same step.

A read of a reference, `w/read`, is the variable's memory, not a copy: what uses it after a write
sees the new value, though the read itself came before.

    w/read -> MatMul_1 <- ^train        sees what `train` wrote
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Dict, Iterable, List, NamedTuple, Set, Tuple

from graphmp.graph.state.state import State
from graphmp.graph.state.state_kinds import PASS_REFERENCES
from graphmp.graph.structure.reach import sources_of
from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.policy.op_sets import MERGES, REFERENCE_VARIABLES, SWITCHES
from graphmp.policy.traits import SHARES_MEMORY


class LateReads(NamedTuple):
    """The late reads of a graph.

    Attributes:
        waits: by node and slot of an input: the node's other inputs that wait for a write.
        passed_on: nodes that hand on memory, nothing else, to such inputs.
    """

    waits: Dict[Tuple[str, int], Tuple[str, ...]]
    passed_on: AbstractSet[str]


NONE = LateReads({}, frozenset())


def late_reads(view: GraphView, state: State) -> LateReads:
    """The late reads of a main graph."""
    writes: Dict[str, List[str]] = collections.defaultdict(list)
    for name in state.writes:
        for variable in state.written(name):
            if view.nodes[variable].op in REFERENCE_VARIABLES:
                writes[variable].append(name)
    writers = {name: number for number, name in enumerate(sorted(set().union(*writes.values())))}
    others = _Waits(view, view.descendants(writers))
    readers = [
        (variable, reader)
        for variable in writes
        for reader in view.handed_on(
            Port(variable, 0), lambda reader: _same_memory(view, reader, writers.keys())
        )
        if reader.node not in writers and others[reader.node]
    ]
    bits = sources_of(view, list(writers)) if readers else {}
    masks = {name: sum(1 << writers[write] for write in each) for name, each in writes.items()}
    waits = {
        (reader.node, reader.slot): tuple(
            dict.fromkeys(
                name
                for slot, name in others[reader.node]
                if slot != reader.slot and bits.get(name, 0) & masks[variable]
            )
        )
        for variable, reader in readers
    }
    late = {key: names for key, names in waits.items() if names}
    return LateReads(late, _passed_on(view, late))


class _Waits(Dict[str, List[Tuple[int, str]]]):
    """The inputs of each node that are among some nodes, with their slots; -1 is a control input.

    Found once for a node: a Saver's reads all variables.
    """

    def __init__(self, view: GraphView, among: AbstractSet[str]):
        super().__init__()
        self._view, self._among = view, among

    def __missing__(self, name: str) -> List[Tuple[int, str]]:
        inputs = [(slot, port.node) for slot, port in enumerate(self._view.inputs(name))]
        inputs += [(-1, control) for control in self._view.controls(name)]
        self[name] = [row for row in inputs if row[1] in self._among]
        return self[name]


def _passed_on(view: GraphView, late: Iterable[Tuple[str, int]]) -> AbstractSet[str]:
    waiting = [view.inputs(name)[slot].node for name, slot in late]
    found: Set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found and view.nodes[name].op not in REFERENCE_VARIABLES:
            found.add(name)
            waiting.extend(
                port.node
                for slot, port in enumerate(view.inputs(name))
                if list(_same_memory(view, Consumer(name, slot, port.output)))
            )
    return found


def _same_memory(
    view: GraphView, reader: Consumer, writers: AbstractSet[str] = frozenset()
) -> Iterable[int]:
    """The outputs of a reader that may be the memory that it reads."""
    op = view.nodes[reader.node].op
    if op in MERGES:
        return [0]
    if op == "IdentityN":
        return [reader.slot]
    if reader.slot:
        return []
    if op in SWITCHES:
        return range(2)
    returns = op in PASS_REFERENCES or op in SHARES_MEMORY or reader.node in writers
    return [0] if returns else []
