"""A step whose gradients are not finite leaves all state as it was, but for the loss scale's
own.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.models import (
    CLASSES,
    IDS,
    MODELS,
    PICTURES,
    TARGETS,
    VECTORS,
    batch_for,
    two_layers,
)
from tests.support.optimizers import ONE_KIND_EACH, OPTIMIZERS, TAKE_NO_STEP
from tests.support.scaled import changed
from tests.support.training import state

OWN = (
    "graphmp/loss_scale/scale",
    "graphmp/loss_scale/good_steps",
    "graphmp/loss_scale/skipped_steps",
)


def model(optimizer, sparse, use_resource):
    """Returns loss, train op, placeholders; the third placeholder multiplies the loss."""

    @graphmp.mixed_precision(loss_scale="dynamic", loss_scale_initial=64.0)
    def build(x, ids, y, factor):
        with tf.variable_scope("net", use_resource=use_resource):
            if sparse:
                x = tf.reshape(
                    tf.nn.embedding_lookup(tf.get_variable("table", [20, 8]), ids), [-1, 32]
                )
            loss = tf.losses.mean_squared_error(y, two_layers(x)) * factor
        return loss, OPTIMIZERS[optimizer]().minimize(
            loss, global_step=tf.train.get_or_create_global_step()
        )

    x, ids = tf.placeholder(tf.float32, (None, 12)), tf.placeholder(tf.int32, (None, 4))
    y, factor = tf.placeholder(tf.float32, (None, 1)), tf.placeholder(tf.float32, ())
    return build(x, ids, y, factor) + ((x, ids, y, factor),)


@pytest.mark.parametrize("optimizer, sparse, use_resource", ONE_KIND_EACH)
def test_optimizer(optimizer, sparse, use_resource):
    with tf.Graph().as_default():
        loss, train_op, placeholders = model(optimizer, sparse, use_resource)
        good = dict(zip(placeholders, (VECTORS, IDS, TARGETS, 1.0)))
        bad = dict(zip(placeholders, (VECTORS, IDS, TARGETS, np.inf)))
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            fresh = state(sess)
            sess.run(train_op, good)
            before = state(sess)
            trained = changed(fresh, before)
            assert [v.op.name for v in tf.trainable_variables() if v.op.name not in trained] == []
            sess.run([loss, train_op], bad)
            after = state(sess)
            assert changed(before, after) == sorted(OWN)
            assert [after[name] for name in OWN] == [32.0, 0, 1]
            steps = 0 if optimizer in TAKE_NO_STEP else 1
            assert after["global_step"] == before["global_step"] == steps
            sess.run(train_op, good)
            last = state(sess)
            assert last["global_step"] == 2 * steps and last[OWN[1]] == 1 and last[OWN[0]] == 32.0
            assert [
                v.op.name for v in tf.trainable_variables() if v.op.name not in changed(after, last)
            ] == []


@pytest.mark.parametrize(
    "name",
    [
        "loss_returned",
        "towers",
        "hand_written_optimizer",
        "gradients_by_hand",
        "recurrent_loop",
        "resource_variables",
    ],
)
def test_models(name):
    """The same for models, by a batch that overflows float16 but not float32."""
    with tf.Graph().as_default():
        loss, train_op, placeholders = MODELS[name](graphmp.mixed_precision)
        batch = batch_for(name)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run([loss, train_op], dict(zip(placeholders, batch)))
            before = state(sess)
            sess.run([loss, train_op], dict(zip(placeholders, (batch[0] * 1e6, batch[1]))))
            after = state(sess)
    own = [n for n in changed(before, after) if not n.startswith("graphmp/")]
    # A step counted outside the optimizer, as hand_written_optimizer does, is the model's own
    # business.
    assert own == (["global_step"] if name == "hand_written_optimizer" else [])
    assert after["graphmp/loss_scale/scale"] == before["graphmp/loss_scale/scale"] / 2


def test_a_users_accumulator_takes_nothing_that_is_not_finite():
    """The scale is halved where the bad gradient is added up, and not counted again where the
    sum is applied.
    """

    @graphmp.mixed_precision(loss_scale_initial=64.0)
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, two_layers(x))
        optimizer = tf.train.AdamOptimizer(0.01)
        pairs = optimizer.compute_gradients(loss)
        sums = [tf.Variable(tf.zeros(v.shape), trainable=False, name="sum") for _, v in pairs]
        return [s.assign_add(g) for s, (g, _) in zip(sums, pairs)], optimizer.apply_gradients(
            [(s.read_value(), v) for s, (_, v) in zip(sums, pairs)]
        )

    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, (None, 12)), tf.placeholder(tf.float32, (None, 1))
        add, apply = build(x, y)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(add, {x: VECTORS, y: TARGETS})
            before = state(sess)
            assert before["sum"].any() and before[OWN[1]] == 1
            sess.run(add, {x: VECTORS * 1e6, y: TARGETS})
            after = state(sess)
            assert changed(before, after) == sorted(OWN)
            sess.run(apply)
            assert {"dense/kernel", "dense_1/bias"} <= set(changed(after, state(sess)))
            assert changed({n: after[n] for n in OWN}, state(sess)) == []


@pytest.mark.parametrize("form", ["begins", "adds", "moves"])
def test_an_assignment_that_may_begin_a_sum_of_gradients_is_told(form):
    """At the first step that trains; not one that makes a new value of the old one."""
    forms = {
        "begins": lambda held, g: held.assign(g),
        "adds": lambda held, g: held.assign_add(g),
        "moves": lambda held, g: held.assign(0.9 * held + g),
    }

    @graphmp.mixed_precision(loss_scale_initial=64.0)
    def build(x):
        w = tf.get_variable("w", [12, 1])
        (gradient,) = tf.gradients(tf.reduce_mean(tf.square(tf.matmul(x, w))), [w])
        held = tf.get_variable("held", [12, 1], trainable=False)
        return forms[form](held, gradient)

    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 12])
        write = build(x)
        sess.run(tf.global_variables_initializer())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sess.run(write, {x: VECTORS})
    said = [str(each.message) for each in caught if "GMP112" in str(each.message)]
    assert len(said) == (form == "begins")


def test_moving_averages_stay_finite():
    with tf.Graph().as_default():
        _, train_op, placeholders = MODELS["batch_norm"](graphmp.mixed_precision)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train_op, dict(zip(placeholders, (PICTURES, CLASSES))))
            before = state(sess)
            sess.run(train_op, dict(zip(placeholders, (PICTURES * 1e6, CLASSES))))
            skipped = state(sess)
            assert changed(before, skipped) == sorted(OWN)
            assert all(np.isfinite(value).all() for value in skipped.values())
            sess.run(train_op, dict(zip(placeholders, (PICTURES, CLASSES))))
            assert "batch_normalization/moving_mean" in changed(skipped, state(sess))


def test_a_moving_average_takes_two_kernels_where_no_step_is_skipped():
    """What a skipped step writes is dead, and a new value isn't copied."""
    ran = tf.RunMetadata()
    with tf.Graph().as_default():
        _, train_op, placeholders = MODELS["batch_norm"](graphmp.mixed_precision)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            feed = dict(zip(placeholders, (PICTURES, CLASSES)))
            sess.run(train_op, feed, options=options, run_metadata=ran)
        graph = tf.get_default_graph()
        names = {
            node.node_name.split(":")[0]
            for device in ran.step_stats.dev_stats
            for node in device.node_stats
        }
        ops = [
            graph.get_operation_by_name(name).type
            for name in names
            if name.startswith("graphmp/moving_averages/")
        ]
    computed = [op for op in ops if op not in ("Const", "Reshape", "Switch", "Merge")]
    assert sorted(computed) == ["All"] * 2 + ["IsFinite"] * 2


