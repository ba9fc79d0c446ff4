"""Edges of control: what waits for what, and what dies with a skipped step."""

from __future__ import annotations

from typing import List, Optional

from graphmp.graph.branches import Conditions
from graphmp.graph.cycles import find_cycle
from graphmp.graph.view import Port
from graphmp.verify.erase import Erasure
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher
from graphmp.verify.scales import Scales
from graphmp.verify.sides import Sides

_EMPTY: Conditions = frozenset()


class Order:
    """Compares who waits for whom, and who runs where."""

    def __init__(self, sides: Sides, matcher: Matcher, scales: Scales, gates: Gates, erasure: Erasure):
        self._sides, self._matcher, self._scales, self._gates, self._erasure = sides, matcher, scales, gates, erasure
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
        for name, original in list(self._erasure.copied()):
            self._waits(name, original)
        self._lives()

    def _waits(self, name: str, original: str) -> None:
        wanted = set(self._before.controls(original))
        controls = self._after.controls(name)
        found = {self._gates.waited_for(control) for control in controls}
        moved = self._after.nodes[name].op == "Identity" != self._before.nodes[original].op  # what computes it waits
        for missing in sorted(wanted - found) if not moved else ():
            self._sides.fault(name, "does not wait for %s, as in the original" % missing)
        variables = {variable for scale in self._scales.dynamic for variable in scale.variables}
        started = {variable for variable in map(self._initialised, found - wanted) if variable in variables}
        if started and started != variables:
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
        return self._initialised(extra) is not None or self._restores(name, extra)

    def _initialised(self, name: str) -> Optional[str]:
        """The variable that an added node gives its initial value."""
        found = self._matcher.match("initial", Port(name, 0)) if name in self._sides.added else None
        return found["v"].node if found is not None else None

    def _restores(self, name: str, extra: str) -> bool:
        found = self._matcher.match("restores", Port(extra, 0))
        if found is None or not self._is_prefix(name, found["prefix"]):
            return False
        self._matcher.keep(found)
        matches = [self._matcher.match("fresh", port, found) for port in found["fresh"]]
        initial = {
            v: scale.parameters["loss_scale_initial"] if v == scale.variables[0] else 0.0 for scale in self._scales.dynamic for v in scale.variables
        }
        for match in matches:
            if match is None or initial.get(match["v"].node) != match["FIRST"]:
                return False
            self._matcher.keep(match)
        wanted = sorted(match["v"].node for match in matches if match is not None)
        inner = found["PATTERN"][3:-3]
        if not (found["PATTERN"] == "\\C*%s\\C*" % inner and inner and min(wanted).endswith(inner)):
            return False
        return self._keeps(found, wanted)

    def _keeps(self, found: dict, wanted: List[str]) -> bool:
        kept = []
        for port in found["kept"]:
            match = self._matcher.match("kept", port, found)
            values = self._matcher.match("values", Port(match["value"].node, 0), found) if match is not None else None
            if match is None or values is None or self._shape(match["shape"]):
                return False
            names = [text.decode() for text in self._matcher.constant(values["names"]).ravel()]  # type: ignore[union-attr]
            slices = [text.decode() for text in self._matcher.constant(values["slices"]).ravel()]  # type: ignore[union-attr]
            constants = (match["shape"], values["names"], values["slices"])
            if names[match["value"].output] != match["v"].node or any(slices) or not all(self._runs_there(port, found) for port in constants):
                return False
            self._matcher.keep(match)
            self._matcher.keep(values)
            self._matcher.used.update((match["shape"].node, values["names"].node, values["slices"].node))
            kept.append(match["v"].node)
        return sorted(kept) == wanted

    def _runs_there(self, constant: Port, found: dict) -> bool:
        """Whether a constant runs only where a checkpoint has the scales."""
        controls = self._after.controls(constant.node)
        return len(controls) == 1 and self._matcher.match("there_alone", Port(controls[0], 0), found) is not None

    def _shape(self, port: Port) -> bool:
        """Whether a constant is no empty shape."""
        value = self._matcher.constant(port)
        return value is None or value.size > 0

    def _is_prefix(self, name: str, prefix: Port) -> bool:
        """Whether a node's own restore ops read the same checkpoint."""
        restores = [n for n in self._before.ancestors([name]) if self._before.nodes[n].op == "RestoreV2"]
        return any(self._before.inputs(n)[0] == prefix for n in restores)

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
