"""Programs whose step has several calls of `tf.gradients`, or names like those of gradient code."""

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


@program()
def plain(clip):
    """The baseline for all others."""
    x, y = data()
    variables = two_weights()
    apply(clip(tf.gradients(error(net(x, *variables), y), variables)), variables)


@program()
def consensus(clip):
    """g + a grad |g|^2."""
    x, y = data()
    variables = two_weights()
    gradients = tf.gradients(error(net(x, *variables), y), variables)
    norm = tf.add_n([tf.reduce_sum(tf.square(g)) for g in gradients]) / 2
    more = tf.gradients(norm, variables)
    apply(clip([g + 0.1 * m for g, m in zip(gradients, more)]), variables)


@program()
def hessian_vector_step(clip):
    """A step corrected by the Hessian times a fixed vector."""
    x, y = data()
    variables = two_weights()
    gradients = tf.gradients(error(net(x, *variables), y), variables)
    product = tf.add_n(
        [tf.reduce_sum(g * tf.constant(0.5, shape=v.shape)) for g, v in zip(gradients, variables)]
    )
    apply(
        clip([g - 0.1 * h for g, h in zip(gradients, tf.gradients(product, variables))]), variables
    )


@program()
def hessian_times_its_gradient(clip):
    """The Hessian times the gradient, which is held constant."""
    x, y = data()
    variables = two_weights()
    gradients = tf.gradients(error(net(x, *variables), y), variables)
    product = tf.add_n([tf.reduce_sum(g * tf.stop_gradient(g)) for g in gradients])
    apply(
        clip([g - 0.1 * h for g, h in zip(gradients, tf.gradients(product, variables))]), variables
    )


@program()
def meta_sgd(clip):
    """Learned rates of an inner step whose gradient is trained through."""
    x, y = data()
    variables = two_weights()
    rates = [weights("rate_%d" % n, *v.shape.as_list()) for n, v in enumerate(variables)]
    inner = tf.gradients(error(net(x, *variables), y, "inner_loss"), variables)
    adapted = [v - r * g for v, r, g in zip(variables, rates, inner)]
    outer = tf.gradients(error(net(x, *adapted), -y), variables + rates)
    total = [o + 0.5 * i for o, i in zip(outer, inner)] + outer[2:]
    apply(clip(total), variables + rates)


@program()
def seeded_by_a_gradient(clip):
    """A product with the first call's gradient is the second call's grad_ys; both train."""
    x, y = data()
    first, second = two_weights()
    hidden = tf.tanh(tf.matmul(x, first))
    by_hidden, by_second = tf.gradients(error(tf.matmul(hidden, second), y), [hidden, second])
    (by_first,) = tf.gradients(hidden, first, grad_ys=by_hidden * (1.0 + tf.square(hidden)))
    apply(clip([by_first, by_second]), [first, second])


@program()
def two_segments(clip):
    """The gradient of the first call is the seed of the second."""
    x, y = data()
    first, second = two_weights()
    hidden = tf.tanh(tf.matmul(x, first))
    by_hidden, by_second = tf.gradients(error(tf.matmul(hidden, second), y), [hidden, second])
    (by_first,) = tf.gradients(hidden, first, grad_ys=by_hidden)
    apply(clip([by_first, by_second]), [first, second])


@program()
def checkpointed_by_hand(clip):
    """Three segments, each recomputed from its input, with a global step."""
    x, y = data()
    parts = [
        weights("part_0", 6, 4),
        weights("part_1", 4, 4),
        weights("part_2", 4, 4),
        weights("out", 4, 1),
    ]
    inputs = [x]
    for part in parts[:-1]:
        inputs.append(tf.stop_gradient(tf.tanh(tf.matmul(inputs[-1], part))))
    by_output, by_out = tf.gradients(
        error(tf.matmul(inputs[-1], parts[-1]), y), [inputs[-1], parts[-1]]
    )
    gradients = [by_out]
    for given, part in reversed(list(zip(inputs[:-1], parts[:-1]))):
        with tf.control_dependencies([by_output]):
            given = tf.identity(given)
        by_output, by_part = tf.gradients(
            tf.tanh(tf.matmul(given, part)), [given, part], grad_ys=by_output
        )
        gradients.insert(0, by_part)
    sgd().apply_gradients(
        zip(clip(gradients), parts), tf.train.get_or_create_global_step(), "train"
    )


@program()
def checkpointed_with_a_shared_weight(clip):
    """All segments share a weight; its gradients are summed."""
    x, y = data()
    first, shared, out = weights("first", 6, 4), weights("shared", 4, 4), weights("out", 4, 1)
    inputs = [tf.tanh(tf.matmul(x, first))]
    for _ in range(3):
        inputs.append(tf.stop_gradient(tf.tanh(tf.matmul(inputs[-1], shared))))
    by_output, by_out = tf.gradients(error(tf.matmul(inputs[-1], out), y), [inputs[-1], out])
    of_shared = []
    for given in reversed(inputs[:-1]):
        again = tf.tanh(tf.matmul(given, shared))
        by_output, by_shared = tf.gradients(again, [given, shared], grad_ys=by_output)
        of_shared.append(by_shared)
    (by_first,) = tf.gradients(inputs[0], first, grad_ys=by_output)
    tf.train.AdamOptimizer(0.1).apply_gradients(
        zip(clip([by_first, tf.add_n(of_shared), by_out]), [first, shared, out]), name="train"
    )


