"""Facts about gradient code: nodes freed by bounded ops, and Sums that need no float32.

In attention, and in GELUs by `tanh` and `erf`.
"""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy.dtypes import FLOAT16
from tests.support import painting

LENGTH, WIDTH, HIDDEN = 32, 16, 64


def gelu(x):
    """As in BERT: the cube is a Pow, and denied."""
    return x * (0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))


def gelu_by_erf(x):
    """The gradient of Erf contains exp(-x * x), which is between 0 and 1."""
    return x * (0.5 * (1.0 + tf.erf(x / np.sqrt(2))))


def attention(x, mask=0.0):
    """One head: softmax(q k' + mask) v."""
    query, key, value = (
        tf.layers.dense(x, WIDTH, name=name, use_bias=False) for name in ("query", "key", "value")
    )
    return tf.matmul(
        tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + mask, name="probabilities"), value
    )


def trained(y):
    """Trains on a mean of squares. Returns the names of the gradients."""
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    gradients = optimizer.compute_gradients(tf.reduce_mean(tf.square(y)))
    optimizer.apply_gradients(gradients)
    return [gradient.name for gradient, _ in gradients]


def network(build, length=LENGTH):
    """A training graph of a layer between two dense ones, and the names of its gradients."""
    names = []

    def train():
        x = tf.placeholder(tf.float32, [length, WIDTH], "x")
        with tf.variable_scope("layer"):
            hidden = build(tf.layers.dense(x, HIDDEN, name="before"))
        names.extend(trained(tf.layers.dense(hidden, WIDTH, name="after", use_bias=False)))

    return painting.built(train), names


def dtypes(meta_graph, prefix):
    """`half` or `float32` by node below a prefix, the rest of its name."""
    found = {}
    for node in meta_graph.graph_def.node:
        if node.name.startswith(prefix) and "T" in node.attr:
            found[node.name[len(prefix) :]] = (
                "half" if node.attr["T"].type == FLOAT16 else "float32"
            )
    return found


def test_what_a_tanh_leads_to_is_half_forward_and_backward():
    """Of many numbers; for few, the launch of the casts would take longer."""
    original, gradients = network(gelu, 4096)
    after = painting.verified(original, gradients, rtol=2e-2)
    forward = dtypes(after, "layer/")
    assert forward["Pow"] == forward["Tanh"] == "float32"
    assert forward["add_1"] == forward["mul_2"] == forward["mul_3"] == "half"
    assert dtypes(after, "gradients/layer/Tanh_grad/") == {"TanhGrad": "half"}
    assert dtypes(after, "gradients/layer/Pow_grad/")["Pow"] == "float32"


def test_the_exponential_in_an_erfs_gradient_ends_the_chain():
    original, gradients = network(gelu_by_erf)
    after = painting.verified(original, gradients, rtol=2e-2)
    found = dtypes(after, "gradients/layer/Erf_grad/")
    assert found["Exp"] == "float32" and found["mul"] == found["mul_1"] == "half"
    assert {
        dtypes(after, "layer/")[name] for name in ("truediv", "Erf", "add", "mul", "mul_1")
    } == {"half"}


@pytest.mark.parametrize("mask", [0.0, -1e9])
def test_a_softmaxs_gradient_is_half_but_for_its_sum(mask):
    """A mask beyond half precision keeps the softmax in float32, but no node after it."""
    lower = np.triu(np.full([LENGTH, LENGTH], mask, np.float32), 1)
    original, gradients = network(lambda x: attention(x, lower))
    after = painting.verified(original, gradients, rtol=2e-2)
    assert dtypes(after, "layer/probabilities")[""] == ("float32" if mask else "half")
    found = dtypes(after, "gradients/layer/probabilities_grad/")
    assert {found.pop(name) for name in ("Sum", "Sum/reduction_indices") if name in found} == {
        "float32"
    }
    assert found and set(found.values()) == {"half"}


@pytest.mark.unit
def test_the_last_softmax_frees_nothing():
    """Its gradient, probabilities less labels, cancels: it stays float32 up to the next matmul."""

    def train():
        x = tf.placeholder(tf.float32, [LENGTH, WIDTH], "x")
        p = tf.nn.softmax(tf.layers.dense(x, WIDTH), name="probabilities")
        tf.train.GradientDescentOptimizer(0.1).minimize(-tf.reduce_mean(tf.log(p)))

    found = dtypes(painting.converted(painting.built(train)), "gradients/probabilities_grad/")
    assert found["Sum"] == found["sub"] == found["mul_1"] == "float32"


def scaled(asked):
    """`dense(x) * factor` for a factor of [1].

    `asked` are the names of further placeholders to differentiate by.
    """

    def train():
        x, factor = (
            tf.placeholder(tf.float32, [LENGTH, WIDTH], "x"),
            tf.placeholder(tf.float32, [1], "factor"),
        )
        names = {"factor": factor, "constant": tf.constant([3.0])}
        with tf.variable_scope("layer"):
            y = tf.layers.dense(
                tf.layers.dense(x, WIDTH, use_bias=False) * names[asked], WIDTH, use_bias=False
            )
        trained(y)

    return painting.built(train)


@pytest.mark.unit
@pytest.mark.parametrize("asked, dtype", [("constant", "half"), ("factor", "float32")])
def test_a_constants_gradient_needs_no_cast(asked, dtype):
    """No step computes either; a placeholder's may be fetched, so its sum is float32."""
    before = scaled(asked)
    after = painting.converted(before)
    sums = {
        name: found
        for name, found in dtypes(after, "gradients/layer/mul_grad/").items()
        if name.startswith("Sum") and "/" not in name
    }
    assert dtype in sums.values() and set(sums.values()) <= {"half", dtype}
    casts = [name for name in painting.casts(before, after) if "mul_grad" in name]
    assert casts == ([] if asked == "constant" else ["gradients/layer/mul_grad/Mul_1 -> float32"])
