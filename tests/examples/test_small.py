"""The gallery's small programs: their sizes are the papers', and their data are as documented."""

from __future__ import annotations

import argparse
import importlib
import itertools
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.places import EXAMPLES

NAMES = ("fully_connected", "word2vec", "unet", "vae", "dqn")


@pytest.fixture
def module(monkeypatch):
    """Import a program of the folder by name, for one test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    for name in ("training", *NAMES):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module
    for name in ("training", *NAMES):
        sys.modules.pop(name, None)


def flags_of(program, size, **given):
    """The values of a program's own flags, "full" or "smoke"."""
    values = {name: entry[("full", "smoke").index(size)] for name, entry in program.SIZES.items()}
    return argparse.Namespace(**dict(values, seed=1, **given))


def floats(*shapes):
    return [tf.placeholder(tf.float32, [None, *shape]) for shape in shapes]


def trainable(scope=None):
    """The number of trainable elements."""
    return sum(int(np.prod(variable.shape.as_list())) for variable in tf.trainable_variables(scope))


def of_type(graph, *types):
    return [op for op in graph.get_operations() if op.type in types]


def test_the_fully_connected_layer_is_the_talks(module, graph):
    program = module("fully_connected")
    flags = flags_of(program, "full")
    program.build_training_model(*floats([flags.inputs], [flags.outputs]), flags.learning_rate)
    assert trainable() == 1024 * 512 + 512 and (
        flags.batch_size,
        flags.steps,
        flags.learning_rate,
    ) == (64, 500, 1e-3)
    assert len(of_type(graph, "MatMul")) == 3
    first, second = itertools.islice(program.batches(flags), 2)
    assert [array.shape for array in first] == [(64, 1024), (64, 512)] and all(
        a is b for a, b in zip(first, second)
    )


@pytest.mark.unit
def test_word2vec_touches_the_rows_that_it_looks_up(module, graph):
    program = module("word2vec")
    flags = flags_of(program, "full")
    words, near = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    program.build_training_model(words, near, flags.vocabulary, flags.width, flags.sampled, 1.0)
    assert trainable() == 50000 * (128 + 128 + 1)
    assert {op.name.split("/")[1] for op in of_type(graph, "ScatterSub", "ResourceScatterSub")} == {
        "update_embedding",
        "update_nce_weights",
        "update_nce_biases",
    }
    assert not of_type(graph, "ApplyGradientDescent", "ResourceApplyGradientDescent")


@pytest.mark.unit
def test_word2vecs_words_are_near_each_other(module):
    program = module("word2vec")
    flags = flags_of(program, "smoke")
    pairs = np.concatenate(
        [np.stack(batch, axis=1) for batch in itertools.islice(program.batches(flags), 50)]
    )
    assert pairs.dtype == np.int32 and pairs.min() >= 2 and pairs.max() < flags.vocabulary
    partners = [len(set(pairs[pairs[:, 0] == word, 1])) for word in np.unique(pairs[:, 0])]
    assert np.median(partners) < flags.vocabulary / 10  # a neighbour of a word depends on it


@pytest.mark.unit
def test_a_full_unet_is_the_papers(module, graph):
    program = module("unet")
    images, labels = (
        tf.placeholder(tf.float32, [None, 572, 572, 1]),
        tf.placeholder(tf.int32, [None, 572, 572]),
    )
    program.build_training_model(images, labels, 4, 64, 0.1)
    assert graph.get_tensor_by_name("logits/BiasAdd:0").shape.as_list() == [None, 388, 388, 2]
    assert graph.get_tensor_by_name("bottom_2/Relu:0").shape.as_list() == [None, 28, 28, 1024]
    widths = [64, 128, 256, 512, 1024]
    down = sum(
        9 * before * now + now + 9 * now * now + now for before, now in zip([1, *widths], widths)
    )
    up = sum(
        4 * 2 * now * now + now + 9 * 2 * now * now + now + 9 * now * now + now
        for now in widths[:-1]
    )
    assert trainable() == down + up + 2 * 64 + 2 == 31030658
    forward = [op for op in of_type(graph, "Conv2D") if not op.name.startswith("gradients")]
    assert len(forward) + 4 == 23  # convolutions, four of them transposed, as the paper counts


def test_unets_crops_are_the_middle(module, graph):
    program = module("unet")
    points = np.arange(49.0).reshape(1, 7, 7)
    for size in (1, 2, 3, 4):
        smaller = tf.zeros([1, size, size])
        with tf.Session() as session:
            found = session.run(program.cropped(tf.constant(points), smaller))
        begin = (7 - size) // 2
        assert np.array_equal(found, points[:, begin : begin + size, begin : begin + size])


@pytest.mark.unit
def test_unets_discs_are_brighter(module):
    program = module("unet")
    images, labels = next(program.batches(flags_of(program, "smoke")))
    assert (
        images.shape == (4, 60, 60, 1)
        and labels.shape == (4, 60, 60)
        and set(np.unique(labels)) == {0, 1}
    )
    assert images[labels == 1].mean() - images[labels == 0].mean() == pytest.approx(1, abs=0.05)


