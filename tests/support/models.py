"""Small training models, one for each common form of code: a build function and its batch."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from tests.support.hand_written import AdamWeightDecay

RNG = np.random.RandomState(0)
VECTORS = RNG.rand(8, 12).astype(np.float32)
TARGETS = RNG.rand(8, 1).astype(np.float32)
PICTURES = RNG.rand(8, 8, 8, 3).astype(np.float32)
CLASSES = RNG.randint(0, 5, 8)
IDS = RNG.randint(0, 20, (8, 4))


def vectors():
    return tf.placeholder(tf.float32, (None, 12), name="x"), tf.placeholder(
        tf.float32, (None, 1), name="y"
    )


def pictures():
    return tf.placeholder(tf.float32, (None, 8, 8, 3), name="x"), tf.placeholder(
        tf.int32, (None,), name="y"
    )


def two_layers(x, activation=tf.nn.relu):
    return tf.layers.dense(tf.layers.dense(x, 16, activation=activation), 1)


def regression(decorate):
    """A loss by hand, with the optimizer inside."""

    @decorate
    def build(x, y):
        loss = tf.reduce_mean(tf.square(two_layers(x) - y))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def loss_returned(decorate):
    """The commonest form: the loss is returned, and the optimizer is outside."""

    @decorate
    def build(x, y):
        return tf.reduce_mean(tf.square(two_layers(x) - y))

    x, y = vectors()
    loss = build(x, y)
    train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(
        loss, global_step=tf.train.get_or_create_global_step()
    )
    return loss, train, (x, y)


def logits_returned(decorate):
    """Loss and optimizer outside."""

    @decorate
    def build(x):
        return two_layers(x)

    x, y = vectors()
    loss = tf.losses.mean_squared_error(y, build(x))
    return loss, tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss), (x, y)


def raw_variables(decorate):
    """tf.Variable, and tf.get_variable with its default dtype."""

    @decorate
    def build(x, y):
        w = tf.Variable(tf.truncated_normal([12, 16], stddev=0.1), name="w")
        b = tf.Variable(tf.zeros([16]), name="b")
        u, c = (
            tf.Variable(tf.truncated_normal([16, 16], stddev=0.1), name="u"),
            tf.Variable(tf.zeros([16]), name="c"),
        )
        v = tf.get_variable("v", [16, 1])
        h = tf.nn.relu(tf.nn.bias_add(tf.matmul(tf.nn.relu(tf.matmul(x, w) + b), u), c))
        loss = tf.losses.mean_squared_error(y, tf.matmul(h, v)) + 1e-3 * tf.nn.l2_loss(w)
        with tf.control_dependencies([loss]):  # or the penalty may read the weight after its update
            return loss, tf.train.RMSPropOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def regularised(decorate):
    """Regularisers of layers and of a variable scope, summed by get_total_loss."""

    @decorate
    def build(x, y):
        h = tf.layers.flatten(
            tf.layers.conv2d(x, 8, 3, activation=tf.nn.relu, kernel_regularizer=tf.nn.l2_loss)
        )
        with tf.variable_scope("scope", regularizer=lambda w: 1e-3 * tf.reduce_sum(w * w)):
            h = tf.layers.dense(h, 5)
        tf.losses.sparse_softmax_cross_entropy(y, h)
        loss = tf.losses.get_total_loss()
        with tf.control_dependencies(
            [loss]
        ):  # or the penalties may read the weights after their update
            return loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss)

    x, y = pictures()
    return build(x, y) + ((x, y),)


def batch_norm(decorate, fused=True):
    """UPDATE_OPS before the train op; a mean in the middle of the network."""

    @decorate
    def build(x, y):
        h = tf.nn.relu(
            tf.layers.batch_normalization(
                tf.layers.conv2d(x, 8, 3, use_bias=False), training=True, fused=fused
            )
        )
        h = tf.layers.dense(tf.reduce_mean(tf.layers.conv2d(h, 8, 3), [1, 2]), 5)
        loss = tf.losses.sparse_softmax_cross_entropy(y, h)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return loss, tf.train.AdamOptimizer(0.01).minimize(
                loss, tf.train.get_or_create_global_step()
            )

    x, y = pictures()
    return build(x, y) + ((x, y),)


def unfused_batch_norm(decorate):
    """Batch normalisation by elementwise ops."""
    return batch_norm(decorate, fused=False)


def towers(decorate):
    """Two towers share variables; their gradients are averaged."""

    @decorate
    def build(x, y):
        h = tf.layers.dense(x, 16, activation=tf.nn.relu, name="a")
        return tf.losses.mean_squared_error(y, tf.layers.dense(h, 1, name="b"))

    x, y = vectors()
    optimizer, losses, gradients = tf.train.MomentumOptimizer(0.01, 0.9), [], []
    for tower in range(2):
        with tf.variable_scope("", reuse=tower > 0), tf.name_scope("tower%d" % tower):
            losses.append(build(x, y))
            gradients.append(optimizer.compute_gradients(losses[-1]))
    averaged = [((first[0] + second[0]) / 2.0, first[1]) for first, second in zip(*gradients)]
    return tf.add_n(losses), optimizer.apply_gradients(averaged), (x, y)


def gan(decorate):
    """Two losses, two optimizers, two sets of variables."""

    def net(x, name):
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            return tf.layers.dense(tf.layers.dense(x, 8, tf.nn.relu, name="1"), 1, name="2")

    def cross_entropy(logits, labels):
        return tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=labels(logits))
        )

    @decorate
    def build(z, real):
        d_real, d_fake = net(real, "D"), net(net(z, "G"), "D")
        d_loss = cross_entropy(d_real, tf.ones_like) + cross_entropy(d_fake, tf.zeros_like)
        g_loss = cross_entropy(d_fake, tf.ones_like)
        d_train = tf.train.AdamOptimizer(0.01, name="DAdam").minimize(
            d_loss, var_list=tf.trainable_variables("D")
        )
        g_train = tf.train.AdamOptimizer(0.01, name="GAdam").minimize(
            g_loss, var_list=tf.trainable_variables("G")
        )
        return d_loss + g_loss, tf.group(d_train, g_train)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def gradients_by_hand(decorate):
    """tf.gradients, clip, apply_gradients."""

    @decorate
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, two_layers(x, tf.nn.tanh))
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        train = tf.train.GradientDescentOptimizer(0.1).apply_gradients(
            zip(gradients, variables), global_step=tf.train.get_or_create_global_step()
        )
        return loss, train

    x, y = vectors()
    return build(x, y) + ((x, y),)


def recurrent(decorate, dynamic=False):
    """An LSTM, unrolled."""

    @decorate
    def build(x, y):
        cell, steps = tf.nn.rnn_cell.BasicLSTMCell(8), tf.reshape(x, [-1, 4, 3])
        if dynamic:
            last = tf.nn.dynamic_rnn(cell, steps, dtype=steps.dtype)[0][:, -1]
        else:
            last = tf.nn.static_rnn(cell, tf.unstack(steps, axis=1), dtype=steps.dtype)[0][-1]
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(last, 1))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def recurrent_loop(decorate):
    """An LSTM in a while loop, with TensorArrays."""
    return recurrent(decorate, dynamic=True)


def embedding(decorate):
    """An embedding lookup: sparse gradients."""

    @decorate
    def build(ids, y):
        rows = tf.nn.embedding_lookup(tf.get_variable("table", [20, 8]), ids)
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(tf.reshape(rows, [-1, 32]), 1))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    ids, y = tf.placeholder(tf.int32, (None, 4)), tf.placeholder(tf.float32, (None, 1))
    return build(ids, y) + ((ids, y),)


def float64(decorate):
    """float64 throughout."""

    @decorate
    def build(x, y):
        loss = tf.reduce_mean(tf.square(two_layers(x) - y))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = tf.placeholder(tf.float64, (None, 12)), tf.placeholder(tf.float64, (None, 1))
    return build(x, y) + ((x, y),)


def hand_written_optimizer(decorate):
    """An optimizer that overrides apply_gradients and assigns by hand, as BERT's does."""

    @decorate
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, two_layers(x))
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        train = AdamWeightDecay(0.01).apply_gradients(zip(gradients, variables))
        step = tf.train.get_or_create_global_step()
        return loss, tf.group(train, step.assign(step + 1))

    x, y = vectors()
    return build(x, y) + ((x, y),)


