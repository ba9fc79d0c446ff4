"""Flags read off a converted graph."""

from __future__ import annotations

from typing import Dict, Iterable, Optional

from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BOOL
from graphmp.verify.scales.scales import Scales
from graphmp.verify.sides import Sides
from graphmp.verify.skips.formulas import AllOf, AnyOf, Finite, Flag, Taken, mentioned, said_finite
from graphmp.verify.structure.matcher import Bindings, Matcher


class Flags:
    """Reads flags off a converted graph."""

    def __init__(self, sides: Sides, matcher: Matcher, scales: Scales):
        self._sides, self._matcher, self._scales = sides, matcher, scales
        self._known: Dict[Port, Optional[Flag]] = {}

    def of(self, port: Port, value: Optional[Port] = None, writer: str = "") -> Optional[Flag]:
        """The flag behind a predicate; None if it is none.

        Args:
            port: the predicate.
            value: an output that may be checked element by element.
            writer: the node that depends on it; it may itself wait for the scale's update.
        """
        port = self._matcher.plain(port)
        for scale in self._scales.dynamic if writer else ():
            if port == scale.finite and scale.adapted.intersection(
                self._sides.after.view.controls(writer)
            ):
                return Finite(scale.checked, scale.name)
        if value is not None:
            found = self._matcher.take("finite_element", port, {"x": value})
            if found is not None:
                return Finite(frozenset((value,)), "")
        if port not in self._known:
            self._known[port] = self._read(port)
        return self._known[port]

    def of_result(self, port: Port) -> Optional[Flag]:
        """The flag behind a result of a function, which may always be true."""
        return (
            AllOf(()) if self._matcher.scalar(self._matcher.plain(port)) == 1.0 else self.of(port)
        )

    def _read(self, port: Port) -> Optional[Flag]:
        for scale in self._scales.dynamic:
            if port in scale.flags:
                return Finite(scale.checked, scale.name)
        checked = self._scales.checks.of(port)
        if checked is not None:
            return Finite(checked, "")
        if port.node in self._sides.more_arguments:  # the value from previous iterations of a loop
            return Finite(frozenset((port,)), "") if self._sides.after.dtype(port) == BOOL else None
        skipped = self._matcher.match("none_skipped", port)
        if skipped is not None:
            return self._none_skipped(skipped)
        for template, kind in (("both", AllOf), ("either", AnyOf)):
            found = self._matcher.take(template, port)
            if found is not None:
                flags = [self.of(found[side]) for side in ("a", "b")]
                known = [flag for flag in flags if flag is not None]
                wrong = kind is AnyOf and (
                    self._same_call(known)
                    or any(self._holds_elsewhere(found[side]) for side in ("a", "b"))
                )
                return None if len(known) < 2 or wrong else kind(tuple(known))
        every = self._matcher.take("all_finite", port)
        if every is not None:
            flags = [self.of(each) for each in every["flags"]]
            return None if None in flags else AllOf(tuple(flags))  # type: ignore[arg-type]
        on_side = self._scales.checks.on_side(port)
        if on_side is not None:
            there = self.of(on_side.here)
            return (
                there
                if there is not None
                and self._scales.checks.lie_on(said_finite(there), on_side.side)
                else None
            )
        alone = self._scales.checks.trains_on(port)
        if alone is not None:
            there = self.of(alone.here)
            return None if there is None else AllOf((there, Taken(alone.side)))
        inside = self._matcher.take("in_branch", port)
        return None if inside is None else self.of(inside["predicate"])

    def _same_call(self, flags: Iterable[Flag]) -> bool:
        """Whether both of two flags tell of one call, where what isn't taken skips nothing."""
        calls = [
            {call for call, scales in self._scales.skipping.items() if scales & mentioned(flag)}
            for flag in flags
        ]
        return bool(set.intersection(*calls)) if calls else False

    def _holds_elsewhere(self, port: Port) -> bool:
        """Whether a flag holds where its loss isn't trained, as nothing overflows there."""
        return self._scales.checks.on_side(self._matcher.plain(port)) is not None

    def _none_skipped(self, found: Bindings) -> Optional[Flag]:
        """The flag behind a count of skipped steps, if it tells whether calls change the count."""
        count, behind = (
            self._scales.handles.name(found["v"]),
            {port.node for port in found["calls"]},
        )
        scale = next(
            (state.variables[0] for state in self._scales.states if state.variables[2] == count),
            None,
        )
        calls = {name for name, scales in self._scales.skipping.items() if scale in scales}
        controls = self._sides.after.view.controls
        if (
            not calls
            or calls != behind
            or not all(self._is_ahead(found["ahead"], controls(name)) for name in calls)
        ):
            return None
        self._matcher.keep(found)
        return Finite(frozenset(), str(scale))

    def _is_ahead(self, port: Port, controls: Iterable[str]) -> bool:
        return any(
            self._matcher.plain(Port(name, 0)) == port
            for name in controls
            if name in self._sides.added
        )
