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
    writers = {name for names in writes.values() for name in names}
    after_any = view.descendants(writers)
    waits: Dict[Tuple[str, int], Tuple[str, ...]] = {}
    for variable, names in writes.items():
        readers = [
            reader
            for reader in view.handed_on(
                Port(variable, 0), lambda reader: _same_memory(view, reader, writers)
            )
            if reader.node not in writers and _waits(view, reader, after_any)
        ]
        after = view.descendants(names) if readers else frozenset()
        found = {(r.node, r.slot): _waits(view, r, after) for r in readers}
        waits.update((key, nodes) for key, nodes in found.items() if nodes)
    return LateReads(waits, _passed_on(view, waits))


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


def _waits(view: GraphView, reader: Consumer, after: AbstractSet[str]) -> Tuple[str, ...]:
    """The other inputs of a reader that are among some nodes."""
    others = [p.node for slot, p in enumerate(view.inputs(reader.node)) if slot != reader.slot]
    return tuple(dict.fromkeys(n for n in (*others, *view.controls(reader.node)) if n in after))


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
