"""Programs that compute gradients in a loop and apply them after it.

An iteration computes those of one example, task or part of the batch.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.support.programs.registry import apply, data, error, net, program, two_weights, weights


def of_one(variables):
    """A function that computes the gradients of one example."""

    def one(example):
        features, target = example
        return tf.gradients(error(net(tf.expand_dims(features, 0), *variables), target), variables)

    return one


def means(found):
    return [tf.reduce_mean(g, 0) for g in found]


@program()
def per_example_gradients_in_a_loop(clip):
    """By tf.map_fn, each example's clipped."""
    x, y = data()
    variables = two_weights()
    one = of_one(variables)
    found = tf.map_fn(
        lambda example: tuple(tf.clip_by_global_norm(one(example), 0.5)[0]),
        (x, y),
        dtype=(tf.float32, tf.float32),
    )
    apply(clip(means(found)), variables)


@program()
def per_example_gradients_clipped_outside(clip):
    """By tf.map_fn; clipped by their norms outside."""
    x, y = data()
    variables = two_weights()
    found = tf.map_fn(
        lambda example: tuple(of_one(variables)(example)), (x, y), dtype=(tf.float32, tf.float32)
    )
    norms = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(g), [1, 2]) for g in found]))
    apply(
        clip(means([g * tf.reshape(tf.minimum(1.0, 0.5 / norms), (8, 1, 1)) for g in found])),
        variables,
    )


@program()
def gradients_added_by_scan(clip):
    """tf.scan, whose last row is the sum."""
    x, y = data()
    variables = two_weights()
    one = of_one(variables)
    found = tf.scan(
        lambda sums, example: tuple(s + g for s, g in zip(sums, one(example))),
        (x, y),
        tuple(map(tf.zeros_like, variables)),
    )
    apply(clip([g[-1] / 8 for g in found]), variables)


@program()
def gradients_of_parts_added_in_a_loop(clip):
    """tf.while_loop over parts of the batch: the sum is a loop variable, losses an array."""
    x, y = data()
    variables = two_weights()
    losses = tf.TensorArray(tf.float32, 4, element_shape=())

    def body(turn, losses, *sums):
        loss = error(net(x[2 * turn : 2 * turn + 2], *variables), y[2 * turn : 2 * turn + 2])
        gradients = tf.gradients(loss, variables)
        return (turn + 1, losses.write(turn, loss), *[s + g / 4 for s, g in zip(sums, gradients)])

    _, losses, *sums = tf.while_loop(
        lambda turn, *_: turn < 4, body, [0, losses, *map(tf.zeros_like, variables)]
    )
    tf.reduce_mean(losses.stack(), name="mean_loss")
    apply(clip(sums), variables)


@program()
def descended_in_a_loop(clip):
    """Reptile: a few steps on copies in a loop; the weights move in their direction."""
    x, y = data()
    variables = two_weights()

    def body(turn, *fast):
        gradients = tf.gradients(
            error(net(x[2 * turn : 2 * turn + 2], *fast), y[2 * turn : 2 * turn + 2]), list(fast)
        )
        return (turn + 1, *[v - 0.2 * g for v, g in zip(fast, gradients)])

    _, *fast = tf.while_loop(
        lambda turn, *_: turn < 3, body, [0, *[tf.identity(v) for v in variables]]
    )
    apply(clip([v - f for v, f in zip(variables, fast)]), variables)


@program()
def per_example_gradient_penalty(clip):
    """By tf.map_fn, gradients of gradients in the loop."""
    x, y = data()
    variables = two_weights()

    def one(example):
        features, target = tf.expand_dims(example[0], 0), example[1]
        output = net(features, *variables)
        (slope,) = tf.gradients(output, features)
        return tuple(
            tf.gradients(error(output, target) + 0.1 * tf.reduce_sum(tf.square(slope)), variables)
        )

    apply(clip(means(tf.map_fn(one, (x, y), dtype=(tf.float32, tf.float32)))), variables)


@program()
def slopes_in_a_loop(clip):
    """By tf.map_fn, gradients with respect to the inputs, differentiated through the loop."""
    x, y = data()
    variables = two_weights()
    slopes = tf.map_fn(lambda row: tf.gradients(net(tf.expand_dims(row, 0), *variables), row)[0], x)
    loss = error(net(x, *variables), y) + 0.1 * tf.reduce_mean(tf.square(slopes))
    apply(clip(tf.gradients(loss, variables)), variables)


@program()
def maml_in_a_loop(clip):
    """Inner steps by tf.while_loop, differentiated through."""
    x, y = data()
    variables = two_weights()

    def body(turn, *fast):
        gradients = tf.gradients(error(net(x[:4], *fast), y[:4]), list(fast))
        return (turn + 1, *[v - 0.2 * g for v, g in zip(fast, gradients)])

    _, *fast = tf.while_loop(
        lambda turn, *_: turn < 2, body, [0, *[tf.identity(v) for v in variables]]
    )
    apply(clip(tf.gradients(error(net(x[4:], *fast), y[4:], "outer"), variables)), variables)


def adapted_to(variables):
    """A function that returns a task's loss after an inner step."""

    def of_task(task):
        x, y = task
        inner = tf.gradients(error(net(x[:2], *variables), y[:2]), variables)
        return error(net(x[2:], *[v - 0.2 * g for v, g in zip(variables, inner)]), y[2:])

    return of_task


