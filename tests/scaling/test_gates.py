"""Each gate is needed: without any one a skipped step writes."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.scaling.insertion.gates import GateInsertion
from tests.support.scaled import BAD, GOOD, OWN, changed, session
from tests.support.scaled import built as with_optimizer
from tests.support.training import state


@pytest.mark.parametrize(
    "optimizer, sparse, use_resource",
    [
        pytest.param("Adam", True, False, marks=pytest.mark.slow),  # each value of each by default
        ("Adam", True, True),
        ("Adam", False, True),
        ("AdamWeightDecay", False, False),
    ],
)
def test_without_any_one_gate_a_skipped_step_writes(optimizer, sparse, use_resource, monkeypatch):
    graph = tf.train.export_meta_graph(graph=with_optimizer(optimizer, sparse, use_resource))
    config, policy = (
        Config.make(loss_scale_initial=64.0, compute_dtype="float32"),
        Policy.default("float16"),
    )
    (loss,) = rewrite(graph, config, policy).record.losses
    put = GateInsertion.by_flag
    assert len(loss["gated"]) > 6
    for left_out in loss["gated"]:
        monkeypatch.setattr(
            GateInsertion,
            "by_flag",
            lambda self, name, flag, skip=left_out: None if name == skip else put(self, name, flag),
        )
        meta_graph = rewrite(graph, config, policy).meta_graph
        with session(meta_graph, as_written=True) as sess:
            sess.run("train", GOOD)
            before = state(sess)
            sess.run("train", BAD)
            assert changed(before, state(sess)) != OWN, left_out
