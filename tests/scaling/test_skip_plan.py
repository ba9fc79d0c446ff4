"""The condition of each write of a step, without running one."""

from __future__ import annotations

import collections

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.policy.policy import tensor_core_ops
from graphmp.scaling.plan.skip_plan import activations, plan_skips
from tests.support.models import two_layers
from tests.support.painting import built
from tests.support.scaled import losses_of
from tests.support.structure import of_op
from tests.support.training_graphs import SHAPES, adam, net, sgd, square, vectors

pytestmark = pytest.mark.unit


class Plan:
    """The skip plan of a graph.

    Attributes:
        by_value: the variables whose writes depend on their own values.
        by_loss: for each other gated variable, the gradient scopes of the losses on whose flags it
            depends.
    """

    def __init__(self, meta_graph, count_skipped_steps=False):
        graph, losses = losses_of(meta_graph)
        step = plan_skips(
            graph, losses, activations(graph, frozenset(tensor_core_ops())), count_skipped_steps
        )
        self.by_value = {_written(graph, name) for name in step.by_value}
        self.by_loss = collections.defaultdict(set)
        for name, numbers in step.by_loss.items():
            self.by_loss[_written(graph, name)].update(
                losses[number].scopes[0].scope for number in numbers
            )


def _written(graph, name):
    return graph.state.variable(graph.view.inputs(name)[0].node)


def without_collections(meta_graph):
    bare = tf.MetaGraphDef()
    bare.graph_def.CopyFrom(meta_graph.graph_def)
    return bare


def normalised():
    y = tf.layers.batch_normalization(tf.layers.dense(vectors(), 8), training=True)
    tf.group(adam().minimize(square(y)), *tf.get_collection(tf.GraphKeys.UPDATE_OPS), name="train")


def normalised_input(grouped=True):
    y = tf.layers.batch_normalization(vectors(), training=True)
    tf.group(
        adam().minimize(square(tf.layers.dense(y, 1))),
        *tf.get_collection(tf.GraphKeys.UPDATE_OPS) * grouped,
        name="train",
    )


def normalised_input_apart():
    """A training run fetches both the train op and the collection."""
    normalised_input(grouped=False)


@pytest.mark.parametrize("build", [normalised, normalised_input, normalised_input_apart])
def test_moving_averages_of_a_batch_go_by_their_value(build):
    moving = {"batch_normalization/moving_mean", "batch_normalization/moving_variance"}
    assert Plan(built(build)).by_value == moving


def test_statistics_ahead_of_a_while_loop_go_by_their_value():
    def build():
        hidden = tf.layers.dense(vectors(), 8)
        mean = tf.get_variable("mean", (8,), trainable=False)
        with tf.control_dependencies([mean.assign(tf.reduce_mean(hidden, 0))]):
            hidden = tf.identity(hidden)
        _, hidden = tf.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, 2 * h), [0, hidden])
        sgd().minimize(square(hidden), name="train")

    assert Plan(built(build)).by_value == {"mean"}


def test_statistics_of_one_value_are_written_together_though_each_is_waited_for_alone():
    """Waiting for the other's values needs no further input."""

    def build():
        hidden, parts = tf.layers.dense(vectors(), 8), []
        for name, value in (("mean", hidden), ("size", tf.abs(hidden))):
            write = tf.get_variable(name, (8,), trainable=False).assign(tf.reduce_mean(value, 0))
            with tf.control_dependencies([write]):
                parts.append(tf.identity(hidden))
        sgd().minimize(square(parts[0] + parts[1]), name="train")

    graph, losses = losses_of(built(build))
    step = plan_skips(graph, losses, activations(graph, frozenset(tensor_core_ops())), False)
    assert len(step.by_value) == 2 and set(map(frozenset, step.by_value.values())) == {
        frozenset(step.by_value)
    }


