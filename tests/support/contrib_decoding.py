"""Small decoders of `tf.contrib.seq2seq`, with variables of fixed values."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np
import tensorflow.compat.v1 as tf

from tests.support.contrib_recurrent import evaluated, ramp

# Steps of a loop that draw random numbers must not run side by side.
IN_ORDER = {"parallel_iterations": 1}


def memory() -> Any:
    """Two memories of four entries, of which the second has three; the batch isn't static."""
    return tf.placeholder_with_default(ramp(2, 4, 3), [None, 4, 3]), tf.constant([4, 3])


def trained(contrib: Any, cell: Any, **options: Any) -> Any:
    """What `dynamic_decode` returns for a cell on three and two inputs."""
    inputs = tf.placeholder_with_default(ramp(2, 3, 5), [None, None, 5])
    helper = contrib.TrainingHelper(inputs, [3, 2])
    state = cell.zero_state(tf.shape(inputs)[0], tf.float32)
    return contrib.dynamic_decode(contrib.BasicDecoder(cell, helper, state), **options)


def attention(contrib: Any) -> Dict[str, Any]:
    """Each mechanism in a wrapper: outputs, alignments and the gradient of the memory."""
    values, lengths = memory()
    lstm, gru = tf.nn.rnn_cell.LSTMCell, tf.nn.rnn_cell.GRUCell
    wrappers = {
        "bahdanau": (
            lstm(4),
            contrib.BahdanauAttention(4, values, lengths, normalize=True),
            {"attention_layer_size": 3},
        ),
        "plain": (gru(4), contrib.BahdanauAttention(5, values), {"output_attention": False}),
        "luong": (
            gru(4),
            contrib.LuongAttention(4, values, lengths, scale=True, score_mask_value=-20.0),
            {"cell_input_fn": lambda inputs, attention: tf.concat([attention, inputs], 1)},
        ),
        "noisy": (
            lstm(4),
            contrib.BahdanauMonotonicAttention(
                4,
                values,
                lengths,
                normalize=True,
                sigmoid_noise=0.5,
                sigmoid_noise_seed=3,
                score_bias_init=-0.5,
            ),
            {"attention_layer": tf.layers.Dense(3, tf.tanh, name="own")},
        ),
        "hard": (
            gru(4),
            contrib.LuongMonotonicAttention(4, values, lengths, mode="hard"),
            {"name": "named"},
        ),
        "recursive": (
            gru(4),
            contrib.LuongMonotonicAttention(4, values, scale=True, mode="recursive"),
            {},
        ),
        "two": (
            gru(4),
            [
                contrib.LuongAttention(4, values, lengths, probability_fn=contrib.hardmax),
                contrib.BahdanauAttention(
                    4, values, custom_key_value_fn=lambda keys, own: (tf.sin(keys), own * 2)
                ),
            ],
            {"attention_layer_size": [3, 2]},
        ),
    }
    fetches: Dict[str, Any] = {}
    for name, (cell, mechanism, options) in wrappers.items():
        cell = contrib.AttentionWrapper(cell, mechanism, alignment_history=True, **options)
        outputs, state, _ = trained(contrib, cell, scope=name, **IN_ORDER)
        histories = tf.nest.flatten(state.alignment_history)
        fetches[name] = outputs.rnn_output
        fetches[name + "_alignments"] = tf.stack([one.stack() for one in histories])
        fetches[name + "_slope"] = tf.gradients(outputs.rnn_output, values)[0]
    return evaluated(fetches)


