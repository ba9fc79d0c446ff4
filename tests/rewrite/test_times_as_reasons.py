"""Words for measured times."""

import pytest

from graphmp.rewrite.placement import times_as_reasons

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "nanoseconds, text",
    [
        (0.0, "0 ns"), (41.2, "41.2 ns"), (999.4, "999 ns"), (999.6, "1 µs"),
        (41234.0, "41.2 µs"), (1.2e6, "1.2 ms"), (1.5e9, "1.5 s"), (9e10, "90 s"),
    ],
)  # fmt: skip
def test_durations(nanoseconds, text):
    assert times_as_reasons.duration(nanoseconds) == text