def test_statistics_that_a_flag_waits_for_take_none_of_values_that_wait_for_the_flag():
    """One gradient waits for them; the update with the other gradient waits for the flag alone."""

    def build():
        x = vectors()
        u, v, mean, last = (
            tf.get_variable(name, (12, 1), trainable=name in "uv") for name in ("u", "v", "m", "l")
        )
        with tf.control_dependencies([mean.assign(tf.reduce_mean(x, 0)[:, None])]):
            seeds = [None, tf.constant(1.0)]
        losses = [square(tf.matmul(x, variable)) for variable in (u, v)]
        by_u, by_v = tf.gradients(losses, [u, v], seeds)
        with tf.control_dependencies([u.assign_sub(by_u)]):
            value = tf.reduce_mean(tf.identity(x), 0)[:, None]
        with tf.control_dependencies([last.assign(value)]):
            tf.group(v.assign_sub(by_v), name="train")

    graph, losses = losses_of(built(build))
    step = plan_skips(graph, losses, activations(graph, frozenset(tensor_core_ops())), False)
    assert {
        _written(graph, name): [_written(graph, other) for other in others]
        for name, others in step.by_value.items()
    } == {"m": ["m"], "l": ["m", "l"]}


def test_statistics_that_gradient_code_of_a_loop_waits_for_are_written_together():
    """Though each comes from an input of its own: an update runs both."""

    def build():
        writes = []
        for name in ("one", "other"):
            hidden = tf.layers.dense(tf.placeholder(tf.float32, (8, 12), name), 8)
            mean = tf.get_variable(name + "_mean", (8,), trainable=False)
            writes.append(mean.assign(tf.reduce_mean(hidden, 0)))
        _, hidden = tf.while_loop(lambda i, _: i < 2, lambda i, h: (i + 1, tf.tanh(h)), [0, hidden])
        with tf.control_dependencies(writes):
            one = tf.constant(1.0)
        kernel = tf.trainable_variables()[-2]
        pairs = [(tf.gradients(square(hidden), kernel, one)[0], kernel)]
        sgd().apply_gradients(pairs, name="train")

    graph, losses = losses_of(built(build))
    step = plan_skips(graph, losses, activations(graph, frozenset(tensor_core_ops())), False)
    assert [len(together) for together in step.by_value.values()] == [2, 2]


def test_a_count_behind_statistics_takes_none_of_their_values():
    def build():
        hidden = tf.layers.dense(vectors(), 8)
        mean = tf.get_variable("mean", (8,), trainable=False)
        with tf.control_dependencies([mean.assign(tf.reduce_mean(hidden, 0))]):
            count = tf.get_variable("count", (), tf.int32, trainable=False).assign_add(1)
        tf.group(sgd().minimize(square(hidden)), count, name="train")

    plan = Plan(built(build))
    assert plan.by_value == {"mean"} and plan.by_loss["count"] == {"gradients"}


def test_a_graph_without_collections_is_taken_to_have_global_variables_alone():
    assert Plan(without_collections(built(normalised))).by_value == {
        "batch_normalization/moving_mean",
        "batch_normalization/moving_variance",
    }


def test_a_state_that_a_run_leaves_goes_by_its_value():
    """As of an RNN that continues where it stopped, run without an update.

    The state descends from a matmul.
    """

    def build():
        state = tf.get_variable("state", (8, 16), trainable=False)
        hidden = tf.layers.dense(vectors() + 0 * state[:, :12], 16)
        state.assign(hidden, name="keep")
        tf.get_variable("fed", (8, 12), trainable=False).assign(
            vectors(), name="load"
        )  # by hand, at any time
        sgd().minimize(square(hidden), name="train")

    plan = Plan(built(build))
    assert plan.by_value == {"state"} and "fed" not in plan.by_loss


def test_an_average_of_the_input_goes_by_its_value_where_it_is_part_of_the_step():
    def build():
        x, average = vectors(), tf.get_variable("average", (), trainable=False)
        train, write = (
            sgd().minimize(square(two_layers(x))),
            average.assign(0.9 * average + 0.1 * tf.reduce_mean(x)),
        )
        tf.group(train, write, name="train")

    assert Plan(built(build)).by_value == {"average"}


