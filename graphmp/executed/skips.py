"""Writes of a converted graph in a step with an infinite gradient.

From the same values, on the same batch: a good step, then for each spot a step in which it is
infinite, and a good one. A spot that a good step doesn't reach is tried once more from the state
after that step: models have alternating steps.
"""

from __future__ import annotations

import math
import time
from typing import Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set

import numpy as np

from graphmp.executed.allowed import Allowed
from graphmp.executed.infinities import Infinities, Spot
from graphmp.executed.same import Steps
from graphmp.executed.scales import Dynamic, FoundScales, GradientSource
from graphmp.executed.variables import Values, VariableSession, changed, not_finite
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.view import Consumer, Port
from graphmp.policy.dtypes import FLOATS
from graphmp.wording import some

_MOST_TO_SETTLE = 48  # steps until a dynamic scale fits
_MOST_AT_FLOOR = 3  # of them skipped at a scale that can't fall: dropout may spare one
_TRIED = 5  # activation gradients of a loss
_ROUNDINGS = 8 * 2.0**-24  # of float32, relative


class SkipFault(NamedTuple):
    """A fault, and the node of the converted graph that shows it."""

    node: str
    text: str


class SkipFindings(NamedTuple):
    """The observations.

    Attributes:
        faults: what is wrong.
        gradients: the number of gradients that were made infinite.
        activations: the activation gradients that were made infinite.
        idle: the gradients whose infinity reached nothing.
        written: the variables that were still written, without those of the scales.
        unsettled: whether no good step was found.
    """

    faults: List[SkipFault]
    gradients: int
    activations: List[str]
    idle: List[str]
    written: Set[str]
    unsettled: bool


