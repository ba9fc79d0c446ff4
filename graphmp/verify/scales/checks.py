"""The outputs that a flag checks.

It checks one output or several; inside a while loop in each iteration; on one side of a
conditional, and is true on the other; or it is a function's result about the gradients that it
takes.
"""

from __future__ import annotations

from typing import FrozenSet, Iterable, NamedTuple, Optional, Sequence, Tuple

from graphmp.graph.structure.branches import sides as sides_of
from graphmp.graph.structure.branches import source
from graphmp.graph.structure.frames import outputs_frame
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import SWITCHES
from graphmp.verify.scales.ways import is_hidden
from graphmp.verify.sides import Sides
from graphmp.verify.structure.calls import BodyCalls
from graphmp.verify.structure.matcher import Bindings, Matcher

Checked = FrozenSet[Port]


class OnSide(NamedTuple):
    """A flag that exists on one side of a conditional, and is true on the other.

    Attributes:
        here: the flag on its side.
        side: the predicate, and the side.
    """

    here: Port
    side: Tuple[Port, int]


class Checks:
    """Derives from a converted body what flags check."""

    def __init__(self, sides: Sides, matcher: Matcher, calls: BodyCalls):
        self._sides, self._matcher, self._calls, self._view = (
            sides,
            matcher,
            calls,
            sides.after.view,
        )

    def of(self, port: Port) -> Optional[Checked]:
        """The outputs that a flag checks; None if it depends on anything else."""
        return self._of(port, {})

    def on_side(self, port: Port) -> Optional[OnSide]:
        """A flag that only checks one side of a conditional; None for any other."""
        return self._on_one_side(port, "there")

    def trains_on(self, port: Port) -> Optional[OnSide]:
        """A flag that holds only on one side of a conditional; None for any other."""
        found = self._on_one_side(port, "trains")
        return found and found._replace(here=self._on_sides(found.here))

    def _on_one_side(self, port: Port, kind: str) -> Optional[OnSide]:
        """A flag by the templates of a kind."""
        for template, side in ((kind + "_if_true", 1), (kind + "_if_false", 0)):
            found = self._matcher.match(template, port)
            if found is not None and self._on_sides(found["value"]) == found["predicate"]:
                self._matcher.keep(found)
                self._matcher.used.add(found["predicate"].node)
                return OnSide(found["here"], (source(self._view, found["predicate"]), side))
        return None

    def lie_on(self, ports: Iterable[Port], side: Tuple[Port, int]) -> bool:
        """Whether outputs exist only on one side of a conditional."""
        return all(
            side in sides_of(self._view, self._sides.after.conditions, port) for port in ports
        )

    def beside(self, ports: Iterable[Port], flag: Port) -> FrozenSet[Port]:
        """Those of some outputs that exist once wherever a flag does.

        Not in loops and branches of their own, nor in functions.
        """
        return frozenset(
            port for port in ports if self.lives_with(port, flag) and not is_hidden(port)
        )

    def lives_with(self, port: Port, flag: Port) -> bool:
        """Whether an output exists once wherever a flag does."""
        conditions = self._sides.after.conditions
        there = sides_of(self._view, conditions, port) <= sides_of(self._view, conditions, flag)
        frame, own = (outputs_frame(self._view, each.node) for each in (port, flag))
        return there and frame == own

    def _of(self, port: Port, where: Bindings) -> Optional[Checked]:
        """The same. `where`: bindings of templates for the loop of the flag's iteration."""
        called = self._calls.said_finite(self._matcher.plain(port))
        if called is not None:
            return called
        of_one, of_all = (
            ("finite_of_iteration", "all_of_iteration") if where else ("finite_of", "all_finite")
        )
        one = self._matcher.take(of_one, port, where)
        if one is not None:
            return frozenset((one["x"],))
        every = self._matcher.take(of_all, port, where)
        if every is not None:
            found = [self._of(flag, where) for flag in every["flags"]]
            return None if None in found else frozenset().union(*found)  # type: ignore[arg-type]
        tested = self._matcher.match("finite_of_row", port)
        if tested is not None:
            return self._tested(tested)
        by_sums = self._matcher.match("all_finite_by_sums", port)
        if by_sums is not None:
            return self._by_sums(by_sums)
        on_side = self.on_side(port)
        if on_side is not None:
            there = self._of(on_side.here, where)
            return there if there is not None and self.lie_on(there, on_side.side) else None
        behind = self._matcher.match("both", port)
        if behind is not None and self._starts_as(behind["a"], None):
            self._matcher.keep(behind)
            return self._of(behind["b"], where)
        return self._carried(port, where.get("iteration"))

    def _tested(self, found: Bindings) -> Optional[Checked]:
        """The outputs of a row that is tested; None if it is no row."""
        outputs = self.of_row(found["row"])
        if outputs is not None:
            self._matcher.keep(found)
        return outputs

    def of_row(self, port: Port) -> Optional[Checked]:
        """The outputs that a row is made of, one flat or several joined; None if it is no row."""
        several = self._matcher.take("rows_of", port)
        flat = [port] if several is None else several["rows"]
        rows = [self._matcher.take("row_of", each) for each in flat]
        return None if None in rows else frozenset(row["x"] for row in rows if row is not None)

    def _by_sums(self, found: Bindings) -> Optional[Checked]:
        """The outputs that sums are of, and tests where the sums aren't finite; None if others."""
        doubted = {"summed": found["summed"]}
        of_sums = self._of_rows("sum_of", found["sums"], {})
        of_tests = self._of_rows("finite_of_doubted", found["flags"], doubted)
        if of_sums is None or of_sums != of_tests:
            return None
        self._matcher.keep(found)
        return of_tests

    def _of_rows(
        self, template: str, ports: Sequence[Port], bindings: Bindings
    ) -> Optional[Checked]:
        """The outputs behind the rows of matches of a template; None if there are others."""
        matches = [self._matcher.take(template, port, bindings) for port in ports]
        rows = [None if match is None else self.of_row(match["row"]) for match in matches]
        return None if None in rows else frozenset().union(*rows)  # type: ignore[arg-type]

    def _carried(self, port: Port, outside: Optional[Port]) -> Optional[Checked]:
        """The outputs that a flag checks in all iterations of a loop.

        Args:
            port: the flag, behind the loop.
            outside: its initial value, the flag of an iteration of the outer loop; None for true.
        """
        found = self._matcher.match("carried", port)
        if (
            found is None
            or self._view.nodes[found["going"].node].op != "LoopCond"
            or not self._starts_as(found["true"], outside)
        ):
            return None
        self._matcher.keep(found)
        loop = {key: found[key] for key in ("held", "going")}
        later = self._matcher.take("later", found["next"], loop)
        if later is not None:
            return self._of(later["here"], {**loop, "iteration": later["iteration"]})
        before = [
            Port(name, 1)
            for name in self._sides.added_readers(found["held"])
            if self._matcher.take("iteration", Port(name, 1), loop)
        ]
        return self._carried(found["next"], before[0]) if len(before) == 1 else None

    def _starts_as(self, port: Port, outside: Optional[Port]) -> bool:
        """Whether a flag starts as true, or with its value outside."""
        port = self._on_sides(port)
        if outside is not None:
            return port == outside
        if self._matcher.scalar(port) != 1.0:
            return False
        self._matcher.used.add(port.node)
        return True

    def _on_sides(self, port: Port) -> Port:
        """The value that is passed to some sides of conditionals."""
        port = self._matcher.plain(port)
        while port.node in self._sides.added and self._view.nodes[port.node].op in SWITCHES:
            if (
                self._view.nodes[self._matcher.plain(self._view.inputs(port.node)[1]).node].op
                == "LoopCond"
            ):
                break
            self._matcher.used.add(port.node)
            port = self._matcher.plain(self._view.inputs(port.node)[0])
        return port
