"""Checkpoints both ways, byte for byte, and the loss scale's state in them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.models import MODELS, batch_for
from tests.support.training import state, undecorated


def built(name, decorate):
    graph = tf.Graph()
    with graph.as_default():
        _, train_op, placeholders = MODELS[name](decorate)
        return graph, train_op, dict(zip(placeholders, batch_for(name))), tf.train.Saver()


def trained(made, folder, restored=None):
    """Trains two steps from scratch or from a checkpoint.

    Returns the values and the checkpoint written.
    """
    graph, train_op, batch, saver = made
    with tf.Session(graph=graph) as sess, graph.as_default():
        sess.run(tf.global_variables_initializer())
        if restored:
            graphmp.restore(saver, sess, restored)
        sess.run(train_op, batch)
        sess.run(train_op, batch)
        return state(sess), saver.save(sess, str(folder / "model.ckpt"))


def restored(made, path):
    graph, _, _, saver = made
    with tf.Session(graph=graph) as sess, graph.as_default():
        missing = graphmp.restore(saver, sess, path)
        return state(sess), missing


@pytest.mark.parametrize("name", ["batch_norm", "float64", "partitioned", "resource_variables"])
def test_float32_to_mixed_and_back(name, tmp_path):
    as_it_is, decorated = (
        built(name, undecorated),
        built(name, graphmp.mixed_precision(loss_scale_initial=64.0)),
    )
    original, path = trained(as_it_is, tmp_path)
    mixed, missing = restored(decorated, path)
    assert sorted(missing) == [
        "graphmp/loss_scale/good_steps",
        "graphmp/loss_scale/scale",
        "graphmp/loss_scale/skipped_steps",
    ]
    assert {n: v.tobytes() for n, v in mixed.items() if not n.startswith("graphmp/")} == {
        n: v.tobytes() for n, v in original.items()
    }
    assert mixed["graphmp/loss_scale/scale"] == 64.0
    (tmp_path / "mixed").mkdir()
    after, path = trained(decorated, tmp_path / "mixed", path)
    back, missing = restored(as_it_is, path)
    assert missing == []
    assert {n: v.tobytes() for n, v in back.items()} == {
        n: v.tobytes() for n, v in after.items() if not n.startswith("graphmp/")
    }


def test_loss_scale_is_saved_and_restored(tmp_path):
    made = built(
        "regression", graphmp.mixed_precision(loss_scale_initial=64.0, loss_scale_growth_interval=2)
    )
    values, path = trained(made, tmp_path)
    assert values["graphmp/loss_scale/scale"] == 128.0
    again, missing = restored(made, path)
    assert missing == [] and again["graphmp/loss_scale/scale"] == 128.0


def test_a_variable_of_the_model_is_not_optional(tmp_path):
    _, path = trained(built("regression", undecorated), tmp_path)
    graph, _, _, saver = built("batch_norm", graphmp.mixed_precision)
    with tf.Session(graph=graph) as sess, pytest.raises(
        Exception, match=r"not found|has no tensor|doesn't exist"
    ):
        graphmp.restore(saver, sess, path)


def test_restores_into_a_finalised_graph_and_the_latest_of_a_folder(tmp_path):
    trained(built("regression", undecorated), tmp_path)
    graph, _, _, saver = built("regression", graphmp.mixed_precision)
    graph.finalize()
    with tf.Session(graph=graph) as sess:
        assert len(graphmp.restore(saver, sess, str(tmp_path))) == 3


def test_collection_holds_the_state_after_export_and_import(tmp_path):
    graph = built("regression", graphmp.mixed_precision)[0]
    meta_graph = tf.train.export_meta_graph(graph=graph)
    with tf.Graph().as_default() as imported, tf.Session(graph=imported) as sess:
        saver = tf.train.import_meta_graph(meta_graph) or tf.train.Saver()
        sess.run(tf.global_variables_initializer())
        assert [float(v) for v in sess.run(tf.get_collection("graphmp_loss_scale"))] == [
            2.0**15,
            0,
            0,
        ]
        assert sess.run("graphmp/loss_scale/current:0") == np.float32(2.0**15)
        assert tf.train.checkpoint_exists(saver.save(sess, str(tmp_path / "imported")))


def test_an_init_op_made_before_the_optimizer_is_enough():
    """Until something initialises the loss scale's state it reads as its initial values."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (None, 12))

        @graphmp.mixed_precision(loss_scale_initial=8.0)
        def build(x):
            return tf.reduce_mean(tf.square(tf.layers.dense(x, 1)))

        loss = build(x)
        init = tf.global_variables_initializer()
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as sess:
            sess.run(init)
            sess.run(train, {x: batch_for("regression")[0]})
            assert sess.run(tf.get_collection("graphmp_loss_scale")) == [8.0, 1, 0]
