"""The result of a tuning, and its words."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

from graphmp.session.tuned.turns import Outcome
from graphmp.tuning.costs import BYTES, FLOAT32, TUNED


class Verdict(NamedTuple):
    """The decision of a tuning.

    Attributes:
        kept: what trains from now on: FLOAT32, or half precision by BYTES or TUNED.
        outcome: the steps that were timed; None if none show what is faster.
        reason: why nothing was decided; empty if it was.
        file: the costs file by which it was decided; empty if it was by timed steps.
        note: what couldn't be done besides; may be empty.
        left: whether the graph is left as it is, as `reason` says.
    """

    kept: str
    outcome: Optional[Outcome]
    reason: str = ""
    file: str = ""
    note: str = ""
    left: bool = False

    @property
    def warns(self) -> bool:
        """Whether half precision isn't faster, or this isn't known."""
        return self.kept == FLOAT32 or bool(self.reason)


def in_words(verdict: Verdict, compute_dtype: str) -> str:
    """A verdict in a line.

    Args:
        verdict: the verdict.
        compute_dtype: the half precision.
    """
    note = "; " + verdict.note if verdict.note else ""
    if verdict.left:
        return "not tuned: %s%s" % (verdict.reason, note)
    if verdict.reason:
        return "not tuned: %s; trains in %s%s" % (verdict.reason, compute_dtype, note)
    names = {
        FLOAT32: "float32",
        BYTES: "%s with casts by bytes" % compute_dtype,
        TUNED: "%s with casts by measured times" % compute_dtype,
    }
    found = verdict.outcome
    kept = "%s is kept" % names[verdict.kept]
    if found is None:
        return "%s, by %s%s" % (kept, verdict.file, note)
    times = ["%s %s" % (_time(found.seconds[name]), names[name]) for name in found.seconds]
    return "%s: a step takes %s (%s); timed in %d training steps%s" % (
        kept,
        ", ".join(times),
        _ratio(found),
        found.steps,
        note,
    )


def _ratio(found: Outcome) -> str:
    """How many times as fast half precision is as float32; no single number if that isn't shown."""
    ratio = found.speedup
    interval = "%.3g to %.3g" % (ratio.low or 0.0, ratio.high or math.inf)
    if not ratio.shows_a_difference:
        return "no difference shown: half precision %s times as fast" % interval
    return "half precision %.3g times as fast, %s" % (ratio.value, interval)


def _time(seconds: float) -> str:
    return "%.3g ms in" % (1e3 * seconds) if seconds < 1 else "%.3g s in" % seconds
