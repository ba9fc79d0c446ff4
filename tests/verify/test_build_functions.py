"""What build functions make besides layers and an optimizer is proved where the recipe builds it."""

import pytest
import tensorflow.compat.v1 as tf

from tests.support.proved import by_recipe, open_claims


def metrics(loss, table):
    """Their writes are under control dependencies."""
    tf.metrics.mean(loss, name="mean_loss")
    tf.metrics.accuracy(tf.constant([1, 0]), tf.cast(tf.stack([loss, loss]) > 0, tf.int32))


def an_average_of_the_loss(loss, table):
    average = tf.train.ExponentialMovingAverage(0.9)
    average.apply([loss])
    tf.summary.scalar("average", average.average(loss))


def a_count_of_its_own(loss, table):
    epoch = tf.get_variable(
        "epoch", [], tf.int64, initializer=tf.zeros_initializer(), trainable=False
    )
    tf.assign_add(epoch, 1, name="next_epoch")


def clipped_weights(loss, table):
    clipped = [tf.assign(v, tf.clip_by_value(v, -0.1, 0.1)) for v in tf.trainable_variables()]
    tf.group(*clipped, name="clip_weights")


def a_slow_copy(loss, table):
    copy = tf.get_variable("copy", [20, 8], trainable=False)
    tf.assign(copy, 0.99 * copy + 0.01 * table)


def pretrained_rows(loss, table):
    tf.assign(table, tf.placeholder(tf.float32, [20, 8]))


def summaries(loss, table):
    tf.summary.scalar("loss", loss)
    tf.summary.histogram("table", table)
    tf.summary.merge_all()


def model(decorate, use_resource, besides):
    """A layer, rows of a table, and what a function makes besides."""
    with tf.variable_scope("", use_resource=use_resource):
        x = tf.placeholder(tf.float32, [4, 8], name="x")

        @decorate
        def build(x):
            table = tf.get_variable("table", [20, 8])
            rows = tf.nn.embedding_lookup(table, tf.constant([1, 2, 3, 4]))
            hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("first", [8, 8]))) + rows
            loss = tf.nn.l2_loss(tf.matmul(hidden, tf.get_variable("second", [8, 1])))
            train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, name="train")
            besides(loss, table)
            return loss, train

        build(x)
    tf.global_variables_initializer()


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize(
    "besides",
    [
        metrics,
        an_average_of_the_loss,
        a_count_of_its_own,
        clipped_weights,
        a_slow_copy,
        pretrained_rows,
        summaries,
    ],
    ids=lambda besides: besides.__name__,
)
def test_is_proved(besides, use_resource):
    graphs = by_recipe(lambda decorate: model(decorate, use_resource, besides), engine="recipe")
    assert not open_claims(*graphs)