class SkipTrial:
    """The steps with infinities of one graph.

    Attributes:
        seconds: of the quickest step; infinite before there is one.
    """

    def __init__(
        self,
        found: FoundScales,
        allowed: Allowed,
        steps: Steps,
        start: Mapping[str, np.ndarray],
        listed: Optional[Set[str]],
        first_alone: bool = False,
    ):
        """Insert the spots into a copy of the graph.

        Args:
            found: the graph, with its scales.
            allowed: tells what a step may change.
            steps: how to run it.
            start: values of variables.
            listed: the writes of skipped steps in the report; None without a report.
            first_alone: whether to test only the first gradient of each loss.
        """
        self._found, self._allowed, self._steps, self._start, self._listed = (
            found,
            allowed,
            steps,
            start,
            listed,
        )
        self._by_name = {scale.variables[0]: scale for scale in found.dynamic}
        self._sources = [
            (name, source)
            for name, scale in self._by_name.items()
            for source in found.sources(scale)[: 1 if first_alone else None]
        ]
        self._middles = [
            (scale, name)
            for scale in self._by_name
            if not first_alone
            for name in _middles(found, scale)
        ]
        spots = list(_spots(found, [source for _, source in self._sources]))
        spots += [_whole(found, name) for _, name in self._middles]
        self._infinities = Infinities(found.after, spots)
        self._faults: List[SkipFault] = []
        self._written: Set[str] = set()
        self.seconds = math.inf

    def run(self) -> SkipFindings:
        """Runs all steps."""
        with VariableSession(
            self._infinities.meta_graph, self._steps.train, self._start, on_gpu=True
        ) as self._session:
            before = self._settled()
            if before is None:
                return SkipFindings([], 0, [], [], set(), True)
            after = self._stepped(before)
            idle = missed = [
                number
                for number in range(len(self._sources))
                if not self._gradient(number, before, after)
            ]
            if missed:
                later = self._stepped(after)
                idle = [number for number in missed if not self._gradient(number, after, later)]
            activations = [self._activation(name, before, after) for name in self._by_name]
            if len(self._by_name) > 1 and self._middles:
                self._all_at_once(missed, before, after)
        names = [self._sources[number][1].node for number in idle]
        return SkipFindings(
            self._faults,
            len(self._sources) - len(idle),
            list(filter(None, activations)),
            names,
            self._written,
            False,
        )

    def _all_at_once(self, missed: Sequence[int], before: Values, good: Values) -> None:
        """Make one gradient of each loss infinite, if this step computes one of each.

        Branches that exclude each other don't meet in a step.
        """
        first = {
            name: number
            for number, (name, _) in reversed(list(enumerate(self._sources)))
            if self._is_direct(number) and number not in missed
        }
        if len(first) == len(self._by_name):
            numbers = sorted(first.values())
            node = self._sources[numbers[0]][1].node
            self._look(numbers, list(first), node, before, good)

    def _step(self, *infinite: int) -> Values:
        began = time.perf_counter()
        self._session.step(dict(self._steps.batches(0), **self._infinities.feeds(*infinite)))
        self.seconds = min(self.seconds, time.perf_counter() - began)
        return self._session.values()

    def _stepped(self, before: Values, *infinite: int) -> Values:
        self._session.load(before)
        return self._step(*infinite)

    def _settled(self) -> Optional[Values]:
        """Values from which a step is good; None if none are found."""
        values, at_floor = self._session.values(), 0
        for _ in range(_MOST_TO_SETTLE):
            before, values = values, self._step()
            if (
                not self._skipped(before, values)
                and changed(before, values)
                and not not_finite(values)
            ):
                return values if not self._skipped(values, self._stepped(values)) else before
            skipped = self._skipped(before, values)
            at_floor += any(before.get(name) == values[name] for name in skipped)
            if at_floor == _MOST_AT_FLOOR:
                break
        return None

    def _skipped(self, before: Values, after: Values) -> List[str]:
        """The scales that skipped a step."""
        names = [(name, scale.variables[2]) for name, scale in self._by_name.items()]
        return [
            name
            for name, count in names
            if count in after
            and not np.array_equal(after[count], before.get(count, np.zeros_like(after[count])))
        ]

    def _gradient(self, number: int, before: Values, good: Values) -> bool:
        """Make one gradient infinite; return whether that reached anything.

        If its loss's flag checks it directly, the step must be skipped.
        """
        name, source = self._sources[number]
        bad = self._stepped(before, number)
        if not changed(good, bad):
            return False
        direct = self._is_direct(number)
        skipped = self._skipped(before, bad)
        if direct or skipped or not_finite(bad):
            self._look(
                [number], [name] if direct or not skipped else skipped, source.node, before, good
            )
        return True  # else an op on its way made it finite again

    def _is_direct(self, number: int) -> bool:
        """Whether a loss's flag checks a gradient directly."""
        name, source = self._sources[number]
        return source.reader is None or Port(source.node, 0) in self._by_name[name].checked

    def _activation(self, scale: str, before: Values, good: Values) -> str:
        """A loss's first activation gradient whose infinity reaches a variable's; or empty."""
        for number, (of, name) in enumerate(self._middles, len(self._sources)):
            if of == scale:
                bad = self._stepped(before, number)
                skipped = self._skipped(before, bad)
                if skipped or not_finite(bad):
                    self._look([number], skipped or [scale], name, before, good)
                    return name
        return ""

    def _look(
        self, numbers: Sequence[int], names: Sequence[str], node: str, before: Values, good: Values
    ) -> None:
        """Run a step with infinities, which some scales must skip, and the next one."""
        bad = self._stepped(before, *numbers)
        scales = [self._by_name[name] for name in names]
        for text in self._wrong(scales, before, good, bad) or self._stuck(
            scales, before, good, bad
        ):
            self._faults.append(SkipFault(node, text))

    def _wrong(self, scales: List[Dynamic], before: Values, good: Values, bad: Values) -> List[str]:
        for scale in scales:
            now, then = float(bad[scale.variables[0]]), float(before[scale.variables[0]])
            if (
                not (scale.floor <= now < then or now == scale.floor)
                or bad[scale.variables[2]] <= before[scale.variables[2]]
            ):
                counted = int(bad[scale.variables[2]]) - int(before[scale.variables[2]])
                return [
                    "is infinite, and %s goes from %g to %g, and %d skipped steps are counted"
                    % (scale.variables[0], then, now, counted)
                ]
        moved = set(changed(before, bad))
        wrong = sorted(moved & self._allowed.unchanged(scales))
        if wrong:
            return ["is infinite, and the step writes %s" % some(wrong)]
        spoilt = sorted(name for name in not_finite(bad) if name not in not_finite(before))
        if spoilt:
            return ["is infinite, and so is %s after the step" % some(spoilt)]
        group = self._allowed.before_flags(scales) & set(changed(before, good))
        missing = beyond_rounding(group - moved, before, good)
        if group & moved and missing:
            return [
                "is infinite, and the step writes %s without %s"
                % (some(sorted(group & moved)), some(missing))
            ]
        goes_on = (
            moved - self._allowed.own - self._allowed.other_runs(scales)
            if len(scales) == len(self._by_name)
            else set()
        )
        self._written |= goes_on
        unlisted = sorted(
            name for name in goes_on if self._listed is not None and not self._is_listed(name)
        )
        return (
            ["is infinite, and the step writes %s, which the report does not list" % some(unlisted)]
            if unlisted
            else []
        )

    def _stuck(self, scales: List[Dynamic], before: Values, good: Values, bad: Values) -> List[str]:
        """Faults of the next step; a step for which the scale is too large doesn't count."""
        wanted = self._allowed.unchanged(scales) & set(changed(before, good))
        after = self._stepped(bad)
        for _ in range(_MOST_TO_SETTLE):
            if not self._skipped(bad, after):
                break
            bad, after = after, self._step()
        spoilt = sorted(name for name in not_finite(after) if name not in not_finite(before))
        if spoilt:
            return ["was infinite, and after the next step so is %s" % some(spoilt)]
        if wanted and not wanted & set(changed(bad, after)):
            return ["was infinite, and the next step does not train %s" % some(sorted(wanted))]
        return []

    def _is_listed(self, variable: str) -> bool:
        return any(name in (self._listed or ()) for name in self._allowed.writers(variable))


