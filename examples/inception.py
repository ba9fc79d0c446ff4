"""Inception modules, for googlenet.py, inception_v2.py and inception_v3.py.

A module has parallel branches, whose channels are concatenated. It is a tuple of branches; a branch
is a tuple of layers in sequence. A layer is a tuple too:

    (channels, size, stride, padding)          a convolution
    ("max" or "avg", size, stride, padding)    pooling
    (layer, layer, ...)                        layers on the same input, concatenated by channels

A size is a number, or (height, width). Stride and padding default to 1 and "same".
"""

import tensorflow.compat.v1 as tf


def module(bottom, branches, convolution, data_format, name):
    """Build all branches on `bottom` in a variable scope, and concatenate their channels.

    Args:
        bottom: float32 images, (batch, height, width, channels), or (batch, channels, height,
            width) for channels first.
        branches: see the top of this file.
        convolution: a function that builds a convolution, of images, channels, size, stride,
            padding and name.
        data_format: channels_last or channels_first.
        name: of the scope.
    """
    with tf.variable_scope(name):
        tops = [
            branch(bottom, layers, convolution, data_format, "branch%d" % number)
            for number, layers in enumerate(branches)
        ]
        return tf.concat(tops, axis=1 if data_format == "channels_first" else 3)


def branch(top, layers, convolution, data_format, name):
    """Build layers in sequence, in a variable scope; the arguments are those of `module`."""
    with tf.variable_scope(name):
        for number, layer in enumerate(layers):
            if isinstance(layer[0], tuple):
                top = module(
                    top, [(each,) for each in layer], convolution, data_format, "split%d" % number
                )
            elif isinstance(layer[0], str):
                top = pool(top, *layer, data_format=data_format)
            else:
                top = _convolution(top, *layer, build=convolution, name="conv%d" % number)
        return top


def _convolution(top, channels, size, stride=1, padding="same", *, build, name):
    return build(top, channels, size, stride, padding, name)


def pool(top, kind, size, stride=1, padding="same", *, data_format):
    """The maximum (kind "max") or the mean ("avg") of each window."""
    layer = {"max": tf.layers.max_pooling2d, "avg": tf.layers.average_pooling2d}[kind]
    return layer(top, size, stride, padding, data_format)