def test_a_histogram_of_gradients_does_not_end_a_skipped_step():
    """Made inside of the decorated function or after it."""

    @graphmp.mixed_precision(loss_scale_initial=64.0)
    def build(x, factor):
        optimizer = tf.train.AdamOptimizer(0.01)
        pairs = optimizer.compute_gradients(tf.reduce_mean(tf.square(two_layers(x))) * factor)
        return pairs, tf.summary.histogram("inside", pairs[0][0]), optimizer.apply_gradients(pairs)

    with tf.Graph().as_default():
        x, factor = tf.placeholder(tf.float32, (None, 12)), tf.placeholder(tf.float32, ())
        pairs, inside, train_op = build(x, factor)
        outside = tf.summary.histogram("outside", pairs[1][0] * 2.0)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            before = state(sess)
            sess.run([inside, outside, train_op], {x: VECTORS, factor: np.inf})
            assert changed(before, state(sess)) == sorted(OWN[:1] + OWN[2:])


def test_a_histogram_of_two_losses_gradients_adds_no_flag(graph):
    @graphmp.mixed_precision()
    def build(x):
        hidden = two_layers(x)
        losses = tf.reduce_mean(tf.square(hidden)), tf.reduce_mean(tf.abs(hidden))
        return [tf.gradients(loss, tf.trainable_variables()[:1])[0] for loss in losses]

    gradient = tf.add_n(build(tf.placeholder(tf.float32, (None, 12))))
    start = len(graph.get_operations())
    tf.summary.histogram("both", gradient)
    types = [op.type for op in graph.get_operations()[start:]]
    assert "IsFinite" in types and "All" not in types


