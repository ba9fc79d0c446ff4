"""Faults that leave every node and edge of the original in place, or cancel: none passes."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.verify import verify
from tests.support.proved import Planted, open_claims, original_and_converted

HALF, FLOAT, DOUBLE = (dtype.as_datatype_enum for dtype in (tf.float16, tf.float32, tf.float64))
SCALE = "graphmp/loss_scale/"


def model():
    """Two layers, labels that are reshaped, noise, a rate that falls, a count of its own."""
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    labels = tf.reshape(tf.placeholder(tf.float32, [4], name="y"), [4, 1], name="labels")
    first, second = tf.get_variable("first", [8, 8]), tf.get_variable("second", [8, 1])
    noise = tf.random_uniform([4, 8], name="noise")
    hidden = tf.nn.relu(tf.matmul(x + noise, first), name="hidden")
    safe = tf.add(hidden, 1e-12, name="safe")
    error = tf.reduce_mean(tf.squared_difference(tf.matmul(safe, second), labels), name="error")
    loss = tf.add(error, 1e-4 * tf.nn.l2_loss(first, name="norm"), name="loss")
    step = tf.train.get_or_create_global_step()
    rate = tf.train.cosine_decay(0.1, step, 1000, name="rate")
    tf.train.MomentumOptimizer(rate, 0.9).minimize(loss, step, name="train")
    count = tf.get_variable(
        "count", [], tf.int64, initializer=tf.zeros_initializer(), trainable=False
    )
    shown = tf.assign_add(count, 1, name="counted")
    tf.multiply(shown, 2, name="twice")
    tf.global_variables_initializer()
    tf.train.Saver()


@pytest.fixture(scope="module")
def graphs():
    return original_and_converted(model, clip_norm=1.0)


def in_half(graph, name, key="T", slots=None):
    """A node computes in half precision, between casts."""
    node = graph.nodes[name]
    assert node.attr[key].type == FLOAT
    node.attr[key].type = HALF
    for slot in range(len(node.input)) if slots is None else slots:
        if not node.input[slot].startswith("^"):
            node.input[slot] = cast(graph, node.input[slot], FLOAT, HALF)
    graph.replace(name, "graphmp/up")
    cast(graph, name, HALF, FLOAT, "graphmp/up")


def cast(graph, of, source, target, name=""):
    name = name or "graphmp/cast_%d" % len(graph.nodes)
    types = {"SrcT": tf.AttrValue(type=source), "DstT": tf.AttrValue(type=target)}
    graph.add(name, "Cast", [of], **types)
    return name


def starts_again(graph):
    for name in ("scale", "good_steps", "skipped_steps"):
        graph.nodes["train"].input.append("^%s%s/Assign" % (SCALE, name))


def scaled_twice(graph):
    steps = [
        node
        for name, node in list(graph.nodes.items())
        if name.startswith(SCALE) and name.rpartition("/")[2].startswith(("scaled", "unscale"))
    ]
    for node in steps:
        graph.replace(node.name, node.name + "_again")
        inputs = [node.name, node.input[1]]
        graph.add(node.name + "_again", node.op, inputs, T=node.attr["T"])


def counts_with_the_step(graph):
    graph.nodes[SCALE + "scaled_seed"].input.append("^counted")


def counted_twice(graph):
    node = graph.nodes["counted"]
    graph.add("graphmp/counted", node.op, list(node.input), **dict(node.attr.items()))
    graph.nodes["twice"].input[0] = "graphmp/counted"


def runs_another_update(graph):
    """Where it is fetched alone."""
    first, second, *_ = (name for name, node in graph.nodes.items() if node.op == "ApplyMomentum")
    applied = next(
        name
        for name, node in graph.nodes.items()
        if "graphmp" in name and "^" + first in node.input
    )
    graph.nodes[second].input.append("^" + applied)


def renamed(graph):
    graph.replace("hidden", "another")
    graph.nodes["hidden"].name = "another"


def elsewhere(graph):
    graph.nodes[SCALE + "scaled_seed"].device = "/job:other/task:3"


def tagged(graph):
    graph.meta_graph.meta_info_def.tags.append("serve")


def with_assets(graph):
    graph.meta_graph.asset_file_def.add(filename="words").tensor_info.name = "x:0"


def of_another_version(graph):
    graph.meta_graph.graph_def.versions.producer -= 1


CASES = {
    starts_again: "same graph",
    counts_with_the_step: "same graph",
    counted_twice: "same graph",
    runs_another_update: "same graph",
    renamed: "same graph",
    elsewhere: "same graph",
    tagged: "same graph",
    with_assets: "same graph",
    of_another_version: "same graph",
    scaled_twice: "scale cancels",
}


@pytest.mark.parametrize("plant", list(CASES), ids=lambda plant: plant.__name__)
def test_planted(graphs, plant):
    original, other = graphs
    graph = Planted(other)
    plant(graph)
    assert CASES[plant] in open_claims(original, graph.meta_graph)


IN_HALF = {
    "noise/RandomUniform": ("dtype", (), "types"),
    "labels": ("T", (0,), "same graph"),
    "safe": ("T", None, "types"),
    "norm": ("T", (0,), "types"),
    "rate/Cos": ("T", None, "types"),
}


@pytest.mark.parametrize("name", sorted(IN_HALF))
def test_in_half(graphs, name):
    """Random numbers, what is only moved, a constant that is lost, a term, a schedule."""
    original, other = graphs
    key, slots, claim = IN_HALF[name]
    graph = Planted(other)
    in_half(graph, name, key, slots)
    assert claim in open_claims(original, graph.meta_graph)


def test_whole_numbers(graphs):
    original, other = graphs
    graph = Planted(other)
    in_half(graph, "rate/Cast", "DstT", ())
    assert "types" in open_claims(original, graph.meta_graph)


def test_a_clip_is_missing(graphs):
    """The original with the mark: a clip was asked for."""
    original, other = graphs
    graph = Planted(original)
    graph.meta_graph.collection_def["graphmp"].CopyFrom(other.collection_def["graphmp"])
    assert "parameters" in open_claims(original, graph.meta_graph)


def test_float64_by_way_of_float32(graph):
    x = tf.placeholder(tf.float64, [4], name="x")
    tf.square(x, name="square")
    original = tf.train.export_meta_graph(graph=graph)
    planted = Planted(original)
    narrow = cast(planted, "x", DOUBLE, FLOAT)
    planted.nodes["square"].input[0] = cast(planted, narrow, FLOAT, DOUBLE)
    assert not verify(original, planted.meta_graph).ok


def test_unspoilt(graphs):
    assert open_claims(*graphs) == {}


def test_a_score_of_each_example_is_no_term_of_the_loss():
    """A sum over features and a mean rating, of which the L2 loss is made."""
    with tf.Graph().as_default():
        ratings = tf.placeholder(tf.float32, [None], name="ratings")
        x = tf.placeholder(tf.float32, [None, 64], name="x")
        user, item = (tf.layers.dense(x, 64, tf.nn.relu, name=name) for name in ("user", "item"))
        score = tf.reduce_sum(user * item, 1) + tf.constant(3.5)
        more = tf.add(score, tf.nn.embedding_lookup(tf.get_variable("bias", [64]), [0]))
        tf.train.AdamOptimizer(0.01).minimize(tf.nn.l2_loss(ratings - more))
        original = tf.train.export_meta_graph()
    options = {
        "force_compute": ["^add$", "^Sum$"],
        "compute_dtype": "float16",
        "loss_scale": "none",
    }
    converted = graphmp.convert(original, **options).meta_graph
    assert {tf.float16.as_datatype_enum} == {
        node.attr["T"].type for node in converted.graph_def.node if node.name in ("add", "Sum")
    }
    assert open_claims(original, converted) == {}
