"""Each gate is needed: without any one of them a skipped step writes."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.scaling.gates.insertion import GateInsertion
from graphmp.scaling.gates.neutral_values import NEUTRAL
from graphmp.tf_hooks.op_definitions import registered
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
            lambda self, name, *more, skip=left_out: (
                None if name == skip else put(self, name, *more)
            ),
        )
        meta_graph = rewrite(graph, config, policy).meta_graph
        with session(meta_graph, as_written=True) as sess:
            sess.run("train", GOOD)
            before = state(sess)
            sess.run("train", BAD)
            assert changed(before, state(sess)) != OWN, left_out


@pytest.mark.unit
def test_neutral_values_go_into_the_inputs_that_are_written():
    """By the input names in op definitions, for references and resources."""
    known = 0
    for op, neutral in NEUTRAL.items():
        for name in (op, "Resource" + op, op + "VariableOp", "%sVariableOp" % op):
            definition = registered(name)
            if definition is not None:
                assert definition.input_arg[neutral.slot].name in ("value", "delta", "updates")
                known += 1
    assert known > 2 * len(NEUTRAL) - 4
