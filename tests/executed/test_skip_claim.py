"""Where half precision is slow, which steps with infinities run in it."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.executed import skip_claim, skips
from graphmp.executed.check import Executed
from tests.support.executed import graphs
from tests.support.proved import converted


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


def test_gradients_that_are_never_finite_are_given_up_at_the_lowest_scale(monkeypatch):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8], "x")
        hidden = tf.matmul(x, tf.get_variable("w", [8, 8], use_resource=False))
        loss = tf.reduce_mean(tf.sqrt(-tf.square(hidden) - 1.0), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        original = tf.train.export_meta_graph()
    steps = []

    class Counted(skips.VariableSession):
        def step(self, feeds):
            steps.append(feeds)
            super().step(feeds)

    monkeypatch.setattr(skips, "VariableSession", Counted)
    flags = dict(loss_scale="dynamic", loss_scale_initial=16.0)
    options = AuditOptions(steps=2, arithmetic="simulated")
    claims = Executed(original, converted(original, **flags), options, 0.1).claims()
    (claim,) = [claim for claim in claims if claim.name == skip_claim.SKIPS]
    assert claim.verdict == "not proved" and "no step on this data is good" in claim.text
    assert 3 <= len(steps) < 12
