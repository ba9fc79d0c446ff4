"""The lessons of examples/fully_connected.py, on small numbers.

Variables, sums and losses must stay float32.
"""

from __future__ import annotations

import importlib.util
import math
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.policy.dtypes import compute_dtype
from tests.support.places import EXAMPLES

PROGRAM = str(EXAMPLES / "fully_connected.py")
STEPS = 20


def climbing(samples, update, dtype=tf.float32):
    """A weight that starts at 1, and the op that adds `update` to it in each step."""
    weight = tf.get_variable("weight", [1, 1], dtype, tf.ones_initializer(), use_resource=False)
    loss = -tf.reduce_mean(tf.matmul(samples, weight))
    return weight, tf.train.GradientDescentOptimizer(update).minimize(
        loss, tf.train.get_or_create_global_step()
    )


def climb(build, update, **given):
    """The value of the weight after STEPS steps."""
    samples = tf.ones([1, 1], given.get("dtype", tf.float32))
    _, train_op = build(samples, update, **given)
    stored = tf.global_variables("weight")[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(STEPS):
            session.run(train_op)
        return session.run(stored).item(), stored.dtype.base_dtype


@pytest.mark.parametrize(
    "update, adds_in_float16",
    [
        (2.0**-12, 0.0),
        (0.99 * 2.0**-11, 0.0),
        (2.0**-11, 0.0),
        (1.01 * 2.0**-11, 2.0**-10),
        (2.0**-10, 2.0**-10),
    ],  # ties round to even, 1
)
def test_an_update_below_2_to_the_minus_11_of_the_weight_is_lost_in_float16(
    graph, update, adds_in_float16
):
    assert climb(climbing, update, dtype=tf.float16) == (1 + STEPS * adds_in_float16, tf.float16)


@pytest.mark.parametrize("update", [2.0**-12, 2.0**-11])
def test_it_is_kept_where_the_weight_is_stored_in_float32(graph, update):
    build = graphmp.mixed_precision(climbing, compute_dtype="float16")
    assert climb(build, update) == (1 + STEPS * update, tf.float32)
    assert {op.get_attr("T") for op in graph.get_operations() if op.type == "MatMul"} == {
        tf.float16
    }


@pytest.mark.parametrize("number, total", [(4094, 65504.0), (4095, math.inf)])
def test_sixteens_fit_into_float16_4094_times(graph, number, total):
    """The exact sum, rounded to float16, which holds 65,504.

    It rounds numbers from 65,520, halfway to 65,536, to infinity.
    """
    sixteens = np.full(number, 16, np.float16)
    with tf.Session() as session:
        found, product, exact = session.run(
            [
                tf.reduce_sum(sixteens),
                tf.matmul(sixteens[None], np.ones_like(sixteens)[:, None])[0, 0],
                tf.reduce_sum(sixteens.astype(np.float32)),
            ]
        )
    assert [found.dtype, found] == [np.float16, total]
    if not tf.__version__.startswith("2.15."):  # whose CPU adds products up in float16
        assert product == total
    assert exact == 16 * number and np.finfo(np.float16).max == 65504


@pytest.mark.unit
def test_added_up_one_by_one_in_float16_they_come_to_half_of_that():
    sums = np.add.accumulate(np.full(4094, 16, np.float16))
    assert sums[2047] == sums[-1] == 32768  # above it, float16 has only multiples of 32


def test_a_conversion_adds_them_up_in_float32(graph):
    values = tf.placeholder(tf.float32, [1, None])
    total = tf.reduce_sum(
        tf.matmul(values, 16 * tf.ones([1, 4095]), transpose_a=True), name="total"
    )
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    tf.train.GradientDescentOptimizer(1e-9).minimize(total * weight)
    meta_graph = graphmp.convert(tf.train.export_meta_graph(), fetch=["total:0"]).meta_graph
    with tf.Graph().as_default(), tf.Session(config=graphmp.session_config()) as session:
        tf.import_graph_def(meta_graph.graph_def, name="")
        products = [node for node in meta_graph.graph_def.node if node.op == "MatMul"]
        assert products and all(
            compute_dtype(node) == tf.float16.as_datatype_enum for node in products
        )
        assert session.run("total:0", {values.name: [[1.0]]}) == 65520


@pytest.fixture(scope="module", params=["recipe", "rewrite"])
def converted(request, tmp_path_factory):
    """The program's graph at small size, converted to float16 by either engine."""
    spec = importlib.util.spec_from_file_location("fully_connected", PROGRAM)
    with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default():
        patch.syspath_prepend(str(EXAMPLES))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        recipe = request.param == "recipe"
        build = (
            graphmp.mixed_precision(compute_dtype="float16")(module.build_training_model)
            if recipe
            else module.build_training_model
        )
        build(
            tf.placeholder(tf.float32, [None, 8], "samples"),
            tf.placeholder(tf.float32, [None, 4], "wanted"),
            0.1,
        )
        meta_graph = tf.train.export_meta_graph()
    return (meta_graph if recipe else graphmp.convert(meta_graph).meta_graph).graph_def


def dtypes(graph_def, pattern):
    """The dtypes of the ops of these types."""
    found = {compute_dtype(node) for node in graph_def.node if re.fullmatch(pattern, node.op)}
    assert found, pattern
    return {tf.as_dtype(number).name for number in found}


@pytest.mark.unit
def test_the_mean_squared_error_is_float32(converted):
    assert dtypes(converted, "SquaredDifference") == {"float32"}
    assert dtypes(converted, "Sum|DivNoNan|Div") == {"float32"}
    assert dtypes(converted, "(Resource)?ApplyGradientDescent") == {"float32"}
    assert dtypes(converted, "MatMul") == {"float16"}


def normalised(samples):
    """A convolution, batch normalisation as one op and by single ops, a loss."""
    top = tf.layers.conv2d(samples, 4, 3, name="first")
    top = tf.layers.batch_normalization(top, training=True)
    top = tf.layers.conv2d(top, 4, 3, name="second")
    mean, variance = tf.nn.moments(top, [0, 1, 2], name="moments")
    top = tf.nn.batch_normalization(top, mean, variance, None, None, 1e-3)
    loss = tf.reduce_mean(tf.square(tf.layers.dense(tf.layers.flatten(top), 1)))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return loss, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


@pytest.mark.unit
@pytest.mark.parametrize("engine", ["recipe", "rewrite"])
def test_batch_normalisation_is_float32_inside(graph, engine):
    samples = tf.placeholder(tf.float32, [8, 8, 8, 3])
    (
        graphmp.mixed_precision(compute_dtype="float16")(normalised)
        if engine == "recipe"
        else normalised
    )(samples)
    meta_graph = tf.train.export_meta_graph()
    graph_def = (
        meta_graph if engine == "recipe" else graphmp.convert(meta_graph).meta_graph
    ).graph_def
    fused = [node for node in graph_def.node if node.op.startswith("FusedBatchNorm")]
    assert len(fused) == 2 and all(
        tf.as_dtype(node.attr["U"].type) == tf.float32 for node in fused
    )  # its scale, shift and statistics
    statistics = [
        node
        for node in graph_def.node
        if node.name.startswith("moments/") and node.op in ("Mean", "SquaredDifference")
    ]
    assert len(statistics) == 3 and {tf.as_dtype(compute_dtype(node)) for node in statistics} == {
        tf.float32
    }
    assert dtypes(graph_def, "Conv2D.*") == {"float16"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_scale_of_2_to_the_32_comes_down_to_where_it_holds(folder, forks):
    flags = ["--compute_dtype=float16", "--loss_scale_initial=%d" % 2**32]
    ended = forks.run(PROGRAM, "--smoke", "--log_every=1", flags=flags)
    assert ended.status == 0, ended.err
    scale, skipped = map(int, re.search(r"loss scale (\d+); (\d+) skipped", ended.err).groups())
    assert skipped > 0 and scale * 2**skipped == 2**32
    losses = [float(text) for text in re.findall(r"loss (\S+)$", ended.out, re.MULTILINE)]
    assert losses[: skipped + 1] == [losses[0]] * (
        skipped + 1
    )  # the batch is the same in all steps, and so is the weight
    assert all(after < before for before, after in zip(losses[skipped:], losses[skipped + 1 :]))
