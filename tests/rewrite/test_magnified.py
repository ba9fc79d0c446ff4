"""What an op magnifies the rounding of is float32, up to the layer that gives it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.painting import built, decide, verified

RANDOM = np.random.RandomState(0)
FREQUENCIES = RANDOM.normal(size=(3, 16)).astype(np.float32) * 10
DTYPES = ("float16", "bfloat16")


def weights(name, rows, columns, trainable=True):
    start = RANDOM.normal(size=(rows, columns)).astype(np.float32) / 4
    return tf.get_variable(name, initializer=start, trainable=trainable)


def positions(function=tf.sin):
    """A placeholder of positions, and products with frequencies that a function reads."""
    x = tf.placeholder(tf.float32, [32, 3], "x")
    return x, function(tf.matmul(x, FREQUENCIES, name="product") * 6.28, name="y")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [tf.sin, tf.cos, tf.tan, tf.floor, tf.ceil])
def test_a_function_of_positions(function, dtype):
    def build():
        tf.matmul(positions(function)[1], weights("w", 16, 4), name="read")

    decided = decide(built(build), compute_dtype=dtype)
    assert "product" not in decided.half and "read" in decided.half
    name = decided.reasons["product"]
    assert name.startswith("magnified: y") and name.endswith("magnifies its rounding")


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sine_of_many_turns_is_the_original(dtype):
    verified(built(positions), ["y:0"], compute_dtype=dtype)


def test_a_layer_stays_half_and_what_follows_it_does_not():
    """Its own result is rounded as it is learned."""

    def build():
        x = tf.placeholder(tf.float32, [32, 3], "x")
        h = tf.nn.relu(tf.matmul(x, weights("w", 3, 8), name="layer"), name="relu")
        moved = tf.add(tf.matmul(h, weights("v", 8, 1), name="flow") * 20.0, 300.0, name="moved")
        tf.matmul(tf.sin(moved), weights("u", 1, 4), name="read")

    decided = decide(built(build))
    assert {"layer", "relu", "flow", "read"} <= decided.half
    assert "moved" not in decided.half and decided.reasons["moved"].startswith("magnified: ")


@pytest.mark.parametrize(
    "product, is_half",
    [
        (lambda x: tf.matmul(x, weights("w", 3, 4)), True),
        (lambda x: tf.matmul(x, tf.reshape(weights("w", 4, 3), [3, 4])), True),
        (lambda x: tf.matmul(x, weights("w", 3, 4, trainable=False)), False),
        (lambda x: tf.matmul(weights("w", 4, 3), tf.transpose(weights("v", 5, 3))), False),
        (lambda x: tf.matmul(weights("w", 4, 3) / tf.reduce_sum(x), x, False, True), False),
    ],
    ids=["weights", "reshaped", "frozen", "of weights alone", "computed"],
)
def test_layers(product, is_half):
    def build():
        x = tf.placeholder(tf.float32, [6, 3], "x")
        tf.sin(tf.identity(product(x), "product"), name="y")
        weights("other", 2, 2)

    graph = built(build)
    name = next(n.input[0] for n in graph.graph_def.node if n.name == "product")
    assert (name in decide(graph).half) == is_half


@pytest.mark.parametrize("dtype, is_half", [(tf.int32, False), (tf.int64, False), (tf.uint8, True)])
def test_casts_to_whole_numbers(dtype, is_half):
    def build():
        chosen = tf.matmul(
            tf.placeholder(tf.float32, [5, 8], "x"), np.eye(8, 1, dtype=np.float32) * 3001
        )
        tf.cast(tf.identity(chosen, "chosen"), dtype, name="id")

    graph = built(build)
    name = next(n.input[0] for n in graph.graph_def.node if n.name == "chosen")
    assert (name in decide(graph).half) == is_half


def test_the_bias_of_a_layer_stays_half():
    def build():
        x = tf.placeholder(tf.float32, [32, 3], "x")
        bias = tf.get_variable("bias", initializer=np.ones(8, np.float32))
        h = tf.nn.bias_add(tf.matmul(x, weights("w", 3, 8)), bias, name="biased")
        tf.floor(tf.nn.relu(h, name="relu"), name="y")
        tf.matmul(h, weights("v", 8, 4))

    assert {"biased", "relu"} <= decide(built(build)).half


@pytest.mark.parametrize("scale", [3e-5, 3e4])
def test_a_logarithm_of_a_spectrum(scale):
    def build():
        x = tf.placeholder(tf.float32, [32, 16], "x")
        power = tf.square(tf.matmul(x, weights("w", 16, 16), name="layer") * scale)
        bank = tf.matmul(power, np.abs(RANDOM.normal(size=(16, 8))).astype("f"), name="bank")
        tf.matmul(tf.log(bank + 1e-10, name="y"), weights("v", 8, 4), name="read")

    graph = built(build)
    decided = decide(graph)
    assert {"layer", "read"} <= decided.half and "bank" not in decided.half
    assert decided.reasons["bank"] == "magnified: y (Log) needs its range"
    verified(graph, ["y:0"])


def test_a_sum_of_exponentials_stays_half():
    def build():
        x = tf.placeholder(tf.float32, [32, 16], "x")
        h = tf.tanh(tf.matmul(x, weights("w", 16, 16)))
        near = tf.matmul(h, tf.reverse(h, [0]), transpose_b=True, name="near")
        tf.log(tf.reduce_sum(tf.exp(near), 1), name="y")

    assert "near" in decide(built(build)).half


def test_a_mask_of_dropout_is_none():
    def build():
        x = tf.placeholder(tf.float32, [32, 16], "x")
        h = tf.nn.relu(tf.matmul(x, weights("w", 16, 16)))
        mask = tf.floor(tf.random_uniform(tf.shape(h)) + 0.5)
        tf.matmul(tf.multiply(h, mask, name="kept"), weights("v", 16, 4))

    decided = decide(built(build))
    assert "kept" in decided.half
    assert not [text for text in decided.reasons.values() if text.startswith("magnified")]


def test_boxes_of_crops():
    def build():
        images = tf.placeholder(tf.float32, [2, 8, 8, 3], "images")
        boxes = tf.matmul(
            tf.placeholder(tf.float32, [2, 4], "x"), np.eye(4, dtype=np.float32), name="boxes"
        )
        features = tf.nn.conv2d(
            images, np.ones((3, 3, 3, 4), np.float32), [1] * 4, "SAME", name="features"
        )
        tf.image.crop_and_resize(features, boxes, [0, 1], [4, 4], name="crops")

    decided = decide(built(build))
    assert "features" in decided.half and "boxes" not in decided.half


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_matrix_is_factored(dtype):
    def build():
        x = tf.placeholder(tf.float32, [12, 4], "x")
        h = tf.tanh(tf.matmul(x, weights("w", 4, 4), name="layer"))
        squares = tf.reduce_sum(h * h, 1, keepdims=True)
        places = weights("places", 12, 4)
        other = tf.matmul(h, places * 2.0, transpose_b=True, name="product")
        kernel = tf.exp(other - squares - tf.transpose(squares))
        tf.cholesky(tf.matmul(kernel, kernel, transpose_b=True) + tf.eye(12), name="y")

    decided = decide(built(build), compute_dtype=dtype)
    assert "layer" in decided.half and "product" not in decided.half


def test_what_is_bounded_ends_the_walk():
    def build():
        x = tf.placeholder(tf.float32, [8, 8], "x")
        inner = tf.matmul(x, np.eye(8, dtype=np.float32), name="inner")
        tf.floor(tf.tanh(inner, name="bounded") * 250.0, name="y")

    decided = decide(built(build))
    assert "inner" in decided.half and "bounded" not in decided.half


@pytest.mark.parametrize("learned", [False, True])
def test_the_gradient_of_a_power_by_its_exponent(learned):
    """A logarithm of the base, as TensorFlow made it until 1.14 for any exponent; used or not."""

    def build():
        x = tf.placeholder(tf.float32, [32, 3], "x")
        product = tf.matmul(x, FREQUENCIES, name="product")
        exponent = tf.get_variable("exponent", ()) if learned else tf.constant(0.25)
        power = tf.pow(tf.abs(product) + 1e-3, exponent, name="power")
        loss = tf.reduce_mean(tf.square(tf.matmul(power, weights("w", 16, 4), name="read")))
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, [*variables, exponent])
        tf.train.GradientDescentOptimizer(0.1).apply_gradients(zip(gradients, variables))

    original = built(build)
    assert any(node.op == "Log" and "power_grad" in node.name for node in original.graph_def.node)
    decided = decide(original)
    assert ("product" in decided.half) is not learned and "read" in decided.half
