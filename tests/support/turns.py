"""Cross products of two parameters, a part of which runs by default."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

import pytest


def in_turn(cases: Sequence[Any], values: Sequence[Any]) -> Iterator[Any]:
    """Each case with each value; by default each case has only one value, in turn.

    The others run with --slow. A case may be a tuple.
    """
    for number, case in enumerate(cases):
        for place, value in enumerate(values):
            whole = (*case, value) if isinstance(case, tuple) else (case, value)
            marks = [] if place == number % len(values) else [pytest.mark.slow]
            yield pytest.param(
                *whole,
                id="-".join(getattr(each, "__name__", str(each)) for each in whole),
                marks=marks,
            )
