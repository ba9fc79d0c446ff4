"""Published methods that add something to a step besides its loss and its optimizer."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from tests.support.programs.optimizers import model
from tests.support.programs.registry import (
    apply,
    data,
    error,
    net,
    program,
    sgd,
    taken,
    two_weights,
    weights,
)
from tests.support.programs.state import embedded, ids, kept


def copies_of(variables, prefix):
    """Variables of the same shapes that are not trained."""
    return [kept(prefix + v.op.name, *v.shape.as_list(), start=0.25) for v in variables]


@program()
def smoothed_labels(clip):
    """Labels smoothed by class counts, which a scatter updates after the weights."""
    x, _ = data()
    labels, counts, variables = ids(), kept("counts", 5, start=1.0), two_weights(width=5)
    smooth = 0.9 * tf.one_hot(labels, 5) + 0.1 * counts / tf.reduce_sum(counts)
    losses = tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.stop_gradient(smooth), logits=net(x, *variables)
    )
    update = apply(clip(tf.gradients(error(losses, 0.0), variables)), variables, "step")
    with tf.control_dependencies([update]):
        tf.group(tf.scatter_add(counts, labels, tf.ones((8,))), name="train")


@program()
def mean_teacher(clip):
    """A teacher, the moving average of the student, gives the targets for noisy data."""
    x, y = data()
    variables = two_weights()
    teacher = copies_of(variables, "teacher_")
    noisy = net(x + 0.1 * tf.sin(7.0 * x), *variables)
    loss = error(noisy, y) + 0.5 * tf.reduce_mean(
        tf.square(noisy - tf.stop_gradient(net(x, *teacher)))
    )
    with tf.control_dependencies([apply(clip(tf.gradients(loss, variables)), variables, "step")]):
        tf.group(
            *[tf.assign(t, 0.9 * t + 0.1 * v.read_value()) for t, v in zip(teacher, variables)],
            name="train",
        )


@program()
def soft_target_update(clip):
    """A target network that is updated in the same group as the weights."""
    x, y = data()
    variables = two_weights()
    target = copies_of(variables, "target_")
    wanted = y + 0.9 * tf.stop_gradient(net(-x, *target))
    gradients = clip(tf.gradients(error(net(x, *variables), wanted), variables))
    with tf.control_dependencies(gradients):
        away = tf.tuple([0.1 * (t - tf.identity(v)) for t, v in zip(target, variables)])
    with tf.control_dependencies(away):
        gradients = [tf.identity(g) for g in gradients]
    tf.group(
        apply(gradients, variables, "step"),
        *[tf.assign_sub(t, a) for t, a in zip(target, away)],
        name="train",
    )


@program()
def variance_reduced(clip):
    """SVRG: the gradients, minus those at a snapshot, plus their stored mean."""
    x, y = data()
    variables = two_weights()
    snapshot, mean = copies_of(variables, "snapshot_"), copies_of(variables, "mean_")
    here = tf.gradients(error(net(x, *variables), y), variables)
    there = tf.gradients(error(net(x, *snapshot), y, "there"), snapshot)
    apply(clip([g - old + m for g, old, m in zip(here, there, mean)]), variables)


@program(clips=False)
def averaged_gradients_of_groups(clip):
    """SAGA: a table has the last gradient of each of three groups, indexed by the batch's group."""
    x, y = data()
    variables, group = two_weights(), ids()[0] % 3
    tables = [kept("table_" + v.op.name, 3, *v.shape.as_list()) for v in variables]
    gradients = clip(tf.gradients(error(net(x, *variables), y), variables))
    olds = [tf.gather(table, group) for table in tables]
    steps = [g - old + tf.reduce_mean(table, 0) for g, old, table in zip(gradients, olds, tables)]
    with tf.control_dependencies(steps):
        steps = [tf.identity(step) for step in steps]
        written = [
            tf.scatter_update(table, [group], tf.expand_dims(g, 0))
            for table, g in zip(tables, gradients)
        ]
    tf.group(apply(steps, variables, "step"), *written, name="train")


@program(clips=False)
def natural_gradient(clip):
    """Two steps of conjugate gradients, each with a Gauss-Newton matrix-vector product."""
    variables, loss = model()
    gradients = clip(tf.gradients(loss, variables))

    def product(vector):
        along = tf.add_n(
            [tf.reduce_sum(g * tf.stop_gradient(v)) for g, v in zip(gradients, vector)]
        )
        return [h + 2.0 * v for h, v in zip(tf.gradients(along, variables), vector)]

    def dot(one, other):
        return tf.add_n([tf.reduce_sum(a * b) for a, b in zip(one, other)])

    found, left = [tf.zeros_like(g) for g in gradients], list(gradients)
    along = list(left)
    for _ in range(2):
        turned = product(along)
        size = dot(left, left) / (dot(along, turned) + 1e-6)
        found = [f + size * a for f, a in zip(found, along)]
        after = [r - size * t for r, t in zip(left, turned)]
        along = [r + dot(after, after) / (dot(left, left) + 1e-6) * a for r, a in zip(after, along)]
        left = after
    apply(found, variables)


@program()
def gradient_of_a_clipped_gradient(clip):
    """A penalty on a clipped gradient."""
    x, y = data()
    variables = two_weights()
    output = net(x, *variables)
    inner = tf.clip_by_norm(tf.gradients(tf.reduce_sum(output), x)[0], 0.5)
    apply(
        clip(tf.gradients(error(output, y) + 0.5 * tf.reduce_mean(tf.square(inner)), variables)),
        variables,
    )


