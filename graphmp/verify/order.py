"""Control edges: what a node waits for, and whether it dies with a skipped step."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, Iterator, List, Optional, Set, Tuple

from graphmp.graph.structure.branches import Conditions, sides
from graphmp.graph.structure.reach import sources_of
from graphmp.graph.structure.view import Port
from graphmp.graph.structure.walk import reached
from graphmp.once import once
from graphmp.policy.op_sets import ENTERS, EXITS, MERGES, NEXT_ITERATIONS, READS
from graphmp.verify.checkpoints import Checkpoints
from graphmp.verify.erase import Erasure
from graphmp.verify.formulas import mentioned
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher
from graphmp.verify.scales import DynamicScale, Scales
from graphmp.verify.sides import Sides, fetched, is_built_anew

_STOPS = MERGES | NEXT_ITERATIONS | ENTERS | EXITS
_EMPTY: Conditions = frozenset()


class Order:
    """Compares control edges and conditional execution."""

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
        self._before, self._after = sides.before.view, sides.after.view
        self._known: Dict[str, FrozenSet[str]] = {}

    def compare(self) -> None:
        """Report nodes with missing or additional predecessors, and nodes that newly die."""
        for name in self._before.nodes:
            if name in self._after.nodes:
                self._waits(name, name)
        for name, original in self._erasure.copies.items():
            self._waits(name, original)
        for name in self._sides.added:
            if self._after.nodes[name].op == "NoOp":
                self.stands_for(name)
        self._writes_wait()
        self._lives()
        self._inputs_come_in()
        self._in_turn()

    def _in_turn(self) -> None:
        """Check that consumers of a scale in a loop wait for the previous iteration's update."""
        frames, nodes = self._sides.after.frames, self._after.nodes
        for scale in self._scales.dynamic:
            frame = frames.get(scale.finite.node, ())
            if not frame:
                continue
            held = [
                name
                for name, node in nodes.items()
                if frames.get(name) == frame and node.op in MERGES
            ]
            back = {
                name: port.node
                for name in held
                for port in self._after.inputs(name)
                if nodes[port.node].op in NEXT_ITERATIONS
            }
            behind = self._behind_update(scale)
            waits = {
                name
                for name, following in back.items()
                if any(self._follows(following, {node}) for node in behind)
            }
            for name in sorted(self._scales.variables):
                if frames.get(name) == frame and not any(
                    self._follows(name, {merge}) for merge in waits
                ):
                    self._sides.fault(
                        name, "does not wait for the iteration before to adapt the loss scale"
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
        if (
            self._initialises(name, original)
            and not self._is_whole(name, original)
            and not self._is_part(name)
        ):
            self._sides.fault(name, "initialises a part of what the scales keep")
        for extra in sorted(found - wanted):
            if not (
                self._may_wait(name, extra)
                or self._is_one_of(extra, wanted)
                or self._follows(name, {extra}, but=extra)
            ):
                self._sides.fault(name, "waits for %s, which it does not in the original" % extra)

    def _initialises(self, name: str, original: str) -> bool:
        """Whether a node initialises state of scales, or variables of the original as a group."""
        initializers = self._sides.before.state.initializers
        is_group = self._before.nodes[original].op == "NoOp" and not initializers.isdisjoint(
            self._before.controls(original)
        )
        return (is_group and bool(self._scales.initial)) or bool(
            self._initial(self._after.controls(name))
        )

    def _initial(self, names: Iterable[str]) -> Set[str]:
        found = map(self._checkpoints.initialises, names)
        return {variable for variable in found if variable in self._scales.initial}

    def _is_whole(self, node: str, name: str) -> bool:
        """Whether a node initialises whole scales, and leaves none out that it should initialise.

        It may wait for groups that initialise some of them, one for each device. An init op that
        was made ahead of a loss knows none of its variables, nor of its scale's. `name` is the
        node of the original that it stands for.
        """
        started = self._initial(self._after.ancestors([node]))
        scales = {nodes[0]: set(nodes) for nodes in self._scales.nodes_of_states() if nodes}
        whole = set().union(*(nodes for nodes in scales.values() if nodes & started))
        if started != whole or name not in self._before.nodes:
            return started == set(self._scales.initial)
        initializers = self._sides.before.state.initializers
        run = self._before.ancestors([name]) & initializers
        left = self._initialised(initializers) - self._initialised(run)
        return all(
            self._trained.get(self._scales.handles.name(Port(first, 0)) or "", set()) & left
            for first, nodes in scales.items()
            if not nodes <= started
        )

    def _initialised(self, initializers: Iterable[str]) -> Set[Optional[str]]:
        variable = self._sides.before.state.variable
        return {variable(self._before.inputs(name)[0].node) for name in initializers}

    @once
    def _trained(self) -> Dict[str, Set[Optional[str]]]:
        """The variables whose writes each scale gates, by the scale's name."""
        found: Dict[str, Set[Optional[str]]] = {}
        for write, gates in self._gates.of.items():
            inputs = self._before.inputs(write) if write in self._before.nodes else ()
            variables = {self._sides.before.state.variable(port.node) for port in inputs[:1]}
            for scale in frozenset().union(*(mentioned(gate.flag) for gate in gates)):
                found.setdefault(scale, set()).update(variables)
        return found

    def _is_part(self, name: str) -> bool:
        """Whether a node is grouped with others, one for each device, that initialise the rest."""
        groups = [
            group
            for group in self._after.control_consumers(name)
            if self._after.nodes[group].op == "NoOp"
        ]
        return bool(groups) and all(self._is_whole(group, group) for group in groups)

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

    def _lives(self) -> None:
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
