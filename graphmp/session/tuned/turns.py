"""The turns of a tuning: which variant trains the next step, which steps count, and when it ends.

Steps are real training steps; every one of them changes the variables, whatever it counts for.

1. A turn is a number of steps in one variant; a round gives each variant a turn. The order rotates,
   so that each variant is first equally often.
2. Only equal runs are compared: those that fetch the same, with feeds of equal shapes. The first
   runs of a kind in a variant don't count (TensorFlow optimises and allocates then), nor does the
   first step after a switch.
3. A turn ends when enough of its steps count, or when one took so long, by itself and beside the
   first variant's steps, that more of them would only take time.
4. Rounds end when they show which variant is faster, or when there are enough of them. A round in
   which no kind of run counts in all variants is none.
5. Too many steps without a result: the tuning is given up.
"""

from __future__ import annotations

import collections
from typing import Dict, Hashable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graphmp.timings import Ratio, fastest, order, speedup, undisturbed_time

WARMUP = 2  # runs of a kind in a variant that don't count
STEPS = 3  # of a turn that count
FEWEST_ROUNDS = 3  # with a clear result
ROUNDS = 4  # with any
MOST_ROUNDS = 6
MOST_OF_TURN = 20  # steps of a turn, whether they count or not
MOST_STEPS = 200  # of a tuning
CLEAR = 1.5  # ratio of step times that each of the fewest rounds shows
LONG = 3.0, 0.25  # a step by which a turn ends, in steps of the first variant and in seconds
Samples = Dict[Hashable, List[float]]  # seconds of the steps that count, by kind of run


def steps_of(variants: int, rounds: int) -> int:
    """Equal steps that rounds take.

    The first turns have steps that don't count, later ones one, except where a variant goes on.
    """
    turns = variants * rounds
    return variants * WARMUP + turns * STEPS + turns - variants - (rounds - 1) * (variants == 2)


class Outcome(NamedTuple):
    """The result of rounds.

    Attributes:
        faster: the fastest variant.
        seconds: a step's time in each variant, the first of which is float32.
        speedup: the first variant's time divided by that of the fastest of the others.
        steps: training steps spent.
        rounds: rounds compared.
    """

    faster: str
    seconds: Mapping[str, float]
    speedup: Ratio
    steps: int
    rounds: int


class Turns:
    """Variants that train by turns; the others are compared with the first.

    Attributes:
        steps: training steps spent so far.
        kinds: the kinds of runs seen.
    """

    def __init__(self, names: Sequence[str], left: int = MOST_STEPS):
        """Nothing has been trained yet.

        Args:
            names: the variants; the first trains first.
            left: steps after which it is given up.
        """
        self.steps = 0
        self.kinds: Dict[Hashable, int] = collections.Counter()
        self._names = list(names)
        self._left = left
        self._ran: Dict[Tuple[str, Hashable], int] = collections.Counter()
        self._rounds: List[Dict[str, Samples]] = []
        self._round: Dict[str, Samples] = {}
        self._number = 0
        self._last = ""
        self._waiting = order(self._names, 0)
        self._of_turn = 0
        self._long = False

    @property
    def current(self) -> str:
        """The variant of the next step."""
        return self._waiting[0]

    @property
    def given_up(self) -> bool:
        """Whether too many steps passed without a result."""
        return self.steps >= self._left and self.outcome() is None

    def saw(self, kind: Hashable, seconds: float, valid: bool = True) -> None:
        """Note a step of the current variant.

        Args:
            kind: what the run fetched, and the shapes of its feeds.
            seconds: its time.
            valid: whether its time is that of a whole step without a tracer.
        """
        name = self.current
        self.steps += 1
        self.kinds[kind] += 1
        self._ran[name, kind] += 1
        if valid and self._last == name and self._ran[name, kind] > WARMUP:
            self._samples(name).setdefault(kind, []).append(seconds)
        self._last = name
        self._of_turn += 1
        self._long = self._is_long(kind, seconds)

    @property
    def turn_is_over(self) -> bool:
        """Whether the current turn has seen enough steps."""
        counted = sum(map(len, self._samples(self.current).values()))
        return counted >= STEPS or self._of_turn >= MOST_OF_TURN or (counted > 0 and self._long)

    def forget(self) -> None:
        """Don't count the steps of the current turn: some of them were not whole."""
        self._round.pop(self.current, None)

    def go_on(self) -> None:
        """Go on to the next turn, or to the next round."""
        self._waiting, self._of_turn, self._long = self._waiting[1:], 0, False
        if not self._waiting:
            self._rounds.append(self._round)
            self._round = {}
            self._number += 1
            self._waiting = order(self._names, self._number)

    def outcome(self) -> Optional[Outcome]:
        """The result; None as long as there is none."""
        compared = [row for row in map(self._compared, self._rounds) if row is not None]
        if len(compared) < FEWEST_ROUNDS:
            return None
        rounds = {
            name: [[row[place]] for row in compared] for place, name in enumerate(self._names)
        }
        first, *others = self._names
        faster = fastest(rounds)
        best = faster if faster != first else fastest({name: rounds[name] for name in others})
        ratio = speedup(rounds[first], rounds[best])
        if not self._is_enough(ratio, [a[0] / b[0] for a, b in zip(rounds[first], rounds[best])]):
            return None
        seconds = {name: undisturbed_time(found) for name, found in rounds.items()}
        return Outcome(faster, seconds, ratio, self.steps, len(compared))

    def _is_enough(self, ratio: Ratio, ratios: Sequence[float]) -> bool:
        """Whether rounds with these ratios suffice for a result."""
        if len(ratios) >= MOST_ROUNDS or self.steps >= self._left:
            return True
        if len(ratios) < ROUNDS:
            return ratio.shows_a_difference and (min(ratios) > CLEAR or max(ratios) < 1 / CLEAR)
        return ratio.shows_a_difference or ratio.is_narrow

    def _samples(self, name: str) -> Samples:
        return self._round.setdefault(name, {})

    def _is_long(self, kind: Hashable, seconds: float) -> bool:
        """Whether a step took much longer than the first variant's steps of its kind."""
        others = [
            value
            for row in [*self._rounds, self._round]
            for name, found in row.items()
            if name == self._names[0] != self.current
            for value in found.get(kind, ())
        ]
        ratio, least = LONG
        return bool(others) and seconds > max(least, ratio * float(np.median(others)))

    def _compared(self, samples: Dict[str, Samples]) -> Optional[List[float]]:
        """The seconds of a step in each variant, in one round.

        Kinds of runs weigh as often as they occur.
        """
        found = [samples.get(name, {}) for name in self._names]
        kinds = [kind for kind in found[0] if all(kind in each for each in found)]
        if not kinds:
            return None
        weights = [self.kinds[kind] for kind in kinds]
        return [
            float(np.average([np.median(each[kind]) for kind in kinds], weights=weights))
            for each in found
        ]
