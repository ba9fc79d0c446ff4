"""Skipped steps of built graphs, as their users see them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.loss_scaling import FEED
from tests.support.models import CLASSES, MODELS, PICTURES, TARGETS, VECTORS, two_layers
from tests.support.painting import built
from tests.support.scaled import BAD, GOOD, OWN, changed, session, trained
from tests.support.scaled import built as with_optimizer
from tests.support.training import state, undecorated
from tests.support.training_graphs import adam, sgd, square, vectors


def test_the_first_step_finds_where_to_start():
    """Gradients that overflow at 2^15 lose no step; small ones leave the scale unchanged."""
    converted = graphmp.convert(with_optimizer("GradientDescent", False, False))
    for factor, scale in ((1e-3, 2.0**15), (30.0, 2.0**4)):
        with session(converted.meta_graph) as sess:
            assert sess.run("graphmp/loss_scale/current:0") == 2.0**15
            fresh = state(sess)
            sess.run("train", dict(GOOD, **{"factor:0": factor}))
            after = state(sess)
            assert (
                "net/dense/kernel" in changed(fresh, after)
                and after[OWN[0]] == 1
                and after[OWN[2]] == 0
            )
            assert after[OWN[1]] == scale or (
                factor > 1 and after[OWN[1]] in (2.0**n for n in range(1, 13))
            )


def test_growth_backoff_and_floor():
    converted = graphmp.convert(
        with_optimizer("GradientDescent", False, False), loss_scale_initial=8.0,
        loss_scale_growth_interval=2,
        loss_scale_growth_factor=4.0, loss_scale_backoff_factor=0.25, loss_scale_min=2.0,
    )  # fmt: skip
    with session(converted.meta_graph) as sess:
        scales = []
        for feed in (GOOD, GOOD, BAD, GOOD, BAD, BAD):
            sess.run("train", feed)
            scales.append(float(sess.run("graphmp/loss_scale/current:0")))
        assert scales == [8.0, 32.0, 8.0, 8.0, 2.0, 2.0]
        assert sess.run([OWN[0] + ":0", OWN[2] + ":0"]) == [0, 3]


@pytest.mark.parametrize("count", [False, True])
def test_the_global_step_of_skipped_steps(count):
    converted = graphmp.convert(
        with_optimizer("Adam", False, False), loss_scale_initial=64.0, count_skipped_steps=count
    )
    with session(converted.meta_graph) as sess:
        for feed in (GOOD, BAD, GOOD):
            sess.run("train", feed)
        assert state(sess)["global_step"] == (3 if count else 2)


def test_a_step_counted_beside_the_update():
    """As in BERT's optimizer: assigned by hand, in one group with the update."""

    def build():
        loss = square(two_layers(vectors()))
        step = tf.train.get_or_create_global_step()
        tf.group(adam().minimize(loss), step.assign(step + 1), name="train")
        tf.assign_add(tf.Variable(0, name="alone", trainable=False), 1, name="count")
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        sess.run("train", FEED)
        sess.run("train", {"x:0": VECTORS * np.inf})
        assert state(sess)["global_step"] == 1
        assert sess.run("count:0") == 1  # needs no batch, as before


def test_what_waits_for_the_train_op_runs():
    def build():
        train = adam().minimize(square(two_layers(vectors())))
        with tf.control_dependencies([train]):
            tf.identity(tf.constant(7), name="after")
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        assert sess.run("after:0", {"x:0": VECTORS * np.inf}) == 7
        assert state(sess)[OWN[2]] == 1