def beyond_rounding(names: Iterable[str], before: Values, after: Values) -> List[str]:
    """The variables that a step changes by more than a few roundings, sorted.

    A write that hardly changes a value may as well leave it: each write of a spectral
    normalisation's vector of one element gives 1, up to the order in which two calls run.
    """
    return sorted(
        name
        for name in names
        if name not in before
        or after[name].dtype.kind != "f"
        or not np.allclose(after[name], before[name], rtol=_ROUNDINGS, atol=0)
    )


def _spots(found: FoundScales, sources: Sequence[GradientSource]) -> Iterator[Spot]:
    view = found.after.view
    inside = frames(view)
    for source in sources:
        readers = [c for c in view.consumers(source.port.node) if c.output == source.port.output]
        if source.reader is not None:
            readers = [Consumer(*source.reader, source.port.output)]
        yield Spot(source.port, tuple(readers), inside.get(source.node, ()))


def _whole(found: FoundScales, name: str) -> Spot:
    """A node's first output, outside of loops, for all its consumers."""
    return Spot(
        Port(name, 0), tuple(c for c in found.after.view.consumers(name) if c.output == 0), ()
    )


def _middles(found: FoundScales, scale: str) -> List[str]:
    """Nodes between the multiplication by a scale and the division, from the middle outwards.

    Outside of loops.
    """
    side, view = found.after, found.after.view
    divided = [
        view.inputs(place.node)[place.slot].node for place in found.divided if place.scale == scale
    ]
    ahead = view.ancestors(divided, control=False) - set(divided)
    behind = view.followed(
        [place.node for place in found.multiplied if place.scale == scale], lambda name: True
    )
    starts = {place.node for place in found.multiplied}
    inside = frames(view)
    names = {
        name
        for name in (ahead & behind) - starts
        if not inside.get(name) and side.dtype(Port(name, 0)) in FLOATS and view.consumers(name)
    }
    order = [name for name in in_order(view, view.ancestors(divided)) if name in names]
    return _from_the_middle(order)[:_TRIED]


def _from_the_middle(names: Sequence[str]) -> List[str]:
    """The names from the middle one outwards."""
    places = {name: place for place, name in enumerate(names)}
    return sorted(names, key=lambda name: abs(2 * places[name] - len(names)))
