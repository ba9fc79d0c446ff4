"""Steps of graphs that were built without graphmp and then converted.

Bit-equal where nothing overflows, nothing written where it does.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.models import IDS, VECTORS, two_layers
from tests.support.optimizers import GRADIENTS_ALL_DENSE, KINDS, TAKE_NO_STEP
from tests.support.scaled import BAD, GOOD, OWN, built, changed, session, shaped, trained
from tests.support.training import state
from tests.support.training_graphs import SHAPES, vectors


def scales(optimizer, sparse, every):
    """The loss scales to test an optimizer with.

    A fixed one for dense gradients, else a dynamic one; all for Adam, or with `every`.
    """
    if every or optimizer == "Adam":
        return (1, 128, 2**15, "dynamic")
    return (
        (128, "dynamic") if optimizer in GRADIENTS_ALL_DENSE else ("dynamic",) if sparse else (128,)
    )


@pytest.mark.parametrize("optimizer, sparse, use_resource", KINDS)
def test_updates_are_bit_equal_whatever_the_scale(optimizer, sparse, use_resource, request):
    """For powers of two, with nothing in half precision.

    For dense gradients also after TensorFlow's own rewrites of the graphs.
    """
    graph = built(optimizer, sparse, use_resource)
    start, expected = trained(tf.train.export_meta_graph(graph=graph), as_written=sparse)
    assert set(changed(start, expected)) >= {"net/dense/kernel", "net/dense_1/bias"}
    for scale in scales(optimizer, sparse, request.config.getoption("--slow")):
        converted = graphmp.convert(graph, compute_dtype="float32", loss_scale=scale)
        _, found = trained(converted.meta_graph, start=start, as_written=sparse)
        assert changed(expected, found) == []


def everything_run(graph):
    """All other tensors and ops that can be fetched along with the train op.

    Results of update kernels are dead on a skipped step.
    """
    seen, waiting = set(), [graph.get_operation_by_name("train")]
    while waiting:
        op = waiting.pop()
        if op not in seen:
            seen.add(op)
            waiting += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    own = [op for op in seen if not op.name.startswith("graphmp/")]
    tensors = [
        t
        for op in own
        for t in op.outputs
        if t.dtype.base_dtype != tf.resource and "Apply" not in op.type
    ]
    return [op for op in own if "Apply" in op.type or not op.outputs], tensors


@pytest.mark.parametrize("optimizer, sparse, use_resource", KINDS)
def test_a_skipped_step_writes_nothing(optimizer, sparse, use_resource):
    """For sparse gradients and assignments also after TensorFlow's own rewrites of the graph."""
    converted = graphmp.convert(built(optimizer, sparse, use_resource), loss_scale_initial=64.0)
    with session(
        converted.meta_graph, as_written=not sparse and optimizer != "AdamWeightDecay"
    ) as sess:
        fetches = everything_run(sess.graph)
        fresh = state(sess)
        sess.run(fetches, GOOD)
        before = state(sess)
        assert {v.op.name for v in tf.trainable_variables()} <= set(changed(fresh, before))
        sess.run(fetches, BAD)
        after = state(sess)
        assert changed(before, after) == OWN
        assert [after[name] for name in OWN] == [0, 32.0, 1]
        steps = 0 if optimizer in TAKE_NO_STEP else 1
        assert after["global_step"] == steps
        sess.run("train", GOOD)
        last = state(sess)
        assert last["global_step"] == 2 * steps and last[OWN[0]] == 1 and last[OWN[1]] == 32.0
        assert {v.op.name for v in tf.trainable_variables()} <= set(changed(after, last))


FEEDS = {
    "scattered_by_hand": {"ids:0": IDS[:, 0][:4]},
    "below_an_import_scope": {"imported/x:0": VECTORS},
}
FEEDS["another_name_below_an_import_scope"] = FEEDS["below_an_import_scope"]
FEEDS["resource_variables_assigned_by_hand"] = {"net/x:0": VECTORS}
TRAIN = {
    "below_an_import_scope": "imported/train",
    "another_name_below_an_import_scope": "imported/train",
    "in_a_name_scope": "train/Adam",
}
RACES = {
    "gan",
    "many_agents",
    "one_loss_with_two_optimizers",
}  # one optimizer may update what another one's gradients still read
BY_TRAINING = sorted(
    name for name, shape in SHAPES.items() if shape.losses and not name.startswith("fed_")
)