def accumulated(decorate):
    """Gradients accumulated in variables and applied from there."""

    @decorate
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, two_layers(x))
        optimizer = tf.train.AdamOptimizer(0.01)
        pairs = optimizer.compute_gradients(loss)
        sums = [tf.Variable(tf.zeros(v.shape), trainable=False, name="sum") for _, v in pairs]
        added = [s.assign_add(g) for s, (g, _) in zip(sums, pairs)]
        with tf.control_dependencies(added):
            return loss, optimizer.apply_gradients(
                [(tf.identity(s), v) for s, (_, v) in zip(sums, pairs)]
            )

    x, y = vectors()
    return build(x, y) + ((x, y),)


def tensors_from_outside(decorate):
    """The function uses tensors that are not its arguments."""
    x, y = vectors()
    weight = tf.placeholder_with_default(0.9, ())

    @decorate
    def build(x):
        loss = tf.losses.mean_squared_error(y, two_layers(x)) * weight
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    return build(x) + ((x, y),)


def layers_from_outside(decorate):
    """Layer objects made before the call."""
    first, second = tf.layers.Dense(8, tf.nn.relu), tf.layers.Dense(1)

    @decorate
    def build(x, y):
        loss = tf.losses.mean_squared_error(y, second(first(x)))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def partitioned(decorate):
    """Partitioned variables."""

    @decorate
    def build(x, y):
        with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
            h = tf.layers.dense(tf.layers.dense(x, 8, tf.nn.relu), 2)
        loss = tf.losses.mean_squared_error(y, h[:, :1])
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def called_twice(decorate):
    """Two calls in one graph, without reuse."""

    @decorate
    def build(x, y):
        return tf.losses.mean_squared_error(y, two_layers(x))

    x, y = vectors()
    loss = build(x, y) + build(x, y)
    return loss, tf.train.AdamOptimizer(0.01).minimize(loss), (x, y)