def test_the_other_loss_of_a_gan_trains():
    """An overflow in one loss skips that loss's update alone, and halves its scale alone."""

    @graphmp.mixed_precision(loss_scale_initial=64.0)
    def build(x, factor):
        def half(name):
            with tf.variable_scope(name):
                return tf.reduce_mean(tf.square(two_layers(x)))

        first, second = half("D") * factor, half("G")
        train = [
            tf.train.AdamOptimizer(0.01, name=n + "Adam").minimize(
                loss, var_list=tf.trainable_variables(n)
            )
            for n, loss in (("D", first), ("G", second))
        ]
        return tf.group(*train)

    with tf.Graph().as_default():
        x, factor = tf.placeholder(tf.float32, (None, 12)), tf.placeholder(tf.float32, ())
        train = build(x, factor)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            before = state(sess)
            sess.run(train, {x: VECTORS, factor: np.inf})
            after = state(sess)
    different = changed(before, after)
    assert [n for n in different if n.startswith("D/") or n in ("beta1_power", "beta2_power")] == []
    assert {"G/dense/kernel", "G/dense/kernel/GAdam"} <= set(different)
    assert after["graphmp/loss_scale/scale"] == 32.0 and after["graphmp/loss_scale_1/scale"] == 64.0
    assert after["graphmp/loss_scale_1/good_steps"] == 1


def test_two_optimizers_on_one_loss_count_one_step():
    @graphmp.mixed_precision(loss_scale_initial=64.0)
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, two_layers(x))
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, variables)
        pairs = list(zip(gradients, variables))
        return tf.group(
            tf.train.AdamOptimizer(0.01).apply_gradients(pairs[:2]),
            tf.train.MomentumOptimizer(0.01, 0.9).apply_gradients(pairs[2:]),
        )

    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, (None, 12)), tf.placeholder(tf.float32, (None, 1))
        train = build(x, y)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            sess.run(train, {x: VECTORS, y: TARGETS})
            assert state(sess)["graphmp/loss_scale/good_steps"] == 1


