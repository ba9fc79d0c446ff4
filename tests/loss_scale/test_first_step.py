"""A dynamic scale's first step.

Under both engines it leaves room for larger gradients, and respects a given initial scale.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.loss_scale import scales
from graphmp.loss_scale.scales import HEAD_ROOM
from graphmp.verify.proof import FAILED
from graphmp.verify.prove import prove

LARGEST = 65504.0  # of float16
CURRENT = "graphmp/loss_scale/current:0"
SKIPPED = "graphmp/loss_scale/skipped_steps:0"
SIZES = [0.0, 1e-30, 4e-5, 1e-3, 0.12, 0.13, 1.0, 100.0, 4000.0, 1e6]


@pytest.fixture
def stepped(graph):
    """Return a function that builds a scale from options.

    It returns a function that runs a step with gradients of a size and returns the new scale.
    """

    def make(**options):
        scale = scales.make(Config.make(**options), "loss_scale")
        gradient = tf.placeholder(tf.float32, [2])
        update = scale.update(tf.reduce_all(tf.is_finite(gradient)), [gradient])

        def step(session, size):
            session.run(update, {gradient: [-size, size / 2]})
            return float(session.run(scale.current))

        return step

    return make


def test_the_scale_leaves_room_after_the_first_step_alone(stepped):
    step = stepped()
    for size in SIZES:
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = step(session, size)
            assert np.log2(found) % 1 == 0 and 1 <= found <= 2.0**15
            assert found == 1 or found * size * HEAD_ROOM <= LARGEST
            assert found == 2.0**15 or 2 * found * size * HEAD_ROOM > LARGEST, (
                "lower than it has to be"
            )
            assert (
                step(session, 100 * size) == found
            )  # finite gradients of later steps never lower the scale


@pytest.mark.parametrize(
    "size, power",
    [(2.0**-15, 15), (3e-5, 26), (1e-6, 30), (2.0**-24, 34), (5e-8, 15)],
    ids=["no smaller than 1", "below 1", "a millionth", "smallest", "not measured"],
)
def test_gradients_that_would_vanish_raise_it(stepped, size, power):
    step = stepped()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert step(session, size) == 2.0**power
        assert step(session, size / 8) == 2.0**power  # not again
        assert step(session, np.inf) == 2.0 ** (power - 1)


def test_a_scale_that_was_asked_for_is_not_lowered(stepped):
    with tf.Session() as session:
        step = stepped(loss_scale_initial=2.0**14)
        session.run(tf.global_variables_initializer())
        assert [step(session, size) for size in (1e-6, 1000.0, 1e6)] == [2.0**14] * 3


@pytest.mark.parametrize(
    "interval, size, expected",
    [
        (3, 0.1, [14, 14, 15, 15, 16, 16, 16, 17, 17, 17]),
        (1, 100.0, [4, 5, 6, 7, 8]),
        (2, 100.0, [4, 5, 5, 6, 6]),
    ],
)
def test_it_grows_past_its_initial_value_without_another_first_step(
    graph, interval, size, expected
):
    scale = scales.make(Config.make(loss_scale_growth_interval=interval), "loss_scale")
    update = scale.update(tf.constant(True), [tf.constant([size])])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(scale.in_step) == 1
        found = []
        for _ in expected:
            session.run(update)
            found.append(np.log2(session.run(scale.in_step)))
    assert found == expected


def powers(session, scale, update, gradient, sizes):
    """The factor of each of some first steps, as a power of two, by the sizes of gradients."""
    session.run(tf.global_variables_initializer())
    found = []
    for size in sizes:
        found.append(np.log2(session.run(scale.in_step)))
        session.run(update, {gradient: size})
    return found


def test_a_first_step_that_is_not_finite_is_taken_again(graph):
    """At the floor, until one is finite; a scale that comes back to its start later stays there."""
    scale = scales.make(Config.make(loss_scale_growth_interval=2), "loss_scale")
    gradient = tf.placeholder(tf.float32, [])
    update = scale.update(tf.is_finite(gradient), [gradient])
    sizes = [np.inf, np.nan, 0.1, np.inf, 0.1, 0.1, np.inf, 0.1, 0.1, 0.1]
    factors = [0, 0, 0, 14, 13, 13, 14, 13, 13, 14]
    with tf.Session() as session:
        assert powers(session, scale, update, gradient, sizes) == factors
        assert session.run(scale.variables[2]) == 4
        session.run([scale.variables[0].assign(2.0**14), scale.variables[1].assign(1)])
        session.run(update, {gradient: 0.1})
        assert session.run([scale.variables[1], scale.in_step]) == [1, 2.0**15]


@pytest.mark.parametrize("floor", [0.25, 1e-6])
def test_a_lower_floor_leaves_the_first_step_at_one(graph, floor):
    """Gradients times 1e-6 would all be 0. What isn't finite at 1 goes down from there."""
    scale = scales.make(Config.make(loss_scale_min=floor), "loss_scale")
    gradient = tf.placeholder(tf.float32, [])
    update = scale.update(tf.is_finite(gradient), [gradient])
    with tf.Session() as session:
        for sizes, factors in [
            ([0.1, 0.1], [0, 14]),
            ([np.inf, np.inf, 0.1, 0.1], [0, -1, -2, -2]),
        ]:
            assert powers(session, scale, update, gradient, sizes) == factors