def test_what_is_written_beside_an_update_and_never_without_goes_by_its_loss():
    """Not a write that is fetched too, nor one that gradients wait for: it can't wait for them."""

    def build():
        names = ("beside", "fetched", "before")
        beside, fetched, before = (
            tf.get_variable(name, (), tf.int32, trainable=False) for name in names
        )
        with tf.control_dependencies([before.assign_add(1)]):
            x = tf.identity(vectors())
        count = fetched.assign_add(1)
        tf.identity(count, name="count")
        tf.group(
            sgd().minimize(square(two_layers(x))), beside.assign(beside + 1), count, name="train"
        )

    plan = Plan(built(build))
    assert {name.split("/")[0] for name in plan.by_loss} == {
        "dense",
        "dense_1",
        "beside",
    } and plan.by_value == set()


def test_a_count_behind_an_update_goes_by_its_loss_though_statistics_wait_beside_it():
    def build():
        y = tf.layers.batch_normalization(vectors(), training=True)
        steps = tf.get_variable("steps", (), tf.int32, trainable=False)
        with tf.control_dependencies([sgd().minimize(square(tf.layers.dense(y, 1)))]):
            count = steps.assign_add(1)
        tf.group(count, *tf.get_collection(tf.GraphKeys.UPDATE_OPS), name="train")

    plan = Plan(built(build))
    assert "steps" not in plan.by_value and plan.by_loss["steps"] == {"gradients"}


