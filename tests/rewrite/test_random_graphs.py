"""Random training graphs through the rewrite.

Structure, numbers, and gradients taken after an import.

GRAPHMP_EXAMPLES says how many graphs are drawn, a quarter of them for bfloat16: 8 without it. With
13 fixed ones that take every step they need half a minute of one core on TensorFlow 2.21 and
1.15.5. The same graphs are drawn in every run.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings

from graphmp.config import Config
from graphmp.graph.state.variables import variables
from graphmp.policy.dtypes import BY_NAME
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.session.steps.as_written import one_by_one
from tests.support.random_graphs import TAKEN_ONCE, build, programs, tour
from tests.support.training import imported

EXAMPLES = int(os.environ.get("GRAPHMP_EXAMPLES", "8"))
RUNS_BFLOAT16 = tf.__version__ > "2"  # 1.15.5 lacks most kernels of it on the CPU
FORWARD = {"float16": 0.003, "bfloat16": 0.03}
"""Largest error of an output, root mean square, where the output's is 1 or less."""
GRADIENT = {"float16": 0.02, "bfloat16": 0.2}
"""Largest relative error of a gradient or an update, by norm.

One much smaller than the largest counts as a tenth of that.
"""


def random_graphs(share):
    """A test of a share of the examples."""
    decorate = settings(max_examples=max(1, int(EXAMPLES * share)))
    return lambda test: decorate(given(programs())(test))


@pytest.mark.parametrize(
    "program", tour(), ids=lambda program: "-".join(step.name for step in program.steps)
)
def test_every_step(program):
    check(program, "float16", True)


@random_graphs(0.75)
def test_float16(program):
    check(program, "float16", True)


@random_graphs(0.25)
def test_bfloat16(program):
    check(program, "bfloat16", RUNS_BFLOAT16)


def check(program, compute_dtype, runs):
    """Build a graph, convert it, and compare the two."""
    built = build(program)
    converted = structure(built, compute_dtype)
    if runs:
        again = not any(step.name in TAKEN_ONCE for step in program.steps)
        compare_numbers(
            run(built.meta_graph, built, again), run(converted, built, again), compute_dtype
        )


# Structure


def structure(built, compute_dtype):
    """Convert a graph and check what needs no run. Returns the converted graph."""
    config, policy = (
        Config.make(loss_scale="none", compute_dtype=compute_dtype),
        Policy.default(compute_dtype),
    )
    original = built.meta_graph
    result = rewrite(original, config, policy)
    converted = result.meta_graph
    assert serialized(rewrite(original, config, policy).meta_graph) == serialized(converted)
    assert serialized(rewrite(converted, config, policy).meta_graph) == serialized(converted)
    assert variables(converted.graph_def) == variables(original.graph_def)
    assert_nodes_kept(original.graph_def, converted.graph_def)
    assert_policy(converted.graph_def, policy, compute_dtype, result.record.left)
    return converted


def serialized(meta_graph):
    return meta_graph.SerializeToString(deterministic=True)


def assert_nodes_kept(original, converted):
    """Original nodes keep name, order, device and control inputs, and gain no attribute unless
    their op changed.
    """
    nodes = {node.name: node for node in converted.node}
    assert len(nodes) == len(converted.node)
    names = {node.name for node in original.node}
    assert [node.name for node in converted.node if node.name in names] == [
        node.name for node in original.node
    ]
    for node in original.node:
        new = nodes[node.name]
        assert (new.device, len(new.input)) == (node.device, len(node.input)), node.name
        assert [i for i in new.input if i.startswith("^")] == [
            i for i in node.input if i.startswith("^")
        ], node.name
        assert new.op != node.op or set(new.attr) <= set(node.attr), node.name
        assert new.attr["_class"] == node.attr["_class"], node.name


def assert_policy(graph_def, policy, compute_dtype, kept_allowed):
    """Denied ops are float32, except a Sum that may reduce nothing; allowed ops are half.

    Unless the record gives a reason.
    """
    bodies = [graph_def.node] + [function.node_def for function in graph_def.library.function]
    for nodes in bodies:
        for node in nodes:
            is_half = "T" in node.attr and node.attr["T"].type == BY_NAME[compute_dtype]
            assert not (is_half and node.op in policy.deny - {"Sum"}), node.name
    for node in graph_def.node:
        if node.op in policy.allow and node.attr["T"].type != BY_NAME[compute_dtype]:
            assert node.name in kept_allowed, node.name


# Numbers


def run(meta_graph, built, again):
    """Initial values, outputs, gradients (also those taken `again`), and the updates of one step.

    All by name.
    """
    with tf.Graph().as_default() as graph:
        imported(meta_graph)
        loss = graph.get_tensor_by_name(built.loss)
        assert loss.dtype == tf.float32
        taken = taken_again(loss, built) if again else {}
        initializer, saved = tf.global_variables_initializer(), tf.global_variables()
        options = one_by_one(tf.ConfigProto(intra_op_parallelism_threads=1))
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=options) as sess:
            sess.run(initializer)
            initial = sess.run(saved)
            found = sess.run(
                {"outputs": [loss.name] + built.outputs, "gradients": built.gradients}, built.feeds
            )
            found["taken"] = sess.run(
                taken, built.feeds
            )  # by itself: its loops have the names of the first gradient's
            sess.run(initializer)
            sess.run(built.train, built.feeds)
            found["updates"] = {
                v.op.name: after - before
                for v, before, after in zip(saved, initial, sess.run(saved))
            }
            found["outputs"] = dict(zip([loss.name] + built.outputs, found["outputs"]))
            return dict(found, initial={v.op.name: value for v, value in zip(saved, initial)})


def taken_again(loss, built):
    """Gradients by `tf.gradients` on the imported graph."""
    weights = [v for v in tf.trainable_variables() if v.op.name in built.gradients]
    return {
        v.op.name: tf.convert_to_tensor(gradient)
        for v, gradient in zip(weights, tf.gradients(loss, weights))
    }


def compare_numbers(before, after, compute_dtype):
    for name, value in before["initial"].items():
        np.testing.assert_array_equal(after["initial"][name], value, name)
    for name, value in before["outputs"].items():
        assert_near(name, value, after["outputs"][name], 1.0, FORWARD[compute_dtype])
    for kind in ("gradients", "updates", "taken"):
        largest = max((np.linalg.norm(value) for value in before[kind].values()), default=0.0)
        for name, value in before[kind].items():
            assert_near(
                "%s of %s" % (kind, name),
                value,
                after[kind][name],
                0.1 * largest / np.sqrt(np.size(value)) + 1e-3,
                GRADIENT[compute_dtype],
            )


def assert_near(name, expected, found, least, tolerance):
    """The error's root mean square against the expected values', which counts as at least
    `least`.
    """
    expected, found = np.asarray(expected, np.float64), np.asarray(found, np.float64)
    assert expected.shape == found.shape, name
    assert np.isfinite(found[np.isfinite(expected)]).all(), "%s: not finite" % name
    error = root_mean_square(found - expected) / max(root_mean_square(expected), least)
    assert error <= tolerance, "%s: error %.3g, at most %.3g" % (name, error, tolerance)


def root_mean_square(values):
    return float(np.sqrt(np.mean(np.square(values)))) if np.size(values) else 0.0