def test_train_op_stays_fetchable_and_what_hangs_on_it_runs():
    with tf.Graph().as_default():
        loss, train_op, placeholders = MODELS["regression"](graphmp.mixed_precision)
        counter = tf.Variable(0, trainable=False, name="counter")
        with tf.control_dependencies([train_op]):
            counted, tensor = tf.assign_add(counter, 1), tf.identity(loss)
        by_name = tf.get_default_graph().get_operation_by_name("Adam")
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            bad = dict(zip(placeholders, (VECTORS * 1e6, TARGETS)))
            sess.run([counted, tensor, train_op], bad)
            sess.run(by_name, bad)
            values = state(sess)
    assert values["counter"] == 1
    assert values["graphmp/loss_scale/skipped_steps"] == 2
    assert values["beta1_power"] == np.float32(0.9)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # the chief's thread is cancelled at the end
def test_sync_replicas_checks_what_it_takes_from_its_accumulators():
    """Every worker pushes whatever it has; the chief's update is what is skipped."""

    @graphmp.mixed_precision(loss_scale_initial=64.0)
    def build(x, y, factor):
        loss = tf.losses.mean_squared_error(y, two_layers(x)) * factor
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.AdamOptimizer(0.01), replicas_to_aggregate=1, total_num_replicas=1
        )
        return (
            loss,
            optimizer,
            optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step()),
        )

    with tf.Graph().as_default():
        x, y, factor = (
            tf.placeholder(tf.float32, (None, 12)),
            tf.placeholder(tf.float32, (None, 1)),
            tf.placeholder(tf.float32, ()),
        )
        _, optimizer, train_op = build(x, y, factor)
        hook = optimizer.make_session_run_hook(is_chief=True)
        with tf.train.MonitoredTrainingSession(
            is_chief=True, hooks=[hook], stop_grace_period_secs=1
        ) as sess:
            names = [v.op.name for v in tf.global_variables()]

            def values_when(done):
                for _ in range(600):  # the chief applies in a thread of its own
                    values = dict(zip(names, sess.run(tf.global_variables())))
                    if done(values):
                        return values
                    time.sleep(0.1)
                raise AssertionError("the chief did not apply")

            good, bad = ({x: VECTORS, y: TARGETS, factor: f} for f in (1.0, np.inf))
            sess.run(train_op, good)
            values_when(lambda v: v[OWN[1]] == 1)
            sess.run(train_op, good)  # dropped as stale: the first token was handed out at step 0
            before = values_when(lambda v: v[OWN[1]] == 1)
            sess.run(train_op, bad)
            after = values_when(lambda v: v[OWN[2]] == 1)
            sess.run(train_op, good)
            values_when(lambda v: v[OWN[1]] == 1)
    trainable = [n for n in changed(before, after) if n.startswith(("dense", "beta"))]
    assert trainable == []
    assert (
        after["global_step"] == before["global_step"] + 1
    )  # or the accumulators would drop all that follows as stale


def test_one_update_of_two_losses_adapts_both_scales(graph):
    @graphmp.mixed_precision(engine="recipe", loss_scale="dynamic", loss_scale_initial=2.0**30)
    def build(x):
        gradients, variables = [], []
        for name, size in (("a", 1.0), ("b", 100.0)):
            loss = size * tf.reduce_mean(tf.cast(tf.layers.dense(x, 8, name=name), tf.float32))
            own = tf.trainable_variables(name)
            gradients += tf.gradients(loss, own)
            variables += own
        return tf.train.GradientDescentOptimizer(0.1).apply_gradients(zip(gradients, variables))

    train = build(tf.placeholder(tf.float32, [8, 8], name="x"))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(30):
            session.run(train, {"x:0": np.ones([8, 8])})
        scales = session.run(["graphmp/loss_scale/scale:0", "graphmp/loss_scale_1/scale:0"])
        kernels = session.run(tf.trainable_variables())
        session.run(train, {"x:0": np.ones([8, 8])})
        assert max(scales) < 2.0**24
        moved = zip(kernels, session.run(tf.trainable_variables()))
        assert all(np.any(before != after) for before, after in moved)
