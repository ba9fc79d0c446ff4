"""Layers of `contrib.cudnn_rnn`: what they compute, their variables and initial values."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib_modules import ContribModule
from tests.support.contrib_recurrent import evaluated, ramp
from tests.support.places import ROOT

RECORDED = json.loads((ROOT / "tests/data/contrib.json").read_text())["cudnn_rnn"]


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_a_layer_computes_what_its_portable_cells_do(name):
    layer = getattr(ContribModule("cudnn_rnn"), "Cudnn" + name)
    with tf.Graph().as_default():
        outputs, states = layer(2, 5)(tf.constant(ramp(3, 2, 4)))
        found = evaluated({name: outputs, "state": states[0]})
        assert outputs.shape.as_list() == [3, 2, 5]
    np.testing.assert_allclose(found[name], RECORDED[name], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["state"][1], RECORDED[name][-1], rtol=1e-5, atol=1e-6)
    start = "shape/cudnn_" + name.lower()
    assert {key for key in found if key.startswith("shape/")} == {
        key for key in RECORDED if key.startswith(start)
    }


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_a_bidirectional_layer(name):
    layer = getattr(ContribModule("cudnn_rnn"), "Cudnn" + name)
    with tf.Graph().as_default():
        made = layer(2, 5, direction="bidirectional", dropout=0.5, name="foo")
        first, state = made(tf.constant(ramp(3, 2, 4)), training=False)
        second, _ = made(tf.constant(ramp(3, 2, 4)), initial_state=state, training=False)
        found = evaluated({"first": first, "second": second, "state": state[0]})
        names = {variable.op.name for variable in tf.trainable_variables()}
    assert np.shape(found["first"]) == np.shape(found["second"]) == (3, 2, 10)
    assert np.shape(found["state"]) == tuple(made.state_shape(2)[0]) == (4, 2, 5)
    np.testing.assert_allclose(found["state"][2], np.array(found["first"])[-1, :, :5], rtol=1e-6)
    np.testing.assert_allclose(found["state"][3], np.array(found["first"])[0, :, 5:], rtol=1e-6)
    assert not np.allclose(found["first"], found["second"])
    cell = "foo/stack_bidirectional_rnn/cell_%%d/bidirectional_rnn/%%s/cudnn_compatible_%s_cell/"
    starts = [cell % name.lower() % (row, way) for row in (0, 1) for way in ("fw", "bw")]
    assert all(any(found.startswith(start) for found in names) for start in starts)
    assert len(names) == 4 * (2 if name == "LSTM" else 6)


def test_each_matrix_is_initialised_by_itself():
    asked = []

    def initializer(shape, dtype=tf.float32, partition_info=None):
        asked.append(list(shape))
        return tf.fill(shape, tf.cast(len(asked), dtype))

    with tf.Graph().as_default():
        layer = ContribModule("cudnn_rnn").CudnnLSTM(
            1, 3, kernel_initializer=initializer, bias_initializer=tf.constant_initializer(0.5)
        )
        layer(tf.constant(ramp(3, 2, 4)))
        kernel, bias = tf.trainable_variables()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values, sums = session.run([kernel, bias])
    assert asked[:2] == [[3, 4], [3, 3]]
    assert len(set(values[0])) == 4
    assert values.shape == (7, 12)
    np.testing.assert_allclose(sums, np.ones(12))


@pytest.mark.unit
@pytest.mark.parametrize("option", [{"direction": "up"}, {"input_mode": "skip_input"}])
def test_options_that_are_not_served(option):
    with pytest.raises(ValueError, match=next(iter(option.values()))):
        ContribModule("cudnn_rnn").CudnnGRU(1, 3, **option)