@pytest.mark.parametrize("name", sorted(set(BY_TRAINING) - RACES))
def test_shapes_train_as_before(name, request):
    """As written, under a dynamic scale; with --slow under a fixed one too.

    The next test runs the graphs as TensorFlow rewrites them.
    """
    graph, feed, train = shaped(name), FEEDS.get(name, {"x:0": VECTORS}), TRAIN.get(name, "train")
    start, expected = trained(
        tf.train.export_meta_graph(graph=graph), feed=feed, fetches=train, as_written=True
    )
    assert changed(start, expected)
    for scale in ("dynamic", 128) if request.config.getoption("--slow") else ("dynamic",):
        converted = graphmp.convert(graph, compute_dtype="float32", loss_scale=scale)
        assert (
            changed(
                expected,
                trained(
                    converted.meta_graph, start=start, feed=feed, fetches=train, as_written=True
                )[1],
            )
            == []
        )


@pytest.mark.parametrize("name", sorted(set(BY_TRAINING) - {"scattered_by_hand"}))
def test_shapes_skip_whole_steps(name):
    feed, train = FEEDS.get(name, {"x:0": VECTORS}), TRAIN.get(name, "train")
    converted = graphmp.convert(shaped(name), loss_scale_initial=64.0)
    scales = len(converted.report["losses"])
    with session(converted.meta_graph) as sess:
        sess.run(train, feed)
        before = state(sess)
        sess.run(train, {key: value * np.inf for key, value in feed.items()})
        after = state(sess)
    assert sorted(n for n in changed(before, after) if not n.startswith("graphmp/")) == []
    assert [
        n for n in after if n.endswith("/scale") and n.startswith("graphmp/") and after[n] == 32.0
    ] != []
    assert sum(n.endswith("/skipped_steps") and after[n] == 1 for n in after) == scales


def test_gradients_that_are_fetched_and_fed_back():
    """They are fetched unscaled by name; a step with fed values that are not finite is skipped."""
    graph = shaped("fed_back")
    original = tf.train.export_meta_graph(graph=graph)
    converted = graphmp.convert(original, compute_dtype="float32", loss_scale_initial=64.0)
    (loss,) = converted.report["losses"]
    names = [name + ":0" for name in loss["gradients"]]
    with session(original) as sess:
        start = state(sess)
        expected = sess.run(names, {"x:0": VECTORS})
    with session(converted.meta_graph, start) as sess:
        gradients = sess.run(names, {"x:0": VECTORS})
        assert all((a == b).all() for a, b in zip(gradients, expected))
        fed = {"fed_%d:0" % i: g for i, g in enumerate(gradients)}
        by_shape = {v.shape: v for v in gradients}
        fed = {t: by_shape[tuple(sess.graph.get_tensor_by_name(t).shape.as_list())] for t in fed}
        sess.run("train", fed)
        before = state(sess)
        assert (
            before["dense/kernel"].tobytes() != start["dense/kernel"].tobytes()
            and before[OWN[0]] == 1
        )
        sess.run("train", dict(fed, **{"fed_0:0": fed["fed_0:0"] * np.inf}))
        assert changed(before, state(sess)) == OWN


KERAS = ("SGD", "Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl")


def with_keras(optimizer, sparse):
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        x, factor = vectors(), tf.placeholder_with_default(1.0, (), "factor")
        with tf.variable_scope("net", use_resource=True):
            if sparse:
                x = tf.concat(
                    [
                        x,
                        tf.reshape(
                            tf.nn.embedding_lookup(tf.get_variable("table", [20, 8]), IDS), [-1, 32]
                        ),
                    ],
                    1,
                )
            loss = tf.reduce_mean(tf.square(two_layers(x))) * factor
        updates = getattr(tf.keras.optimizers, optimizer)().get_updates(
            loss, tf.trainable_variables()
        )
        tf.group(*updates, name="train")
        tf.group(*[v.initializer for v in tf.global_variables()], name="init")
        return graph


@pytest.mark.parametrize(
    "sparse",
    [pytest.param(False, id="dense", marks=pytest.mark.slow), pytest.param(True, id="sparse")],
)
@pytest.mark.parametrize("optimizer", KERAS)
def test_keras_optimizers(optimizer, sparse, request):
    """Where some gradients are sparse others are dense.

    By default a fixed and a dynamic scale take turns.
    """
    graph, feed = with_keras(optimizer, sparse), {"x:0": VECTORS}
    start, expected = trained(tf.train.export_meta_graph(graph=graph), feed=feed, as_written=True)
    both = (128, "dynamic")
    for scale in (
        both if request.config.getoption("--slow") else both[KERAS.index(optimizer) % 2 :][:1]
    ):
        converted = graphmp.convert(graph, compute_dtype="float32", loss_scale=scale)
        assert (
            changed(
                expected, trained(converted.meta_graph, start=start, feed=feed, as_written=True)[1]
            )
            == []
        )
    converted = graphmp.convert(graph, loss_scale_initial=64.0)
    with session(converted.meta_graph) as sess:
        sess.run("train", feed)
        before = state(sess)
        sess.run("train", dict(feed, **{"factor:0": np.inf}))
        assert changed(before, state(sess)) == OWN