def test_the_result_of_an_update_can_be_read_on_a_skipped_step():
    """A reference that an update kernel returns, read as data."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1), use_resource=False)
        gradient = tf.gradients(square(tf.matmul(x, w)), w)[0]
        tf.identity(
            tf.raw_ops.ApplyGradientDescent(var=w.op.outputs[0], alpha=0.1, delta=gradient),
            name="updated",
        )
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build), loss_scale_initial=64.0).meta_graph) as sess:
        first = sess.run("updated:0", FEED)
        assert (sess.run("w:0") == first).all()
        assert (sess.run("updated:0", {"x:0": VECTORS * np.inf}) == first).all()


def test_one_of_two_losses_overflows():
    """Its variables keep every bit and its scale is halved.

    The other's are trained and its scale is kept.
    """

    def build():
        x, factor = vectors(), tf.placeholder_with_default(1.0, (), "factor")
        with tf.variable_scope("D"):
            d = adam().minimize(square(two_layers(x)) * factor)
        with tf.variable_scope("G"):
            g = adam().minimize(
                square(two_layers(x)),
                tf.train.get_or_create_global_step(),
                tf.trainable_variables("G"),
            )
        tf.group(d, g, name="train")
        tf.global_variables_initializer()

    converted = graphmp.convert(built(build), loss_scale_initial=64.0)
    with session(converted.meta_graph) as sess:
        sess.run("train", FEED)
        before = state(sess)
        sess.run("train", dict(FEED, **{"factor:0": np.inf}))
        after = state(sess)
    own = {name for name in before if name.startswith("D/")}
    assert len(own) == 14 and not own & set(changed(before, after))
    assert {name for name in before if name.startswith("G/")} <= set(changed(before, after))
    scales = {
        loss["gradient_scope"][0]: loss["scale"].replace("current", "")
        for loss in converted.report["losses"]
    }
    assert [after[scales["D"] + name] for name in ("scale", "good_steps", "skipped_steps")] == [
        32.0,
        0,
        1,
    ]
    assert [after[scales["G"] + name] for name in ("scale", "good_steps", "skipped_steps")] == [
        64.0,
        2,
        0,
    ]


@pytest.mark.parametrize("name", ["batch_norm", "recurrent_loop", "resource_variables", "towers"])
def test_models_on_a_batch_that_overflows(name):
    """float16 overflows, float32 would not."""
    with tf.Graph().as_default() as graph:
        _, train_op, placeholders = MODELS[name](undecorated)
        x, y = (p.name for p in placeholders)
        tf.group(train_op, name="train_")
        tf.group(*[v.initializer for v in tf.global_variables()], name="init")
        meta_graph = graphmp.convert(graph, loss_scale_initial=64.0).meta_graph
    batch = dict(zip((x, y), (PICTURES, CLASSES) if name == "batch_norm" else (VECTORS, TARGETS)))
    with session(meta_graph) as sess:
        sess.run("train_", batch)
        before = state(sess)
        sess.run("train_", dict(batch, **{x: batch[x] * 1e6}))
        after = state(sess)
        assert all(np.isfinite(value).all() for value in after.values())
        assert [
            n for n in changed(before, after) if not n.startswith("graphmp/") and "moving" not in n
        ] == []
        assert after[OWN[1]] == 32.0
        sess.run("train_", batch)
        assert len(changed(after, state(sess))) > 4


def test_a_histogram_of_gradients_does_not_end_a_skipped_step():
    """Its kernel refuses values that aren't finite; other histograms of such values end the run."""

    def build():
        x, factor = (
            tf.placeholder(tf.float32, (None, 8), "x"),
            tf.placeholder_with_default(1.0, (), "factor"),
        )
        loss = square(tf.layers.dense(x, 1)) * factor
        tf.summary.histogram("shown_loss", loss)
        pairs = adam().compute_gradients(loss)
        for gradient, variable in pairs:
            tf.summary.histogram(variable.op.name + "/gradient", tf.identity(gradient))
        adam().apply_gradients(pairs, name="train")
        tf.global_variables_initializer()

    converted = graphmp.convert(built(build), loss_scale_initial=64.0)
    shown = ["dense/kernel/gradient", "dense/bias/gradient"]
    with session(converted.meta_graph) as sess:
        before = state(sess)
        sess.run(
            ["train"] + [name + ":0" for name in shown], {"x:0": VECTORS[:, :8], "factor:0": np.inf}
        )
        assert changed(before, state(sess)) == OWN[1:]
        with pytest.raises(tf.errors.InvalidArgumentError):
            sess.run("shown_loss:0", {"x:0": VECTORS[:, :8], "factor:0": np.inf})


def test_moving_averages_go_by_their_own_values():
    """They stay finite if a batch is not, and move if only the gradients overflow."""

    def build():
        x, factor = (
            tf.placeholder(tf.float32, (None, 8), "x"),
            tf.placeholder_with_default(1.0, (), "factor"),
        )
        y = tf.layers.batch_normalization(tf.layers.dense(x, 8), training=True)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            adam().minimize(square(tf.layers.dense(y, 1)) * factor, name="train")
        tf.global_variables_initializer()

    converted = graphmp.convert(built(build), loss_scale_initial=64.0)
    moving = ["batch_normalization/moving_mean", "batch_normalization/moving_variance"]
    with session(converted.meta_graph) as sess:
        x = VECTORS[:, :8]
        before = state(sess)
        sess.run("train", {"x:0": x * np.inf})
        assert changed(before, state(sess)) == OWN[1:]
        sess.run("train", {"x:0": x, "factor:0": np.inf})
        assert changed(before, state(sess)) == moving + OWN[1:]


