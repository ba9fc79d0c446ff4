"""Control edges: what a node waits for."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Iterator, List, Set, Tuple

from graphmp.graph.structure.frames import parallel_iterations
from graphmp.graph.structure.reach import sources_of
from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import ENTERS, EXITS, MERGES, NEXT_ITERATIONS
from graphmp.verify.scales.checkpoints import Checkpoints
from graphmp.verify.scales.initialising import Initialising
from graphmp.verify.scales.scales import DynamicScale, Scales
from graphmp.verify.sides import Sides
from graphmp.verify.skips.formulas import mentioned
from graphmp.verify.skips.gates import Gates
from graphmp.verify.structure.erase import Erasure
from graphmp.verify.structure.matcher import Matcher

_STOPS = MERGES | NEXT_ITERATIONS | ENTERS | EXITS


class Order:
    """Compares control edges."""

    def __init__(
        self,
        sides: Sides,
        matcher: Matcher,
        scales: Scales,
        gates: Gates,
        checkpoints: Checkpoints,
        erasure: Erasure,
    ):
        self._sides, self._matcher, self._scales, self._gates, self._erasure = (
            sides,
            matcher,
            scales,
            gates,
            erasure,
        )
        self._checkpoints = checkpoints
        self._initialising = Initialising(sides, scales, gates, checkpoints)
        self._before, self._after = sides.before.view, sides.after.view
        self._known: Dict[str, FrozenSet[str]] = {}

    def compare(self) -> None:
        """Report nodes with missing or additional predecessors."""
        for name in self._before.nodes:
            if name in self._after.nodes:
                self._waits(name, name)
        for name, original in self._erasure.copies.items():
            self._waits(name, original)
        for name in self._sides.added:
            if self._after.nodes[name].op == "NoOp":
                self.stands_for(name)
        self._writes_wait()
        self._in_turn()

    def _in_turn(self) -> None:
        """Check that consumers of a scale in a loop wait for the previous iteration's update."""
        frames = self._sides.after.frames
        for scale in self._scales.dynamic:
            frame = frames.get(scale.finite.node, ())
            behind = self._behind_update(scale) if frame else set()
            for name in sorted(self._scales.variables) if frame else ():
                if frames.get(name) == frame and not self._is_in_turn(name, frame, behind):
                    self._sides.fault(
                        name, "does not wait for the iteration before to adapt the loss scale"
                    )

    def _is_in_turn(self, name: str, frame: Tuple[str, ...], behind: Set[str]) -> bool:
        """Whether a node in loops waits for the nodes `behind` of all iterations before its own.

        At each depth it waits for a loop variable that has waited for them.
        """
        if not frame:
            return True
        frames, view = self._sides.after.frames, self._after
        inside = [each for each in view.nodes if frames.get(each) == frame]
        alone = any(
            view.nodes[each].op in ENTERS and parallel_iterations(view.nodes[each]) == 1
            for each in inside
        )
        entered = {
            merge: port.node
            for merge in inside
            for port in view.inputs(merge)
            if view.nodes[merge].op in MERGES and view.nodes[port.node].op in ENTERS
        }
        waits = {
            merge
            for merge in entered
            for port in view.inputs(merge)
            if alone
            or (
                view.nodes[port.node].op in NEXT_ITERATIONS
                and any(self._follows(port.node, {node}) for node in behind)
            )
        }
        exits = {
            each
            for each in inside
            if view.nodes[each].op in EXITS
            and (alone or any(self._follows(each, {merge}) for merge in waits))
        }
        return any(
            self._follows(name, {merge}) and self._is_in_turn(entered[merge], frame[:-1], exits)
            for merge in sorted(waits)
        )

    def _behind_update(self, scale: DynamicScale) -> Set[str]:
        """Nodes that run once a scale has been adapted.

        Those that wait for it, and what lives in either case in place of an update that dies.
        """
        found = set(scale.adapted)
        for name in self._sides.added:
            alive = (
                self._matcher.match("alive", Port(name, 0))
                if self._after.nodes[name].op in MERGES
                else None
            )
            if alive is not None and self._matcher.plain(alive["predicate"]) in scale.flags:
                found.add(name)
        return found

    def _waits(self, name: str, original: str) -> None:
        wanted = set(self._before.controls(original))
        controls = self._after.controls(name)
        found = set().union(*map(self.stands_for, controls))
        moved = (
            self._after.nodes[name].op == "Identity" != self._before.nodes[original].op
        )  # its inputs wait
        for missing in sorted(wanted - found) if not moved else ():
            if not self._follows(name, {missing}):
                self._sides.fault(name, "does not wait for %s, as in the original" % missing)
        if self._initialising.starts_a_part(name, original):
            self._sides.fault(name, "initialises a part of what the scales keep")
        for extra in sorted(found - wanted):
            if not (
                self._may_wait(name, extra)
                or self._is_one_of(extra, wanted)
                or self._follows(name, {extra}, but=extra)
            ):
                self._sides.fault(name, "waits for %s, which it does not in the original" % extra)

    def _writes_wait(self) -> None:
        """Check that a write's constants and flags wait for nothing that it doesn't wait for."""
        writes = {name for name in self._sides.after.state.writes if name in self._before.nodes}
        more: Dict[str, Set[str]] = {}
        for name in writes:
            for gate in self._gates.of.get(name, ()):
                for control in self._waited_for(gate.predicate.node):
                    more.setdefault(control, set()).add(name)
        for control, constants in self._constants().items():
            more.setdefault(control, set()).update(self._made_of(constants, writes))
        bits = sources_of(self._before, sorted(more))
        for place, (control, names) in enumerate(sorted(more.items())):
            for name in sorted(name for name in names if not bits.get(name, 0) >> place & 1):
                self._sides.fault(
                    name,
                    "waits for %s by way of what is added, which it does not in the original"
                    % control,
                )

    def _waited_for(self, name: str) -> Iterator[str]:
        """The nodes of the original that an added node waits for, also as groups of them."""
        if name in self._sides.added:
            for control in self._after.controls(name):
                yield from self.stands_for(control) & self._before.nodes.keys()

    def _constants(self) -> Dict[str, List[str]]:
        """The added constants by the nodes of the original that they wait for."""
        found: Dict[str, List[str]] = {}
        for name in sorted(self._sides.added):
            for control in self._waited_for(name) if self._after.nodes[name].op == "Const" else ():
                found.setdefault(control, []).append(name)
        return found

    def _made_of(self, starts: Iterable[str], writes: Set[str]) -> Set[str]:
        """The writes that depend on some added nodes, through added nodes."""

        def readers(name: str) -> List[str]:
            return [] if name in writes else [c.node for c in self._after.consumers(name)]

        through = self._sides.added | writes
        return reached(starts, readers, lambda name: name in through) & writes

    def _is_one_of(self, name: str, others: Set[str]) -> bool:
        """Whether an added node returns the value of another one, such as its cast."""
        if name not in self._sides.added or self._after.nodes[name].op == "NoOp":
            return False
        return any(
            self._before.nodes[other].op != "NoOp"
            and self._erasure.same(Port(name, 0), Port(other, 0))
            for other in others
        )

    def stands_for(self, name: str) -> FrozenSet[str]:
        """The writes, possibly dead, behind a node that others wait for, or behind its group."""
        if name not in self._known:
            self._known[name] = self._stands_for(name)
        return self._known[name]

    def _stands_for(self, name: str) -> FrozenSet[str]:
        found = self._gates.waited_for(name)
        if found != {name} or name not in self._sides.added or self._after.nodes[name].op != "NoOp":
            return found
        stands = {
            control: self._gates.waited_for(control) for control in self._after.controls(name)
        }
        groups = [
            writes
            for control, writes in stands.items()
            if writes != {control} and writes <= self._before.nodes.keys()
        ]
        others = set().union(*stands.values()).difference(*groups)
        if len(set(groups)) != 1 or not self._follows(min(groups[0]), others):
            return found
        self._matcher.used.add(name)
        return groups[0]

    def _follows(self, name: str, others: Set[str], but: str = "") -> bool:
        """Whether a node runs after others, in the same iteration, ignoring `but`."""
        view, left = self._after, set(others)
        waiting = [
            *(port.node for port in view.inputs(name)),
            *(control for control in view.controls(name) if control != but),
        ]
        seen = set(waiting)
        while waiting and left:
            found = waiting.pop()
            left.discard(found)
            more = self._awaited(found) - seen
            seen |= more
            waiting.extend(more)
        return not left

    def _awaited(self, name: str) -> Set[str]:
        """Nodes that run before a node; of an inserted Merge what all its inputs wait for."""
        if self._after.nodes[name].op in MERGES and name in self._sides.added:
            return set.intersection(
                *(self._behind_gate(port.node) for port in self._after.inputs(name))
            )
        return self._read(name)

    def _behind_gate(self, name: str) -> Set[str]:
        """A node and what it waits for, through inserted nodes."""
        return reached([name], lambda each: self._read(each) if each in self._sides.added else ())

    def _read(self, name: str) -> Set[str]:
        """Nodes that a node reads or waits for; none if it runs without some of them."""
        if self._after.nodes[name].op in _STOPS:
            return set()
        return {port.node for port in self._after.inputs(name)}.union(self._after.controls(name))

    def _may_wait(self, name: str, extra: str) -> bool:
        if extra in self._sides.added and (
            self._only_where(extra) or self._adapts(name, extra) or self._only_reads(extra)
        ):
            return True
        taken = (
            self._matcher.match("taken", Port(extra, 0))
            if extra in self._sides.added and self._matcher.is_copy(extra)
            else None
        )
        if taken is not None and any(
            gate.dies and gate.predicate == taken["predicate"]
            for gate in self._gates.of.get(name, ())
        ):
            return True
        if self._before.nodes.get(name) is None or self._before.nodes[name].op != "NoOp":
            return False
        initialises = self._checkpoints.initialises(extra) is not None
        return (initialises and self._checkpoints.is_init_op(name)) or self._checkpoints.restores(
            name, extra
        )

    def _only_where(self, name: str) -> bool:
        """Whether a node is the side of a conditional that a flag takes.

        Dead nodes are checked elsewhere.
        """
        found = self._matcher.match("on", Port(name, 0)) if self._matcher.is_copy(name) else None
        return found is not None and any(
            self._after.behind(gate.predicate, ["Identity"])
            == self._after.behind(found["predicate"], ["Identity"])
            for gates in self._gates.of.values()
            for gate in gates
        )

    def _only_reads(self, name: str) -> bool:
        """Whether a node only reads the number of skipped steps."""
        found = self._matcher.match("ahead", Port(name, 0))
        return found is not None and found["v"].node in self._scales.variables

    def _adapts(self, name: str, extra: str) -> bool:
        """Whether a write waits for the update of its flag's scale."""
        scales = frozenset().union(*(mentioned(gate.flag) for gate in self._gates.of.get(name, ())))
        return any(extra in scale.adapted for scale in self._scales.dynamic if scale.name in scales)
