"""Small graphs of names of `tf.contrib`, with fixed inputs: the numbers that they compute."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from tests.support import (
    contrib_decoding,
    contrib_images,
    contrib_learning,
    contrib_optimizers,
    contrib_programs,
    contrib_recurrent,
)
from tests.support.graph_editor_cases import graph_editor


def crf(contrib: Any) -> Dict[str, Any]:
    """All functions of `contrib.crf`, with sequences that end early."""
    random = np.random.RandomState(0)
    potentials = random.randn(4, 5, 3).astype("f")
    tags = tf.constant(random.randint(3, size=(4, 5)).astype("i"))
    lengths = tf.constant(np.array([5, 3, 1, 4], "i"))
    transitions = random.randn(3, 3).astype("f")
    inputs, bitmap = tf.constant(potentials), random.rand(4, 5, 3) > 0.3
    bitmap[..., 0] = True
    likelihood, _ = contrib.crf_log_likelihood(inputs, tags, lengths, tf.constant(transitions))
    best, scores = contrib.crf_decode(inputs, tf.constant(transitions), lengths)
    one, score = contrib.viterbi_decode(potentials[0], transitions)
    with tf.variable_scope("loss"):
        _, made = contrib.crf_log_likelihood(inputs, tags, lengths)
    fetches = {
        "likelihood": likelihood,
        "gradient": tf.gradients(likelihood, inputs)[0],
        "best": best,
        "scores": scores,
        "norm": contrib.crf_log_norm(inputs, lengths, tf.constant(transitions)),
        "unary": contrib.crf_unary_score(tags, lengths, inputs),
        "binary": contrib.crf_binary_score(tags, lengths, tf.constant(transitions)),
        "multitag": contrib.crf_multitag_sequence_score(
            inputs, tf.constant(bitmap), lengths, tf.constant(transitions)
        ),
    }
    with tf.Session() as session:
        found = {name: value.tolist() for name, value in session.run(fetches).items()}
    names = {"variable": made.op.name, "viterbi": [int(tag) for tag in one]}
    return dict(found, score=float(score), **names)


def tile_batch(contrib: Any) -> Dict[str, Any]:
    """`contrib.seq2seq.tile_batch` of a nested structure."""
    ids, vectors = tf.constant([1, 2]), tf.placeholder(tf.float32, [None, 2])
    tiled = contrib.tile_batch((ids, {"a": vectors}), 3)
    with tf.Session() as session:
        first, rest = session.run(tiled, {vectors: [[1, 2], [3, 4]]})
    shapes = [tiled[0].shape.as_list(), tiled[1]["a"].shape.as_list()]
    return {"first": first.tolist(), "rest": rest["a"].tolist(), "shapes": shapes}


def lookup(contrib: Any) -> Dict[str, Any]:
    """Tables of `contrib.lookup`, made of tensors."""
    words = tf.constant(["a", "b", "c"])
    pairs = contrib.KeyValueTensorInitializer(words, tf.constant([5, 6, 7], tf.int64))
    table = contrib.HashTable(pairs, -1)
    index = contrib.index_table_from_tensor(words, num_oov_buckets=1)
    back = contrib.index_to_string_table_from_tensor(words, "?")
    asked = tf.constant(["b", "x"])
    ids = tf.constant([2, 9], tf.int64)
    fetches = [table.lookup(asked), index.lookup(asked), back.lookup(ids), table.size()]
    with tf.Session() as session:
        session.run([table.init, tf.tables_initializer()])
        found = session.run(fetches)
    return {
        "table": found[0].tolist(),
        "index": found[1].tolist(),
        "back": [word.decode() for word in found[2]],
        "size": int(found[3]),
    }


CASES = {
    "crf": crf,
    "cudnn_rnn": contrib_recurrent.cudnn_rnn,
    "deprecated": contrib_programs.deprecated,
    "distribute": contrib_programs.distribute,
    "graph_editor": graph_editor,
    "image": contrib_images.image,
    "learn": contrib_learning.experiment,
    "legacy_seq2seq": contrib_recurrent.legacy_seq2seq,
    "lookup": lookup,
    "mixed_precision": contrib_images.mixed_precision,
    "opt": contrib_optimizers.opt,
    "predictor": contrib_programs.predictor,
    "seq2seq": tile_batch,
    "seq2seq:attention": contrib_decoding.attention,
    "seq2seq:beams": contrib_decoding.beams,
    "seq2seq:helpers": contrib_decoding.helpers,
    "seq2seq:trees": contrib_decoding.trees,
    "seq2seq.python.ops.beam_search_decoder": contrib_decoding.arrays,
    "summary": contrib_programs.summary,
    "tfprof.model_analyzer": contrib_programs.tfprof,
}
"""For each module of contrib the graph that is built with it; a colon ends the module's name."""
