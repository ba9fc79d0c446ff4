"""Programs whose step writes more than the optimizer's variables.

They write rows, counters, statistics of the batch, and other dtypes.
"""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.support.programs.registry import (
    apply,
    data,
    error,
    net,
    program,
    sgd,
    two_weights,
    weights,
)


def kept(name, *shape, dtype=tf.float32, start=0.0):
    """A variable that is not trained."""
    return tf.get_variable(
        name, shape, dtype, initializer=tf.initializers.constant(start, dtype), trainable=False
    )


def ids(name="ids"):
    return tf.placeholder(tf.int32, (8,) if name == "ids" else (4,), name)


def embedded():
    """A table, the rows of a batch, and a loss of these and of two weights."""
    x, y = data()
    table, second, rows = weights("table", 5, 6), weights("second", 6, 1), ids("rows")
    looked_up = tf.gather(table, rows)
    output = tf.matmul(tf.tanh(looked_up + x[:4]), second)
    return table, second, rows, looked_up, error(output, y[:4])


@program()
def rows_taken_off_by_hand(clip):
    """scatter_nd_sub is the only update."""
    table, _, rows, looked_up, loss = embedded()
    (gradient,) = clip(tf.gradients(loss, [looked_up]))
    tf.group(tf.scatter_nd_sub(table, tf.expand_dims(rows, 1), 0.25 * gradient), name="train")


@program()
def rows_written_by_hand(clip):
    """scatter_nd_update beside an optimizer."""
    table, second, rows, looked_up, loss = embedded()
    by_rows, by_second = clip(tf.gradients(loss, [looked_up, second]))
    written = tf.scatter_nd_update(table, tf.expand_dims(rows, 1), looked_up - 0.25 * by_rows)
    tf.group(written, apply([by_second], [second], "step"), name="train")


@program()
def rows_added_by_hand(clip):
    """scatter_nd_add beside an optimizer."""
    table, second, rows, looked_up, loss = embedded()
    by_rows, by_second = clip(tf.gradients(loss, [looked_up, second]))
    added = tf.scatter_nd_add(table, tf.expand_dims(rows, 1), -0.25 * by_rows)
    tf.group(added, apply([by_second], [second], "step"), name="train")


@program()
def counted_up_to(clip):
    """count_up_to after the update."""
    x, y = data()
    variables, steps = two_weights(), kept("steps", dtype=tf.int32, start=0)
    with tf.control_dependencies(
        [apply(clip(tf.gradients(error(net(x, *variables), y), variables)), variables, "step")]
    ):
        tf.group(tf.count_up_to(steps, 100), name="train")


@program()
def counted_up_to_beside(clip):
    """count_up_to in one group with the update."""
    x, y = data()
    variables, steps = two_weights(), kept("steps", dtype=tf.int32, start=0)
    update = apply(clip(tf.gradients(error(net(x, *variables), y), variables)), variables, "step")
    tf.group(update, tf.count_up_to(steps, 100), name="train")


def centred():
    """Features attracted to centers of classes, and the distances, which move the centers."""
    x, y = data()
    labels, centers = ids(), kept("centers", 5, 4, start=0.25)
    first, second = two_weights()
    features = tf.matmul(x, first)
    away = tf.gather(centers, labels) - features
    loss = error(tf.matmul(features, second), y) + 0.5 * tf.reduce_mean(tf.square(away))
    return [first, second], labels, centers, away, loss


@program(exceptions=["centers"])
def center_loss_ahead(clip):
    """Centers updated before minimize, whose gradients wait for them."""
    variables, labels, centers, away, loss = centred()
    with tf.control_dependencies([tf.scatter_sub(centers, labels, 0.5 * away)]):
        gradients = clip(tf.gradients(loss, variables))
        apply(gradients, variables)


@program()
def center_loss_beside(clip):
    """Centers updated in one group with the weights."""
    variables, labels, centers, away, loss = centred()
    update = apply(clip(tf.gradients(loss, variables)), variables, "step")
    tf.group(update, tf.scatter_sub(centers, labels, 0.5 * away), name="train")


def replayed():
    """The errors of a batch from a replay memory, and its priorities."""
    x, y = data()
    variables, rows, priorities = two_weights(), ids("rows"), kept("priorities", 5)
    wrong = net(x[:4], *variables) - y[:4]
    return (
        variables,
        rows,
        priorities,
        tf.abs(tf.squeeze(wrong, 1)) + 1e-3,
        tf.reduce_mean(tf.square(wrong)),
    )


@program(exceptions=["priorities"])
def priorities_ahead(clip):
    """Priorities of a replay memory, written before the gradients are computed."""
    variables, rows, priorities, found, loss = replayed()
    with tf.control_dependencies([tf.scatter_update(priorities, rows, found)]):
        gradients = clip(tf.gradients(loss, variables))
        apply(gradients, variables)


