"""A small translator of `tf.contrib.seq2seq`, its checkpoint, and what it computes."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

UNITS, WORDS, BATCH, LENGTH = 4, 7, 3, 5


MODES = ("loss", "greedy", "beams")


def build(contrib: Any, mode: str) -> tf.Tensor:
    """Encoder and attending decoder, to train, or to decode greedily or by beam search."""
    random = np.random.RandomState(0)
    source = tf.constant(random.randint(3, WORDS, (BATCH, LENGTH)), tf.int32)
    target = tf.constant(random.randint(3, WORDS, (BATCH, LENGTH)), tf.int32)
    lengths = tf.constant([5, 3, 4], tf.int32)
    table = tf.get_variable("embedding", [WORDS, UNITS])
    cells = [tf.nn.rnn_cell.LSTMCell(UNITS) for _ in range(2)]
    memory, state = tf.nn.dynamic_rnn(
        tf.nn.rnn_cell.MultiRNNCell(cells), tf.nn.embedding_lookup(table, source), lengths,
        dtype=tf.float32, scope="encoder",
    )  # fmt: skip
    words = target if mode == "loss" else None
    width = 2 if mode == "beams" else 1
    with tf.variable_scope("decoder"):
        found = _decoded(contrib, memory, lengths, state, table, words, width)
    if mode == "loss":
        return contrib.sequence_loss(found.rnn_output, target, tf.ones([BATCH, LENGTH]))
    return found.predicted_ids if mode == "beams" else found.sample_id


def _decoded(
    contrib: Any, memory: Any, lengths: Any, state: Any, table: Any, target: Any, width: int
) -> Any:
    if width > 1:
        memory, lengths, state = (
            contrib.tile_batch(each, width) for each in (memory, lengths, state)
        )
    attention = contrib.LuongAttention(UNITS, memory, lengths, scale=True)
    cells = [tf.nn.rnn_cell.LSTMCell(UNITS) for _ in range(2)]
    cell = contrib.AttentionWrapper(
        tf.nn.rnn_cell.MultiRNNCell(cells), attention, attention_layer_size=UNITS
    )
    start = cell.zero_state(BATCH * width, tf.float32).clone(cell_state=state)
    project = tf.layers.Dense(WORDS, use_bias=False, name="project")
    first, last = tf.fill([BATCH], 1), 2
    if width > 1:
        decoder = contrib.BeamSearchDecoder(cell, table, first, last, start, width, project)
    else:
        helper = (
            contrib.GreedyEmbeddingHelper(table, first, last)
            if target is None
            else contrib.TrainingHelper(
                tf.nn.embedding_lookup(table, target), tf.fill([BATCH], LENGTH)
            )
        )
        decoder = contrib.BasicDecoder(cell, helper, start, project)
    return contrib.dynamic_decode(decoder, maximum_iterations=LENGTH)[0]


def computed(contrib: Any, checkpoint: str) -> Dict[str, Any]:
    """What the model computes in each mode with the variables of a checkpoint."""
    return {mode: _restored(contrib, mode, checkpoint) for mode in MODES}


def _restored(contrib: Any, mode: str, checkpoint: str) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        fetch = build(contrib, mode)
        tf.train.Saver().restore(session, checkpoint)
        return session.run(fetch).tolist()


def write(contrib: Any, checkpoint: str) -> None:
    """Train for some steps, so that no variable is as it was initialised; save the model."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        train = tf.train.AdamOptimizer(0.05).minimize(build(contrib, "loss"))
        saver = tf.train.Saver(tf.trainable_variables())
        session.run(tf.global_variables_initializer())
        for _ in range(20):
            session.run(train)
        saver.save(session, checkpoint, write_meta_graph=False, write_state=False)
