"""The result of a tuning, and its words."""

from __future__ import annotations

from typing import NamedTuple, Optional

from graphmp.session.tuned.turns import Outcome

FLOAT32, HALF = "float32", "half"  # variants


class Verdict(NamedTuple):
    """What a tuning decided.

    Attributes:
        kept: the variant that trains from now on.
        outcome: the steps that were timed; None if none show which variant is faster.
        reason: why nothing was decided; empty if it was.
        file: the costs file that it was read from; empty if steps were timed.
    """

    kept: str
    outcome: Optional[Outcome]
    reason: str = ""
    file: str = ""


def in_words(verdict: Verdict, compute_dtype: str) -> str:
    """A verdict in a line.

    Args:
        verdict: the verdict.
        compute_dtype: the half precision.
    """
    found = verdict.outcome
    if found is None:
        return "not tuned: %s; trains in %s" % (verdict.reason, compute_dtype)
    names = {FLOAT32: "float32"}
    kept, other = (found.faster, next(name for name in found.names if name != found.faster))
    times = dict(zip(found.names, found.seconds))
    ratio = found.speedup
    ends = (
        sorted(1 / end if kept == found.names[0] else end for end in (ratio.low, ratio.high))
        if ratio.low and ratio.high
        else []
    )
    return "%s is kept: %s a step, %s in %s%s; %s" % (
        names.get(kept, compute_dtype),
        _time(times[kept]),
        _time(times[other]),
        names.get(other, compute_dtype),
        " (%.2f times as fast, %.2f to %.2f)" % (times[other] / times[kept], *ends) if ends else "",
        "by %s" % verdict.file if verdict.file else "timed in %d training steps" % found.steps,
    )


def _time(seconds: float) -> str:
    return "%.3g ms" % (1e3 * seconds) if seconds < 1 else "%.3g s" % seconds
