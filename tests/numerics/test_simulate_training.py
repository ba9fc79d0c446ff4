"""Training in simulated half precision."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.numerics.simulate import simulated
from tests.support.models import MODELS, batch_for
from tests.support.simulated import assert_simulates
from tests.support.training import run_steps, tensor_core_dtypes, train_rewritten, undecorated


def train_simulated(model, batch, steps=4, start=None, **options):
    """As tests.support.training.train_rewritten, simulated."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, train_op, placeholders = model(undecorated)
        done = graphmp.convert(graph, **options)
    after = simulated(done.meta_graph).meta_graph
    assert_simulates(done.meta_graph, after)
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(after)
        return run_steps(graph, [loss.name, train_op.name], {p.name: value for p, value in zip(placeholders, batch)}, steps, start)


@pytest.mark.parametrize("name", ["regression", "batch_norm", "recurrent_loop", "embedding", "conditional", "resource_variables"])
def test_models_train_as_in_half_precision(name):
    """Beside this machine's own float16 kernels, under a dynamic loss scale."""
    native = train_rewritten(MODELS[name], batch_for(name))
    found = train_simulated(MODELS[name], batch_for(name), start=native.before)
    assert found.variables == native.variables
    np.testing.assert_allclose(found.losses, native.losses, rtol=0.01)
    assert not tensor_core_dtypes(found.graph)["float16"]


@pytest.mark.parametrize("name", ["regression", "unfused_batch_norm", "recurrent"])
def test_models_train_in_bfloat16(name):
    """1.15.5 has no kernels for it on the CPU, and needs none."""
    original = train_rewritten(MODELS[name], batch_for(name), compute_dtype="float32")
    found = train_simulated(MODELS[name], batch_for(name), start=original.before, compute_dtype="bfloat16")
    np.testing.assert_allclose(found.losses, original.losses, rtol=0.05)
    assert found.losses != original.losses


def test_a_dynamic_rnn_with_function_loops():
    tf.enable_control_flow_v2()
    try:
        name = "recurrent_loop"
        original = train_rewritten(MODELS[name], batch_for(name), compute_dtype="float32")
        found = train_simulated(MODELS[name], batch_for(name), start=original.before)
    finally:
        tf.disable_control_flow_v2()
    np.testing.assert_allclose(found.losses, original.losses, rtol=0.01)
    assert found.losses != original.losses
