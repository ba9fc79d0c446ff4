"""How much a bench times: warm-up, steps and rounds, by the time of a step and the available time.

1. A round is short, so that temporary slowness of the machine affects a whole round: a variant's
   turn takes about a quarter of a second, or 10 steps, and fewer if there is time for fewer than 10
   such rounds.
2. Rounds end when the time is up, but not before 3 of them, or when 10 have shown each speed-up
   within 1%.
3. --warmup, --steps and --rounds are used exactly.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Callable, Mapping, Optional, Sequence

from graphmp.bench.options import BenchOptions
from graphmp.timings import Rounds, speedup

LEAST_ROUNDS = 3
ENOUGH_ROUNDS = 10
_WARMUP = 3
_WARMUP_SHARE = 0.1  # of the available time
_TURN = 0.25  # seconds
_STEPS = (10, 50)  # of a turn: minimum and maximum for a quarter of a second
now = time.monotonic
Tell = Callable[[str, Optional[float]], None]  # a stage, and its expected end by `now()`


@dataclass(frozen=True)
class Schedule:
    """The rounds of one batch size.

    Attributes:
        steps: of a variant in each round.
        rounds: 0 if the time decides.
        ends: when the time is up, by `now`.
    """

    steps: int
    rounds: int
    ends: float

    def goes_on(self, rounds: Mapping[str, Rounds], began: float) -> bool:
        """Whether there is another round.

        Args:
            rounds: the timed rounds, by variant.
            began: the start of the first one.
        """
        first, *others = rounds.values()
        done = len(first)
        if self.rounds:
            return done < self.rounds
        if done < LEAST_ROUNDS:
            return True
        if now() + (now() - began) / done > self.ends:
            return False
        return done < ENOUGH_ROUNDS or not all(speedup(first, other).is_narrow for other in others)

    def left(self, done: int, began: float, seconds: float) -> float:
        """Seconds for the remaining rounds.

        Args:
            done: the number of timed rounds.
            began: the start of the first one.
            seconds: of a round, until one has been timed.
        """
        each = (now() - began) / done if done else seconds
        if self.rounds:
            return each * (self.rounds - done)
        return max(each * (LEAST_ROUNDS - done), self.ends - now())


def warmup(options: BenchOptions, seconds: float, share: float) -> int:
    """Steps of each variant before those that count.

    Args:
        options: of the bench.
        seconds: of one step of every variant.
        share: seconds for one batch size.
    """
    if options.warmup or not options.fits_the_time:
        return options.warmup or _WARMUP
    return max(1, min(_WARMUP, int(_WARMUP_SHARE * share / seconds)))


def schedule(options: BenchOptions, seconds: Sequence[float], share: float) -> Schedule:
    """The rounds of one batch size.

    Args:
        options: of the bench.
        seconds: of a step, by variant.
        share: seconds for the rounds.
    """
    most = max(_STEPS[0], min(_STEPS[1], math.ceil(_TURN * len(seconds) / sum(seconds))))
    fitting = int(share / sum(seconds) / (options.rounds or ENOUGH_ROUNDS))
    return Schedule(options.steps or max(1, min(most, fitting)), options.rounds, now() + share)


def cost(options: BenchOptions, seconds: float) -> float:
    """The minimum of seconds for one batch size, given those of one step of every variant."""
    steps, rounds = options.steps or 1, options.rounds or LEAST_ROUNDS
    return seconds * ((options.warmup or 1) + steps * rounds)
