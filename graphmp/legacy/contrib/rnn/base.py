"""Parts of RNN cells: sizes, a linear map with contrib's variable names, the LSTM update."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

LayerRNNCell = tf.nn.rnn_cell.BasicRNNCell.__bases__[0]
LSTMStateTuple = tf.nn.rnn_cell.LSTMStateTuple
Activation = Callable[[tf.Tensor], tf.Tensor]


class Cell(tf.nn.rnn_cell.RNNCell):
    """A cell with known sizes, whose `call` gets its variables with `tf.get_variable`."""

    def __init__(
        self,
        state_size: Any,
        output_size: Any,
        reuse: Optional[bool] = None,
        name: Optional[str] = None,
        dtype: Any = None,
    ):
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._sizes = (state_size, output_size)

    @property
    def state_size(self) -> Any:
        return self._sizes[0]

    @property
    def output_size(self) -> Any:
        return self._sizes[1]


def lstm_sizes(num_units: int, num_proj: Optional[int] = None) -> Tuple[Any, int]:
    """State size and output size of an LSTM; its output is projected if `num_proj` is given."""
    return LSTMStateTuple(num_units, num_proj or num_units), num_proj or num_units


def variable(
    name: str,
    shape: Sequence[Any],
    like: tf.Tensor,
    initial: Optional[float] = None,
    **options: Any,
) -> tf.Variable:
    """A variable of a tensor's dtype.

    `initial` is a constant, else the scope's initializer is used.
    """
    if initial is not None:
        options["initializer"] = tf.constant_initializer(initial)
    return tf.get_variable(name, shape, like.dtype, **options)


def linear_parts(args: Any) -> Tuple[tf.Tensor, int]:
    """The concatenated arguments of a linear map, and their width."""
    inputs = tf.concat(args, 1) if isinstance(args, (list, tuple)) else args
    width = inputs.shape.as_list()[1]
    if width is None:
        raise ValueError("linear expects the last dimension to be known, but saw %s" % inputs.shape)
    return inputs, width


class _Linear:
    """x · kernel + bias, with the variables `kernel` and `bias` of its scope.

    The bias is never partitioned.
    """

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ):
        inputs, width = linear_parts(args)
        self._kernel = tf.get_variable(
            "kernel", [width, output_size], inputs.dtype, kernel_initializer
        )
        self._bias = None
        if build_bias:
            with tf.variable_scope(tf.get_variable_scope()) as scope:
                scope.set_partitioner(None)
                self._bias = tf.get_variable(
                    "bias", [output_size], inputs.dtype, bias_initializer or tf.zeros_initializer()
                )

    def __call__(self, args: Any) -> tf.Tensor:
        product = tf.matmul(linear_parts(args)[0], self._kernel)
        return product if self._bias is None else tf.nn.bias_add(product, self._bias)


def _linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
) -> tf.Tensor:
    """Apply a linear map, whose variables are made or reused."""
    return _Linear(args, output_size, bias, bias_initializer, kernel_initializer)(args)


linear = _linear  # the underscore is contrib's: scripts import this name


def lstm_update(
    gates: Sequence[tf.Tensor], c: tf.Tensor, forget_bias: float, activation: Activation = tf.tanh
) -> Tuple[tf.Tensor, tf.Tensor]:
    """New cell state and output of an LSTM without peepholes, from its four gates.

    These are the input, transform, forget and output gates.
    """
    i, j, f, o = gates
    new_c = tf.sigmoid(f + forget_bias) * c + tf.sigmoid(i) * activation(j)
    return new_c, activation(new_c) * tf.sigmoid(o)


def layer_norm(inputs: tf.Tensor, scope: str, gain: float, shift: float) -> tf.Tensor:
    """`tf.contrib.layers.layer_norm`.

    Its variables are made here, for their initial values, and reused there, as contrib does.
    """
    with tf.variable_scope(scope):
        variable("gamma", inputs.shape[-1:], inputs, gain)
        variable("beta", inputs.shape[-1:], inputs, shift)
    return internals.fetch("tf_slim.layers:layer_norm")(inputs, reuse=True, scope=scope)
