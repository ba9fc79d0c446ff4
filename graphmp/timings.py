"""Statistics of steps timed in rounds: in each, every variant runs a few steps in turn.

One estimator serves times and speed-ups. A variant's step time is the geometric mean of its rounds'
medians. A speed-up is the quotient of two step times, which is also the geometric mean of the
rounds' own ratios. Temporary slowness of the machine affects all variants of a round alike, so that
the interval is paired by rounds: Student's t interval of the logarithms of these ratios.
"""

from __future__ import annotations

import math
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
from scipy.special import stdtrit

Rounds = Sequence[Sequence[float]]  # seconds of each step, by round
CONFIDENCE = 0.95
NARROW = 0.01  # of a speed-up


class Spread(NamedTuple):
    """Seconds of a step: the median, the quartiles, the extremes."""

    median: float
    first_quartile: float
    third_quartile: float
    least: float
    most: float


class Ratio(NamedTuple):
    """A speed-up and its 95% confidence interval; None with a single round."""

    value: float
    low: Optional[float]
    high: Optional[float]

    @property
    def shows_a_difference(self) -> bool:
        """Whether the interval excludes 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def is_narrow(self) -> bool:
        """Whether the interval extends at most NARROW to either side."""
        return self.low is not None and self.margin <= NARROW

    @property
    def margin(self) -> float:
        """How far the interval extends, as a share of the speed-up; 0 with a single round."""
        return self.value / self.low - 1 if self.low else 0.0


def order(names: Sequence[str], number: int) -> List[str]:
    """The order of the variants in a round: each is first, second, ... equally often."""
    turn = number % len(names)
    return [*names[turn:], *names[:turn]]


def spread(rounds: Rounds) -> Spread:
    """The seconds of the steps of all rounds."""
    seconds = np.concatenate([np.asarray(steps, np.float64) for steps in rounds])
    return Spread(*(float(value) for value in np.percentile(seconds, [50, 25, 75, 0, 100])))


def step_time(rounds: Rounds) -> float:
    """Seconds of a step: the geometric mean of the rounds' medians."""
    return math.exp(float(np.mean(_logarithms(rounds))))


def undisturbed_time(rounds: Rounds) -> float:
    """Seconds of a step: the mean of the quicker half of the rounds' medians.

    Other work only adds time. Given 4 to 12 of the rounds recorded of 47 graphs, it chose the
    fastest variant more often than their median or mean did.
    """
    medians = sorted(float(np.median(steps)) for steps in rounds)
    return float(np.mean(medians[: (len(medians) + 1) // 2]))


def fastest(rounds: Mapping[str, Rounds]) -> str:
    """The name with the shortest undisturbed step, but for those shown to be slower than another.

    What the rounds' ratios show within their interval counts more than the quicker half of each
    variant's rounds, which may be other rounds. Of equals the last one is taken: where nothing
    shows a difference, a wrong choice costs little.
    """
    left = [name for name in rounds if not _is_shown_slower(name, rounds)]
    return min(reversed(left), key=lambda name: undisturbed_time(rounds[name]))


def _is_shown_slower(name: str, rounds: Mapping[str, Rounds]) -> bool:
    """Whether the interval of a speed-up of another variant is above 1."""
    return any((speedup(rounds[name], other).low or 0.0) > 1.0 for other in rounds.values())


def speedup(slow: Rounds, fast: Rounds) -> Ratio:
    """The speed-up of `fast` against `slow`: the quotient of their step times.

    Both have the same rounds.
    """
    logs = _logarithms(slow) - _logarithms(fast)
    mean = float(np.mean(logs))
    if len(logs) < 2:
        return Ratio(math.exp(mean), None, None)
    half = (
        float(stdtrit(len(logs) - 1, (1 + CONFIDENCE) / 2))
        * float(np.std(logs, ddof=1))
        / math.sqrt(len(logs))
    )
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _logarithms(rounds: Rounds) -> Any:
    """The logarithm of each round's median."""
    return np.log([float(np.median(steps)) for steps in rounds])
