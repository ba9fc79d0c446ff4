"""Where half precision is slow, which steps with infinities run in it."""

from __future__ import annotations

import pytest

from graphmp.audit.options import AuditOptions
from graphmp.executed import skip_claim
from graphmp.executed.check import Executed
from tests.support.executed import graphs


@pytest.mark.parametrize("longest, in_half", [(60.0, 1), (0.0, 0)])
def test_long_steps_run_in_float32(monkeypatch, longest, in_half):
    firsts = []

    class Trial(skip_claim.SkipTrial):
        def __init__(self, *args, first_alone=False, **kwargs):
            super().__init__(*args, first_alone=first_alone, **kwargs)
            firsts.append(first_alone)

    monkeypatch.setattr(skip_claim, "SkipTrial", Trial)
    monkeypatch.setattr(skip_claim, "_LONGEST", longest)
    options = AuditOptions(steps=2, arithmetic="simulated")
    claims = Executed(*graphs(loss_scale="dynamic"), options, 0.1).claims()
    (claim,) = [claim for claim in claims if claim.name == skip_claim.SKIPS]
    assert claim.verdict == "proved", claim.text
    assert sum(firsts) == in_half and len(firsts) == 1 + in_half
    assert ("but for the first gradient of each loss" in claim.text) == bool(in_half)
    assert ("in which a step takes" in claim.text) != bool(in_half)
