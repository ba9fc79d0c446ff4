"""Conditional execution: nodes die in the branches in which the original's do, or when skipped."""

from __future__ import annotations

from typing import Set, Tuple

from graphmp.graph.structure.branches import Conditions, sides
from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.policy.op_sets import READS
from graphmp.verify.sides import Sides, fetched, is_built_anew
from graphmp.verify.skips.gates import Gates

_EMPTY: Conditions = frozenset()


class Lives:
    """Compares the branches in which nodes run."""

    def __init__(self, sides: Sides, gates: Gates):
        self._sides, self._gates = sides, gates
        self._before, self._after = sides.before.view, sides.after.view

    def compare(self) -> None:
        """Report nodes that newly die or live, and inputs that pass a conditional by."""
        self._die_alike()
        self._inputs_come_in()

    def _die_alike(self) -> None:
        """Check that nodes die in the same branches as before, except for gated writes."""
        before, after = self._sides.before.conditions, self._sides.after.conditions
        writes = frozenset(self._sides.after.state.writes)
        for name in self._before.nodes:
            if name not in self._after.nodes:
                continue
            more = after.get(name, _EMPTY) - before.get(name, _EMPTY)
            less = before.get(name, _EMPTY) - after.get(name, _EMPTY)
            dying = self._gates.of.get(name, ()) if name in writes else ()
            gates = {
                (self._after.behind(gate.predicate, ["Identity"]), 1) for gate in dying if gate.dies
            }
            dies = more <= gates or (name not in writes and self._only_for_writes(name, more))
            if less or not dies:
                self._sides.fault(
                    name, "runs where it does not in the original, or the other way round"
                )

    def _inputs_come_in(self) -> None:
        """Check that a conditional of TensorFlow's own brings in all inputs of the writes in it."""
        if not is_built_anew(self._sides.after.meta_graph):
            return
        for name, gates in self._gates.of.items():
            flags = {
                self._after.behind(gate.predicate, ["Identity"]) for gate in gates if gate.dies
            }
            for flag in flags if name in self._before.nodes else ():
                if not all((flag, 1) in self._sides_of(port) for port in self._after.inputs(name)):
                    self._sides.fault(name, "reads past the conditional that it is in")

    def _sides_of(self, port: Port) -> Conditions:
        return sides(self._after, self._sides.after.conditions, port)

    def _only_for_writes(self, name: str, more: Conditions) -> bool:
        """Whether nodes that die with a flag are only used by nodes that die with it."""
        readers = {c.node for c in self._after.consumers(name)}.union(
            self._after.control_consumers(name)
        )
        op = self._after.nodes[name].op
        dead = all(more <= self._sides.after.conditions.get(reader, _EMPTY) for reader in readers)
        unseen = op == "NoOp" or (
            (bool(readers) or self._is_result(name)) and name not in self._fetched
        )
        return (
            more <= self._flags
            and dead
            and unseen
            and (op in READS or not self._sides.before.is_stateful(name))
        )

    @once
    def _flags(self) -> Set[Tuple[Port, int]]:
        """The sides on which gated writes run."""
        return {
            (self._after.behind(gate.predicate, ["Identity"]), 1)
            for gates in self._gates.of.values()
            for gate in gates
            if gate.dies
        }

    @once
    def _fetched(self) -> Set[str]:
        return fetched(self._sides.before.meta_graph)

    def _is_result(self, name: str) -> bool:
        """Whether a node reads what a write that dies with it has written, its result in Python."""
        written = self._sides.before.state.written
        return self._before.nodes[name].op in READS and any(
            write in self._gates.of
            and any(gate.dies for gate in self._gates.of[write])
            and self._before.inputs(name)[0] == self._before.inputs(write)[0]
            and bool(written(write))
            for write in self._before.controls(name)
        )
