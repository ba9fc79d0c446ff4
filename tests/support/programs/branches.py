"""Programs that compute or apply gradients in one branch of a conditional.

The missing values of the other branch must not count as an overflow.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.support.programs.loops import means, of_one
from tests.support.programs.registry import apply, data, error, net, program, two_weights


def momentum(gradients, variables):
    """Update the weights, also in steps without gradients, and count the steps."""
    optimizer = tf.train.MomentumOptimizer(0.25, 0.9)
    optimizer.apply_gradients(
        zip(gradients, variables), name="train", global_step=tf.train.get_or_create_global_step()
    )


def rises(x):
    """A predicate that is true for some batches."""
    return x[0, 0] < x[1, 0]


def zeros(variables):
    return lambda: [tf.zeros_like(v) for v in variables]


def by_function(variables):
    """A function that computes gradients."""
    function = tf.function(
        lambda x, y: tuple(tf.gradients(error(net(x, *variables), y), variables))
    )
    return lambda x, y: [tf.reshape(g, v.shape) for g, v in zip(function(x, y), variables)]


@program()
def gradients_on_one_side(clip):
    """tf.cond on the batch around tf.gradients."""
    x, y = data()
    variables = two_weights()
    momentum(
        clip(
            tf.cond(
                rises(x),
                lambda: tf.gradients(error(net(x, *variables), y), variables),
                zeros(variables),
            )
        ),
        variables,
    )


@program()
def gradients_on_sides_of_sides(clip):
    """A tf.cond in a tf.cond."""
    x, y = data()
    variables = two_weights()

    def inner():
        return tf.cond(
            x[0, 1] < 0,
            zeros(variables),
            lambda: tf.gradients(error(net(x, *variables), y), variables),
        )

    momentum(clip(tf.cond(rises(x), inner, zeros(variables))), variables)


@program()
def more_gradients_on_one_side(clip):
    """A second loss, in some steps, for one of the weights."""
    x, y = data()
    variables = two_weights()
    first, second = tf.gradients(error(net(x, *variables), y), variables)
    more = tf.cond(
        rises(x),
        lambda: tf.gradients(error(net(2 * x, *variables), y, "more"), variables)[0],
        lambda: tf.zeros_like(variables[0]),
    )
    momentum(clip([first + 0.1 * more, second]), variables)


@program()
def loop_on_one_side(clip):
    """tf.map_fn over examples, in some steps."""
    x, y = data()
    variables = two_weights()

    def found():
        return means(
            tf.map_fn(
                lambda example: tuple(of_one(variables)(example)),
                (x, y),
                dtype=(tf.float32, tf.float32),
            )
        )

    momentum(clip(tf.cond(rises(x), found, zeros(variables))), variables)


@program(clips=False)
def step_on_one_side_counted_outside(clip):
    """A step in a branch, except a counter and a mean of the batch."""
    x, y = data()
    variables = two_weights()
    count = tf.get_variable("count", (), initializer=tf.initializers.zeros, trainable=False)
    mean = tf.get_variable("mean", (6,), initializer=tf.initializers.zeros, trainable=False)

    def step():
        with tf.control_dependencies(
            [apply(clip(tf.gradients(error(net(x, *variables), y), variables)), variables, "step")]
        ):
            return tf.constant(True)

    done = tf.cond(rises(x), step, lambda: tf.constant(False))
    tf.group(
        done,
        tf.assign_add(count, 1.0),
        tf.assign_sub(mean, 0.1 * (mean - tf.reduce_mean(x, 0))),
        name="train",
    )


@program()
def function_on_either_side(clip):
    """A tf.function that computes gradients, called in both branches."""
    x, y = data()
    variables = two_weights()
    gradients = by_function(variables)
    momentum(clip(tf.cond(rises(x), lambda: gradients(x, y), lambda: gradients(x, -y))), variables)


@program(clips=False)
def function_that_applies_anothers_gradients(clip):
    """A tf.function that calls one that computes gradients; functions can't write references."""
    x, y = data()
    with tf.variable_scope(tf.get_variable_scope(), use_resource=True):
        variables = two_weights()
    gradients = by_function(variables)

    @tf.function
    def step(features, target):
        moved = [
            v.assign_sub(0.25 * g) for v, g in zip(variables, clip(gradients(features, target)))
        ]
        with tf.control_dependencies(moved):
            return tf.constant(True)

    tf.identity(step(x, y), name="train")


@program()
def function_in_a_loop(clip):
    """A tf.function that computes gradients, called by tf.map_fn for selected examples."""
    x, y = data()
    variables = two_weights()
    gradients = by_function(variables)

    def one(example):
        row, target = tf.expand_dims(example[0], 0), example[1]
        return tuple(tf.cond(row[0, 0] > 0, lambda: gradients(row, target), zeros(variables)))

    apply(clip(means(tf.map_fn(one, (x, y), dtype=(tf.float32, tf.float32)))), variables)
