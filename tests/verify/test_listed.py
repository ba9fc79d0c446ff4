"""What the conversion's policy keeps in float32 is found in half precision."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from tests.support.proved import in_half, open_claims, original_and_converted


def model():
    """Waves; weighted squares, whose sum is added up once more; probabilities that nothing but a caller
    reads; a table by averages.
    """
    x = tf.placeholder(tf.float32, [4, 8], name="x")
    weights = tf.placeholder(tf.float32, [4, 8], name="weights")
    hidden = tf.matmul(tf.sin(x, name="wave"), tf.get_variable("kernel", [8, 8]))
    tf.nn.softmax(hidden, name="probabilities")
    book = tf.get_variable("book", [8, 8], trainable=False)
    away = tf.subtract(book, tf.matmul(x, hidden, transpose_a=True), name="away")
    tf.assign_sub(book, 0.5 * away, name="seen")
    weighted = tf.multiply(tf.square(hidden, name="squares"), weights, name="weighted")
    total = tf.reduce_sum(tf.reduce_mean(weighted, 1, name="means"))
    alone = tf.reduce_sum(total, name="alone")
    mean = tf.div_no_nan(alone, tf.reduce_sum(weights))
    loss = tf.add(mean, tf.reduce_mean(tf.abs(hidden)), name="loss")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


@pytest.fixture(scope="module")
def graphs():
    return original_and_converted(model)


BY_POLICY = ("wave", "squares", "probabilities", "weighted", "alone")


@pytest.mark.unit
@pytest.mark.parametrize("name", BY_POLICY)
def test_half_against_the_policy(graphs, name):
    original, converted = graphs
    assert not open_claims(*graphs)
    found = open_claims(original, in_half(converted, name))
    assert found["types"].startswith("%s is float16, and a" % name)
    assert "computes in float32 by the policy of this conversion" in found["types"]


@pytest.mark.unit
@pytest.mark.parametrize("name", BY_POLICY)
def test_half_as_it_was_asked_for(graphs, name):
    """A policy of one's own isn't known, and what is forced may be half."""
    original, converted = graphs
    for flags in ({"op_policy": "mine.txt"}, {"force_compute": ["^%s$" % name]}):
        assert "types" not in open_claims(original, in_half(converted, name), flags)


@pytest.mark.unit
def test_an_average_of_what_a_matmul_gives(graphs):
    original, converted = graphs
    found = open_claims(original, in_half(converted, "away"))
    assert "away is half precision, between a variable's value and a write" in found["types"]


def chosen():
    """Rows of a layer, chosen by indices and by a test of what is denied."""
    x = tf.placeholder(tf.float32, [4, 8])
    hidden = tf.layers.dense(x, 8)
    sizes = tf.reduce_sum(tf.exp(hidden), 1, keepdims=True) * hidden
    rows = tf.gather(tf.layers.dense(hidden, 8), tf.argmax(sizes, 1))
    rows = tf.where(sizes > 1.0, rows, hidden)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.nn.relu(rows + hidden), 8)))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


@pytest.mark.unit
def test_what_a_denied_op_only_chooses_may_be_half():
    original, converted = original_and_converted(chosen)
    assert not open_claims(original, converted)
    nodes = {node.name: node for node in converted.graph_def.node}
    assert nodes["add"].attr["T"].type == tf.float16.as_datatype_enum