@pytest.mark.unit
def test_a_full_vae_has_the_papers_layers(module, graph):
    program = module("vae")
    flags = flags_of(program, "full")
    program.build_training_model(
        *floats([flags.image_size**2]), flags.hidden, flags.code, flags.learning_rate
    )
    assert trainable() == (784 + 1) * 500 + 2 * (500 + 1) * 20 + (20 + 1) * 500 + (500 + 1) * 784
    assert len(of_type(graph, "RandomStandardNormal")) == 1


def test_the_vaes_loss_is_the_bound(module, graph):
    """The cross entropy and the closed form of the divergence (appendix B of the paper), in NumPy.

    They are computed from the outputs of the network.
    """
    program = module("vae")
    flags = flags_of(program, "smoke")
    pictures, loss, _ = program.build_training_model(
        *floats([144]), flags.hidden, flags.code, flags.learning_rate
    )
    tensors = [
        graph.get_tensor_by_name(name + "/BiasAdd:0") for name in ("mean", "log_variance", "logits")
    ]
    batch = next(program.batches(flags))[0]
    assert set(np.unique(batch)) == {0, 1} and batch.dtype == np.float32
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, (mean, log_variance, logits) = session.run([loss, tensors], {pictures: batch})
    likely = 1 / (1 + np.exp(-logits.astype(np.float64)))
    cross_entropy = -(batch * np.log(likely) + (1 - batch) * np.log(1 - likely)).sum(axis=1)
    divergence = -0.5 * (1 + log_variance - mean**2 - np.exp(log_variance)).sum(axis=1)
    assert found == pytest.approx((cross_entropy + divergence).mean(), rel=1e-5)


def network(program, size):
    """A DQN's inputs, and the results of its build function."""
    flags = flags_of(program, size)
    screens = [flags.screen_size, flags.screen_size, program.SCREENS]
    first, following, rewards, ended = floats(screens, screens, [], [])
    inputs = first, tf.placeholder(tf.int32, [None]), rewards, following, ended
    return flags, inputs, program.build_training_model(*inputs, flags.width, flags.learning_rate)


@pytest.mark.unit
def test_a_full_dqn_is_the_papers(module, graph):
    network(module("dqn"), "full")
    layers = [8 * 8 * 4 * 16 + 16, 4 * 4 * 16 * 32 + 32, 9 * 9 * 32 * 256 + 256, 256 * 3 + 3]
    assert trainable("network") == trainable("target") == sum(layers)
    updated = {
        op.inputs[0].op.name.split("/")[0]
        for op in of_type(graph, "ApplyRMSProp", "ResourceApplyRMSProp")
    }
    assert updated == {"network"}  # the target is copied, never trained


def test_the_target_is_copied_every_so_many_steps(module, graph):
    program = module("dqn")
    flags, inputs, (values, copy, _, train_op) = network(program, "smoke")
    flags.memory, flags.copy_every = 64, 3
    before, after = (tf.trainable_variables(scope)[0] for scope in ("network", "target"))
    batches = program.batches(flags, inputs[0], values, copy)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        same = []
        for _ in range(7):
            batch = next(batches)
            same.append(np.array_equal(*session.run([before, after])))
            session.run(train_op, dict(zip(inputs, batch)))
    assert same == [True, False, False, True, False, False, True]
    screens, moves, rewards, following, ended = batch
    assert screens.shape == following.shape == (64, 24, 24, 4) and set(moves) == {0, 1, 2}
    assert set(rewards[ended == 1]) == {-1.0, 1.0} and set(rewards[ended == 0]) == {0.0}
    assert np.array_equal(screens[..., 1:], following[..., :-1])


def test_dqns_wanted_values(module, graph):
    """The reward plus, unless the game is over, the discounted best value of the target.

    Errors above 1 are clipped.
    """
    program = module("dqn")
    _, inputs, (values, copy, loss, _) = network(program, "smoke")
    random = np.random.RandomState(0)
    screens, following = random.uniform(size=(2, 5, 24, 24, 4)).astype(np.float32)
    moves, rewards, ended = [0, 1, 2, 0, 1], [0.0, 1.0, -1.0, 5.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(copy)
        found, later = (session.run(values, {inputs[0]: seen}) for seen in (screens, following))
        result = session.run(loss, dict(zip(inputs, (screens, moves, rewards, following, ended))))
    errors = np.abs(
        rewards + 0.99 * (1 - np.array(ended)) * later.max(axis=1) - found[np.arange(5), moves]
    )
    assert errors.max() > 1 and result == pytest.approx(
        np.where(errors < 1, 0.5 * errors**2, errors - 0.5).mean(), rel=1e-4
    )


@pytest.mark.unit
def test_catch(module):
    game = module("dqn").Catch(6, 24, np.random.RandomState(0))
    for _ in range(20):
        outcomes = []
        while not outcomes or not outcomes[-1][2]:
            paddle = game.screens[-1, ::4, -1].argmax()
            ball = game.screens[:-4, ::4, -1].max(axis=0).argmax()
            outcomes.append(game.play(1 + np.sign(ball - paddle)))
            screen = outcomes[-1][1][::4, ::4, -1]
            assert screen.sum() in (1, 2) and screen[-1].any()
        assert len(outcomes) == 5 and all(reward == 0 for reward, _, _ in outcomes[:-1])
        assert outcomes[-1][0] == (
            1.0 if screen.sum() == 1 else -1.0
        )  # caught: the ball and the paddle are in the same place
    assert game.screens.shape == (24, 24, 4)