@program()
def priorities_after(clip):
    """Priorities of a replay memory, written after the update."""
    variables, rows, priorities, found, loss = replayed()
    with tf.control_dependencies([apply(clip(tf.gradients(loss, variables)), variables, "step")]):
        tf.group(tf.scatter_update(priorities, rows, found), name="train")


def measured():
    x, y = data()
    variables = two_weights()
    hidden = tf.matmul(x, variables[0])
    return variables, hidden, error(tf.matmul(tf.tanh(hidden), variables[1]), y)


@program()
def statistics_beside(clip):
    """The mean of the activations and their count, in one group with the update."""
    variables, hidden, loss = measured()
    mean, count = kept("mean", 4), kept("count")
    update = apply(clip(tf.gradients(loss, variables)), variables, "step")
    counted = tf.assign_add(count, tf.cast(tf.shape(hidden)[0], tf.float32))
    tf.group(update, tf.assign_add(mean, tf.reduce_mean(hidden, 0)), counted, name="train")


@program(exceptions=["mean count"])
def statistics_ahead(clip):
    """The same before the gradients; neither is written without the other."""
    variables, hidden, loss = measured()
    mean, count = kept("mean", 4), kept("count")
    counted = tf.assign_add(count, tf.cast(tf.shape(hidden)[0], tf.float32))
    with tf.control_dependencies([tf.assign_add(mean, tf.reduce_mean(hidden, 0)), counted]):
        gradients = clip(tf.gradients(loss, variables))
        apply(gradients, variables)


@program()
def codebook_by_moving_averages(clip):
    """A codebook: the moving average of the values of each code over that of their count."""
    variables, hidden, loss = measured()
    book, sums, counts = (
        kept("book", 3, 4, start=0.1),
        kept("sums", 3, 4, start=0.1),
        kept("counts", 3, start=1.0),
    )
    away = tf.reduce_sum(tf.square(tf.expand_dims(hidden, 1) - tf.expand_dims(book, 0)), 2)
    chosen = tf.one_hot(tf.argmin(away, 1), 3)
    update = apply(clip(tf.gradients(loss, variables)), variables, "step")
    counted = tf.assign_sub(counts, 0.5 * (counts - tf.reduce_sum(chosen, 0)))
    summed = tf.assign_sub(sums, 0.5 * (sums - tf.matmul(chosen, hidden, transpose_a=True)))
    tf.group(update, tf.assign(book, summed / tf.expand_dims(counted + 1e-5, 1)), name="train")


@program(exceptions=["net/mean net/variance"])
def batch_normalisation(clip):
    """Moving averages by UPDATE_OPS, before the update."""
    x, y = data()
    first, second = two_weights()
    hidden = tf.matmul(x, first)
    with tf.variable_scope("net"):
        mean, variance = kept("mean", 4), kept("variance", 4, start=1.0)
    of_batch = tf.nn.moments(hidden, [0])
    for average, value in zip((mean, variance), of_batch):
        tf.add_to_collection(
            tf.GraphKeys.UPDATE_OPS, tf.assign_sub(average, 0.5 * (average - value))
        )
    output = tf.matmul(tf.nn.batch_normalization(hidden, *of_batch, None, None, 1e-3), second)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        gradients = clip(tf.gradients(error(output, y), [first, second]))
        apply(gradients, [first, second])


@program()
def two_dtypes(clip):
    """The last layer is float64."""
    x, y = data()
    first = weights("first", 6, 4)
    second = tf.get_variable(
        "second",
        (4, 1),
        tf.float64,
        initializer=tf.initializers.constant([[0.5], [-0.25], [0.125], [1.0]]),
    )
    output = tf.matmul(tf.cast(tf.tanh(tf.matmul(x, first)), tf.float64), second)
    loss = tf.reduce_mean(tf.square(output - tf.cast(y, tf.float64)))
    apply(clip(tf.gradients(loss, [first, second])), [first, second])


@program()
def accumulated(clip):
    """Gradients summed over two steps, applied and reset in every second one, by tf.cond."""
    x, y = data()
    variables, turn = two_weights(), kept("turn", dtype=tf.int32, start=0)
    gradients = clip(tf.gradients(error(net(x, *variables), y), variables))
    sums = [kept("sum_%d" % n, *v.shape.as_list()) for n, v in enumerate(variables)]
    added = [tf.assign_add(s, g) for s, g in zip(sums, gradients)]

    def step():
        with tf.control_dependencies(
            [sgd().apply_gradients(zip([tf.identity(s) for s in sums], variables))]
        ):
            return tf.group(*[tf.assign(s, tf.zeros_like(s)) for s in sums])

    with tf.control_dependencies(added + [tf.assign_add(turn, 1)]):
        applied = tf.cond(tf.equal(turn.read_value() % 2, 0), step, tf.no_op)
    tf.group(applied, name="train")
