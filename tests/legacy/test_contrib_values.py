"""What graphmp has in place of contrib computes what TensorFlow 1.15.5's own computed.

The numbers are recorded (`tests/data/make_contrib.py`). CPUs round sums in different orders.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import internals
from graphmp.legacy.contrib.mode_keys import ModeKeys
from graphmp.legacy.contrib_modules import ContribModule
from tests.support import contrib_programs
from tests.support.contrib_cases import CASES
from tests.support.places import ROOT

# What is built on TensorFlow 2's own parts; the rest is plain graph code and runs on both.
OF_TENSORFLOW_2 = frozenset(
    ("distribute", "graph_editor", "image", "predictor", "summary", "tfprof.model_analyzer")
)
RECORDED = json.loads((ROOT / "tests/data/contrib.json").read_text())


OF_ESTIMATORS = frozenset(("learn",))  # in a fork: `tf.estimator` is served for a whole process


@pytest.mark.parametrize("name", sorted(CASES.keys() - OF_ESTIMATORS))
def test_values_are_those_of_tensorflow_1(name):
    if name in OF_TENSORFLOW_2 and internals.on_tensorflow_1():
        pytest.skip("needs parts of TensorFlow 2")
    with tf.Graph().as_default():
        found = CASES[name](ContribModule(name.partition(":")[0]))
    assert set(found) == set(RECORDED[name])
    for key, value in RECORDED[name].items():
        if key == "shapes" or '"' in json.dumps(value):
            assert found[key] == value, key
        else:
            np.testing.assert_allclose(found[key], value, rtol=3e-6, atol=1e-6, err_msg=key)


@pytest.mark.unit
def test_modes_have_the_values_of_contrib():
    served = ContribModule("learn").ModeKeys
    assert served is ModeKeys
    assert (served.TRAIN, served.EVAL, served.INFER) == ("train", "eval", "infer")


def test_a_sequence_of_one_step():
    crf = ContribModule("crf")
    potentials = np.array([[[1.0, 3.0]], [[2.0, 0.0]]], "f")
    with tf.Graph().as_default():
        inputs = tf.placeholder(tf.float32, [None, None, 2])
        lengths, zeros = tf.constant([1, 0], tf.int64), tf.zeros([2, 2])
        likelihood, _ = crf.crf_log_likelihood(inputs, tf.constant([[1], [1]]), lengths, zeros)
        best, scores = crf.crf_decode(inputs, zeros, lengths)
        with tf.Session() as session:
            found = session.run([likelihood, best, scores], {inputs: potentials})
    np.testing.assert_allclose(found[0], [3 - np.logaddexp(1, 3), 0], rtol=1e-6)
    assert (found[1].tolist(), found[2].tolist()) == ([[1], [0]], [3, 2])


@pytest.mark.skipif(internals.on_tensorflow_1(), reason="1.15.5 has its own contrib")
def test_implicit_gradients_and_variables_of_contrib_eager():
    eager = ContribModule("eager")
    assert eager.implicit_gradients is ContribModule("eager.python.tfe").implicit_gradients
    with tf.Graph().as_default(), tf.Session() as session:
        variable = eager.Variable(3.0)
        ((gradient, of),) = eager.implicit_gradients(lambda x: x * variable * variable)(2.0)
        session.run(variable.initializer)
        assert (session.run(gradient), of) == (12.0, variable)


@pytest.mark.skipif(internals.on_tensorflow_1(), reason="1.15.5 has its own contrib")
def test_a_predictor_names_the_signatures_that_there_are(tmp_path):
    contrib_programs.save_model(str(tmp_path / "model"))
    with pytest.raises(ValueError, match="no signature missing; it has half, serving_default"):
        ContribModule("predictor").from_saved_model(str(tmp_path / "model"), "missing")