def tasks():
    x, y = data()
    return tf.reshape(x, (2, 4, 6)), tf.reshape(y, (2, 4, 1))


@program()
def maml_of_tasks(clip):
    """By tf.map_fn over tasks, differentiated through the loop."""
    variables = two_weights()
    losses = tf.map_fn(adapted_to(variables), tasks(), dtype=tf.float32)
    apply(clip(tf.gradients(tf.reduce_mean(losses), variables)), variables)


@program()
def maml_of_tasks_differentiated_in_the_loop(clip):
    """By tf.map_fn over tasks, with the outer gradients in the loop."""
    variables = two_weights()
    found = tf.map_fn(
        lambda task: tuple(tf.gradients(adapted_to(variables)(task), variables)),
        tasks(),
        dtype=(tf.float32, tf.float32),
    )
    apply(clip(means(found)), variables)


@program()
def per_example_gradients_of_tasks(clip):
    """A tf.map_fn in a tf.map_fn."""
    variables = two_weights()
    one = of_one(variables)
    found = tf.map_fn(
        lambda task: tuple(
            means(
                tf.map_fn(lambda example: tuple(one(example)), task, dtype=(tf.float32, tf.float32))
            )
        ),
        tasks(),
        dtype=(tf.float32, tf.float32),
    )
    apply(clip(means(found)), variables)


@program()
def gradients_of_chosen_examples(clip):
    """By tf.map_fn, in a branch: gradients of selected examples only."""
    x, y = data()
    variables = two_weights()

    def one(example):
        return tf.cond(
            example[0][0] > 0,
            lambda: of_one(variables)(example),
            lambda: [tf.zeros_like(v) for v in variables],
        )

    found = tf.map_fn(lambda example: tuple(one(example)), (x, y), dtype=(tf.float32, tf.float32))
    apply(clip(means(found)), variables)


@program()
def per_example_gradients_of_a_recurrent_layer(clip):
    """By tf.map_fn, with a tf.while_loop in the loop."""
    x, y = data()
    variables = [weights("first", 6, 4), weights("again", 4, 4), weights("second", 4, 1)]

    def one(example):
        start = tf.tanh(tf.matmul(tf.expand_dims(example[0], 0), variables[0]))
        _, last = tf.while_loop(
            lambda turn, _: turn < 3,
            lambda turn, s: (turn + 1, tf.tanh(tf.matmul(s, variables[1]))),
            (0, start),
        )
        return tuple(tf.gradients(error(tf.matmul(last, variables[2]), example[1]), variables))

    apply(clip(means(tf.map_fn(one, (x, y), dtype=(tf.float32,) * 3))), variables)


@program()
def of_a_loop_and_of_none(clip):
    """The sum of gradients of one loss from a tf.map_fn, and of another from outside."""
    x, y = data()
    variables = two_weights()
    found = tf.map_fn(
        lambda example: tuple(of_one(variables)(example)),
        (x[:4], y[:4]),
        dtype=(tf.float32, tf.float32),
    )
    whole = tf.gradients(error(net(x[4:], *variables), y[4:], "whole"), variables)
    apply(clip([g + w for g, w in zip(means(found), whole)]), variables)


@program(clips=False)
def per_example_gradients_vectorized(clip):
    """By tf.vectorized_map, which leaves no loop."""
    x, y = data()
    variables = two_weights()
    found = tf.vectorized_map(lambda example: tuple(of_one(variables)(example)), (x, y))
    apply(clip(means(found)), variables)


@program(clips=False)
def written_by_hand_behind_a_loop(clip):
    """By tf.map_fn, subtracted by assign_sub."""
    x, y = data()
    variables = two_weights()
    found = tf.map_fn(
        lambda example: tuple(of_one(variables)(example)), (x, y), dtype=(tf.float32, tf.float32)
    )
    tf.group(
        *[tf.assign_sub(v, 0.25 * g) for v, g in zip(variables, clip(means(found)))], name="train"
    )


@program()
def per_example_gradients_of_losses_outside(clip):
    """Differential privacy: a tf.while_loop over the losses of examples, computed outside.

    It computes the gradients of each loss, clips them and sums them up.
    """
    x, y = data()
    variables = two_weights()
    losses = tf.reduce_mean(tf.square(net(x, *variables) - y), 1)
    optimizer = tf.train.GradientDescentOptimizer(0.25)

    def body(turn, *sums):
        loss = error(tf.sqrt(tf.gather(losses, [turn]) + 1e-3), 0.0)
        gradients = [g for g, _ in optimizer.compute_gradients(loss, variables)]
        clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
        return (turn + 1, *[s + g for s, g in zip(sums, clipped)])

    _, *sums = tf.while_loop(lambda turn, *_: turn < 8, body, [0, *map(tf.zeros_like, variables)])
    optimizer.apply_gradients(zip(clip([s / 8 for s in sums]), variables), name="train")


@program()
def per_example_gradients_where_asked_for(clip):
    """By tf.map_fn, in a branch of the graph."""
    x, y = data()
    variables = two_weights()

    def step():
        found = tf.map_fn(
            lambda example: tuple(of_one(variables)(example)),
            (x, y),
            dtype=(tf.float32, tf.float32),
        )
        with tf.control_dependencies([apply(clip(means(found)), variables, "step")]):
            return tf.constant(True)

    tf.identity(tf.cond(x[0, 0] < 100, step, lambda: tf.constant(False)), name="train")
