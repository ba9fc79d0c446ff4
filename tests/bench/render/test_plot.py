"""The picture of a bench."""

from __future__ import annotations

import math

import pytest

from graphmp.bench.bench import FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, BenchRun
from tests.support.benched import a_bench, timed


def test_a_picture_marks_what_leaves_it_and_suggests_nothing():
    pytest.importorskip("matplotlib")
    from graphmp.bench.render import plot

    wild = [[0.01], [0.1], [0.001]]
    found = a_bench(
        *(timed(FLOAT32, size) for size in (32, 64)),
        timed(GRAPHMP, 32, 1.5),
        timed(GRAPHMP, 64, rounds=wild),
        BenchRun(TENSORFLOW, 64, OUT_OF_MEMORY),
    )
    drawn = plot.render(found, "svg").decode()
    ratio = found.speedup(found.run(GRAPHMP, 64))
    assert (
        ratio.high > 10 * ratio.value
        and "<!-- %.3g -->" % ratio.high in drawn
        and "goes on to the number" in drawn
    )
    assert "<!-- 1.2x: below it, likely causes -->" in drawn and "<!-- 1.2x -->" in drawn
    calm = plot.render(a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5)), "svg").decode()
    assert "goes on" not in calm and math.isfinite(ratio.high)
