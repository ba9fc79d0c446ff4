"""What `tf.contrib` had in earlier releases than 1.15.5, on both TensorFlows."""

from __future__ import annotations

import json

SCRIPT = """
import json
import tensorflow as tf
from tensorflow.contrib.data import Dataset, Iterator
from tensorflow.contrib.rnn import core_rnn_cell
from tensorflow.contrib.rnn.python.ops.core_rnn_cell_impl import _linear
from tensorflow.python.ops.rnn_cell_impl import _LayerRNNCell, _Linear

data = Dataset.from_tensor_slices([1.0, 2.0]).map(
    lambda x: 2 * x, num_threads=2, output_buffer_size=2
)
x = Iterator.from_structure(data.output_types, data.output_shapes)
start = x.make_initializer(data)
following = tf.reshape(x.get_next(), [1, 1])
cell = tf.contrib.rnn.core_rnn_cell.BasicLSTMCell(3)
outputs, _ = tf.contrib.rnn.static_rnn(cell, [following], dtype=tf.float32)
with tf.variable_scope("linear"):
    loss = tf.reduce_sum(_linear(outputs, 1, True))
train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), start])
    value, _ = session.run([following, train])
print(json.dumps([
    value.tolist(), issubclass(_LayerRNNCell, tf.nn.rnn_cell.RNNCell), callable(_Linear),
    callable(core_rnn_cell.GRUCell), callable(tf.contrib.nccl.all_sum),
    callable(tf.contrib.linalg.LinearOperatorDiag), callable(tf.contrib.lite.TFLiteConverter),
    callable(tf.contrib.framework.CriticalSection),
]))
"""


def test_names_that_were_dropped_before_1_15(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    ended = forks.run("train.py")
    assert ended.status == 0, ended.err[-2000:]
    assert json.loads(ended.out.splitlines()[-1]) == [[[2.0]]] + [True] * 7
    assert "6 of 6 matmuls" in ended.err