def test_gradients_of_an_average_that_a_loss_is_made_of_go_by_the_loss():
    """They take no value from the batch but what the average took."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1))
        mean, slopes = (
            tf.get_variable(name, (12, 1), trainable=False) for name in ("mean", "slopes")
        )
        with tf.control_dependencies([mean.assign(tf.reduce_mean(x, 0)[:, None])]):
            penalty = tf.reduce_sum(tf.square(w * tf.identity(mean)))
        (slope,) = tf.gradients(penalty, w)
        train = sgd().minimize(square(tf.matmul(x, w)) + square(slope))
        tf.group(train, slopes.assign(slope), name="train")

    plan = Plan(built(build))
    assert plan.by_value == {"mean"} and plan.by_loss["slopes"] == {"gradients_1"}


def test_metrics_are_always_written():
    """They are local."""

    def build():
        prediction = two_layers(vectors())
        _, update = tf.metrics.mean(prediction)
        tf.group(sgd().minimize(square(prediction)), update, name="train")

    plan = Plan(built(build))
    assert plan.by_value == set() and {name.split("/")[0] for name in plan.by_loss} == {
        "dense",
        "dense_1",
    }


@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("count", [False, True])
def test_the_global_step_is_known_by_its_collection_or_its_name(count, collected):
    def build():
        name = "steps" if collected else "global_step"
        step = tf.get_variable(
            name, (), tf.int32, trainable=False, collections=["global_step"] * collected
        )
        other = tf.get_variable("other_step", (), tf.int32, trainable=False)
        with tf.control_dependencies([sgd().minimize(square(two_layers(vectors())))]):
            tf.group(step.assign_add(1), other.assign_add(1), name="train")

    meta_graph = built(build)
    (step,) = {"steps", "global_step"} & {node.name for node in meta_graph.graph_def.node}
    by_loss = Plan(meta_graph, count).by_loss
    assert (step in by_loss) == (not count) and "other_step" in by_loss


def test_steps_are_counted_where_gradients_come_out_of_accumulators():
    """Accumulators count steps too, and refuse gradients of older steps.

    With gradients that are fed, steps are counted as usual.
    """

    def build(taken):
        loss, step = square(two_layers(vectors())), tf.train.get_or_create_global_step()
        pairs = sgd().compute_gradients(loss)
        if taken:
            held = [tf.ConditionalAccumulator(tf.float32, v.shape) for _, v in pairs]
            with tf.control_dependencies([h.apply_grad(g, 1000) for h, (g, _) in zip(held, pairs)]):
                pairs = [(h.take_grad(1), v) for h, (_, v) in zip(held, pairs)]
        else:
            pairs = [(tf.placeholder(tf.float32, v.shape), v) for _, v in pairs]
        sgd().apply_gradients(pairs, step, name="train")

    assert "global_step" not in Plan(built(lambda: build(True))).by_loss
    assert "global_step" in Plan(built(lambda: build(False))).by_loss


def test_steps_are_counted_as_usual_behind_a_queue():
    def build():
        pairs = sgd().compute_gradients(square(two_layers(vectors())))
        queue = tf.FIFOQueue(9, 4 * [tf.float32], [v.shape for _, v in pairs])
        queue.enqueue([g for g, _ in pairs])
        step = tf.train.get_or_create_global_step()
        sgd().apply_gradients(zip(queue.dequeue(), [v for _, v in pairs]), step, name="train")

    assert "global_step" in Plan(built(build)).by_loss


def test_what_else_comes_out_of_a_queue_goes_by_its_own_values():
    """A rate that a norm out of a queue sets: the gradients train without the queue."""

    def build():
        pairs = sgd().compute_gradients(square(two_layers(vectors())))
        rate = tf.Variable(1.0, trainable=False, name="rate")
        queue = tf.FIFOQueue(9, [tf.float32], [[]])
        queue.enqueue([tf.global_norm([g for g, _ in pairs])])
        tf.assign(rate, 1.0 / queue.dequeue(), name="slower")
        tf.train.GradientDescentOptimizer(rate).apply_gradients(pairs, name="train")

    assert Plan(built(build)).by_value == {"rate"}


def test_each_optimizers_state_goes_by_its_own_loss():
    """Although one of them runs after the other."""
    by_loss = Plan(built(SHAPES["gan_in_turn"].build)).by_loss
    assert by_loss["G/beta1_power"] == {"G/gradients"} and by_loss["D/beta1_power"] == {
        "D/gradients"
    }
    assert by_loss["global_step"] == {"D/gradients", "G/gradients"}


def test_weights_clipped_after_both_updates_go_by_the_loss_that_trains_them():
    """A Wasserstein GAN.

    The generator's gradients pass through the critic, which its optimizer doesn't train.
    """

    def build():
        judged = net(net(vectors(), "G", width=12), "D")
        d = sgd().minimize(square(judged - 1), var_list=tf.trainable_variables("D"))
        g = sgd().minimize(square(judged), var_list=tf.trainable_variables("G"))
        with tf.control_dependencies([d, g]):
            tf.group(
                *[v.assign(tf.clip_by_value(v, -0.1, 0.1)) for v in tf.trainable_variables("D")],
                name="train",
            )

    by_loss = Plan(built(build)).by_loss
    assert by_loss["D/a/kernel"] == {"gradients"} and by_loss["G/a/kernel"] == {"gradients_1"}


def test_a_learning_rate_that_decays_after_both_updates_goes_by_the_loss_that_it_is_of():
    def build():
        trains = []
        for name in ("A", "B"):
            rate = tf.get_variable(name + "_rate", (), trainable=False)
            loss = square(net(vectors(), name))
            optimizer = tf.train.GradientDescentOptimizer(rate * 0.5)
            trains.append(optimizer.minimize(loss, var_list=tf.trainable_variables(name + "/")))
        with tf.control_dependencies(trains):
            tf.group(
                *[v.assign(v * 0.9) for v in tf.global_variables() if "rate" in v.name],
                name="train",
            )

    by_loss = Plan(built(build)).by_loss
    assert by_loss["A_rate"] == {"gradients"} and by_loss["B_rate"] == {"gradients_1"}


@pytest.mark.parametrize("read", [lambda meta_graph: meta_graph, without_collections])
def test_gradients_are_pushed_into_accumulators_in_every_step(read):
    """They are checked after they are taken out: a missing push would be waited for."""
    graph, losses = losses_of(read(built(SHAPES["accumulators"].build)))
    pushes = {name for name, node in graph.view.nodes.items() if "AccumulatorApply" in node.op}
    step = plan_skips(graph, losses, activations(graph, frozenset(tensor_core_ops())), False)
    assert pushes and not pushes & (step.by_loss.keys() | step.by_value.keys())


def test_an_average_of_the_input_ahead_of_the_gradients_goes_by_its_value():
    """It is in no collection; the loss waits for it."""

    def build():
        x = vectors()
        seen = tf.get_variable("seen", (), trainable=False, use_resource=False)
        with tf.control_dependencies([seen.assign(0.9 * seen + 0.1 * tf.reduce_mean(x))]):
            adam().minimize(square(net(tf.identity(x))), name="train")

    assert Plan(built(build)).by_value == {"seen"}


def test_a_count_that_the_loss_waits_for_together_with_an_average_goes_by_its_value():
    def build():
        x = vectors()
        seen = tf.get_variable("seen", (), trainable=False)
        count = tf.get_variable("count", (), tf.int32, trainable=False)
        written = tf.group(seen.assign(tf.reduce_mean(x)), count.assign_add(1))
        with tf.control_dependencies([written]):
            adam().minimize(square(net(tf.identity(x))), name="train")

    assert Plan(built(build)).by_value == {"seen", "count"}


def test_a_step_that_goes_uphill_first_is_one_step():
    """Its second update is skipped if the first one was."""

    def build():
        x, w = vectors(), tf.get_variable("w", (12, 1), use_resource=True)
        with tf.control_dependencies([sgd().minimize(-square(tf.matmul(x, w)))]):
            again = w.read_value()
        gradient = tf.gradients(square(tf.matmul(x, again)), again)[0]
        sgd().apply_gradients([(gradient, w)], name="train")

    meta_graph = built(build)
    graph, losses = losses_of(meta_graph)
    step = plan_skips(graph, losses, activations(graph, frozenset(tensor_core_ops())), False)
    assert step.within == [[], [0]]
    both = {"graphmp/loss_scale/finite", "graphmp/loss_scale_1/finite"}
    conjunctions = of_op(graphmp.convert(meta_graph).meta_graph, "LogicalAnd")
    assert both in [set(node.input) for node in conjunctions]


def test_a_write_that_is_fetched_alone_waits_for_no_input_of_a_loop():
    """What the loop's turns read, its result needs."""

    def build():
        x, factor = vectors(), tf.placeholder(tf.float32, (), "factor")
        mean, last = (tf.get_variable(name, (), trainable=False) for name in ("mean", "last"))
        features = mean.assign(tf.reduce_mean(x))
        tf.identity(features, name="features")
        turns, h = tf.while_loop(
            lambda i, h: tf.logical_and(i < 2, h < 8.0), lambda i, h: (i + 1, h * factor), [0, 1.0]
        )
        with tf.control_dependencies([turns]):
            kept = last.assign(h)
        train = sgd().minimize(square(tf.matmul(x, tf.get_variable("w", (12, 1)))))
        tf.group(train, features, kept, name="train")

    graph, losses = losses_of(built(build))
    step = plan_skips(graph, losses, activations(graph, frozenset(tensor_core_ops())), False)
    assert step.by_value == {"Assign": ("Assign",), "Assign_1": ("Assign", "Assign_1")}


def test_a_copy_of_statistics_behind_an_update_goes_by_its_loss():
    """Though nothing orders it after the statistics."""

    def build():
        x = vectors()
        mean, kept = (tf.get_variable(name, (), trainable=False) for name in ("mean", "kept"))
        features = mean.assign(tf.reduce_mean(x))
        train = sgd().minimize(square(tf.matmul(x, tf.get_variable("w", (12, 1)))))
        with tf.control_dependencies([train]):
            copied = kept.assign(2.0 * mean)
        with tf.control_dependencies([copied]):
            tf.group(features, name="train")

    plan = Plan(built(build))
    assert "kept" in plan.by_loss and "kept" not in plan.by_value
