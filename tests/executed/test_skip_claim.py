"""Where the CPU emulates half precision, what of the steps with infinities runs in it."""

from __future__ import annotations

import pytest

from graphmp import time_limit
from graphmp.audit.options import AuditOptions
from graphmp.executed import skip_claim
from graphmp.executed.check import Executed
from tests.support.executed import graphs


@pytest.mark.parametrize("slow", [False, True])
def test_a_step_that_takes_too_long_in_half_precision_runs_in_float32(monkeypatch, slow):
    class Trial(skip_claim.SkipTrial):
        def run(self):
            if slow and time_limit.limit():
                raise time_limit.too_long(time_limit.limit())
            return super().run()

    monkeypatch.setattr(skip_claim, "SkipTrial", Trial)
    options = AuditOptions(steps=2, arithmetic="simulated")
    claims = Executed(*graphs(loss_scale="dynamic"), options, 0.1).claims()
    (claim,) = [claim for claim in claims if claim.name == skip_claim.SKIPS]
    assert claim.verdict == "proved", claim.text
    assert ("a step in it takes more than 60 s here" in claim.text) == slow
    assert ("but for the first gradient of each loss" in claim.text) != slow