def test_sync_replicas():
    """Workers push all gradients; the chief checks those it takes out and skips.

    The step is counted.
    """
    with tf.Graph().as_default() as graph:
        x, y, factor = (
            tf.placeholder(tf.float32, (None, 12), "x"),
            tf.placeholder(tf.float32, (None, 1), "y"),
            tf.placeholder(tf.float32, (), "factor"),
        )
        loss = tf.losses.mean_squared_error(y, two_layers(x)) * factor
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.AdamOptimizer(0.01), replicas_to_aggregate=1, total_num_replicas=1
        )
        optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
        ops = (
            optimizer.chief_init_op.name,
            optimizer.get_init_tokens_op(1).name,
            optimizer.get_chief_queue_runner().enqueue_ops[0].name,
        )
        meta_graph = tf.train.export_meta_graph(graph=graph)
    converted = graphmp.convert(meta_graph, loss_scale_initial=64.0, compute_dtype="float32")
    (row,) = converted.report["losses"]
    assert len(row["gradients"]) == 4 and sum("ApplyAdam" in name for name in row["updates"]) == 4
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(converted.meta_graph)
        pushes = [
            op for op in graph.get_operations() if op.type.endswith("AccumulatorApplyGradient")
        ]
        (local_step,) = [v for v in tf.local_variables() if "local_step" in v.name]
        with tf.Session(graph=graph) as sess:
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for op in ops[:2]:
                sess.run(op)

            def step(factor):
                """A worker's push at the global step given by its token, then the chief's turn."""
                local_step.load(sess.run("global_step:0"), sess)
                sess.run(pushes, {"x:0": VECTORS, "y:0": TARGETS, "factor:0": factor})
                sess.run(ops[2])
                return state(sess)

            before = step(1.0)
            assert before[OWN[0]] == 1 and before["global_step"] == 1
            after = step(np.inf)
            assert changed(before, after) == ["global_step"] + OWN
            last = step(1.0)
            assert last["global_step"] == 3 and last[OWN[0]] == 1
            assert "dense/kernel" in changed(after, last)


def test_a_batch_normalisation_of_the_input_itself():
    """No matmul leads there."""

    def build(group=False):
        y = tf.layers.batch_normalization(vectors(), training=True)
        loss = square(tf.layers.dense(y, 1))
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies([] if group else updates):
            train = adam().minimize(loss)
        tf.group(train, *updates, name="train")
        tf.global_variables_initializer()

    for group in (False, True):
        for dtype in ("float16", "float32"):
            converted = graphmp.convert(
                built(lambda group=group: build(group)),
                loss_scale_initial=64.0,
                compute_dtype=dtype,
            )
            with session(converted.meta_graph) as sess:
                before = state(sess)
                sess.run("train", {"x:0": VECTORS * np.nan})
                assert changed(before, state(sess)) == OWN[1:]


def test_metrics_are_no_part_of_the_step():
    """They can be run alone, with what they need."""

    def build():
        y, x = tf.placeholder(tf.float32, (None, 1), "y"), vectors()
        factor = tf.placeholder(tf.float32, (), "factor")
        prediction = two_layers(x)
        _, update = tf.metrics.mean_squared_error(y, prediction)
        tf.group(
            adam().minimize(tf.reduce_mean(tf.square(prediction - y)) * factor),
            update,
            name="train",
        )
        tf.identity(update, name="metric")
        tf.group(
            tf.global_variables_initializer(), tf.local_variables_initializer(), name="init_all"
        )
        tf.global_variables_initializer()

    with session(graphmp.convert(built(build)).meta_graph) as sess:
        sess.run("init_all")
        sess.run("metric:0", {"x:0": VECTORS, "y:0": TARGETS})
        assert state(sess)[OWN[0]] == 0


@pytest.mark.parametrize("clip_norm", [0, 1e-3])
def test_gradients_can_be_fetched_beside_the_step(clip_norm):
    """TensorFlow returns copies of most gradients; they hold the unscaled values by name."""

    def build():
        pairs = sgd().compute_gradients(square(two_layers(vectors())))
        for i, (gradient, _) in enumerate(pairs):
            tf.add_to_collection("gradients_%d" % i, gradient)
        sgd().apply_gradients(pairs, name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    names = [meta_graph.collection_def["gradients_%d" % i].node_list.value[0] for i in range(4)]
    assert all("control_dependency" in name for name in names)
    bare = built(lambda: tf.import_graph_def(meta_graph.graph_def, name=""))
    converted = graphmp.convert(bare, loss_scale=128.0, clip_norm=clip_norm)
    with session(meta_graph) as sess:
        start, expected = state(sess), sess.run(names, FEED)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(converted.meta_graph.graph_def, name="")
        with tf.Session(graph=graph) as sess:
            sess.run("init")
            for name, value in start.items():
                sess.run(
                    name + "/Assign",
                    {graph.get_operation_by_name(name + "/Assign").inputs[1]: value},
                )
            for found, gradient in zip(sess.run(names, FEED), expected):
                np.testing.assert_allclose(found, gradient, rtol=2e-2, atol=1e-3)


@pytest.mark.skipif(tf.__version__ < "2", reason="functions take no references")
def test_a_function_that_updates_and_returns_something_is_said():
    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1), use_resource=True)
        gradient = tf.gradients(square(tf.matmul(x, w)), w)[0]

        @tf.function
        def step(gradient):
            w.assign_sub(0.1 * gradient)
            return tf.constant(7)

        tf.identity(step(gradient), name="train")
        tf.global_variables_initializer()

    converted = graphmp.convert(built(build), loss_scale_initial=64.0)
    assert "GMP112" in [row["code"] for row in converted.report["warnings"]]
    with session(converted.meta_graph) as sess:
        assert (
            sess.run("train:0", FEED) == 7 and sess.run("train:0", {"x:0": VECTORS * np.inf}) == 7
        )


