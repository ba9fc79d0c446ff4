"""Writes that go by a flag of values, which may be their own."""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, List, Sequence, Set, Tuple

from graphmp.graph.structure.view import Port
from graphmp.verify.body import BodyFindings
from graphmp.verify.sides import Fault
from graphmp.verify.skips.followed import followed
from graphmp.verify.skips.formulas import Flag, by_value, is_mixed, mentioned, needs_branch
from graphmp.verify.skips.sums import SumSteps


class SkipsByValue:
    """The flags of values in a skipped step."""

    def __init__(
        self, body: BodyFindings, writes: Sequence[str], flags: Dict[str, Flag], sums: SumSteps
    ):
        """`flags`: the flag of each write that is gated."""
        self._body, self._sides, self._view = body, body.sides, body.sides.after.view
        self._writes, self._flags, self._sums = writes, flags, sums
        self._gates = body.gates.of
        self._gated = [name for name in writes if name in flags]
        self._faults: List[Fault] = []

    def faults(self) -> List[Fault]:
        """Writes whose flag leaves values out, or whose values come from a skipped write."""
        self._look_at_own()
        self._look_at_pairs()
        self._look_at_followers()
        return self._faults

    def _look_at_own(self) -> None:
        """A flag that checks values directly checks that of the write, too."""
        in_step = self._in_steps_of_sums()
        for name in self._writes:
            for gate in self._gates.get(name, ()):
                of_values = by_value(gate.flag)
                if needs_branch(gate.flag):
                    self._faults.append(
                        Fault(name, "is skipped where the model's own conditional skips an update")
                    )
                if is_mixed(gate.flag):
                    self._faults.append(
                        Fault(name, "is written where either of two flags holds, and needs both")
                    )
                if (
                    of_values
                    and name not in in_step
                    and gate.value not in of_values
                    and self._sides.after.is_float(gate.value)
                ):
                    self._faults.append(
                        Fault(
                            name,
                            "waits for a flag that looks at the values of others, and not at"
                            " its own",
                        )
                    )

    def _in_steps_of_sums(self) -> Set[str]:
        """The writes that go by the flag of such a step, and take sums or follow its updates."""
        steps = {name: self._sums.step(flag) for name, flag in self._flags.items()}
        steps = {name: step for name, step in steps.items() if step}
        found = {
            name
            for looked, names in self._sums.writes.items()
            for name in self._body.ways.reached(looked, frozenset()) & set(names)
        }
        follows = followed(self._sides, {name: steps[name] for name in found})
        return found | {
            name for name, step in steps.items() if step <= follows.get(name, frozenset())
        }

    def _look_at_pairs(self) -> None:
        """Writes whose values are checked together are written together.

        A stage, the writes by one flag, may come before: a later one that waits for it looks at its
        values and more, at which the earlier one couldn't look if that waited for the later one.
        """
        kind_of = {
            name: (by_value(self._flags[name]), mentioned(self._flags[name]))
            for name in self._gated
        }
        kinds: Dict[Tuple[FrozenSet[Port], FrozenSet[str]], List[str]] = {}
        writing: Dict[Port, List[str]] = {}
        for name, checked in kind_of.items():
            kinds.setdefault(checked, []).append(name)
            for gate in self._gates[name]:
                writing.setdefault(gate.value, []).append(name)
        for checked, names in kinds.items():
            others = {other for port in checked[0] for other in writing.get(port, ())}
            ahead = self._view.ancestors(names) if others - set(names) else frozenset()
            for other in sorted(others - set(names)):
                is_ahead = kind_of[other][0] < checked[0] and not ahead.isdisjoint(
                    kinds[kind_of[other]]
                )
                if not is_ahead and any(self.is_beside(other, name) for name in names):
                    self._faults.append(
                        Fault(
                            other,
                            "goes by another flag than %s, by which its value is looked at"
                            % names[0],
                        )
                    )

    def _look_at_followers(self) -> None:
        """A write whose value is made of what another has written goes by that one's values, too.

        Where the other is skipped, it would be made of the old value.
        """
        by_values = {name: by_value(self._flags[name]) for name in self._gated}
        by_values = {name: looked for name, looked in by_values.items() if looked}
        by_looked: Dict[FrozenSet[Port], List[str]] = {}
        for name, looked in by_values.items():
            by_looked.setdefault(looked, []).append(name)
        for looked, names in by_looked.items():
            others = {name for name, theirs in by_values.items() if not theirs <= looked}
            after = self._view.descendants(others) if others else set()
            for name in names:
                values = {gate.value.node for gate in self._gates[name]}
                if not values.isdisjoint(after):
                    self._look_at_follower(name, values, others)

    def _look_at_follower(self, name: str, values: Set[str], others: AbstractSet[str]) -> None:
        """`others`: writes that go by values by which this one doesn't go."""
        before, made_of = (self._view.ancestors(values, control=way) for way in (True, False))
        for other in sorted(others & before):
            if self._sides.after.state.written(other) & made_of:
                self._faults.append(
                    Fault(name, "is written where %s, of which it is made, is skipped" % other)
                )

    def is_beside(self, name: str, other: str) -> bool:
        """Whether one write doesn't precede another, and is run whenever the other is."""
        return self._body.ends.runs_with(name, other) and name not in self._view.ancestors([other])