def resource_variables(decorate):
    """Resource variables."""

    @decorate
    def build(x, y):
        with tf.variable_scope("resources", use_resource=True):
            loss = tf.losses.mean_squared_error(y, two_layers(x))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def shared_weight(decorate):
    """One weight used three times."""

    @decorate
    def build(x, y):
        h, w = x, tf.get_variable("w", [12, 12], dtype=x.dtype)
        for _ in range(3):
            h = tf.tanh(tf.matmul(h, w))
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(h, 1))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def gradient_penalty(decorate):
    """Gradients inside a loss."""

    @decorate
    def build(x, y):
        d = two_layers(x, tf.nn.tanh)
        norms = tf.sqrt(tf.reduce_sum(tf.square(tf.gradients(d, x)[0]), 1))
        loss = tf.losses.mean_squared_error(y, d) + tf.reduce_mean(tf.square(norms - 1))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def conditional(decorate):
    """tf.cond in the middle of the network."""
    flag = tf.placeholder_with_default(True, ())

    @decorate
    def build(x, y):
        h = tf.layers.dense(x, 8, tf.nn.relu)
        h = tf.cond(flag, lambda: h * 2.0, lambda: h)
        loss = tf.losses.mean_squared_error(y, tf.layers.dense(h, 1))
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y) + ((x, y),)


def one_hot_labels(decorate):
    """Labels as floats, used only in the loss."""

    @decorate
    def build(x, y, rate):
        h = tf.nn.dropout(tf.layers.dense(x, 8, tf.nn.relu), keep_prob=rate)
        loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits_v2(
                labels=tf.concat([y, 1 - y], 1), logits=tf.layers.dense(h, 2)
            )
        )
        return loss, tf.train.AdamOptimizer(0.01).minimize(loss)

    x, y = vectors()
    return build(x, y, tf.placeholder_with_default(1.0, ())) + ((x, y),)


MODELS = {
    model.__name__: model
    for model in (
        regression, loss_returned, logits_returned, raw_variables, regularised, batch_norm,
        unfused_batch_norm, towers, gan, gradients_by_hand, recurrent, recurrent_loop, embedding,
        float64, hand_written_optimizer, accumulated, tensors_from_outside, layers_from_outside,
        partitioned, called_twice, resource_variables, shared_weight, gradient_penalty, conditional,
        one_hot_labels,
    )
}  # fmt: skip


def batch_for(name):
    """The feeds of the model's two placeholders."""
    if name in ("regularised", "batch_norm", "unfused_batch_norm"):
        return PICTURES, CLASSES
    return (IDS if name == "embedding" else VECTORS), TARGETS


# Without a decorator, their graphs have the same features as those of the other models.
LIKE_OTHERS = (
    "called_twice",
    "layers_from_outside",
    "logits_returned",
    "loss_returned",
    "recurrent",
    "tensors_from_outside",
)
