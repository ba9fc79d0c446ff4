"""The report and the flags of loss scaling in built graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from tests.support.loss_scaling import FEED
from tests.support.models import two_layers
from tests.support.painting import built
from tests.support.scaled import BAD, changed, session, shaped, trained
from tests.support.scaled import built as with_optimizer
from tests.support.training import state
from tests.support.training_graphs import sgd, square, vectors


@pytest.mark.unit
def test_the_report_names_no_clip_where_there_is_none():
    (loss,) = graphmp.convert(shaped("plain"), compute_dtype="float32").report["losses"]
    assert loss["unscale"] and loss["clip"] == ""


@pytest.mark.unit
def test_the_report_names_each_part():
    converted = graphmp.convert(
        shaped("clipped_by_the_user"), loss_scale_initial=64.0, clip_norm=5.0
    )
    (loss,) = converted.report["losses"]
    assert (
        loss["gradient_scope"] == "gradients"
        and loss["loss"] == ["loss"]
        and len(loss["seeds"]) == 1
    )
    assert len(loss["gradients"]) == len(loss["updates"]) == len(loss["unscale"]) == 4
    assert (
        loss["scale"] == "graphmp/loss_scale/current"
        and loss["finite"] == "graphmp/loss_scale/all_finite"
    )
    assert loss["clip"] == "graphmp/loss_scale/clip_by_global_norm"
    assert set(loss["updates"]) < set(loss["gated"])  # and the powers of beta
    nodes = {node.name for node in converted.meta_graph.graph_def.node}
    assert {
        loss["scale"],
        loss["finite"],
        *loss["gradients"],
        *loss["updates"],
        *loss["unscale"],
        *loss["gated"],
    } <= nodes
    assert any(name.startswith(loss["clip"] + "/") for name in nodes)
    assert converted.report["loss_scale"] == {"kind": "dynamic", "initial": 64.0, "losses": 1}
    assert converted.report["clip_norm"] == 5.0 and converted.report["warnings"] == []


@pytest.mark.unit
def test_every_change_has_a_reason():
    report = graphmp.convert(shaped("towers"), clip_norm=5.0).report
    reasons = {row["node"]: row["reason"] for row in report["changes"]}
    assert all(reasons.values())
    text = " ".join(reasons.values())
    for said in (
        "scale:",
        "unscale:",
        "finite check",
        "clip:",
        "skip gate",
        "adapts the loss scale",
        "loss scale state",
    ):
        assert said in text
    own = {name: why for name, why in reasons.items() if name.startswith("graphmp/")}
    assert not any(
        "layers or gradients" in why or why.startswith("reads") for why in own.values()
    ), own


@pytest.mark.unit
@pytest.mark.parametrize(
    "options, losses",
    [
        ({"loss": "D/loss"}, ["D/gradients"]),
        ({"loss": ["G/loss:0"]}, ["G/gradients"]),
        ({"train_op": "D/Adam"}, ["D/gradients"]),
        ({"gradient_scope": "G/gradients"}, ["G/gradients"]),
        ({"train_op": ["D/Adam", "G/Adam"]}, ["D/gradients", "G/gradients"]),
    ],
    ids=str,
)
def test_flags_overrule_what_is_found(options, losses):
    converted = graphmp.convert(shaped("gan"), **options)
    assert sorted(loss["gradient_scope"] for loss in converted.report["losses"]) == losses


@pytest.mark.unit
@pytest.mark.parametrize(
    "options, said",
    [
        (
            {"loss": "G/los"},
            (
                "--loss=G/los: no gradient code starts there; accepted are what it starts from"
                " here: D/loss, G/loss"
            ),
        ),
        ({"train_op": "train_"}, "--train_op=train_: the graph has no such node"),
        (
            {"train_op": ["G/Adam", "G/loss"]},
            (
                "--train_op=G/loss: it runs no update by a gradient; accepted are ops that do,"
                " here: D/Adam, G/Adam"
            ),
        ),
        ({"gradient_scope": "gradients"}, "--gradient_scope=gradients: no node is below it"),
        ({"gradient_scope": "G"}, "--gradient_scope=G: nothing in it starts gradients"),
    ],
    ids=str,
)
def test_flags_that_name_nothing(options, said):
    with pytest.raises(GraphmpError, match="GMP002") as error:
        graphmp.convert(shaped("gan"), **options)
    assert said in str(error.value) and error.value.exit_status == 2


@pytest.mark.unit
def test_a_named_op_whose_updates_are_not_scaled_is_converted_and_said():
    def build():
        w = tf.get_variable("w", (12, 4))
        gradient = tf.placeholder(tf.float32, (12, 4))
        sgd().apply_gradients([(gradient, w)], name="train")
        square(tf.matmul(vectors(), w))

    found, named = (
        graphmp.convert(built(build), **options).report["warnings"]
        for options in ({}, {"train_op": "train"})
    )
    assert [row["code"] for row in named] == [row["code"] for row in found]
    assert "GMP110" in [row["code"] for row in named]


@pytest.mark.unit
@pytest.mark.parametrize("name", ["fed_to_another_copy", "gan"])
def test_with_a_named_op_a_converted_graph_stays_as_it_is(name):
    graph = shaped(name)
    once = graphmp.convert(graph, train_op="train").meta_graph
    again = graphmp.convert(once, train_op="train").meta_graph
    assert again.graph_def == once.graph_def


@pytest.mark.unit
def test_a_loss_may_be_named_by_a_copy_of_it():
    def build():
        loss = tf.identity(square(two_layers(vectors())), name="total")
        sgd().minimize(loss, name="train")

    converted = graphmp.convert(built(build), loss="total:0")
    assert [loss["loss"] for loss in converted.report["losses"]] == [["loss"]]


@pytest.mark.unit
def test_what_is_computed_from_a_loss_does_not_name_it():
    def build():
        loss = square(two_layers(vectors()))
        tf.sqrt(loss, name="root")
        sgd().minimize(loss, name="train")

    with pytest.raises(GraphmpError, match="--loss=root:0: no gradient code starts there"):
        graphmp.convert(built(build), loss="root:0")


def test_a_scope_that_names_do_not_tell_is_taken_where_it_is_given():
    """Gradient code written by hand: that of a matmul, by its weights."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 4))
        y = tf.matmul(x, w)
        square(y)
        with tf.name_scope("backward"):
            seed = tf.identity(2 * y / 32, name="grad_ys_0")
            gradient = tf.matmul(x, seed, transpose_a=True)
        tf.assign_sub(w, 0.1 * gradient, name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    assert graphmp.convert(meta_graph).report["losses"] == []
    converted = graphmp.convert(
        meta_graph, gradient_scope="backward", compute_dtype="float32", loss_scale=64
    )
    assert [loss["gradient_scope"] for loss in converted.report["losses"]] == ["backward"]
    start, expected = trained(meta_graph, feed=FEED)
    assert changed(expected, trained(converted.meta_graph, start=start, feed=FEED)[1]) == []


@pytest.mark.unit
@pytest.mark.parametrize(
    "name", ["inference", "gradients_for_a_picture", "gradients_into_an_average"]
)
def test_graphs_that_do_not_train_are_not_scaled(name):
    report = graphmp.convert(shaped(name)).report
    assert report["losses"] == [] and report["loss_scale"]["losses"] == 0
    assert not any(row["node"].startswith("graphmp/") for row in report["changes"])
    assert ("GMP105" in [row["code"] for row in report["warnings"]]) == (name == "inference")


@pytest.mark.parametrize("loss_scale", ["none", 128.0])
def test_none_and_fixed_write_no_state_and_skip_nothing(loss_scale):
    converted = graphmp.convert(with_optimizer("Adam", False, False), loss_scale=loss_scale)
    with session(converted.meta_graph) as sess:
        assert [name for name in state(sess) if name.startswith("graphmp/")] == []
        sess.run("train", BAD)
        assert not np.isfinite(state(sess)["net/dense/kernel"]).any()


@pytest.mark.unit
def test_a_graph_that_scales_its_loss_is_left_to_it():
    def build():
        loss = square(two_layers(vectors())) * 128.0
        pairs = sgd().compute_gradients(loss)
        sgd().apply_gradients([(g / 128.0, v) for g, v in pairs], name="train")

    report = graphmp.convert(built(build), clip_norm=1.0).report
    assert [row["code"] for row in report["warnings"]] == ["GMP107"]
    assert [loss["scale"] for loss in report["losses"]] == [""]


@pytest.mark.unit
def test_a_learning_rate_is_no_scale():
    """Small constants that gradients are multiplied by."""
    report = graphmp.convert(shaped("assigned_by_hand")).report
    assert report["warnings"] == [] and [loss["scale"] for loss in report["losses"]] == [
        "graphmp/loss_scale/current"
    ]


@pytest.mark.unit
def test_the_report_lists_what_a_skipped_step_changes_all_the_same():
    def build():
        x = tf.data.make_one_shot_iterator(
            tf.data.Dataset.from_tensors(np.ones((4, 12), np.float32)).repeat()
        ).get_next()
        prediction = two_layers(tf.nn.dropout(x, rate=0.5))
        _, metric = tf.metrics.mean(prediction)
        early = tf.assign_add(
            tf.get_variable("early", (), tf.int32, trainable=False, use_resource=False), 1
        )
        with tf.control_dependencies([early]):
            train = sgd().minimize(square(prediction), tf.train.get_or_create_global_step())
        tf.group(train, metric, name="train")

    meta_graph = built(build)
    (loss,) = graphmp.convert(meta_graph, count_skipped_steps=True).report["losses"]
    ops = {node.name: node.op for node in meta_graph.graph_def.node}
    why = {row["node"]: row["why"] for row in loss["not_skipped"]}
    assert {ops[name] for name in why} == {"IteratorGetNext", "RandomUniform", "AssignAdd"}
    assert why["AssignAdd"] == "the loss's flag depends on it"
    assert sorted(
        text for name, text in why.items() if ops[name] == "AssignAdd" and name != "AssignAdd"
    ) == [
        "it counts skipped steps",
        "it writes no global variable: no part of the model's state",
        "it writes no global variable: no part of the model's state",
    ]
    (loss,) = graphmp.convert(meta_graph, loss_scale=128.0).report["losses"]
    assert loss["not_skipped"] == loss["gated"] == []


@pytest.mark.unit
@pytest.mark.parametrize("is_continued", [True, False])
def test_activations_that_gradients_go_on_from_are_no_losses(is_continued):
    """As in code that computes activations again to save memory."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (4, 8), "x")
        first, last = tf.get_variable("first", (8, 8)), tf.get_variable("last", (8, 1))
        hidden = tf.tanh(tf.matmul(x, first), name="hidden")
        loss = tf.identity(square(tf.matmul(hidden, last)), name="loss")
        by_hidden, by_last = tf.gradients(loss, [hidden, last])
        seeds = by_hidden if is_continued else tf.ones_like(hidden)
        (by_first,) = tf.gradients(hidden, first, grad_ys=seeds)
        sgd().apply_gradients([(by_first, first), (by_last, last)])
        rows = graphmp.convert(tf.train.export_meta_graph()).report["losses"]
    named = [name for row in rows for name in row["loss"]]
    assert named == ["loss"] if is_continued else set(named) == {"hidden", "loss"}
