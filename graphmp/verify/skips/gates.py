"""Gates: nodes by which a write happens only if a flag is true, and nodes that stay alive then.

A gate changes the value of a write, or makes it dead.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set

from graphmp.graph.state.quiet import quiet_branch
from graphmp.graph.structure.branches import sides as sides_of
from graphmp.graph.structure.values import array
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import FLOATS
from graphmp.policy.op_sets import ADD_ASSIGNS, OVERWRITES, ROW_OVERWRITES
from graphmp.verify.sides import Sides, attribute
from graphmp.verify.skips.flags import Flags
from graphmp.verify.skips.formulas import Flag
from graphmp.verify.structure.matcher import Matcher

_INPUTS = {
    "StridedSliceAssign": ("variable", "begin", "end", "strides", "new"),
    "Assign": ("variable", "new"),
    "AssignAdd": ("variable", "new"),
    "AssignSub": ("variable", "new"),
}
# By the branch of a conditional that has no effect, the pattern of a predicate that may choose it.
_TAKES = {"else_branch": "takes_then", "then_branch": "takes_else"}
# Templates of a value that a write takes in place of its own, by a flag.
_EITHER = ("selected", "one_of_two", "one_or_neutral")
# Ops that make a neutral value of the new one.
_OF_NEW = frozenset(("ZerosLike", "OnesLike", "Neg"))
_ZEROS = "zeros_of_new"  # what a write takes that begins a sum of gradients
_SCATTER = ("variable", "indices", "new")
_HISTOGRAMS = {"HistogramSummary": 1}


class Gate(NamedTuple):
    """A gate of a write.

    Attributes:
        flag: the required flag.
        predicate: the output that represents it.
        value: the value written if it is true.
        dies: whether the write is dead if it is false.
    """

    flag: Flag
    predicate: Port
    value: Port
    dies: bool


def written(found: Dict[str, Any]) -> FrozenSet[str]:
    """The writes that a match stands for."""
    writes = found["writes"] if "writes" in found else (found["write"],)
    return frozenset(port.node for port in writes)


class Gates:
    """The gates of a converted graph.

    Attributes:
        of: those of each write.
        counts: the nodes that count skipped steps, by the write that counts the others.
        zeros: writes that overwrite and take zeros if the flag is false, with what they take else.
    """

    def __init__(self, sides: Sides, matcher: Matcher, flags: Flags):
        self._sides, self._matcher, self._flags, self._view = (
            sides,
            matcher,
            flags,
            sides.after.view,
        )
        self._writes: Set[str] = set(sides.after.state.writes)
        self.of: Dict[str, List[Gate]] = {}
        self.counts: Dict[str, str] = {}
        self.zeros: Dict[str, Port] = {}

    def behind(self, name: str, slot: int, port: Port) -> Port:
        """The input of a node in a slot.

        Behind the gate if the node is a write with a gate there.
        """
        if port.node not in self._sides.added:
            return port
        if (
            self._view.nodes[name].op in _HISTOGRAMS
            and slot == _HISTOGRAMS[self._view.nodes[name].op]
        ):
            return self._shown(port)
        found = self._dying(name, port)
        if found is None and name in self._writes:
            found = self._selected(name, slot, port) or self._other_branch(name, slot, port)
        return port if found is None else found

    def _shown(self, port: Port) -> Port:
        found = self._matcher.take("shown", port)
        return port if found is None else found["x"]

    def _dying(self, name: str, port: Port) -> Optional[Port]:
        return self._gated(name, "taken", port, dies=True)

    def _gated(self, name: str, template: str, port: Port, dies: bool) -> Optional[Port]:
        """The value that a gate of a template lets through; None without such a gate of a flag."""
        found = self._matcher.match(template, port)
        flag = self._flags.of(found["predicate"], writer=name) if found is not None else None
        if found is None or flag is None:
            return None
        self._matcher.keep(found)
        self.of.setdefault(name, []).append(Gate(flag, found["predicate"], found["x"], dies))
        return found["x"]

    def _selected(self, name: str, slot: int, port: Port) -> Optional[Port]:
        matches = (self._matcher.match(template, port) for template in _EITHER)
        found = next((match for match in matches if match is not None), None)
        if found is None:
            return None
        flag = self._flags.of(found["predicate"], found["x"], name)
        neutral = self._neutral(name, slot, found) if flag is not None else None
        if flag is None or neutral is None:
            return None
        self._matcher.keep(found)
        self._matcher.keep(neutral)
        self.of.setdefault(name, []).append(Gate(flag, found["predicate"], found["x"], False))
        return found["x"]

    def _other_branch(self, name: str, slot: int, port: Port) -> Optional[Port]:
        """The predicate of a conditional that else takes the branch that has no effect."""
        after = self._sides.after
        quiet = (
            "" if slot else quiet_branch(after.view.nodes[name], after.library, after.op_defs.get)
        )
        return self._gated(name, _TAKES[quiet], port, dies=False) if quiet else None

    def _neutral(self, name: str, slot: int, found: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The match of the value in a skipped step; None if writing it would change something."""
        node, inputs = self._view.nodes[name], self._view.inputs(name)
        op = node.op.replace("Resource", "", 1).replace("VariableOp", "")
        names = _INPUTS.get(op, _SCATTER)
        if len(names) != len(inputs) or names[slot] != "new":
            return None
        known = {key: self._matcher.plain(port) for key, port in zip(names, inputs)}
        known.update(new=Port(found["kept"].node, 0) if "kept" in found else found["x"])
        number = self._sides.after.dtype(found["x"])
        templates = (
            ["neutral_" + op] if number in FLOATS else ["neutral_whole_" + op, "neutral_" + op]
        )
        templates += [_ZEROS] * (node.op in OVERWRITES | ROW_OVERWRITES)
        for template in templates:
            matched = (
                self._matcher.match(template, found["other"], known)
                if self._matcher.has(template)
                else None
            )
            if (
                matched is not None
                and self._is_late(name, found["x"], matched)
                and self._is_like(name, found["other"])
                and ("kept" not in found or self._is_made_of(found["other"], known["new"]))
            ):
                if template == _ZEROS:
                    self.zeros[name] = found["x"]
                return matched
        return None

    def _is_made_of(self, other: Port, new: Port) -> bool:
        """Whether a neutral value is computed from the new one, and dead where that is."""
        while other != new and self._view.nodes[other.node].op in _OF_NEW:
            other = self._matcher.plain(self._view.inputs(other.node)[0])
        return other == new

    def _is_late(self, name: str, new: Port, matched: Dict[str, Any]) -> bool:
        """Whether an old value is read after all that the write waits for."""
        if "old" not in matched:
            return "rows" not in matched or self._waits_as(matched["rows"].node, name)
        waits = set(self._view.controls(matched["old"].node))
        done = {self._matcher.plain(Port(node, 0)).node for node in waits}
        while (
            new.node not in done
            and self._sides.is_cast(new.node)
            and not self._view.controls(new.node)
        ):
            new = self._view.inputs(new.node)[0]
        return waits >= set(self._view.controls(name)) and new.node in done

    def _waits_as(self, old: str, write: str) -> bool:
        """Whether an old value is read after all of the original that a write waits for."""
        waits = {name for name in self._view.controls(write) if name not in self._sides.added}
        return waits <= set(self._view.controls(old))

    def _is_like(self, name: str, other: Port) -> bool:
        """Whether a slice of the old value is the slice that is written."""
        write, node = self._view.nodes[name], self._view.nodes[self._matcher.plain(other).node]
        masks = [key for key in node.attr if key.endswith("_mask")]
        return node.op != "StridedSlice" or all(
            node.attr[key] == attribute(write, key) for key in masks
        )

    def by_waiting(self) -> None:
        """Find the gates of writes without inputs that could be dead: they wait for a dead node."""
        for name in self._writes:
            for control in self._view.controls(name):
                if control in self._sides.added:
                    self._dying(name, Port(control, 0))

    def alive(self, port: Port) -> Optional[Port]:
        """The write whose result a Merge replaces if it is dead; None for any other Merge."""
        for template in ("alive_reference", "alive_value"):
            found = self._matcher.match(template, port)
            if found is not None and self._may_stand(found):
                self._matcher.keep(found)
                return Port(found["write"].node, found["write"].output)
        return None

    def waited_for(self, name: str) -> FrozenSet[str]:
        """The writes that a node represents for nodes that wait for it; else the node itself."""
        if name in self._sides.added:
            for template in ("alive", "alive_reference", "either_side", "alive_value", "applied"):
                found = self._matcher.match(template, Port(name, 0))
                writes = written(found) if found is not None and self._may_stand(found) else None
                if found is not None and writes:
                    self._matcher.keep(found)
                    return writes
        return frozenset((name,))

    def _may_stand(self, found: Dict[str, Any]) -> bool:
        """Whether what lives in a dead write's place counts or reads as that would have."""
        if "count" in found:
            return self._counts(found)
        if "old" not in found:
            return True
        old, write = found["old"].node, found["write"].node
        return self._waits_as(old, write) and self._lives_without(old, write)

    def _lives_without(self, old: str, write: str) -> bool:
        """Whether an old value is there only where a write is dead: a Merge takes what is first."""
        conditions = self._sides.after.conditions
        skipped = {predicate for predicate, side in conditions.get(old, ()) if not side}
        return any(side and predicate in skipped for predicate, side in conditions.get(write, ()))

    def _counts(self, found: Dict[str, Any]) -> bool:
        """Whether a step counts once where it is skipped, in the variable that counts the others.

        There the original adds 1 too, by a write that dies with the step.
        """
        count, write = found["count"].node, found["write"].node
        counted = [
            name
            for name in self._view.ancestors([write]) & self.of.keys()
            if self._adds(name, found)
        ]
        if len(counted) != 1 or self.counts.setdefault(counted[0], count) != count:
            return False
        conditions, ahead = self._sides.after.conditions, self._view.ancestors([write])
        waits = {*self._view.controls(count), *self._view.controls(found["one"].node)}
        return sides_of(self._view, conditions, found["off"]) == conditions.get(count) and all(
            name in ahead or self._matcher.plain(Port(name, 0)) == found["off"] for name in waits
        )

    def _adds(self, name: str, found: Dict[str, Any]) -> bool:
        """Whether a write adds 1 to the variable that a skipped step is counted in."""
        before = self._sides.before.view
        if name not in before.nodes or before.nodes[name].op not in ADD_ASSIGNS:
            return False
        variable, added = before.inputs(name)
        number = array(attribute(before.nodes[added.node], "value").tensor)
        return (
            variable == found["counter"]
            and before.nodes[added.node].op == "Const"
            and self._sides.before.dtype(added) not in FLOATS
            and number is not None
            and number.tolist() == 1
            and any(
                gate.dies
                and self._is_one_flag(gate.predicate, found["predicate"], found["counting"])
                for gate in self.of[name]
            )
        )

    def _is_one_flag(self, *predicates: Port) -> bool:
        """Whether predicates are copies of one, which may wait for something."""
        return len({self._view.behind(port, ["Identity"]) for port in predicates}) == 1