def helpers(contrib: Any) -> Dict[str, Any]:
    """Each helper: outputs, samples and lengths."""
    inputs, table = tf.constant(ramp(3, 4, 5)), tf.get_variable("table", [7, 5])
    starts, lengths = tf.constant([1, 2, 3]), tf.constant([4, 0, 3])
    greedy = contrib.GreedyEmbeddingHelper(table, starts, 6)
    made = {
        "training": contrib.TrainingHelper(
            tf.transpose(inputs, [1, 0, 2]), lengths, time_major=True
        ),
        "embedded": contrib.ScheduledEmbeddingTrainingHelper(
            inputs, lengths, table, 0.6, seed=1, scheduling_seed=2
        ),
        "greedy": greedy,
        "drawn": contrib.SampleEmbeddingHelper(
            lambda ids: tf.nn.embedding_lookup(table, ids), starts, 6, 0.7, seed=4
        ),
        "custom": contrib.CustomHelper(
            greedy.initialize, greedy.sample, greedy.next_inputs, [], tf.int32
        ),
        "fed": contrib.ScheduledOutputTrainingHelper(
            inputs[..., :3], lengths, 0.5, seed=5, auxiliary_inputs=inputs[..., 3:]
        ),
        "made": contrib.ScheduledOutputTrainingHelper(
            inputs[..., :3], lengths, 0.5, seed=6, next_inputs_fn=tf.tanh
        ),
        "inferred": contrib.InferenceHelper(
            tf.tanh, [3], tf.float32, inputs[:, 0, :3], lambda found: found[:, 0] > 0.5
        ),
    }
    fetches: Dict[str, Any] = {}
    for name, helper in made.items():
        width = 3 if name in ("fed", "made", "inferred") else 7
        cell = tf.nn.rnn_cell.LSTMCell(4)
        decoder = contrib.BasicDecoder(
            cell, helper, cell.zero_state(3, tf.float32), tf.layers.Dense(width, name="projection")
        )
        outputs, state, fetches[name + "_lengths"] = contrib.dynamic_decode(
            decoder,
            output_time_major=name == "greedy",
            impute_finished=name in ("training", "drawn"),
            maximum_iterations=None if name == "training" else 5,
            scope=name,
            **IN_ORDER,
        )
        fetches[name], fetches[name + "_samples"] = outputs
        fetches[name + "_state"] = state.c
    return evaluated(fetches)


def beams(contrib: Any) -> Dict[str, Any]:
    """Beam searches with and without attention, penalties and a layer."""
    table, found = tf.get_variable("table", [7, 5]), {}
    values, lengths = contrib.tile_batch(memory(), 3)
    cell = contrib.AttentionWrapper(
        tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(4), tf.nn.rnn_cell.GRUCell(4)]),
        contrib.BahdanauAttention(4, values, lengths),
        attention_layer_size=4,
        alignment_history=True,
    )
    state = cell.zero_state(tf.shape(values)[0], tf.float32)
    state = state.clone(attention=state.attention + 0.5)
    penalties = {"length_penalty_weight": 0.8, "coverage_penalty_weight": 0.6}
    gru = tf.nn.rnn_cell.GRUCell(7)
    searches = {
        "attending": (cell, state, tf.layers.Dense(7, name="projection"), penalties),
        "plain": (gru, gru.zero_state(6, tf.float32), None, {}),
    }
    for name, (of, start, layer, options) in searches.items():
        first = [1, 2] if layer is None else tf.ones([tf.shape(values)[0] // 3], tf.int32)
        decoder = contrib.BeamSearchDecoder(of, table, first, 6, start, 3, layer, **options)
        outputs, last, found[name + "_lengths"] = contrib.dynamic_decode(
            decoder, maximum_iterations=6, scope=name
        )
        found[name] = outputs.predicted_ids
        found[name + "_scores"], _, found[name + "_parents"] = outputs.beam_search_decoder_output
        found[name + "_log_probs"], found[name + "_state_lengths"] = last.log_probs, last.lengths
        if layer is not None:
            found["alignments"] = last.cell_state.alignment_history
            found["covered"] = last.accumulated_attention_probs
    return evaluated(found)


def paths() -> Any:
    """The parents of beams in five steps, and their lengths."""
    random = np.random.RandomState(0)
    parents = tf.constant(random.randint(3, size=(5, 2, 3)).astype("i"))
    return parents, tf.constant(np.array([[5, 3, 4], [2, 1, 3]], "l"))


def trees(contrib: Any) -> Dict[str, Any]:
    """Ids of beams followed back."""
    ids = tf.constant(np.random.RandomState(1).randint(3, size=(5, 2, 3)).astype("i"))
    (parents, lengths), follow = paths(), contrib.gather_tree
    longest = tf.cast(tf.reduce_max(lengths, 1), tf.int32)
    return evaluated(
        {
            "none_ended": follow(ids, parents, longest, 9),
            "ended": follow(ids, parents, longest, 2),
            "empty": follow(ids, parents, longest * 0, 2),
        }
    )


def arrays(contrib: Any) -> Dict[str, Any]:
    """Stacked arrays of either rank, sorted by beams."""
    parents, lengths = paths()
    return evaluated(
        {
            "merged": contrib.gather_tree_from_array(ramp(5, 6, 2), parents, lengths),
            "split": contrib.gather_tree_from_array(ramp(5, 2, 3), parents, lengths),
        }
    )
