"""How much a bench times: warm-up, steps and rounds by what a step takes and by the time that there is.

1. A round is short, so that what slows the machine down for a while slows all of a round down: a variant's turn takes about a quarter of
   a second, or 10 steps, and fewer where there is time for fewer than 10 such rounds.
2. Rounds end when the time is up, not before 3 of them, or when 10 have shown each speed-up within 1%.
3. What --warmup, --steps and --rounds say is done as they say.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Mapping, Sequence

from graphmp.bench.options import Options
from graphmp.bench.timing.timings import Rounds, speedup

LEAST_ROUNDS = 3
ENOUGH_ROUNDS = 10
_WARMUP = 3
_WARMUP_SHARE = 0.1  # of the time that there is
_TURN = 0.25  # seconds
_STEPS = (10, 50)  # of a turn: what a quarter of a second is made of at least and at most
now = time.monotonic


@dataclass(frozen=True)
class Schedule:
    """The rounds of one batch size.

    Attributes:
        steps: of a variant in each round.
        rounds: 0 where the time decides.
        ends: when the time is up, by `now`.
    """

    steps: int
    rounds: int
    ends: float

    def goes_on(self, rounds: Mapping[str, Rounds], began: float) -> bool:
        """Whether there is to be another round.

        Args:
            rounds: those that were timed, by variant.
            began: when the first one did.
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
        """Seconds that the rounds will take yet.

        Args:
            done: how many rounds were timed.
            began: when the first one did.
            seconds: that a round takes, as long as none was timed.
        """
        each = (now() - began) / done if done else seconds
        if self.rounds:
            return each * (self.rounds - done)
        return max(each * (LEAST_ROUNDS - done), self.ends - now())


def warmup(options: Options, seconds: float, share: float) -> int:
    """Steps of each variant before those that count.

    Args:
        options: of the bench.
        seconds: that one step of every variant takes.
        share: seconds that there are for one batch size.
    """
    if options.warmup or not options.fits_the_time:
        return options.warmup or _WARMUP
    return max(1, min(_WARMUP, int(_WARMUP_SHARE * share / seconds)))


def schedule(options: Options, seconds: Sequence[float], share: float) -> Schedule:
    """The rounds of one batch size.

    Args:
        options: of the bench.
        seconds: of a step, by variant.
        share: seconds that there are for the rounds.
    """
    most = max(_STEPS[0], min(_STEPS[1], math.ceil(_TURN * len(seconds) / sum(seconds))))
    fitting = int(share / sum(seconds) / (options.rounds or ENOUGH_ROUNDS))
    return Schedule(options.steps or max(1, min(most, fitting)), options.rounds, now() + share)


def cost(options: Options, seconds: float) -> float:
    """Seconds that one batch size takes at least, where one step of every variant takes so many."""
    steps, rounds = options.steps or 1, options.rounds or LEAST_ROUNDS
    return seconds * ((options.warmup or 1) + steps * rounds)
