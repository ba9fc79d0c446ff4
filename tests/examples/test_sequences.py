"""The examples on sequences: sizes, the windows of attention and convolutions, and kept states."""

from __future__ import annotations

import itertools
from argparse import Namespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.gallery import build, without_training

VOCABULARY = 20
SENTENCES = np.array([[2, 3, 4, 5, 0, 0], [6, 7, 8, 9, 10, 11]], np.int32)


def tokens(*shape):
    return tf.placeholder(tf.int32, shape)


def started(graph):
    """A session with the initial values of variables."""
    tf.set_random_seed(1)
    session = tf.Session(graph=graph)
    session.run(tf.global_variables_initializer())
    return session


def lstm(inputs, width):
    return 4 * width * (inputs + width + 1)


def test_translations_are_sentences_word_by_word_backwards(module):
    flags = Namespace(seed=1, batch_size=40, length=10, vocabulary=30)
    dictionary = {}
    for source, target in itertools.islice(module("training").translations(flags), 20):
        assert source.shape == target.shape == (40, 10) and source.dtype == target.dtype == np.int32
        for sentence, translation in zip(source, target):
            end = np.count_nonzero(sentence)
            assert 5 <= end <= 10 and not sentence[end:].any() and not translation[end:].any()
            assert all(
                dictionary.setdefault(word, other) == other
                for word, other in zip(sentence[:end], translation[:end][::-1])
            )
    assert (
        len(dictionary) > 10
        and len(set(dictionary.values())) == len(dictionary)
        and min(dictionary.values()) >= 2
    )


