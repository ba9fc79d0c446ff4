"""Programs with one loss and one optimizer, whose models have unusual gradient code."""

from __future__ import annotations

import importlib

import numpy as np
import tensorflow.compat.v1 as tf

from tests.support.programs.registry import apply, data, error, net, program, two_weights, weights

_FUNCTION = importlib.import_module("tensorflow.python.framework.function")
_DEF_FUNCTION = importlib.import_module("tensorflow.python.eager.def_function")


def trained(clip, output, target, variables):
    apply(clip(tf.gradients(error(output, target), variables)), variables)


@program()
def while_loop(clip):
    """A recurrent layer by tf.while_loop, with its outputs in a TensorArray."""
    x, y = data()
    first, again, second = weights("first", 6, 4), weights("again", 4, 4), weights("second", 4, 1)
    start = tf.tanh(tf.matmul(x, first))
    states = tf.TensorArray(tf.float32, 3, element_shape=(8, 4), clear_after_read=False)

    def body(turn, state, written):
        state = tf.tanh(tf.matmul(state, again) + 0.1 * state)
        return turn + 1, state, written.write(turn, state)

    _, last, states = tf.while_loop(lambda turn, *_: turn < 3, body, (0, start, states))
    trained(
        clip, tf.matmul(last + tf.reduce_mean(states.stack(), 0), second), y, [first, again, second]
    )


@program()
def conditional(clip):
    """tf.cond on the batch, with a weight in each branch."""
    x, y = data()
    first, other, second = weights("first", 6, 4), weights("other", 6, 4), weights("second", 4, 1)
    hidden = tf.cond(
        x[0, 0] > 0, lambda: tf.tanh(tf.matmul(x, first)), lambda: tf.nn.relu(tf.matmul(x, other))
    )
    trained(
        clip,
        tf.matmul(hidden + tf.tanh(tf.matmul(x, first + other)), second),
        y,
        [first, other, second],
    )


@program()
def beam_search_beside(clip):
    """A search with the same weights in a tf.while_loop without gradient; its result is stored."""
    x, y = data()
    first, again, second = weights("first", 6, 4), weights("again", 4, 4), weights("second", 4, 1)
    best = tf.get_variable("best", (8,), initializer=tf.initializers.zeros, trainable=False)

    def body(turn, state, score):
        ranked, beams = tf.nn.top_k(tf.nn.log_softmax(tf.matmul(state, again)), 2)
        return turn + 1, tf.one_hot(beams[:, 0], 4), score + ranked[:, 0]

    _, _, score = tf.while_loop(
        lambda turn, *_: turn < 3, body, (0, tf.tanh(tf.matmul(x, first)), tf.zeros((8,)))
    )
    hidden = tf.tanh(tf.matmul(tf.tanh(tf.matmul(x, first)), again))
    gradients = clip(tf.gradients(error(tf.matmul(hidden, second), y), [first, again, second]))
    with tf.control_dependencies([score]):
        gradients = [tf.identity(g) for g in gradients]
    tf.group(apply(gradients, [first, again, second], "step"), tf.assign(best, score), name="train")


@program()
def beam_search_in_the_graph(clip):
    """A search with the same weights that the train op doesn't run."""
    x, y = data()
    variables = two_weights(width=4)
    _, state = tf.while_loop(
        lambda turn, _: turn < 3,
        lambda turn, s: (turn + 1, tf.nn.softmax(net(x, *variables) + s)),
        (0, tf.zeros((8, 4))),
    )
    tf.argmax(state, 1, name="found")
    trained(clip, net(x, *variables), y, variables)


@program()
def python_gradient(clip):
    """A custom gradient by py_func that isn't linear in the incoming gradient."""
    x, y = data()
    variables = two_weights()

    @tf.custom_gradient
    def squashed(value):
        def gradient(given):
            (found,) = tf.py_func(
                lambda g: np.clip(g, -0.05, 0.05).astype(np.float32), [given], [tf.float32]
            )
            found.set_shape(given.shape)
            return found

        return tf.tanh(value), gradient

    trained(clip, tf.matmul(squashed(tf.matmul(x, variables[0])), variables[1]), y, variables)


@program()
def bounded_gradient(clip):
    """A custom gradient that compares the incoming gradient with numbers."""
    x, y = data()
    variables = two_weights()

    @tf.custom_gradient
    def bounded(value):
        return tf.identity(value), lambda given: tf.where(
            tf.abs(given) > 0.05, tf.sign(given) * 0.05, tf.minimum(given, 0.02)
        )

    trained(
        clip, tf.matmul(tf.tanh(bounded(tf.matmul(x, variables[0]))), variables[1]), y, variables
    )


