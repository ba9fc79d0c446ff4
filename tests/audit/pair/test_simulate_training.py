"""Training in simulated half precision."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.audit.pair.simulate import simulated
from tests.support.control_flow import control_flow
from tests.support.models import MODELS, batch_for
from tests.support.simulated import assert_simulates
from tests.support.training import run_steps, tensor_core_dtypes, undecorated

STEPS = 4


def trained(name, native, **options):
    """A model, converted once and trained from the same values twice.

    Natively, converted or as it is, and then simulated.
    """
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        loss, train_op, placeholders = MODELS[name](undecorated)
        fetches, feed = (
            [loss.name, train_op.name],
            {p.name: value for p, value in zip(placeholders, batch_for(name))},
        )
        done = graphmp.convert(graph, **options)
        exact = None if native else run_steps(graph, fetches, feed, STEPS, None)
    after = simulated(done.meta_graph).meta_graph
    assert_simulates(done.meta_graph, after)
    expected = exact or run_imported(done.meta_graph, fetches, feed, None)
    return expected, run_imported(after, fetches, feed, expected.before)


def run_imported(meta_graph, fetches, feed, start):
    """Trains a graph in a graph of its own."""
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(meta_graph)
        return run_steps(graph, fetches, feed, STEPS, start)


@pytest.mark.parametrize(
    "name",
    [
        "regression",
        "batch_norm",
        "recurrent_loop",
        "embedding",
        "conditional",
        "resource_variables",
    ],
)
def test_models_train_as_in_half_precision(name):
    """Beside this machine's own float16 kernels, under a dynamic loss scale."""
    native, found = trained(name, native=True)
    assert found.variables == native.variables
    np.testing.assert_allclose(found.losses, native.losses, rtol=0.01)
    assert not tensor_core_dtypes(found.graph)["float16"]


@pytest.mark.parametrize("name", ["regression", "unfused_batch_norm", "recurrent"])
def test_models_train_in_bfloat16(name):
    """1.15.5 has no kernels for it on the CPU, and needs none."""
    original, found = trained(name, native=False, compute_dtype="bfloat16")
    np.testing.assert_allclose(found.losses, original.losses, rtol=0.05)
    assert found.losses != original.losses


def test_a_dynamic_rnn_with_function_loops():
    with control_flow(functions=True):
        original, found = trained("recurrent_loop", native=False)
    np.testing.assert_allclose(found.losses, original.losses, rtol=0.01)
    assert found.losses != original.losses
