"""Small graphs of recurrent parts of `tf.contrib`, with variables of fixed values."""

from __future__ import annotations

import zlib
from typing import Any, Dict, Sequence

import numpy as np
import tensorflow.compat.v1 as tf


def evaluated(fetches: Dict[str, Any], feeds: Any = None) -> Dict[str, Any]:
    """The values of tensors after each variable was set to numbers made of its name.

    The variables are added by name, with the shape of each and the mean at its start.
    """
    variables = {variable.op.name: variable for variable in tf.global_variables()}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        biases = {name: values for name, values in variables.items() if name.endswith("bias")}
        found = {"start/" + name: value.tolist() for name, value in session.run(biases).items()}
        for name, variable in variables.items():
            random = np.random.RandomState(zlib.crc32(name.encode()))
            variable.load(random.randn(*variable.shape.as_list()) * 0.5, session)
            found["shape/" + name] = variable.shape.as_list()
        values = session.run(fetches, feeds)
    return dict(found, **{name: np.asarray(value).tolist() for name, value in values.items()})


def ramp(*shape: int) -> np.ndarray:
    """Numbers between minus one and one."""
    return np.sin(np.arange(np.prod(shape), dtype="f")).reshape(shape)


def cudnn_rnn(contrib: Any) -> Dict[str, Any]:
    """The portable cells in stacks, and the gradient of the inputs."""
    fetches: Dict[str, Any] = {}
    for name in ("LSTM", "GRU"):
        make = getattr(contrib, "CudnnCompatible%sCell" % name)
        inputs = tf.constant(ramp(3, 2, 4))
        cell = tf.nn.rnn_cell.MultiRNNCell([make(5), make(5)])
        with tf.variable_scope("cudnn_" + name.lower()):
            outputs, _ = tf.nn.dynamic_rnn(cell, inputs, dtype=tf.float32, time_major=True)
        fetches[name] = outputs
        fetches[name + "_slope"] = tf.gradients(outputs, inputs)[0]
    return evaluated(fetches)


def legacy_seq2seq(contrib: Any) -> Dict[str, Any]:
    """Models with embeddings and attention, with outputs fed back and without."""
    source, target = ids([1, 2], [3, 0], [5, 6]), ids([0, 1], [2, 7], [4, 3])
    feeds = tf.placeholder(tf.bool, [])
    gru, lstm = tf.nn.rnn_cell.GRUCell, tf.nn.rnn_cell.LSTMCell
    projection = tf.constant(ramp(4, 8)), tf.constant(ramp(8))
    sizes = (7, 8, 3)
    fetches: Dict[str, Any] = {}
    for name, options in (("given", {}), ("fed", {"feed_previous": True})):
        options = dict(options, scope="rnn_" + name)
        fetches[name], _ = contrib.embedding_rnn_seq2seq(source, target, gru(4), *sizes, **options)
    fetches["asked"], fetches["state"] = contrib.embedding_rnn_seq2seq(
        source, target, gru(4), *sizes, output_projection=projection, feed_previous=feeds
    )
    stack = tf.nn.rnn_cell.MultiRNNCell([lstm(4), lstm(4)])
    fetches["attention"], states = contrib.embedding_attention_seq2seq(
        source, target, stack, *sizes, num_heads=2, feed_previous=feeds
    )
    fetches["attention_state"] = states[1].h
    fetches["resumed"], _ = contrib.embedding_attention_seq2seq(
        source, target, gru(4), *sizes, initial_state_attention=True, scope="resumed"
    )
    fetches["tied"], _ = contrib.embedding_tied_rnn_seq2seq(
        source, target, gru(4), 8, 3, feed_previous=True
    )
    many, _ = contrib.one2many_rnn_seq2seq(
        source, {"a": target}, gru(4), {"a": gru(4)}, 7, {"a": 8}, 3
    )
    fetches["many"] = many["a"]
    _, fetches["buckets"] = contrib.model_with_buckets(
        source,
        target,
        target,
        [tf.ones([2])] * 3,
        [(2, 2), (3, 3)],
        lambda x, y: contrib.embedding_rnn_seq2seq(x, y, gru(4), *sizes, scope="buckets"),
    )
    return evaluated(fetches, {feeds: True})


def ids(*rows: Sequence[int]) -> Any:
    """Constant batches of ids, one a step."""
    return [tf.constant(row) for row in rows]