@program()
def glow(clip):
    """Coupling layers that are inverted in the backward pass, so that no activation is kept."""
    x, y = data()
    layers = [weights("coupling_%d" % n, 3, 3) for n in range(3)]

    def couple(pair, weight, back=False):
        left, right = pair
        if back:
            left, right = right, left
            return left, right - tf.tanh(tf.matmul(left, weight))
        return right + tf.tanh(tf.matmul(left, weight)), left

    pair = tuple(tf.split(x, 2, axis=1))
    for layer in layers:
        pair = couple(pair, layer)
    pair = tuple(tf.stop_gradient(half) for half in pair)
    by_pair, gradients = tf.gradients(error(tf.concat(pair, 1), y), pair), []
    for layer in reversed(layers):
        pair = tuple(tf.stop_gradient(half) for half in couple(pair, layer, back=True))
        *by_pair, by_layer = tf.gradients(
            couple(pair, layer), list(pair) + [layer], grad_ys=by_pair
        )
        gradients.insert(0, by_layer)
    apply(clip(gradients), layers)


@program()
def two_losses_one_apply(clip):
    """Beta powers and the global step are written once for both."""
    x, y = data()
    a, b = weights("a", 6, 1), weights("b", 6, 1)
    (by_a,) = tf.gradients(error(tf.matmul(x, a), y, "loss_a"), a)
    (by_b,) = tf.gradients(error(tf.matmul(x, b), -y, "loss_b"), b)
    step = tf.train.get_or_create_global_step()
    tf.train.AdamOptimizer(0.25).apply_gradients(zip(clip([by_a, by_b]), [a, b]), step, "train")


@program()
def two_losses_of_one_weight(clip):
    """Two calls, summed by hand."""
    x, y = data()
    variables = two_weights()
    output = net(x, *variables)
    one = tf.gradients(error(output, y), variables)
    other = tf.gradients(tf.reduce_mean(tf.abs(output)), variables)
    apply(clip([a + 0.5 * b for a, b in zip(one, other)]), variables)


def clipped_below(names, clip):
    x, y = data()
    variables = two_weights()
    optimizer, step = tf.train.AdamOptimizer(0.25), tf.train.get_or_create_global_step()
    pairs = optimizer.compute_gradients(error(net(x, *variables), y), variables)
    own = [
        tf.clip_by_norm(g, 0.3, name=v.op.name + "_grad") if v.op.name in names else g
        for g, v in pairs
    ]
    optimizer.apply_gradients(zip(clip(own), variables), step, "train")


@program(clips=False)
def one_gradient_clipped_below_its_name(clip):
    """One of the gradients passes a scope named like gradient code."""
    clipped_below(["first"], clip)


@program(clips=False)
def gradients_clipped_below_their_names(clip):
    """All gradients pass a scope named like gradient code."""
    clipped_below(["first", "second"], clip)


@program()
def loss_below_a_gradients_name(clip):
    """A scope loss_grad around the loss."""
    x, y = data()
    variables = two_weights()
    output = net(x, *variables)
    with tf.name_scope("loss_grad"):
        loss = error(output, y) * 2.0
    apply(clip(tf.gradients(loss, variables)), variables)


@program(clips=False)
def step_below_a_gradients_name(clip):
    """A scope loss_grad around the processing of the gradients."""
    x, y = data()
    variables = two_weights()
    gradients = tf.gradients(error(net(x, *variables), y), variables)
    with tf.name_scope("loss_grad"):
        gradients = [0.5 * tf.minimum(g, 0.1) for g in gradients]
    apply(clip(gradients), variables)


@program()
def model_below_gradients_names(clip):
    """Layers, the loss and the step are each in a scope named like gradient code."""
    x, y = data()
    with tf.variable_scope("gradients"):
        variables = two_weights()
        with tf.name_scope("hidden_grad"):
            hidden = tf.tanh(tf.matmul(x, variables[0]))
        with tf.name_scope("gradients"):
            output = tf.matmul(hidden, variables[1])
    with tf.name_scope("gradients_1/loss_grad"):
        loss = error(output, y)
    with tf.name_scope("train_grad"):
        gradients = clip(tf.gradients(loss, variables))
        update = apply(gradients, variables, "update_grad")
    tf.group(update, name="train")


@program()
def variables_named_like_gradients(clip):
    """A variable has a name like a gradient's."""
    x, y = data()
    variables = [weights("gradients/MatMul_grad/MatMul", 6, 4), weights("weight_grad", 4, 1)]
    apply(clip(tf.gradients(error(net(x, *variables), y), variables)), variables)


def averaged(clip, use):
    """Averages of the gradients, in variables named as by tf.train.ExponentialMovingAverage."""
    x, y = data()
    variables = two_weights()
    pairs = sgd().compute_gradients(error(net(x, *variables), y), variables)
    gradients, averages = clip([g for g, _ in pairs]), []
    for gradient, (first, v) in zip(gradients, pairs):
        with tf.variable_scope(first.op.name):
            average = tf.get_variable(
                "ExponentialMovingAverage",
                v.shape,
                initializer=tf.initializers.zeros,
                trainable=False,
            )
        averages.append(tf.assign_sub(average, 0.5 * (average - gradient)))
    update = apply([tf.identity(a) for a in averages] if use else gradients, variables, "step")
    tf.group(update, *averages, name="train")


@program()
def averages_of_gradients(clip):
    """Averages kept beside the step."""
    averaged(clip, use=False)


@program()
def step_by_averages_of_gradients(clip):
    """The step uses the averages."""
    averaged(clip, use=True)


@program(clips=False)
def tensorflows_averages_of_gradients(clip):
    """By tf.train.ExponentialMovingAverage."""
    x, y = data()
    variables = two_weights()
    gradients = [g for g, _ in sgd().compute_gradients(error(net(x, *variables), y), variables)]
    average = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([average.apply(gradients)]):
        apply(clip([average.average(g) + 0.5 * g for g in gradients]), variables)