@pytest.mark.parametrize("layers", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_seq2seq_has_gnmts_layers(layers, module, graph):
    width, words = 1024, 32000
    counts = build(
        module("seq2seq"),
        tokens(None, 50),
        tokens(None, 50),
        words,
        layers,
        width,
        1e-4,
        trains=True,
    )
    encoder = (
        words * width
        + 2 * lstm(width, width)
        + lstm(2 * width, width)
        + (layers - 2) * lstm(width, width)
    )
    attention = width * width + (width + 1) * width + width
    decoder = (
        words * width
        + lstm(width, width)
        + (layers - 1) * lstm(2 * width, width)
        + attention
        + (2 * width + 1) * words
    )
    assert counts == {"encoder": encoder, "decoder": decoder}
    assert sum(op.type == "LoopCond" for op in graph.get_operations()) == 2 * (
        layers + 2
    )  # loops of both directions, of the layers above, of the decoder


def test_the_translator_does_not_read_padding(module, graph):
    source, target = tokens(None, None), tokens(None, None)
    with without_training():
        _, _, loss, _ = module("seq2seq").build_training_model(
            source, target, VOCABULARY, 2, 8, 1e-3
        )
    with started(graph) as session:
        padded = session.run(loss, {source: SENTENCES[:1], target: SENTENCES[:1]})
        exact = session.run(loss, {source: SENTENCES[:1, :4], target: SENTENCES[:1, :4]})
        other = session.run(loss, {source: SENTENCES[:1, :3], target: SENTENCES[:1, :4]})
    assert padded == pytest.approx(exact, rel=1e-6) and abs(other - exact) > 1e-6


@pytest.mark.unit
def test_conv_seq2seq_has_the_papers_layers(module, graph):
    width, words, layers = 512, 40000, 2
    counts = build(
        module("conv_seq2seq"), tokens(None, 50), tokens(None, 50), words, layers, width, 0.25
    )

    def convolution(size, channels):
        return (size * width + 2) * channels

    encoder = (words + 50) * width + layers * convolution(3, 2 * width)
    decoder = (
        (words + 50) * width
        + layers * (convolution(3, 2 * width) + 2 * convolution(1, width))
        + convolution(1, words)
    )
    assert counts == {"encoder": encoder, "decoder": decoder}


def test_the_convolutions_see_no_later_token_and_attention_no_padding(module, graph):
    source, target = tokens(None, 6), tokens(None, 6)
    build(module("conv_seq2seq"), source, target, VOCABULARY, 2, 8, 0.25)
    logits = next(
        op for op in graph.get_operations() if op.type == "SparseSoftmaxCrossEntropyWithLogits"
    ).inputs[0]
    weights = [op.outputs[0] for op in graph.get_operations() if op.type == "Softmax"]
    changed = SENTENCES.copy()
    changed[:, 3] += 4
    with started(graph) as session:
        before, attention = session.run([logits, weights], {source: SENTENCES, target: SENTENCES})
        after = session.run(logits, {source: SENTENCES, target: changed})
    before, after = before.reshape(2, 6, -1), after.reshape(2, 6, -1)
    assert np.array_equal(before[:, :4], after[:, :4]) and np.all(
        np.abs(before - after)[:, 4:].max(axis=2) > 0
    )
    assert len(attention) == 2 and all(
        np.all(read[0, :, 4:] == 0) and np.all(read[0, :, :4] > 0) for read in attention
    )
    assert all(read.sum(axis=2) == pytest.approx(np.ones((2, 6)), rel=1e-5) for read in attention)


MASKED = {
    "seq2seq": lambda example: example.build_training_model(
        tokens(None, 6), tokens(None, 6), VOCABULARY, 2, 8, 1e-3
    ),
    "conv_seq2seq": lambda example: example.build_training_model(
        tokens(None, 6), tokens(None, 6), VOCABULARY, 2, 8, 0.25
    ),
    "transformer": lambda example: example.build_training_model(
        tokens(None, 6), tf.placeholder(tf.bool, [None, 6]), VOCABULARY, 1, 2, 4, 1e-3
    ),
}


@pytest.mark.unit
@pytest.mark.parametrize("name", sorted(MASKED))
def test_masks_stay_float32(name, module, graph):
    MASKED[name](module(name))
    nodes = graphmp.convert(graph, loss_scale="none").meta_graph.graph_def.node
    masks = [
        node
        for node in nodes
        if node.op == "Const" and node.attr["value"].tensor.float_val[:] == [-1e9]
    ]
    assert masks and all(node.attr["dtype"].type == tf.float32.as_datatype_enum for node in masks)
    readers = [
        node
        for node in nodes
        if {node.name for node in masks} & {name.split(":")[0] for name in node.input}
    ]
    assert readers and all(node.attr["T"].type == tf.float32.as_datatype_enum for node in readers)


def test_the_character_models_state_goes_from_batch_to_batch(module, graph):
    example = module("char_rnn")
    batches = list(itertools.islice(example.batches(Namespace(batch_size=3, length=7)), 3))
    for (first, following), (second, _) in zip(batches, batches[1:]):
        assert np.array_equal(following[:, :-1], first[:, 1:]) and np.array_equal(
            following[:, -1], second[:, 0]
        )
    characters, following, loss, train_op = example.build_training_model(
        tokens(3, 7), tokens(3, 7), 2, 8, 0.0
    )
    state = [variable for variable in tf.global_variables() if variable.op.name.startswith("state")]
    assert [variable.shape.as_list() for variable in state] == [[3, 8]] * 4 and not set(
        state
    ) & set(tf.trainable_variables())
    with started(graph) as session:

        def losses(numbers):
            session.run([variable.initializer for variable in state])
            return [
                session.run([loss, train_op], dict(zip((characters, following), batches[number])))[
                    0
                ]
                for number in numbers
            ]

        afresh, after = losses([1])[0], losses([0, 1])[1]
        assert after == losses([0, 1])[1] and abs(after - afresh) > 1e-7
        assert all(np.any(value) for value in session.run(state))


@pytest.mark.unit
def test_a_full_character_model_has_its_layers(module, graph):
    example = module("char_rnn")
    known = len(example.CHARACTERS)
    counts = build(example, tokens(50, 50), tokens(50, 50), 2, 512, 2e-3)
    assert (
        counts == {"rnn": lstm(known, 512) + lstm(512, 512), "logits": 513 * known} and known == 96
    )


@pytest.mark.unit
def test_a_full_multiplicative_lstm_is_the_papers(module, graph):
    counts = build(module("sentiment"), tokens(None, 64), tokens(None), 64, 4096, 5e-4)
    cell = {"wx": 64 * 16384, "wh": 4096 * 16384, "wmx": 64 * 4096, "wmh": 4096 * 4096, "b": 16384}
    lengths = {"gx": 16384, "gh": 16384, "gmx": 4096, "gmh": 4096}
    assert counts == dict(cell, embedding=256 * 64, logits=4097 * 2, **lengths)


@pytest.mark.unit
def test_reviews_say_their_class(module, graph):
    example = module("sentiment")
    reviews, labels = next(example.batches(Namespace(seed=1, batch_size=60, length=40)))
    assert reviews.shape == (60, 40) and reviews.dtype == labels.dtype == np.int32
    texts = [bytes(row.astype(np.uint8)).rstrip(b"\0").decode() for row in reviews]
    for text, label in zip(texts, labels):
        said = next(
            kind
            for kind, words in enumerate(example.WORDS)
            if any(text.endswith("%s." % word) for word in words)
        )
        assert text.startswith("The ") and label == said ^ (" not " in text)
    assert 0 < sum(" not " in text for text in texts) < 30 and set(labels) == {0, 1}
