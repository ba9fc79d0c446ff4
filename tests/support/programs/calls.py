"""Programs with functions of gradients and activations, and losses of each other's gradients."""

from __future__ import annotations

import importlib

import tensorflow.compat.v1 as tf

from tests.support.programs.registry import apply, data, error, net, program, two_weights, weights
from tests.support.programs.several import adversaries, cross_entropy

Defun = importlib.import_module("tensorflow.python.framework.function").Defun


def like(tensor, other):
    tensor.set_shape(other.shape)
    return tensor


def layers(product):
    """A matmul whose gradients are computed by a function."""

    @tf.custom_gradient
    def layer(a, b):
        def grad(gradient):
            return like(product(gradient, tf.transpose(b)), a), like(
                product(tf.transpose(a), gradient), b
            )

        return like(product(a, b), tf.matmul(a, b)), grad

    return layer


@program()
def function_of_gradients_and_activations(clip):
    """A Defun, called in the forward pass and in gradient code."""
    x, y = data()
    variables = two_weights()
    layer = layers(Defun(tf.float32, tf.float32, func_name="product")(lambda a, b: tf.matmul(a, b)))
    apply(
        clip(
            tf.gradients(error(layer(tf.tanh(layer(x, variables[0])), variables[1]), y), variables)
        ),
        variables,
    )


@program()
def nested_function_of_gradients_and_activations(clip):
    """A Defun that calls another."""
    x, y = data()
    variables = two_weights()
    inner = Defun(tf.float32, tf.float32, func_name="product")(lambda a, b: tf.matmul(a, b))
    layer = layers(
        Defun(tf.float32, tf.float32, func_name="outer")(
            lambda a, b: tf.matmul(a, b) + inner(0.5 * a, b)
        )
    )
    apply(
        clip(
            tf.gradients(error(layer(tf.tanh(layer(x, variables[0])), variables[1]), y), variables)
        ),
        variables,
    )


@program()
def clipping_function_of_gradients_and_activations(clip):
    """A Defun that isn't homogeneous, called in the forward pass and in gradient code."""
    x, y = data()
    first, second = two_weights()
    function = Defun(tf.float32, func_name="clipped")(lambda a: tf.clip_by_value(a, -0.02, 0.02))

    @tf.custom_gradient
    def clipped(a):
        return like(function(a), a), lambda gradient: like(function(gradient), gradient)

    apply(
        clip(
            tf.gradients(
                error(tf.matmul(clipped(tf.tanh(tf.matmul(x, first))), second), y), [first, second]
            )
        ),
        [first, second],
    )


@program(train=["train_other", "train"], scales=2, clips=False)
def function_of_two_losses_gradients(clip):
    """A Defun in the gradient code of two losses."""
    x, y = data()
    one, other = two_weights(), two_weights("other/")
    layer = layers(Defun(tf.float32, tf.float32, func_name="product")(lambda a, b: tf.matmul(a, b)))
    losses = [
        error(layer(tf.tanh(layer(x, v[0])), v[1]), n * y, "loss_%d" % n)
        for n, v in enumerate((one, other), 1)
    ]
    apply(clip(tf.gradients(losses[1], other)), other, "train_other")
    apply(clip(tf.gradients(losses[0], one)), one)


@program(train=["train_other", "train"], scales=2, clips=False)
def differentiated_by_another_loss(clip):
    """A loss of a step of the other one and of its gradients, with its own update."""
    x, y = data()
    variables, mix = two_weights(), weights("mix", 6, 6)
    gradients = tf.gradients(error(net(tf.matmul(x, mix), *variables), y), variables)
    apply(clip(gradients), variables, "train_other")
    ahead = [v - 0.2 * g for v, g in zip(variables, gradients)]
    loss = error(net(x, *ahead), y, "of_mix") + 0.1 * tf.add_n(
        [tf.reduce_sum(tf.square(g)) for g in gradients]
    )
    apply(clip(tf.gradients(loss, [mix])), [mix])


@program(train=["train_critic", "train"], scales=2, clips=False)
def adversaries_that_match_gradients(clip):
    """A GAN whose generator learns to match the critic's gradients on data."""
    _, _, of_data, of_made, generator, critic = adversaries()
    gradients = tf.gradients(cross_entropy(of_data, True) + cross_entropy(of_made, False), critic)
    apply(clip(gradients), critic, "train_critic")
    wanted = tf.gradients(cross_entropy(of_data, True), critic)
    match = tf.add_n(
        [tf.reduce_sum(tf.square(g - tf.stop_gradient(w))) for g, w in zip(gradients, wanted)]
    )
    apply(clip(tf.gradients(match + cross_entropy(of_made, True), generator)), generator)


@program(train=["train_critic", "train"], scales=2, clips=False)
def adversaries_that_follow_gradients(clip):
    """A GAN whose generator's loss is a product with the critic's gradient, held constant."""
    _, made, of_data, of_made, generator, critic = adversaries()
    by_made, *gradients = tf.gradients(
        cross_entropy(of_data, True) + cross_entropy(of_made, False), [made, *critic]
    )
    apply(clip(gradients), critic, "train_critic")
    loss = 8 * tf.reduce_mean(
        tf.matmul(made, tf.stop_gradient(by_made), transpose_b=True), name="of_generator"
    )
    apply(clip(tf.gradients(loss, generator)), generator)


@program(train=["train_critic", "train"], clips=False)
def adversaries_seeded_by_gradients(clip):
    """A GAN whose generator's gradients are seeded by the critic's: one loss, two train ops."""
    _, made, of_data, of_made, generator, critic = adversaries()
    by_made, *gradients = tf.gradients(
        cross_entropy(of_data, True) + cross_entropy(of_made, False), [made, *critic]
    )
    apply(clip(gradients), critic, "train_critic")
    apply(clip(tf.gradients([made], generator, grad_ys=[-by_made])), generator)


@program(train=["train_first", "train_second", "train"], scales=3, clips=False)
def three_losses_of_each_others_gradients(clip):
    """Each loss is a function of the gradients of the one before."""
    x, y = data()
    variables, mix, other = two_weights(), weights("mix", 6, 6), weights("other", 6, 6)
    first = tf.gradients(error(net(tf.matmul(tf.matmul(x, mix), other), *variables), y), variables)
    second = tf.gradients(
        tf.add_n([tf.reduce_sum(tf.square(g)) for g in first], name="second_loss"), [mix]
    )
    third = tf.gradients(tf.reduce_sum(tf.square(second[0]), name="third_loss"), [other])
    apply(clip(first), variables, "train_first")
    apply(clip(second), [mix], "train_second", 0.02)
    apply(clip(third), [other], "train", 0.001)
