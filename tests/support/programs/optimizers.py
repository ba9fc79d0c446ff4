"""Programs with an optimizer of their own, or one that does more than descend."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.support.programs.registry import apply, data, error, net, program, sgd, two_weights
from tests.support.programs.state import kept


def model():
    """Two weights, and the loss of a batch."""
    x, y = data()
    variables = two_weights()
    return variables, error(net(x, *variables), y)


@program(clips=False)
def gradient_noise(clip):
    """Random numbers are added to the gradients."""
    variables, loss = model()
    gradients = tf.gradients(loss, variables)
    apply(
        clip([g + tf.random_normal(g.shape, stddev=0.1, seed=n) for n, g in enumerate(gradients)]),
        variables,
    )


@program(clips=False)
def per_example_gradients(clip):
    """A call for each of three examples, each clipped; their mean is applied."""
    x, y = data()
    variables = two_weights()
    found = []
    for n in range(3):
        gradients = tf.gradients(error(net(x[n : n + 1], *variables), y[n : n + 1]), variables)
        found.append(tf.clip_by_global_norm(gradients, 0.5)[0])
    apply(clip([tf.add_n(list(each)) / 3 for each in zip(*found)]), variables)


@program()
def sharpness_aware(clip):
    """SAM: the gradient is computed where the loss rises most."""
    x, y = data()
    variables = two_weights()
    uphill = tf.gradients(error(net(x, *variables), y, "here"), variables)
    norm = tf.global_norm(uphill)
    there = [v + 0.1 * tf.stop_gradient(g / (norm + 1e-12)) for v, g in zip(variables, uphill)]
    apply(clip(tf.gradients(error(net(x, *there), y, "there"), there)), variables)


@program(scales=2, put_back=["first", "second"])
def sharpness_aware_by_assigns(clip):
    """SAM in place: the weights are moved uphill and back."""
    x, y = data()
    variables = two_weights()
    uphill = tf.gradients(error(net(x, *variables), y, "here"), variables)
    steps = [0.1 * g / (tf.global_norm(uphill) + 1e-12) for g in uphill]
    with tf.control_dependencies(steps):
        steps = [tf.identity(s) for s in steps]
        up = [tf.assign_add(v, s) for v, s in zip(variables, steps)]
    with tf.control_dependencies(up):
        there = [v.read_value() for v in variables]
        gradients = tf.gradients(error(net(x, *there), y, "there"), there)
    gradients = clip(gradients)
    with tf.control_dependencies(gradients):
        back = [tf.assign_sub(v, s) for v, s in zip(variables, steps)]
    with tf.control_dependencies(back):
        apply(gradients, variables)


@program(clips=False)
def projected_conflicting_gradients(clip):
    """PCGrad: each of two losses' gradients without the component against the other."""
    x, y = data()
    variables = two_weights()
    output = net(x, *variables)
    one, other = (
        tf.gradients(error(output, y, "one"), variables),
        tf.gradients(error(output, -y, "other"), variables),
    )

    def projected(gradient, against):
        dot = tf.reduce_sum(gradient * against)
        return (
            gradient - tf.minimum(dot, 0.0) / (tf.reduce_sum(tf.square(against)) + 1e-12) * against
        )

    apply(clip([projected(a, b) + projected(b, a) for a, b in zip(one, other)]), variables)


@program()
def momentum_by_hand(clip):
    """Momentum, by assigns."""
    variables, loss = model()
    updates = []
    for n, (v, g) in enumerate(zip(variables, clip(tf.gradients(loss, variables)))):
        velocity = kept("velocity_%d" % n, *v.shape.as_list())
        updates.append(tf.assign_sub(v, 0.25 * tf.assign(velocity, 0.5 * velocity + g)))
    tf.group(*updates, name="train")


@program()
def adam_by_hand(clip):
    """Adam, by assigns, with its own step counter."""
    variables, loss = model()
    step = tf.assign_add(kept("step"), 1.0)
    updates = []
    for n, (v, g) in enumerate(zip(variables, clip(tf.gradients(loss, variables)))):
        mean, square = (
            kept("%s_%d" % (kind, n), *v.shape.as_list()) for kind in ("mean", "square")
        )
        new_mean, new_square = (
            tf.assign(mean, 0.9 * mean + 0.1 * g),
            tf.assign(square, 0.99 * square + 0.01 * tf.square(g)),
        )
        rate = 0.25 * tf.sqrt(1 - tf.pow(0.99, step)) / (1 - tf.pow(0.9, step))
        updates.append(tf.assign_sub(v, rate * new_mean / (tf.sqrt(new_square) + 1e-3)))
    tf.group(*updates, name="train")


@program()
def averages_of_weights(clip):
    """EMA, after the update."""
    variables, loss = model()
    average = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([apply(clip(tf.gradients(loss, variables)), variables, "step")]):
        tf.group(average.apply(variables), name="train")


