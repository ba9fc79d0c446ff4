"""Training programs of many kinds train converted as they do unconverted, and a step that
overflows changes nothing.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.programs import (
    branches,
    calls,
    chains,
    loops,
    models,
    optimizers,
    published,
    several,
    state,
)
from tests.support.programs.registry import NORM, PROGRAMS, built
from tests.support.programs.running import (
    after_overflows,
    converted,
    differences,
    half,
    states,
    steps_taken,
    unprotected,
)

assert (
    branches
    and calls
    and chains
    and loops
    and models
    and optimizers
    and published
    and several
    and state
)  # they register their programs

# What fails: program, its tests, where (reference, resource, tf1, tf2; else everywhere), what comes
# out wrong.
FAILS: list = []

TOLERANCE = 1e-6
KINDS = ("reference", "resource")
SCALES = (1024, "dynamic")
TINY = [
    "plain", "consensus", "two_segments", "checkpointed_by_hand",
    "checkpointed_with_a_shared_weight", "glow",
    "two_losses_one_apply", "one_gradient_clipped_below_its_name",
    "gradients_clipped_below_their_names", "loss_below_a_gradients_name",
    "step_below_a_gradients_name", "model_below_gradients_names", "variables_named_like_gradients",
    "step_by_averages_of_gradients", "while_loop",
    "conditional", "function_called_twice", "momentum_by_hand", "averages_of_weights",
    "per_example_gradients_in_a_loop",
    "gradients_of_parts_added_in_a_loop", "maml_in_a_loop",
    "maml_of_tasks_differentiated_in_the_loop", "per_example_gradients_of_tasks",
    "gradients_of_chosen_examples", "per_example_gradients_vectorized",
]  # fmt: skip


RELATIVES = frozenset(
    module.__name__ for module in (branches, calls, loops, published)
)  # variations on the other programs


def _cases(names, of_all):
    """A number, a program, a kind of variables, and whether the case only runs with --slow."""
    for number, name in enumerate(names):
        for kind in KINDS:
            left_out = PROGRAMS[name].build.__module__ in RELATIVES and not of_all
            yield number, name, kind, left_out or number % 2 != KINDS.index(kind)


def cases(names, every=1):
    """Programs with both kinds of variables; by default these alternate, without relatives.

    `every`: 2 for every second program by default.
    """
    params = []
    for number, name, kind, late in _cases(names, False):
        late = late or number // 2 % every != 0
        params.append(
            pytest.param(
                (name, kind == "resource"),
                id="%s-%s" % (name, kind),
                marks=[pytest.mark.slow] * late,
            )
        )
    return pytest.mark.parametrize("case", params, scope="module")


def scaled_cases(of_all=False):
    """All programs, as `cases`, with both kinds of scale.

    Each by turns, so that both scales meet both kinds of variables.
    """
    params = []
    for number, name, kind, late in _cases(PROGRAMS, of_all):
        for scale in SCALES:
            marks = [pytest.mark.slow] * (late or number // 2 % 2 != SCALES.index(scale))
            params.append(
                pytest.param(
                    (name, kind == "resource"),
                    scale,
                    id="%s-%s-%s" % (name, kind, scale),
                    marks=marks,
                )
            )
    return pytest.mark.parametrize("case, loss_scale", params, scope="module")


@pytest.fixture(autouse=True)
def known(request, case):
    """Mark expected failures."""
    here = {KINDS[case[1]], "tf2" if tf.__version__ > "2" else "tf1"}
    test = request.function.__name__[len("test_") :]
    for program, tests, where, reason in FAILS:
        if program == case[0] and test in tests.split() and set(where.split()) <= here:
            request.applymarker(pytest.mark.xfail(strict=True, reason=reason))


@scaled_cases()
def test_scales(case, loss_scale):
    """Every seed that trains is scaled, by as many scales as there are steps.

    Nothing is left out with a warning.
    """
    found, graph = converted(*case, "float32", loss_scale), built(*case)
    assert [
        row for row in found.report["warnings"] if row["code"] in ("GMP110", "GMP111", "GMP112")
    ] == []
    assert [row["name"] for row in found.report["checks"] if row["status"] == "failed"] == []
    assert all(row["scale"] for row in found.report["losses"])
    assert len({row["scale"] for row in found.report["losses"]}) == PROGRAMS[case[0]].scales
    assert unprotected(graph, found) == []
    gradients = {
        name.split(":")[0].split("/pfor/")[0]
        for row in found.report["losses"]
        for name in row["gradients"]
    }
    taken_inside = {name for row in found.report["losses"] for name in row["through"]}
    assert gradients <= {name for call in graph.calls for name in call.ops} | taken_inside


@scaled_cases(of_all=True)
def test_updates(case, loss_scale):
    """They are those of the original."""
    assert (
        differences(
            converted(*case, "float32", loss_scale).meta_graph, case[0], states(*case), TOLERANCE
        )
        == []
    )


@cases(PROGRAMS, every=2)
def test_half(case):
    """No matmul or convolution is float32 for the scale's sake."""
    without = half(converted(*case, "float16", "none"))
    assert bool(without) == PROGRAMS[case[0]].half
    assert sorted(without - half(converted(*case, "float16", "dynamic"))) == []


@cases([name for name in PROGRAMS if PROGRAMS[name].clips], every=2)
def test_clip(case):
    """It is TensorFlow's own of the same gradients."""
    assert (
        differences(
            converted(*case, "float32", 1024, NORM).meta_graph,
            case[0],
            states(*case, "clipped"),
            2 * TOLERANCE,
        )
        == []
    )


@cases(PROGRAMS)
def test_overflows(case):
    """A value that overflows skips all of the step."""
    assert after_overflows(*case, converted(*case, "float16", "dynamic")) == []


@cases(TINY)
def test_tiny(case):
    """Gradients that float16 can't hold train with a scale, and without one nothing moves."""
    assert {
        name: share
        for name, share in steps_taken(*case, 2.0**26).items()
        if not 0.95 < share < 1.05
    } == {}
    assert {
        name: share for name, share in steps_taken(*case, "none").items() if abs(share) > 0.01
    } == {}
