"""Audits of graphs of other kinds: loops, several losses, no training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework.function import Defun

import graphmp
from graphmp.audit.measure.rows import ACTIVATION, WEIGHT_GRADIENT
from graphmp.audit.options import AuditOptions
from graphmp.audit.run import audit, must_run
from graphmp.errors import GraphmpError
from graphmp.policy.dtypes import FLOAT32
from graphmp.report.training import not_compared
from tests.support import painting
from tests.support.audited import found, graph_of
from tests.support.models import MODELS, batch_for
from tests.support.planted import batches
from tests.support.programs import models, optimizers, state  # noqa: F401  # to register programs
from tests.support.programs.running import converted
from tests.support.training import undecorated


def of_model(model, **options):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        model()
        return audit(graphmp.convert(graph, **options), AuditOptions(steps=2, batch_size=8))


def dropped_out():
    """Dropout and noise, outside of loops and in one, and in a function.

    What they draw decides on most of the loss.
    """
    x, y = (
        tf.placeholder(tf.float32, (8, 12), name="x"),
        tf.placeholder(tf.float32, (8, 1), name="y"),
    )
    h = tf.nn.dropout(tf.layers.dense(x, 32, tf.nn.relu), rate=0.5) + tf.random_normal([8, 32])
    h = tf.tanh(h) * tf.random_uniform([8, 1], 0.0, 4.0)
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(16), 0.5, 0.5, 0.5)
    h = tf.nn.dynamic_rnn(cell, tf.reshape(h, [8, 4, 8]), dtype=tf.float32)[0][:, -1]
    h = tf.function(lambda h: tf.nn.dropout(h, rate=0.5))(tf.layers.dense(h, 16))
    tf.train.AdamOptimizer(0.01).minimize(tf.losses.mean_squared_error(y, tf.layers.dense(h, 1)))


@pytest.mark.parametrize(
    "compute_dtype, within",
    [("float16", 0.005), pytest.param("bfloat16", 0.1, marks=pytest.mark.slow)],
)
def test_both_graphs_draw_the_same_random_numbers(compute_dtype, within):
    audited = of_model(dropped_out, compute_dtype=compute_dtype)
    (loss,) = audited.losses
    assert loss.difference < within and loss.original[0] != loss.original[1]
    gradients = [finding.range.error for finding in audited.by_role()[WEIGHT_GRADIENT]]
    assert len(gradients) == 10 and np.median(gradients) < 0.3


def test_attempts_that_fail_leave_random_numbers_alike():
    """A batch that doesn't fit stops loops that draw, each after some of its iterations."""

    def model():
        x = tf.placeholder(tf.float32, (None, 60, 8), name="x")
        cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(8), 0.5, 0.5, 0.5)
        h = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)[0][:, -1]
        y = tf.placeholder(tf.float32, (12, 8), name="y")
        with tf.control_dependencies([tf.Assert(tf.shape(x)[0] > 11, [h[:8]])]):
            loss = tf.losses.mean_squared_error(y, tf.layers.dense(tf.identity(h), 8))
        tf.train.GradientDescentOptimizer(0.01).minimize(loss)

    audited = of_model(model, loss_scale="none")
    assert audited.losses[0].difference < 0.005
    assert np.median([f.range.error for f in audited.by_role()[WEIGHT_GRADIENT]]) < 0.1


@pytest.mark.parametrize(
    "name", ["gradients_solved", "projected_conflicting_gradients", "accumulated"]
)
def test_programs_agree(name):
    """Gradients that were divided by the scale on the way; nodes named as the audit's own.

    Updates that run now and then.
    """
    audited = audit(converted(name, False, "float16", "dynamic"), AuditOptions(steps=2))
    assert audited.agrees, [(f.range.row.name, f.range.error) for f in audited.disagreeing]


@pytest.mark.parametrize("name", ["batch_norm", "recurrent_loop", "gan", "embedding"])
def test_models_agree(name, tmp_path):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        _, _, placeholders = MODELS[name](undecorated)
        conversion = graphmp.convert(graph)
    np.savez(
        str(tmp_path / "data.npz"),
        **{p.op.name: value for p, value in zip(placeholders, batch_for(name))},
    )
    audited = audit(conversion, AuditOptions(data=str(tmp_path / "data.npz"), steps=2))
    assert audited.agrees, [(f.range.row.name, f.range.error) for f in audited.disagreeing]
    assert len(audited.losses) == (2 if name == "gan" else 1)
    inside = [f.range for f in audited.findings if "while" in f.range.row.name]
    assert bool(inside) == (name == "recurrent_loop") and len(audited.left_out) <= len(inside) / 2


def test_bfloat16_agrees_everywhere(data):
    """1.15.5 has no kernels for it on the CPU, and needs none."""
    _, audited = found("nothing", data, compute_dtype="bfloat16")
    assert audited.agrees and audited.compute_dtype == "bfloat16"
    _, overflowing = found("activation", data, compute_dtype="bfloat16")
    assert overflowing.agrees and not overflowing.offenders


def test_native_kernels_agree_too(data):
    audited = audit(
        graphmp.convert(graph_of("nothing")),
        AuditOptions(data=data.data, steps=1, arithmetic="native"),
    )
    assert audited.agrees and audited.arithmetic == "native"
    half = [
        finding.range
        for finding in audited.by_role()[ACTIVATION]
        if finding.half and finding.range.row.op == "MatMul"
    ]
    assert half and all(0 < r.error < 0.01 for r in half)


def test_float32_agrees_to_the_bit(data):
    _, audited = found("nothing", data, compute_dtype="bfloat16", keep_float32=".")
    assert all(
        finding.range.error == 0
        for finding in audited.findings
        if not math.isnan(finding.range.error)
    )
    assert audited.losses[0].difference == 0


