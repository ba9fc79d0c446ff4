"""Conversions of all shapes of training code, and of recorded graphs.

Running them raises no alarm.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.gate.reading import read_graph
from tests.support.corpus import recorded
from tests.support.executed import graphs, verdicts
from tests.support.places import ROOT
from tests.support.scaled import shaped
from tests.support.training_graphs import SHAPES

BY_DEFAULT = (
    "gan_in_turn",
    "applied_in_a_branch",
    "fed_back",
)  # steps in turn, a step that doesn't always run, gradients that are fed
TRAINING = [
    name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.slow)
    for name in sorted(name for name, shape in SHAPES.items() if shape.losses)
]


@pytest.mark.parametrize("name", TRAINING)
def test_shapes(name):
    conversion = graphmp.convert(tf.train.export_meta_graph(graph=shaped(name)))
    found, still = verdicts(conversion.original, conversion.meta_graph, conversion.report)
    assert still == {}
    assert [found[claim] for claim in ("same steps again", "same steps", "skips when run")] == [
        "proved"
    ] * 3


@recorded(slice(0, 1), slow=slice(1, 3), own=slice(1, 2))
def test_recorded_graphs(paths):
    for path in paths:
        conversion = graphmp.convert(read_graph(str(path)))
        assert verdicts(conversion.original, conversion.meta_graph, conversion.report)[1] == {}, (
            path.name
        )


def either_optimizer(taken):
    """A step by one of two optimizers, each with the gradients in its branch."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [16, 8], "x")
        hidden = tf.nn.relu(x @ tf.get_variable("w", [8, 16]))
        loss = tf.reduce_mean((hidden @ tf.get_variable("v", [16, 1])) ** 2)
        optimizers = tf.train.AdamOptimizer(1e-3), tf.train.GradientDescentOptimizer(0.01)
        first, second = (lambda each=each: each.minimize(loss) for each in optimizers)
        sel = tf.placeholder_with_default(taken, [], "sel")
        tf.add_to_collection("train_op", tf.cond(sel, first, second))
    return graphmp.convert(tf.train.export_meta_graph(graph=graph))


@pytest.mark.parametrize("taken", [True, False])
def test_branches_that_exclude_each_other(taken):
    """Their losses don't meet in a step, and no step computes the gradients of both."""
    conversion = either_optimizer(taken)
    found, still = verdicts(conversion.original, conversion.meta_graph, conversion.report)
    assert still == {}
    assert (found["skips when run"], found["agrees in half"]) == ("proved", "not applicable")


def test_gradients_that_a_python_function_averages():
    """As between processes: the function is fed, what is behind it is computed all the same."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 8], "x")
        first, second = (tf.get_variable(name, [8, 8], use_resource=False) for name in "ab")
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, first)), second)))
        flat = tf.concat(
            [tf.reshape(each, [-1]) for each in tf.gradients(loss, [first, second])], 0
        )
        parts = tf.split(tf.py_func(lambda value: value, [flat], tf.float32), [64, 64])
        averaged = [(tf.reshape(part, [8, 8]), v) for part, v in zip(parts, (first, second))]
        tf.train.AdamOptimizer().apply_gradients(averaged, name="train")
        conversion = graphmp.convert(tf.train.export_meta_graph(graph=graph))
    found, still = verdicts(conversion.original, conversion.meta_graph, conversion.report)
    assert still == {} and found["same steps"] == found["skips when run"] == "proved"


def test_a_graph_that_was_left_as_it_is():
    """A model in float64 is not converted, and claims no loss scale that could be missing."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float64, [None, 3], "x")
        weights = tf.get_variable("weights", [3, 2], tf.float64)
        loss = tf.reduce_mean((x @ weights) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        conversion = graphmp.convert(tf.train.export_meta_graph(graph=graph))
    assert [row["code"] for row in conversion.report["warnings"]] == ["GMP108"]
    found, still = verdicts(conversion.original, conversion.meta_graph, conversion.report)
    assert still == {} and found["skips when run"] == "not applicable"


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        {"clip_norm": 0.1},
        {"loss_scale": 1000.0},
        {"loss_scale": "none"},
        {"compute_dtype": "float32"},
        {"loss_scale_min": 256.0, "loss_scale_growth_interval": 2},
        {"count_skipped_steps": True},
    ],
    ids=lambda flags: ",".join(flags),
)
def test_flags(flags):
    """A fixed scale skips nothing, float32 needs no agreement."""
    found, still = verdicts(*graphs(**flags))
    assert still == {}
    assert found["same steps again"] == found["same steps"] == "proved"
    assert found["skips when run"] == ("not applicable" if "loss_scale" in flags else "proved")
    assert found["agrees in half"] == ("not applicable" if "compute_dtype" in flags else "proved")


@pytest.mark.slow
def test_what_the_recipe_builds():
    """Its steps are the original's too; what can't be seen is said."""
    conversion = graphmp.convert(
        str(ROOT / "examples" / "simple_cnn.py"),
        engine="recipe",
        arguments=["--data_format=channels_last"],
    )
    found, still = verdicts(conversion.original, conversion.meta_graph, conversion.report)
    assert found["same steps again"] == "not applicable" and found["same steps"] == "proved"
    assert (
        "the recipe builds" in still.get("skips when run", "the recipe builds")
        and "the recipe built a graph of its own" in still["agrees in half"]
    )


def test_no_training(graph):
    """A graph that trains nothing has nothing to run."""
    with graph.as_default():
        tf.nn.softmax(tf.layers.dense(tf.placeholder(tf.float32, [2, 4], "x"), 3))
    conversion = graphmp.convert(graph)
    assert verdicts(conversion.original, conversion.meta_graph)[0] == {
        "same steps again": "not applicable"
    }


def test_subnormal_values():
    """A gradient that is subnormal in the original, and not where it is scaled, is no fault, and
    no proof.
    """
    with tf.Graph().as_default():
        w = tf.get_variable("w", [3], initializer=tf.ones_initializer(), use_resource=False)
        tiny = tf.multiply(tf.multiply(w, 1e38) * 1e-19, 1e-19)
        loss = tf.add(
            tf.reduce_sum(tiny),
            1e-3 * tf.reduce_sum(tf.matmul(w[tf.newaxis], tf.ones([3, 1]))),
            name="loss",
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        original = tf.train.export_meta_graph()
    conversion = graphmp.convert(original)
    found, still = verdicts(conversion.original, conversion.meta_graph, conversion.report)
    assert (
        found["same steps again"] == "not proved"
        and "w differ behind values that overflow or are subnormal, in gradients/"
        in still["same steps again"]
    )
