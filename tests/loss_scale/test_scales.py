"""Where a graph shows its loss scale."""

from __future__ import annotations

import pytest

from graphmp.loss_scale import scales

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "kind, handles, shown",
    [
        ("none", False, ("", "")),
        ("none", True, ("", "")),
        ("fixed", False, ("graphmp/loss_scale/current", "")),
        ("fixed", True, ("", "")),  # its nodes are in a function or a loop
        ("dynamic", False, ("graphmp/loss_scale/current", "graphmp/loss_scale/skipped")),
        (
            "dynamic",
            True,
            ("graphmp/loss_scale/scale/value", "graphmp/loss_scale/skipped_steps/value"),
        ),
    ],
)
def test_nodes_that_show_a_scale(kind, handles, shown):
    row = {"scope": "loss_scale", "kind": kind, "handles": handles}
    assert scales.shown(row) == shown
