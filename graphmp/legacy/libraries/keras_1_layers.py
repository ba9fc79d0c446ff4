"""Layers of Keras 1 that Keras 2 kept and tf-keras lacks."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

_keras: Any = internals.loaded(tf.keras)


class _Projecting(_keras.layers.Layer):
    """A layer with the arguments that Keras 1 has for one of weights and a bias."""

    def __init__(
        self,
        init: Any = "glorot_uniform",
        activation: Any = None,
        bias: bool = True,
        input_dim: Optional[int] = None,
        **kwargs: Any,
    ):
        self._of_weights, self._of_biases = (
            {name: kwargs.pop("%s_%s" % (of, name), None) for name in ("regularizer", "constraint")}
            for of in "Wb"
        )
        if input_dim is not None:
            kwargs["input_shape"] = (input_dim,)
        super().__init__(**kwargs)
        self._init, self._bias = init, bias
        self._activation = _keras.activations.get(activation)

    def _weights(self, name: str, shape: Any) -> Any:
        return self.add_weight(name, shape, initializer=self._init, **self._of_weights)

    def _biases(self, name: str, shape: Any, start: str) -> Any:
        return self.add_weight(name, shape, initializer=start, **self._of_biases)


class Highway(_Projecting):
    """Mixes its input with a dense layer of it, by a gate that is learned."""

    def build(self, input_shape: Any) -> None:
        """See `Layer`."""
        size = int(input_shape[-1])
        self._gated = self._weights("W", (size, size)), self._weights("W_carry", (size, size))
        self._added = (
            (self._biases("b", (size,), "zeros"), self._biases("b_carry", (size,), "ones"))
            if self._bias
            else (0.0, 0.0)
        )
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """See `Layer`."""
        own, carried = (
            tf.matmul(inputs, weights) + added for weights, added in zip(self._gated, self._added)
        )
        gate = tf.sigmoid(carried)
        return gate * self._activation(own) + (1.0 - gate) * inputs


class MaxoutDense(_Projecting):
    """The largest of some dense layers of its input, item by item."""

    def __init__(
        self, output_dim: int, nb_feature: int = 4, init: Any = "glorot_uniform", **kwargs: Any
    ):
        super().__init__(init, **kwargs)
        self._size, self._count = output_dim, nb_feature

    def build(self, input_shape: Any) -> None:
        """See `Layer`."""
        shape = (self._count, int(input_shape[-1]), self._size)
        self._each = self._weights("W", shape)
        self._added = self._biases("b", (self._count, self._size), "zeros") if self._bias else 0.0
        super().build(input_shape)

    def call(self, inputs: Any) -> Any:
        """See `Layer`."""
        return tf.reduce_max(tf.tensordot(inputs, self._each, [[1], [1]]) + self._added, 1)
