"""Decoders of `tf.contrib.seq2seq`: their variables, what they refuse, beams, control flow."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.legacy import internals
from graphmp.legacy.contrib_modules import ContribModule
from tests.support.control_flow import control_flow

SEQ2SEQ = ContribModule("seq2seq")
WRAPPER = ContribModule("seq2seq.python.ops.attention_wrapper")
SEARCH = ContribModule("seq2seq.python.ops.beam_search_decoder")
ON_1 = internals.on_tensorflow_1()
PUBLIC = """
    AttentionMechanism AttentionWrapper AttentionWrapperState BahdanauAttention
    BahdanauMonotonicAttention BasicDecoder BasicDecoderOutput BeamSearchDecoder
    BeamSearchDecoderOutput BeamSearchDecoderState CustomHelper Decoder FinalBeamSearchDecoderOutput
    GreedyEmbeddingHelper Helper InferenceHelper LuongAttention LuongMonotonicAttention
    SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper ScheduledOutputTrainingHelper
    TrainingHelper dynamic_decode gather_tree hardmax monotonic_attention safe_cumprod sequence_loss
    tile_batch
"""


def attending(mechanism=SEQ2SEQ.BahdanauAttention, **options):
    """A cell that attends to a memory of two entries."""
    return SEQ2SEQ.AttentionWrapper(
        tf.nn.rnn_cell.BasicLSTMCell(4), mechanism(4, tf.ones([2, 3, 5])), **options
    )


def decoded(cell, **options):
    """Outputs and final state for a batch of two."""
    helper = SEQ2SEQ.TrainingHelper(tf.ones([2, 3, 6]), [3, 2])
    decoder = SEQ2SEQ.BasicDecoder(
        cell, helper, cell.zero_state(2, tf.float32), tf.layers.Dense(7, name="projection")
    )
    return SEQ2SEQ.dynamic_decode(decoder, **options)


@pytest.mark.unit
def test_variables_have_the_names_of_checkpoints():
    with tf.Graph().as_default():
        decoded(attending(attention_layer_size=3))
        assert sorted(variable.op.name for variable in tf.trainable_variables()) == [
            "decoder/attention_wrapper/attention_layer/kernel",
            "decoder/attention_wrapper/bahdanau_attention/attention_v",
            "decoder/attention_wrapper/bahdanau_attention/query_layer/kernel",
            "decoder/attention_wrapper/basic_lstm_cell/bias",
            "decoder/attention_wrapper/basic_lstm_cell/kernel",
            "decoder/projection/bias",
            "decoder/projection/kernel",
            "memory_layer/kernel",
        ]


@pytest.mark.unit
@pytest.mark.parametrize(
    "module, names",
    [
        ("attention_wrapper", "_BaseAttentionMechanism _compute_attention _luong_score"),
        ("attention_wrapper", "_bahdanau_score _maybe_mask_score _prepare_memory hardmax"),
        ("attention_wrapper", "_BaseMonotonicAttentionMechanism _zero_state_tensors"),
        ("basic_decoder", "BasicDecoder BasicDecoderOutput"),
        ("beam_search_decoder", "_beam_search_step _get_scores _length_penalty _mask_probs"),
        ("beam_search_decoder", "_tensor_gather_helper _tile_batch get_attention_probs"),
        ("beam_search_ops", "gather_tree"),
        ("decoder", "Decoder _create_zero_outputs _transpose_batch_time dynamic_decode"),
        ("helper", "Helper _unstack_ta bernoulli_sample categorical_sample"),
        ("loss", "sequence_loss"),
    ],
)
def test_modules_have_the_names_that_scripts_import(module, names):
    served = ContribModule("seq2seq.python.ops." + module)
    assert all(callable(getattr(served, name)) for name in names.split())


@pytest.mark.unit
def test_a_mechanism_of_a_script():
    class Last(WRAPPER._BaseAttentionMechanism):
        """Attends to the last entry, in the way of a script that extends contrib."""

        def __call__(self, query, state):
            score = WRAPPER._luong_score(query, self.keys, None)
            alignments = self._probability_fn(score, state)
            return alignments, alignments

    with tf.Graph().as_default():
        memory = tf.ones([2, 3, 4])
        layer = tf.layers.Dense(4, name="memory_layer")
        mechanism = Last(None, memory, lambda score, _: tf.nn.softmax(score), [3, 2], layer)
        cell = SEQ2SEQ.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), mechanism)
        outputs, state, _ = decoded(cell, impute_finished=True)
        assert outputs.rnn_output.shape.as_list() == [2, None, 7]
        assert state.alignments.shape.as_list() == [2, 3]


REFUSED = {
    "a decoder": (lambda: SEQ2SEQ.dynamic_decode(object()), TypeError, "to be type Decoder"),
    "a helper": (
        lambda: SEQ2SEQ.BasicDecoder(tf.nn.rnn_cell.GRUCell(4), object(), None),
        TypeError,
        "must be a Helper",
    ),
    "a cell": (lambda: SEQ2SEQ.AttentionWrapper(3, None), TypeError, "not an RNNCell"),
    "a mechanism": (
        lambda: SEQ2SEQ.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), [object()]),
        TypeError,
        "must be an AttentionMechanism",
    ),
    "sizes": (lambda: attending(attention_layer_size=[1, 2]), ValueError, "saw: 2 vs 1"),
    "both": (
        lambda: attending(attention_layer_size=1, attention_layer=tf.layers.Dense(1)),
        ValueError,
        "Only one of",
    ),
    "batch": (
        lambda: attending().zero_state(3, tf.float32),
        ValueError,
        "requested batch size.*Found: 2 and 3",
    ),
    "state": (
        lambda: attending()(tf.ones([2, 6]), tf.ones([2, 4])),
        TypeError,
        "instance of AttentionWrapperState",
    ),
    "clone": (
        lambda: attending().zero_state(2, tf.float32).clone(attention=tf.ones([3, 5])),
        ValueError,
        "expected to be same",
    ),
    "depths": (
        lambda: WRAPPER._luong_score(tf.ones([2, 3]), tf.ones([2, 5, 4]), None),
        ValueError,
        "Incompatible or unknown inner dimensions",
    ),
    "iterations": (
        lambda: decoded(attending(), maximum_iterations=[2]),
        ValueError,
        "maximum_iterations must be a scalar",
    ),
    "lengths": (
        lambda: SEQ2SEQ.TrainingHelper(tf.ones([2, 3, 4]), 3),
        ValueError,
        "sequence_length must be a vector",
    ),
    "probability": (
        lambda: SEQ2SEQ.ScheduledOutputTrainingHelper(tf.ones([2, 3, 4]), [3, 2], [[0.5]]),
        ValueError,
        "either a scalar or a vector",
    ),
    "mode": (
        lambda: SEQ2SEQ.monotonic_attention(tf.ones([1, 2]), tf.ones([1, 2]), "soft"),
        ValueError,
        "mode must be",
    ),
    "coverage": (
        lambda: SEARCH.get_attention_probs(tf.ones([2, 3]), 0.5),
        ValueError,
        "no cell is attentional",
    ),
}


@pytest.mark.unit
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    build, error, message = REFUSED[case]
    with tf.Graph().as_default(), pytest.raises(error, match="(?s)" + message):
        build()


@pytest.mark.unit
@pytest.mark.parametrize(
    "shape, batch, is_sorted",
    [
        ([6, 5], 3, False),
        ([6, None], 3, True),
        ([7, None], 3, False),
        ([6], 3, True),
        ([None, 5], 3, True),
        ([6, 5], None, True),
        ([], 3, False),
        (None, 3, False),
    ],
)
def test_which_arrays_of_a_state_are_sorted(shape, batch, is_sorted):
    with tf.Graph().as_default():
        start = tf.placeholder(tf.int32, [batch])
        cell = tf.nn.rnn_cell.GRUCell(4)
        state = cell.zero_state(tf.size(start) * 2, tf.float32)
        decoder = SEARCH.BeamSearchDecoder(cell, tf.ones([5, 4]), start, 4, state, 2)
        array = tf.TensorArray(tf.float32, 4, element_shape=tf.TensorShape(shape))
        found = decoder._maybe_sort_array_beams(
            array, tf.zeros([4, 3, 2], tf.int32), tf.zeros([3, 2], tf.int64)
        )
        assert (found is not array) == is_sorted


def test_the_widest_beam_finds_the_best_sentences():
    words, steps, end = 3, 3, 2
    logits = np.random.RandomState(3).randn(words, words).astype("f")
    chances = logits - np.log(np.exp(logits).sum(1, keepdims=True))

    class Chain(tf.nn.rnn_cell.RNNCell):
        """Returns its inputs, which are the logits after the last word."""

        state_size = output_size = words

        def call(self, inputs, state):
            return inputs, state

    with tf.Graph().as_default(), tf.Session() as session:
        cell = Chain()
        decoder = SEQ2SEQ.BeamSearchDecoder(
            cell, tf.constant(logits), [0], end, cell.zero_state(27, tf.float32), 27
        )
        outputs, _, _ = SEQ2SEQ.dynamic_decode(decoder, maximum_iterations=steps)
        scores = outputs.beam_search_decoder_output.scores
        ids, scores = session.run([outputs.predicted_ids[0], scores[0, -1]])
    expected = {}
    for sentence in itertools.product(range(words), repeat=steps):
        if end not in sentence or set(sentence[sentence.index(end) :]) == {end}:
            total, last = 0.0, 0
            for word in sentence[: (sentence + (end,)).index(end) + 1]:
                total, last = total + chances[last, word], word
            expected[sentence] = total
    found = {tuple(ids[:, beam]): scores[beam] for beam in range(len(expected))}
    assert set(found) == set(expected)
    for sentence, score in expected.items():
        np.testing.assert_allclose(found[sentence], score, rtol=1e-5)


def test_modes_of_monotonic_attention():
    choose = np.array([[0.2, 0.7, 0.4]], "f")
    before = np.array([[0.5, 0.3, 0.2]], "f")
    reached = [0.5, 0.5 * 0.8 + 0.3, (0.5 * 0.8 + 0.3) * 0.3 + 0.2]
    with tf.Graph().as_default(), tf.Session() as session:
        exact, parallel, hard = session.run(
            [
                SEQ2SEQ.monotonic_attention(choose, before, "recursive"),
                SEQ2SEQ.monotonic_attention(choose, before, "parallel"),
                SEQ2SEQ.monotonic_attention([[1.0, 0.0, 1.0]], [[0.0, 1.0, 0.0]], "hard"),
            ]
        )
    np.testing.assert_allclose(exact, choose * [reached], rtol=1e-6)
    np.testing.assert_allclose(parallel, exact, rtol=1e-5)
    assert hard.tolist() == [[0, 0, 1]]


def test_both_kinds_of_control_flow_compute_the_same():
    found = []
    for functions in (False, True):
        with control_flow(functions), tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(1)
            cell = attending(SEQ2SEQ.LuongAttention, alignment_history=True)
            outputs, state, lengths = decoded(cell, impute_finished=True)
            slopes = tf.gradients(outputs.rnn_output, tf.trainable_variables())
            for variable in tf.trainable_variables():
                shape = variable.shape.as_list()
                values = np.cos(np.arange(np.prod(shape), dtype="f")).reshape(shape)
                session.run(variable.initializer)
                variable.load(values, session)
            history = state.alignment_history.stack()
            found.append(session.run([outputs, history, lengths, slopes]))
    for one, other in zip(*(tf.nest.flatten(values) for values in found)):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.unit
@pytest.mark.skipif(ON_1, reason="1.15.5 has its own contrib")
def test_public_names_are_those_of_contrib(monkeypatch):
    monkeypatch.setitem(vars(SEQ2SEQ), "python", ContribModule("seq2seq.python"))
    assert sorted({*SEQ2SEQ.__all__} - {"python"}) == PUBLIC.split()
    helpers = ContribModule("seq2seq.python.ops.helper").__all__
    assert sorted(helpers) == [name for name in PUBLIC.split() if name.endswith("Helper")]
