"""A small network as a graph file, for tests of its lowering to HLO and of the timing."""

import importlib.util

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize

needs_xla = pytest.mark.skipif(
    tf.__version__ < "2", reason="XLA can be called ahead of time on TensorFlow 2 only"
)
needs_jax = pytest.mark.skipif(
    tf.__version__ < "2" or importlib.util.find_spec("jax") is None,
    reason="needs TensorFlow 2 and JAX: pip install 'graphmp[hlo]'",
)


def net(use_resource=False, steady=False):
    """A convolution, a dense layer, momentum and a step counter, on batches of any size.

    With `steady`, the values are the same in every run. Returns the MetaGraphDef.
    """
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        image, label = (
            tf.placeholder(tf.float32, [None, 8, 8, 4], "image"),
            tf.placeholder(tf.int64, [None], "label"),
        )
        start = dict(initializer=tf.constant_initializer(0.02)) if steady else {}
        filters = tf.get_variable("filters", [3, 3, 4, 8], **start)
        weights = tf.get_variable("weights", [128, 10], **start)
        hidden = tf.nn.relu(tf.nn.conv2d(image, filters, [1, 2, 2, 1], "SAME"))
        logits = tf.matmul(tf.reshape(hidden, [-1, 128]), weights)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label, logits=logits), name="loss"
        )
        step = tf.train.create_global_step()
        tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, global_step=step)
        return tf.train.export_meta_graph()


def written(tmp_path, meta_graph):
    path = tmp_path / "net.meta"
    path.write_bytes(serialize(meta_graph))
    return path