@pytest.mark.unit
@pytest.mark.skipif(tf.__version__ < "2", reason="functions take no references")
def test_gradients_inside_a_function_are_scaled_there():
    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1), use_resource=True)
        gradient = tf.function(lambda x: tf.gradients(square(tf.matmul(x, w)), w)[0])(x)
        sgd().apply_gradients([(gradient, w)], name="train")

    report = graphmp.convert(built(build)).report
    assert report["warnings"] == [] and [bool(row["scale"]) for row in report["losses"]] == [True]


@pytest.mark.unit
def test_gradients_of_a_step_in_a_branch_are_checked_together_there():
    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1))

        def step():
            with tf.control_dependencies([sgd().minimize(square(tf.matmul(x, w)))]):
                return tf.constant(True)

        tf.identity(tf.cond(x[0, 0] < 1, step, lambda: tf.constant(False)), name="train")

    nodes = [node.name for node in graphmp.convert(built(build)).meta_graph.graph_def.node]
    assert "graphmp/loss_scale/finite_sums" in nodes
    assert not any("/in_branch/" in name for name in nodes)


def test_a_training_loop_is_scaled_inside():
    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1), use_resource=False)

        def body(i):
            gradient = tf.gradients(square(tf.matmul(x, w)), w)[0]
            with tf.control_dependencies([tf.assign_sub(w, 0.1 * gradient)]):
                return i + 1

        tf.group(tf.while_loop(lambda i: i < 3, body, [0]), name="train")
        tf.global_variables_initializer()

    meta_graph = built(build)
    converted = graphmp.convert(meta_graph, compute_dtype="float32")
    assert converted.report["warnings"] == []
    start, expected = trained(meta_graph, feed=FEED)
    assert changed(expected, trained(converted.meta_graph, start=start, feed=FEED)[1]) == []


@pytest.mark.unit
def test_small_gradients_have_one_sum():
    """Of variables whose sizes their nodes tell; rows of an embedding are as many as are read."""

    def build():
        rows = tf.nn.embedding_lookup(tf.get_variable("rows", [8, 64]), [1, 2, 1])
        for layer in ("first", "second"):
            rows = tf.layers.dense(rows, 64, name=layer)
        tf.train.AdamOptimizer().minimize(tf.reduce_mean(rows**2), name="train")

    conversion = graphmp.convert(built(build), engine="rewrite", loss_scale="dynamic")
    nodes = {node.name: node for node in conversion.meta_graph.graph_def.node}
    joined = nodes["graphmp/loss_scale/small"]
    assert joined.op == "ConcatV2" and joined.attr["N"].i == 2
    sums = [name for name in nodes if name.startswith("graphmp/loss_scale/Sum")]
    assert len(sums) == 4


@pytest.mark.unit
@pytest.mark.parametrize("alone", [False, True])
def test_updates_that_the_same_nodes_wait_for_share_what_lives_in_their_place(alone):
    """One that another node waits for too has its own."""

    def build():
        hidden = tf.layers.dense(tf.placeholder(tf.float32, [4, 8]), 8, name="first")
        loss = tf.reduce_mean(tf.layers.dense(hidden, 4, name="second") ** 2)
        tf.train.AdamOptimizer().minimize(loss, name="train")
        graph = tf.get_default_graph()
        update = graph.get_operation_by_name("train/update_first/bias/ApplyAdam")
        with tf.control_dependencies([update] if alone else []):
            tf.no_op(name="after")

    meta_graph = built(build)
    nodes = {
        node.name: node
        for node in graphmp.convert(meta_graph, engine="rewrite").meta_graph.graph_def.node
    }
    waits = sorted(
        len([text for text in node.input if text.startswith("^")])
        for name, node in nodes.items()
        if name.endswith("/applied")
    )
    assert waits == ([1, 3] if alone else [4])
    alive = [text for text in nodes["train"].input if text.endswith("/alive")]
    assert len(alive) == len(waits)