@program()
def gradient_of_several_results(clip):
    """A custom gradient of two inputs and two outputs; each result depends on both."""
    x, y = data()
    variables = two_weights()

    @tf.custom_gradient
    def crossed(one, other):
        def gradient(by_first, by_second):
            return by_first * other + tf.clip_by_norm(by_second, 0.1), 0.5 * (
                by_first + by_second
            ) * one

        return (one * other, one + other), gradient

    product, total = crossed(tf.matmul(x, variables[0]), tf.tanh(tf.matmul(-x, variables[0])))
    trained(clip, tf.matmul(product + 0.5 * total, variables[1]), y, variables)


@program()
def largest_of_segments(clip):
    """tf.unsorted_segment_max with an empty segment."""
    x, y = data()
    variables = two_weights()
    found = tf.unsorted_segment_max(tf.matmul(x, variables[0]), [0, 0, 1, 1, 3, 3, 0, 1], 4)
    hidden = tf.tanh(tf.gather(found, [0, 1, 3, 0, 1, 3, 0, 1]))
    trained(clip, tf.matmul(hidden, variables[1]), y, variables)


@program()
def largest_of_gradients_segments(clip):
    """A custom gradient by tf.unsorted_segment_max, which fills empty segments with a number."""
    x, y = data()
    variables = two_weights()

    @tf.custom_gradient
    def pooled(value):
        def gradient(given):
            largest = tf.unsorted_segment_max(given, [0, 0, 1, 1, 3, 3, 0, 1], 4)
            largest = tf.where(tf.equal(largest, tf.float32.min), tf.zeros_like(largest), largest)
            return given + 0.5 * tf.gather(largest, [0, 0, 1, 1, 2, 3, 0, 1])

        return tf.tanh(value), gradient

    trained(clip, tf.matmul(pooled(tf.matmul(x, variables[0])), variables[1]), y, variables)


@program()
def solved(clip):
    """tf.matrix_solve with a matrix of weights."""
    x, y = data()
    first, matrix, second = weights("first", 6, 4), weights("matrix", 4, 4), weights("second", 4, 1)
    hidden = tf.matrix_solve(
        matrix + 2.0 * tf.eye(4), tf.matmul(first, x, transpose_a=True, transpose_b=True)
    )
    trained(clip, tf.matmul(hidden, second, transpose_a=True), y, [first, matrix, second])


@program()
def gradients_solved(clip):
    """Natural gradients: tf.matrix_solve of a layer's gradients with their second moments."""
    x, y = data()
    variables = two_weights()

    @tf.custom_gradient
    def natural(value):
        def gradient(given):
            squares = tf.matmul(given, given, transpose_a=True) + tf.eye(4)
            return tf.transpose(tf.matrix_solve(squares, tf.transpose(given)))

        return tf.identity(value), gradient

    trained(
        clip, tf.matmul(tf.tanh(natural(tf.matmul(x, variables[0]))), variables[1]), y, variables
    )


@program()
def function_called_twice(clip):
    """A function of TensorFlow 1, differentiated by SymbolicGradient."""
    x, y = data()
    first, again, second = weights("first", 6, 4), weights("again", 4, 4), weights("second", 4, 1)

    @_FUNCTION.Defun(tf.float32, tf.float32, func_name="layer")
    def layer(value, weight):
        return tf.tanh(tf.matmul(value, weight))

    def shaped(value, rows, columns):
        value.set_shape((rows, columns))
        return value

    hidden = shaped(layer(x, first), 8, 4)
    trained(clip, tf.matmul(shaped(layer(hidden, again), 8, 4), second), y, [first, again, second])


@program()
def tf_function_called_twice(clip):
    """A tf.function, differentiated by a function that TensorFlow derives from it."""
    x, y = data()
    first, again, second = weights("first", 6, 4), weights("again", 4, 4), weights("second", 4, 1)

    @_DEF_FUNCTION.function(
        input_signature=[tf.TensorSpec((8, None), tf.float32), tf.TensorSpec((None, 4), tf.float32)]
    )
    def layer(value, weight):
        return tf.tanh(tf.matmul(value, weight))

    trained(clip, tf.matmul(layer(layer(x, first), again), second), y, [first, again, second])


@program()
def function_with_a_gradient_of_its_own(clip):
    """A function called on differentiated values and, in a custom gradient, on gradients."""
    x, y = data()
    variables = two_weights()

    @_FUNCTION.Defun(tf.float32, func_name="squash")
    def squash(value):
        return value / (1.0 + tf.abs(value))

    @tf.custom_gradient
    def squashed(value):
        def gradient(given):
            found = squash(given)
            found.set_shape(given.shape)
            return found

        found = squash(value)
        found.set_shape(value.shape)
        return found, gradient

    trained(clip, tf.matmul(squashed(tf.matmul(x, variables[0])), variables[1]), y, variables)