@pytest.mark.unit
def test_a_graph_without_training(data):
    with tf.Graph().as_default() as graph:
        tf.layers.dense(tf.placeholder(tf.float32, [2, 4]), 3)
        conversion = graphmp.convert(graph)
    with pytest.raises(GraphmpError, match=r"GMP023.*no training step was found"):
        audit(conversion, data)


@pytest.mark.unit
@pytest.mark.parametrize("inside", ["loop", "function"])
def test_gradients_inside_loops_and_functions(data, inside):
    """The graph trains, which `--train_op` can't tell an audit."""

    def taken(rows, weights):
        rows, weights = tf.reshape(rows, [2, 4]), tf.reshape(weights, [4, 3])
        return tf.gradients(tf.reduce_mean(tf.square(tf.matmul(rows, weights))), weights)[0]

    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 4])
        w = tf.get_variable("w", [4, 3], use_resource=True)
        if inside == "loop":
            turn = lambda i, total: (i + 1, total + taken(x, w))  # noqa: E731
            gradient = tf.while_loop(lambda i, _: i < 3, turn, [0, tf.zeros([4, 3])])[1]
        else:
            gradient = Defun(tf.float32, tf.float32, func_name="inside")(taken)(x, w.read_value())
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, w)], name="train")
        options = [{}, {"train_op": "train"}, {"loss_scale": "none"}]
        conversions = [graphmp.convert(graph, **each) for each in options]
    for conversion in conversions:
        with pytest.raises(GraphmpError, match=r"GMP020.*taken in a function or a loop, into"):
            audit(conversion, data)


@pytest.mark.unit
def test_losses_that_are_left_out_are_named():
    plain, looped = {"loss": ["plain"]}, {"loss": ["while/Mean"], "in_loop": True}
    assert not_compared([plain, looped]).startswith("while/Mean: not compared: gradients are taken")
    assert not_compared([plain]) == not_compared([looped]) == not_compared([]) == ""


def test_a_step_that_does_not_run(data, tmp_path):
    np.savez(str(tmp_path / "data.npz"), x=batches()["x"], labels=batches()["labels"] + 1000)
    conversion, _ = found("nothing", data)
    with pytest.raises(GraphmpError, match=r"GMP024.*step 0 does not run: "):
        audit(conversion, AuditOptions(data=str(tmp_path / "data.npz"), steps=2))


def test_neither_graph_is_changed(data):
    conversion = graphmp.convert(graph_of("nothing"))
    before = painting.copy_of(conversion.original), painting.copy_of(conversion.meta_graph)
    audit(conversion, data)
    assert (conversion.original, conversion.meta_graph) == before
    assert FLOAT32 in {
        node.attr["T"].type for node in conversion.meta_graph.graph_def.node if "T" in node.attr
    }


def test_a_learning_rate_that_is_fed():
    """Straight into the updates; its value is said."""

    def model():
        x = tf.placeholder(tf.float32, [None, 8], name="x")
        loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 4)))
        tf.train.AdamOptimizer(tf.placeholder(tf.float32, [], name="rate")).minimize(loss)

    found = of_model(model)
    assert found.data == "random, seed 0, rate:0=0.001"


@pytest.mark.unit
def test_a_step_that_does_not_run_is_one_error():
    """In the audit and in its repair."""
    with pytest.raises(GraphmpError, match="GMP024: step 3 does not run: empty"), must_run(3):
        raise tf.errors.OutOfRangeError(None, None, "empty\nmore")


def averaged_by_python():
    """Gradients that pass through a Python function, as an optimizer that uses MPI passes them."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1], "y")
    loss = tf.reduce_mean(tf.square(tf.layers.dense(x, 1, use_bias=False) - y))
    optimizer = tf.train.AdamOptimizer()
    ((gradient, weight),) = optimizer.compute_gradients(loss)
    mean = tf.py_func(lambda each: each, [gradient], tf.float32, name="averaged")
    mean.set_shape([4, 1])
    optimizer.apply_gradients([(mean, weight)])


def test_gradients_that_pass_through_a_python_function():
    audited = of_model(averaged_by_python)
    assert audited.agrees and len(audited.by_role()[WEIGHT_GRADIENT]) == 1
    assert audited.losses[0].original[0] > 0
    assert audited.data == (
        "random, seed 0; values that are computed from averaged:0 are made up too: Python functions"
        " run in the script's process only"
    )


def taught_by_python():
    """Targets that a Python function makes of predictions, which half precision changes."""
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1], "y")
    predicted = tf.layers.dense(x, 1)
    target = tf.py_func(lambda a, b: a + b, [predicted, y], tf.float32, name="target")
    target.set_shape([None, 1])
    tf.train.AdamOptimizer().minimize(tf.reduce_mean(tf.square(predicted - target)))


def test_targets_that_a_python_function_makes_of_predictions():
    """They are fed to both graphs."""
    audited = of_model(taught_by_python)
    assert audited.agrees and audited.losses[0].original[0] > 0
    assert "computed from target:0 are made up" in audited.data


def begun_by_a_feed():
    """An embedding whose initial value is fed."""
    table = tf.Variable(tf.placeholder(tf.float32, [4, 8], "pretrained"), name="table")
    x = tf.placeholder(tf.float32, [None, 4], "x")
    tf.train.AdamOptimizer().minimize(tf.reduce_mean(tf.square(tf.matmul(x, table))))


def test_initial_values_that_are_fed_are_made_up_and_said():
    audited = of_model(begun_by_a_feed)
    assert audited.agrees and audited.losses[0].original[0] > 0
    assert audited.data.endswith(
        "; initial values fed by pretrained:0 are made up: --checkpoint has those of a run"
    )