@program()
def elastic_averaging(clip):
    """EASGD: weights and their center attract each other."""
    x, y = data()
    variables = two_weights()
    centers = copies_of(variables, "center_")
    gradients = clip(tf.gradients(error(net(x, *variables), y), variables))
    away = tf.tuple([0.1 * (tf.identity(v) - c) for v, c in zip(variables, centers)])
    step = apply([g + 4.0 * a for g, a in zip(gradients, away)], variables, "step")
    tf.group(step, *[tf.assign_add(c, a) for c, a in zip(centers, away)], name="train")


@program(clips=False)
def layerwise_rates(clip):
    """LARS by hand: the length of each weight's step is a fraction of the weight's norm."""
    variables, loss = model()
    gradients = clip(tf.gradients(loss, variables))
    trust = [0.1 * tf.norm(v) / (tf.norm(g) + 1e-3) for v, g in zip(variables, gradients)]
    tf.group(
        *[tf.assign_sub(v, t * (g + 0.01 * v)) for v, g, t in zip(variables, gradients, trust)],
        name="train",
    )


@program(clips=False)
def factored_moments(clip):
    """Adafactor by hand: row and column statistics of the squared gradients."""
    variables, loss = model()
    written = []
    for v, g in zip(variables, clip(tf.gradients(loss, variables))):
        rows, columns = (
            kept("rows_" + v.op.name, v.shape[0].value, start=0.1),
            kept("columns_" + v.op.name, v.shape[1].value, start=0.1),
        )
        new_rows = 0.9 * rows + 0.1 * tf.reduce_mean(tf.square(g) + 1e-3, 1)
        new_columns = 0.9 * columns + 0.1 * tf.reduce_mean(tf.square(g) + 1e-3, 0)
        scale = tf.expand_dims(new_rows / tf.reduce_mean(new_rows), 1) * tf.expand_dims(
            new_columns, 0
        )
        written += [
            tf.assign_sub(v, 0.05 * g * tf.rsqrt(scale)),
            tf.assign(rows, new_rows),
            tf.assign(columns, new_columns),
        ]
    tf.group(*written, name="train")


@program(exceptions=["direction"])
def spectral_norm(clip):
    """A weight divided by its largest singular value.

    The vector of the power iteration is assigned before the gradients are computed.
    """
    x, y = data()
    first, second = two_weights()
    direction = kept("direction", 1, 4, start=0.5)
    left = tf.nn.l2_normalize(tf.matmul(direction, first, transpose_b=True))
    right = tf.nn.l2_normalize(tf.matmul(left, first))
    largest = tf.reduce_sum(tf.matmul(tf.stop_gradient(left), first) * tf.stop_gradient(right))
    with tf.control_dependencies([tf.assign(direction, right)]):
        weight = first / largest
    apply(clip(tf.gradients(error(net(x, weight, second), y), [first, second])), [first, second])


@program()
def reversed_gradient(clip):
    """A domain classifier trained on features that are trained against it."""
    x, y = data()
    first, second, domain = weights("first", 6, 4), weights("second", 4, 1), weights("domain", 4, 1)

    @tf.custom_gradient
    def reverse(value):
        return tf.identity(value), lambda given: -0.3 * given

    hidden = tf.tanh(tf.matmul(x, first))
    loss = error(tf.matmul(hidden, second), y) + tf.reduce_mean(
        tf.square(tf.matmul(reverse(hidden), domain) - 1.0)
    )
    apply(clip(tf.gradients(loss, [first, second, domain])), [first, second, domain])


@program()
def two_optimizers_of_one_list(clip):
    """Half of the step by each of two optimizers in sequence."""
    variables, loss = model()
    gradients = clip(tf.gradients(loss, variables))
    with tf.control_dependencies([apply(gradients, variables, "first_half", 0.1)]):
        tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients(
            zip(gradients, variables), name="train"
        )


@program(clips=False)
def sparse_and_decayed(clip):
    """An optimizer for the rows of a table, and decay of the whole table in the same step."""
    table, second, _, _, loss = embedded()
    by_table, by_second = tf.gradients(loss, [table, second])
    with tf.control_dependencies([by_table.values, by_second]):
        decayed = tf.assign_sub(table, 0.01 * table)
    with tf.control_dependencies([decayed]):
        values = tf.identity(by_table.values)
        sparse = tf.IndexedSlices(values, by_table.indices, by_table.dense_shape)
        sgd().apply_gradients([(sparse, table), (tf.identity(by_second), second)], name="train")


@program(clips=False)
def unique_rows(clip):
    """Gradients of equal rows summed by hand, with tf.unique."""
    table, second, rows, looked_up, loss = embedded()
    by_rows, by_second = taken(
        tf.gradients(loss, [looked_up, second])
    )  # the rows' gradient reads the second variable, which the step writes
    unique, places = tf.unique(rows)
    summed = tf.unsorted_segment_sum(by_rows, places, tf.size(unique))
    update = apply([by_second], [second], "step")
    tf.group(update, tf.scatter_sub(table, unique, 0.25 * summed), name="train")


@program(clips=False)
def noise_of_a_population(clip):
    """Weights with added noise that is proportional to the gradients."""
    variables, loss = model()
    sizes = [kept("size_" + v.op.name, start=0.1) for v in variables]
    gradients = clip(tf.gradients(loss, variables))
    moved = [g + s * tf.sin(100.0 * v) for g, s, v in zip(gradients, sizes, variables)]
    with tf.control_dependencies([apply(moved, variables, "step")]):
        tf.group(
            *[tf.assign(s, 0.9 * s + 0.1 * tf.norm(g)) for s, g in zip(sizes, gradients)],
            name="train",
        )
