"""TensorFlow's own modules and names under their names of TensorFlow 1."""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import moved

ON_1 = tf.VERSION.startswith("1.")
SCRIPT = """
import json
import tensorflow as tf
from tensorflow.python import pywrap_tensorflow
from tensorflow.python.eager import context
from tensorflow.python.framework import graph_util, tensor_shape
from tensorflow.python.framework.ops import register_tensor_conversion_function
from tensorflow.python.ops import gen_array_ops, gen_math_ops
from tensorflow.python.training import distribution_strategy_context, training_ops
from tensorflow.python.training.tracking.data_structures import NoDependency
from tensorflow.python.util import nest
from tensorflow.python.util.nest import is_sequence

x = tf.get_variable("x", [2, 3], initializer=tf.ones_initializer())
y = tf.identity(gen_math_ops.tanh(x), "y")
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    path = tf.train.Saver().save(session, "./model")
    frozen = graph_util.convert_variables_to_constants(session, session.graph_def, ["y"])
found = pywrap_tensorflow.NewCheckpointReader(path).get_variable_to_shape_map()
print(json.dumps([
    found, is_sequence([x]), nest.is_sequence(x), tensor_shape.scalar().as_list(),
    tensor_shape.vector(2).as_list(),
    tensor_shape.matrix(2, 3).as_list(), callable(training_ops.resource_apply_adam),
    distribution_strategy_context.has_strategy(),
    sorted({node.op for node in frozen.node} & {"Const", "VariableV2", "VarHandleOp"}),
]))
"""
RECORDED = [
    {"x": [2, 3]}, True, False, [], [2], [2, 3], True, False, ["Const"],
]  # fmt: skip
OF_2 = """
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.keras._impl.keras import backend
from tensorflow.python.keras.datasets import mnist
from tensorflow.python.keras.preprocessing.sequence import pad_sequences
from tensorflow.python.ops import constant_op, gen_random_ops
from tensorflow.python.ops.rnn_cell_impl import _like_rnncell
print([
    context.in_graph_mode(), backend.learning_phase is tf.keras.backend.learning_phase,
    mnist.load_data is tf.keras.datasets.mnist.load_data, pad_sequences([[1]], 2).tolist(),
    gen_random_ops._random_uniform is gen_random_ops.random_uniform,
    hasattr(gen_random_ops, "_nothing"), callable(constant_op.constant),
    _like_rnncell(tf.nn.rnn_cell.LSTMCell(2)), _like_rnncell(3),
])
"""


@pytest.fixture
def ran(forks, tmp_path, monkeypatch):
    """Runs a script, and returns the last line that it prints."""
    monkeypatch.chdir(tmp_path)

    def run(text: str) -> str:
        (tmp_path / "train.py").write_text(text)
        ended = forks.run("train.py")
        assert ended.status == 0, ended.err[-2000:]
        return ended.out.splitlines()[-1]

    return run


def test_what_tensorflow_1_has_under_these_names(ran):
    assert json.loads(ran(SCRIPT)) == RECORDED


@pytest.mark.skipif(ON_1, reason="TensorFlow 1.15.5 lacks some of them: they are older")
def test_what_older_versions_had(ran):
    assert ran(OF_2) == "[True, True, True, [[0, 1]], True, False, True, True, False]"


@pytest.mark.unit
def test_modules_below_one_that_moved():
    assert moved.successor("tensorflow.python.training.tracking.base") == (
        "tensorflow.python.trackable.base"
    )
    assert moved.successor("tensorflow.python.keras.datasets.mnist") == "tf:keras.datasets.mnist"
    assert moved.successor("tensorflow.python.training.saver") == ""
    assert moved.successor("numpy.random") == ""


@pytest.mark.skipif(ON_1, reason="TensorFlow 1 has the names")
def test_a_script_that_asks_for_tensorflow_1_itself(ran):
    text = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from tensorflow.python.training import training_ops
from tensorflow.python.util.nest import is_sequence
print([is_sequence([1]), callable(training_ops.apply_adam)])
"""
    assert ran(text) == "[True, True]"


def test_a_gradient_that_is_supplied_may_be_registered(ran):
    """By a script with its own copy of a layer of contrib."""
    text = """
import tensorflow as tf
tf.RegisterGradient("GDNLowerBound")(lambda op, gradient: [gradient * 3, None])
x = tf.constant([1.0, 2.0])
with tf.get_default_graph().gradient_override_map({"Maximum": "GDNLowerBound"}):
    y = tf.maximum(x, 0.0)
with tf.Session() as session:
    print(session.run(tf.gradients(y, x)[0]).tolist())
"""
    assert ran(text) == "[3.0, 3.0]"