@program()
def lookahead(clip):
    """Slow weights updated in every second step, to which the fast ones are then reset."""
    variables, loss = model()
    turn, slow = (
        kept("turn", dtype=tf.int32, start=0),
        [kept("slow_%d" % n, *v.shape.as_list()) for n, v in enumerate(variables)],
    )

    def follow():
        moved = [tf.assign_add(s, 0.5 * (v.read_value() - s)) for s, v in zip(slow, variables)]
        return tf.group(*[tf.assign(v, tf.identity(s)) for v, s in zip(variables, moved)])

    with tf.control_dependencies([apply(clip(tf.gradients(loss, variables)), variables, "step")]):
        count = tf.assign_add(turn, 1)
    with tf.control_dependencies([count]):
        tf.group(tf.cond(tf.equal(count % 2, 0), follow, tf.no_op), name="train")


@program()
def temporal_differences(clip):
    """DQN: a target network is a copy of the weights, updated in every second step."""
    x, _ = data()
    variables = two_weights(width=3)
    targets = [
        kept("target_%d" % n, *v.shape.as_list(), start=0.1) for n, v in enumerate(variables)
    ]
    step, taken = tf.train.get_or_create_global_step(), tf.one_hot([0, 1, 2, 0, 1, 2, 0, 1], 3)
    best = tf.reduce_max(net(-x, *targets), 1)
    wanted = tf.stop_gradient(x[:, 0] + 0.9 * best)
    loss = tf.losses.huber_loss(wanted, tf.reduce_sum(net(x, *variables) * taken, 1))
    update = sgd().apply_gradients(
        zip(clip(tf.gradients(loss, variables)), variables), step, "step"
    )

    def copy():
        return tf.group(*[tf.assign(t, v.read_value()) for t, v in zip(targets, variables)])

    with tf.control_dependencies([update]):
        tf.group(tf.cond(tf.equal(step.read_value() % 2, 0), copy, tf.no_op), name="train")


@program()
def two_optimizers(clip):
    """One loss, an optimizer for each weight, one global step."""
    (first, second), loss = model()
    by_first, by_second = clip(tf.gradients(loss, [first, second]))
    one = tf.train.AdamOptimizer(0.25).apply_gradients(
        [(by_first, first)], tf.train.get_or_create_global_step(), "one"
    )
    tf.group(one, apply([by_second], [second], "other"), name="train")


def slots(scope, powers):
    """The variables written by an Adam for the two weights of a scope."""
    weights = [scope + "first", scope + "second"]
    return " ".join(
        [weight + slot for weight in weights for slot in ("", "/Adam", "/Adam_1")]
        + ["beta1_power" + powers, "beta2_power" + powers]
    )


@program(scales=2, exceptions=[slots("a", ""), slots("b", "_1"), "global_step"], clips=False)
def two_optimizers_of_two_losses(clip):
    """A loss and an optimizer for each weight: a group of two updates that can be run separately.

    Each counts the global step.
    """
    x, y = data()
    step, updates = tf.train.get_or_create_global_step(), []
    for name in ("a", "b"):
        variables = two_weights(name)
        gradients = clip(tf.gradients(error(net(x, *variables), y, "loss_" + name), variables))
        updates.append(
            tf.train.AdamOptimizer(0.25).apply_gradients(
                zip(gradients, variables), step, "step_" + name
            )
        )
    tf.group(*updates, name="train")


@program(clips=False)
def applied_when_small(clip):
    """The norm of the gradients is stored, summarised, and decides whether they are applied."""
    variables, loss = model()
    gradients = clip(tf.gradients(loss, variables))
    norm, kept_norm = tf.global_norm(gradients), kept("norm")
    tf.summary.merge(
        [tf.summary.scalar("norm", norm), tf.summary.histogram("gradient", gradients[0])],
        name="summaries",
    )
    applied = tf.cond(norm < 1.5, lambda: apply(gradients, variables, "step"), tf.no_op)
    tf.group(applied, tf.assign(kept_norm, norm), name="train")


@program(clips=False)
def learned_rate(clip):
    """Hypergradient descent: the rate follows the product of successive gradients."""
    variables, loss = model()
    rate, last = (
        kept("rate", start=0.25),
        [kept("last_%d" % n, *v.shape.as_list()) for n, v in enumerate(variables)],
    )
    gradients = clip(tf.gradients(loss, variables))
    faster = tf.assign_add(
        rate, 0.5 * tf.add_n([tf.reduce_sum(g * old) for g, old in zip(gradients, last)])
    )
    with tf.control_dependencies([faster]):
        moved = [tf.assign_sub(v, faster * g) for v, g in zip(variables, gradients)]
        tf.group(*(moved + [tf.assign(old, g) for old, g in zip(last, gradients)]), name="train")
