"""Judging what a skipped step writes."""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.executed.skips import beyond_rounding

pytestmark = pytest.mark.unit
ONE = np.float32([1])


@pytest.mark.parametrize(
    "before, after, beyond",
    [
        (ONE, np.nextafter(ONE, np.float32([2])), False),
        (ONE, np.float32([1.0001]), True),
        (np.zeros(1, np.float32), np.float32([1e-30]), True),
        (np.int64([1 << 40]), np.int64([(1 << 40) + 1]), True),
        (None, ONE, True),
    ],
)
def test_a_change_by_rounding_is_none(before, after, beyond):
    """A write that gives the same up to rounding may be missing."""
    values = {} if before is None else {"v": before}
    assert beyond_rounding({"v"}, values, {"v": after}) == ["v"] * beyond
