"""Training programs of many kinds train converted as they do unconverted, and a step that overflows changes nothing."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.programs import chains
from tests.support.programs.registry import NORM, PROGRAMS, built
from tests.support.programs.running import after_overflows, converted, differences, half, states, unprotected

assert chains  # registers its programs

# What fails: program, its tests, where (reference, resource, tf1, tf2; else everywhere), what comes out wrong.
FAILS: list = []

TOLERANCE = 1e-6
CASES = [(name, kind) for name in PROGRAMS for kind in ("reference", "resource")]


@pytest.fixture(scope="module", params=CASES, ids=["%s-%s" % case for case in CASES])
def case(request):
    """A program and whether its variables are resources."""
    return request.param[0], request.param[1] == "resource"


@pytest.fixture(autouse=True)
def known(request):
    """Marks what is known to fail."""
    name, use_resource = request.getfixturevalue("case")
    kind = "resource" if use_resource else "reference"
    here = {kind, "tf2" if tf.__version__ > "2" else "tf1"}
    test = request.function.__name__[len("test_") :]
    for program, tests, where, reason in FAILS:
        if program == name and test in tests.split() and set(where.split()) <= here:
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


def report(case, **options):
    return converted(*case, **dict(dict(compute_dtype="float32", loss_scale="dynamic"), **options)).report


def test_scales(case):
    """Every seed that trains is scaled, by as many scales as there are steps; nothing is left out with a warning."""
    program = PROGRAMS[case[0]]
    for loss_scale in (1024, "dynamic"):
        found = converted(*case, "float32", loss_scale)
        assert [row for row in found.report["warnings"] if row["code"] in ("GMP110", "GMP111", "GMP112")] == []
        assert [row["name"] for row in found.report["checks"] if row["status"] == "failed"] == []
        assert all(row["scale"] for row in found.report["losses"])
        assert len({row["scale"] for row in found.report["losses"]}) == program.scales
        graph = built(*case)
        assert unprotected(graph, found) == []
        assert {name for row in found.report["losses"] for name in row["gradients"]} <= {name for call in graph.calls for name in call.ops}


@pytest.mark.parametrize("loss_scale", [1024, "dynamic"])
def test_updates(case, loss_scale):
    """They are those of the original."""
    assert differences(converted(*case, "float32", loss_scale).meta_graph, case[0], states(*case), TOLERANCE) == []


def test_half(case):
    """No matmul or convolution is float32 for the scale's sake."""
    without = half(converted(*case, "float16", "none"))
    assert bool(without) == PROGRAMS[case[0]].half
    assert sorted(without - half(converted(*case, "float16", "dynamic"))) == []


def test_clip(case):
    """It is TensorFlow's own of the same gradients."""
    if not PROGRAMS[case[0]].clips:
        pytest.skip("gradients are worked on before they are applied")
    assert differences(converted(*case, "float32", 1024, NORM).meta_graph, case[0], states(*case, True), 2 * TOLERANCE) == []


def test_overflows(case):
    """A value that overflows skips all of the step."""
    assert after_overflows(*case, converted(*case, "float16", "dynamic")) == []