@pytest.mark.parametrize("floor", [1e-6, 0.7, 1.0, 128.0])
def test_any_floor_is_proved(graph, floor):
    least(tf.ones([4, 8]), tf.constant(1.0))
    before = tf.train.export_meta_graph()
    after = graphmp.convert(before, loss_scale_min=floor).meta_graph
    assert not [claim for claim in prove(before, after).claims if claim.verdict == FAILED]


def _layer(x, seed, name):
    start = tf.glorot_uniform_initializer(seed=seed)
    return tf.layers.dense(x, 8, kernel_initializer=start, name=name)


def least(x, factor):
    """A loss whose gradients are as large as `factor` says.

    Of two layers, no step moves the weights by much. Each session starts with the same weights:
    what a first step measures among subnormal numbers is rounded by up to a half, and of 3,000
    random starts this alone used up the head room in 40.
    """
    hidden = _layer(x, seed=1, name="hidden")
    loss = factor * tf.reduce_mean(
        tf.cast(_layer(hidden, seed=2, name="last"), tf.float32), name="loss"
    )
    return x, factor, loss, tf.train.GradientDescentOptimizer(1e-8).minimize(loss, name="train")


def build(engine):
    """The graph under an engine, as the default graph."""
    with tf.Graph().as_default() as graph:
        inputs = (
            tf.placeholder(tf.float32, [4, 8], name="x"),
            tf.placeholder(tf.float32, [], name="factor"),
        )
        (graphmp.mixed_precision(engine="recipe")(least) if engine == "recipe" else least)(*inputs)
        meta = tf.train.export_meta_graph(graph=graph)
    tf.train.import_meta_graph(meta if engine == "recipe" else graphmp.convert(meta).meta_graph)


@pytest.mark.parametrize("engine", ["recipe", "rewrite"])
def test_gradients_that_grow_cost_no_step(engine, graph):
    build(engine)
    with tf.Session(config=graphmp.session_config()) as session:
        session.run(tf.global_variables_initializer())

        def step(factor):
            session.run("train", {"x:0": np.ones([4, 8]), "factor:0": factor})
            return session.run([CURRENT, SKIPPED])

        first = step(1.0)
        assert 1 < first[0] < 2.0**15 and first[1] == 0
        assert step(float(HEAD_ROOM)) == first
        assert step(64.0 * HEAD_ROOM) == [first[0] / 2, 1]


@pytest.mark.parametrize("engine", ["recipe", "rewrite"])
def test_small_gradients_are_kept_from_the_second_step_on(engine, graph):
    """Of a loss of 1e-4 and smaller, whose gradients at 2^15 are subnormal numbers."""
    build(engine)
    with tf.Session(config=graphmp.session_config()) as session:
        session.run(tf.global_variables_initializer())
        session.run("train", {"x:0": np.ones([4, 8]), "factor:0": 1e-5})
        first = session.run([CURRENT, SKIPPED])
        assert first[0] >= 2.0**26 and first[1] == 0
        session.run("train", {"x:0": np.ones([4, 8]), "factor:0": 1e-5 * HEAD_ROOM})
        assert session.run([CURRENT, SKIPPED]) == first
