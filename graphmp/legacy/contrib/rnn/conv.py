"""The convolutional LSTM cells of `tf.contrib.rnn`.

Own code: TensorFlow 2 has a Keras layer with other variables.
"""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.rnn.base import Cell, LSTMStateTuple, lstm_update, variable

__all__ = ["Conv1DLSTMCell", "Conv2DLSTMCell", "Conv3DLSTMCell", "ConvLSTMCell"]


class ConvLSTMCell(Cell):
    """An LSTM whose linear map is a convolution (Shi 2015).

    `input_shape` is [spatial..., channels], without the batch.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Any,
        output_channels: int,
        kernel_shape: Any,
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ):
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(
                "Invalid input_shape %s for conv_ndims=%s." % (input_shape, conv_ndims)
            )
        space = list(input_shape[:-1])
        state = tf.TensorShape(space + [output_channels])
        output = tf.TensorShape(
            space + [output_channels + (input_shape[-1] if skip_connection else 0)]
        )
        super().__init__(LSTMStateTuple(state, state), output, name=name)
        self._channels, self._kernel_shape, self._use_bias = (
            output_channels,
            list(kernel_shape),
            use_bias,
        )
        self._skip_connection, self._forget_bias = skip_connection, forget_bias

    def call(self, inputs: tf.Tensor, state: Any) -> Tuple[tf.Tensor, Any]:
        c, h = state
        new_c, output = lstm_update(
            tf.split(self._convolve(tf.concat([inputs, h], -1)), 4, axis=-1), c, self._forget_bias
        )
        if self._skip_connection:
            output = tf.concat([output, inputs], -1)
        return output, LSTMStateTuple(new_c, output)

    def _convolve(self, inputs: tf.Tensor) -> tf.Tensor:
        kernel = variable(
            "kernel", self._kernel_shape + [inputs.shape.as_list()[-1], 4 * self._channels], inputs
        )
        result = tf.nn.convolution(inputs, kernel, "SAME")
        return (
            result + variable("biases", [4 * self._channels], inputs, 0.0)
            if self._use_bias
            else result
        )


class Conv1DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over sequences."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any):
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over images."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any):
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` over volumes."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any):
        super().__init__(conv_ndims=3, name=name, **kwargs)
