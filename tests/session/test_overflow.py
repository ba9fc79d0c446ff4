"""Skipped steps.

Which op is the first that isn't finite, said by `graphmp.check_overflow` and by `graphmp run`.
"""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from tests.support.scripts import OF_LARGE_VALUES

FEED = {"x:0": np.ones((4, 8), np.float32)}
SCRIPT = (
    OF_LARGE_VALUES
    + """    for _ in range(int(sys.argv[1])):
        session.run(train, {x: np.full((4, 8), float(sys.argv[2]))})
"""
)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def model(size, branch=False, weight=1.0):
    """A net one of whose activations is `size`.

    The larger its weight, the smaller its gradients.
    """
    x = tf.placeholder(tf.float32, [4, 8], "x")
    hidden = tf.matmul(
        x, tf.get_variable("w", [8, 8], initializer=tf.constant_initializer(weight)), name="hidden"
    ) * (size / 8 / 4 / weight)
    large = tf.multiply(hidden, 4.0, name="large")
    if branch:
        large = tf.cond(tf.reduce_sum(x) > 0, lambda: tf.identity(large), lambda: large * 2)
        large = tf.while_loop(
            lambda i, _: i < 2, lambda i, value: (i + 1, value * 1.0), [0, large]
        )[1]
    loss = tf.reduce_mean(
        tf.matmul(large / 1e4, tf.get_variable("v", [8, 1], initializer=tf.ones_initializer())),
        name="loss",
    )
    tf.train.GradientDescentOptimizer(1e-3).minimize(loss, name="train")
    tf.global_variables_initializer()


@pytest.mark.parametrize("branch", [False, True])
def test_names_the_first_that_is_not_finite(graph, branch):
    model(120000.0, branch)
    with graphmp.Session() as session:
        session.run("init")
        session.run("train", FEED)
        graph.finalize()
        found = graphmp.check_overflow(session, FEED)
        assert (found.node, found.op, found.dtype) == ("large", "Mul", "float16")
        assert found.inputs[0].name == "mul" and found.to_keep == ["large"]
        assert [found.inputs[0].low, found.inputs[0].high] == pytest.approx(
            [30000, 30000], rel=2e-3
        )
        assert (
            "large (Mul, float16) is the first that is not finite; it reads mul in [3e+04, 3e+04]"
            in str(found)
        )
        before = len(graph.get_operations())
        assert graphmp.check_overflow(session, FEED) == found
        assert len(graph.get_operations()) == before
        assert graphmp.check_overflow(session, FEED, "hidden:0") is None


def large_gradients():
    """Two layers, and a loss whose gradients are 1e6 in float32."""
    x = tf.placeholder(tf.float32, [4, 8], "x")
    inner = tf.get_variable("inner", [8, 5], initializer=tf.constant_initializer(0.1))
    outer = tf.get_variable("outer", [5, 3], initializer=tf.constant_initializer(0.1))
    loss = tf.reduce_sum(tf.matmul(tf.matmul(x, inner), outer) * 1e6, name="loss")
    tf.train.GradientDescentOptimizer(1e-9).minimize(loss, name="train")
    tf.global_variables_initializer()


@pytest.mark.filterwarnings("ignore:step 1:RuntimeWarning")
def test_where_an_inserted_cast_overflows_its_readers_are_to_be_kept():
    """Its input is float32 already. Following the advice ends the overflow."""
    kept, found = [], None
    while found or not kept:
        with tf.Graph().as_default() as graph:
            large_gradients()
            names = {op.name for op in graph.get_operations()}
            rules = ["^%s$" % name for name in kept]
            with graphmp.Session(loss_scale_initial=1.0, keep_float32=rules) as session:
                session.run("init")
                session.run("train", FEED)
                found = graphmp.check_overflow(session, FEED)
        if not kept:
            assert (found.op, found.dtype) == ("Cast", "float16") and found.node not in names
        if found:
            assert found.to_keep and set(found.to_keep) <= names - set(kept)
            kept += found.to_keep


def test_nothing_where_all_is_finite(graph):
    model(100.0, branch=True)
    with graphmp.Session() as session:
        session.run("init")
        session.run("train", FEED)
        assert graphmp.check_overflow(session, FEED) is None
        found = graphmp.check_overflow(session, {"x:0": np.full((4, 8), np.nan)})
        assert (found.node, found.op, found.inputs) == ("x", "Placeholder", [])


def test_a_constants_gradient_is_not_named(graph):
    """It may overflow: it adds up in half, and nothing reads it.

    The optimizer gates its gradients, so that a step runs it all the same.
    """
    model(30000.0, weight=900.0)
    with graphmp.Session(loss_scale_initial=2.0**13) as session:
        session.run("init")
        session.run("train", FEED)
        sums = [
            op
            for op in graph.get_operations()
            if op.type == "Sum" and "mul_grad" in op.name and op.inputs[0].dtype == tf.float16
        ]
        assert [np.isfinite(session.run(op.outputs[0], FEED)).all() for op in sums] == [False]
        assert graphmp.check_overflow(session, FEED) is None


def test_a_graph_that_was_converted_before(graph):
    model(120000.0)
    converted = graphmp.convert(graph)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(converted.meta_graph)
        session.run("init")
        assert graphmp.check_overflow(session, FEED).node == "large"


@pytest.mark.parametrize("scale", [128.0, "none"])
def test_a_converted_graph_without_a_check(graph, scale):
    """The gradients that a fixed scale divides, or what the optimizer's kernels read, stand for
    the check.
    """
    model(120000.0)
    converted = graphmp.convert(graph, loss_scale=scale)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(converted.meta_graph)
        session.run("init")
        assert graphmp.check_overflow(session, FEED).node == "large"


def test_a_graph_without_gradients(graph):
    tf.constant(1.0)
    with tf.Session() as session, pytest.raises(
        GraphmpError, match="no gradients were found"
    ) as raised:
        graphmp.check_overflow(session, FEED)
    assert raised.value.code == "GMP002"


@pytest.mark.parametrize("fetch", [tf.no_op, lambda: tf.constant(1), lambda: tf.group()])
def test_fetches_without_a_floating_point_tensor(graph, fetch):
    op = fetch()
    with tf.Session() as session, pytest.raises(GraphmpError, match=r"^GMP002: no floating-point"):
        graphmp.check_overflow(session, {}, op)


def test_a_graph_is_freed_with_its_watches():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        graphmp.check_overflow(session, {}, tf.constant(1.0) * 2.0)
    seen = weakref.ref(graph)
    del graph, session
    gc.collect()
    assert seen() is None


@pytest.fixture
def script(tmp_path, monkeypatch, forks):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return lambda *argv: forks.run("train.py", *argv, flags=["--debug_overflow"])


def test_a_run_says_what_to_do(script):
    ended = script("11", "50")
    said = [line for line in ended.said if " skipped: " in line]
    reads = (
        "large (Mul, float16) is the first that is not finite; it reads first/BiasAdd in [400, 400]"
    )
    assert said[:10] == ["step %d skipped: %s" % (step, reads) for step in range(1, 11)]
    behind = "10 steps in a row skipped: a value that loss is computed of is not finite"
    assert said[10].startswith(behind)
    assert "Keep large in float32, and what reads it (--keep_float32)" in said[10]
    assert "11 skipped: nothing was learned" in ended.said[-1]
    fine = script("3", "1")
    assert not [line for line in fine.said if "skipped: " in line]
    assert fine.said[-1].endswith("; 0 skipped")
