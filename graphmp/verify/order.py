"""Edges of control: what waits for what, and what dies with a skipped step."""

from __future__ import annotations

from graphmp.graph.branches import Conditions
from graphmp.graph.cycles import find_cycle
from graphmp.graph.view import Port
from graphmp.verify.checkpoints import Checkpoints
from graphmp.verify.erase import Erasure
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher
from graphmp.verify.scales import Scales
from graphmp.verify.sides import Sides

_EMPTY: Conditions = frozenset()


class Order:
    """Compares who waits for whom, and who runs where."""

    def __init__(self, sides: Sides, matcher: Matcher, scales: Scales, gates: Gates, checkpoints: Checkpoints, erasure: Erasure):
        self._sides, self._matcher, self._scales, self._gates, self._erasure = sides, matcher, scales, gates, erasure
        self._checkpoints = checkpoints
        self._before, self._after = sides.before.view, sides.after.view

    def compare(self) -> None:
        """Notes every node that doesn't wait for what it waits for in the original, waits for more, or dies where it didn't."""
        cycle = find_cycle(self._after)
        if cycle is not None:
            self._sides.fault(cycle, "waits for itself")
            return
        for name in self._before.nodes:
            if name in self._after.nodes:
                self._waits(name, name)
        for name, original in self._erasure.copies.items():
            self._waits(name, original)
        self._lives()

    def _waits(self, name: str, original: str) -> None:
        wanted = set(self._before.controls(original))
        controls = self._after.controls(name)
        found = {self._gates.waited_for(control) for control in controls}
        moved = self._after.nodes[name].op == "Identity" != self._before.nodes[original].op  # what computes it waits
        for missing in sorted(wanted - found) if not moved else ():
            self._sides.fault(name, "does not wait for %s, as in the original" % missing)
        started = {variable for variable in map(self._checkpoints.initialises, found - wanted) if variable in self._scales.initial}
        if started and started != set(self._scales.initial):
            self._sides.fault(name, "initialises a part of what the scales keep")
        for extra in sorted(found - wanted):
            if not self._may_wait(name, extra):
                self._sides.fault(name, "waits for %s, which it does not in the original" % extra)

    def _may_wait(self, name: str, extra: str) -> bool:
        taken = self._matcher.match("taken", Port(extra, 0)) if extra in self._sides.added and self._matcher.is_copy(extra) else None
        if taken is not None and any(gate.dies and gate.predicate == taken["predicate"] for gate in self._gates.of.get(name, ())):
            return True
        if self._before.nodes.get(name) is None or self._before.nodes[name].op != "NoOp":
            return False
        return self._checkpoints.initialises(extra) is not None or self._checkpoints.restores(name, extra)

    def _lives(self) -> None:
        """What died in no case dies in none, but for writes that have a gate; what died with a branch does."""
        before, after = self._sides.before.conditions, self._sides.after.conditions
        for name in self._before.nodes:
            if name not in self._after.nodes:
                continue
            more = after.get(name, _EMPTY) - before.get(name, _EMPTY)
            less = before.get(name, _EMPTY) - after.get(name, _EMPTY)
            gates = {(self._source(gate.predicate), 1) for gate in self._gates.of.get(name, ()) if gate.dies}
            if less or not more <= gates:
                self._sides.fault(name, "runs where it does not in the original, or the other way round")

    def _source(self, port: Port) -> Port:
        """The output that a predicate is a copy of, one that waits for something included."""
        while self._after.nodes[port.node].op == "Identity":
            port = self._after.inputs(port.node)[0]
        return port
