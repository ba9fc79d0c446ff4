"""Sizes, zeros and checks that decoders, helpers and attention share."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals

__all__: List[str] = []

_transpose_batch_time = internals.fetch("tensorflow.python.ops.rnn:_transpose_batch_time")
_LIKE_CELL = ("output_size", "state_size", "zero_state", "__call__")


def dimension(tensor: tf.Tensor, axis: int) -> Any:
    """The size of an axis: an int where it is known, else a tensor."""
    static = tf.compat.dimension_value(tensor.shape[axis])
    return tf.shape(tensor)[axis] if static is None else static


def static_value(size: Any) -> Optional[int]:
    """A size as an int, or None if it is a tensor of unknown value."""
    value = tf.get_static_value(size) if tf.is_tensor(size) else size
    return None if value is None else int(value)


def known_rank(tensor: tf.Tensor) -> int:
    """The rank of a tensor.

    Raises:
        ValueError: it isn't known.
    """
    if tensor.shape.ndims is None:
        raise ValueError("Expected tensor (%s) to have known rank, but ndims == None." % tensor)
    return tensor.shape.ndims


def is_array(value: Any) -> bool:
    """Whether a part of a state is a TensorArray, which is passed on as it is."""
    return isinstance(value, tf.TensorArray)


def shape_of(size: Any) -> tf.TensorShape:
    """The known dimensions of a size: of a shape, or of one number or scalar tensor."""
    return tf.TensorShape([static_value(size)] if tf.is_tensor(size) else _dimensions(size))


def zeros(size: Any, batch_size: Any, dtype: Any) -> tf.Tensor:
    """Zeros of shape [batch, *size]; a size is a shape, or one number or scalar tensor."""
    sizes = [batch_size, size] if tf.is_tensor(size) else [batch_size, *_dimensions(size)]
    result = tf.zeros([_index(one) for one in sizes], dtype)
    result.set_shape([static_value(one) for one in sizes])
    return result


def _dimensions(size: Any) -> List[Any]:
    return tf.TensorShape(size).as_list()


def _index(size: Any) -> Any:
    return tf.cast(size, tf.int32) if tf.is_tensor(size) else size


def zero_states(size: Any, batch_size: Any, dtype: Any) -> Any:
    """`zeros` for each part of a structure of sizes."""
    return tf.nest.map_structure(lambda one: zeros(one, batch_size, dtype), size)


_zero_state_tensors = zero_states  # contrib's name, which scripts import


def check_cell(cell: Any) -> None:
    """Raise a TypeError unless an object has the interface of RNNCell."""
    lacking = [name for name in _LIKE_CELL if not hasattr(cell, name)]
    if lacking:
        raise TypeError(
            "The argument 'cell' (%s) is not an RNNCell: it has no %s." % (cell, ", ".join(lacking))
        )


def check_layer(name: str, layer: Any) -> None:
    """Raise a TypeError unless an argument is None or a layer, of tf.layers or of Keras."""
    if layer is not None and not (callable(layer) and hasattr(layer, "compute_output_shape")):
        raise TypeError("%s must be a Layer, received: %s" % (name, type(layer)))


def check_rank(name: str, tensor: tf.Tensor, rank: int) -> None:
    """Raise a ValueError unless a tensor has a known rank, 0 or 1."""
    if tensor.shape.ndims != rank:
        raise ValueError(
            "%s must be a %s, but saw shape: %s" % (name, ("scalar", "vector")[rank], tensor.shape)
        )


def layer_shape(layer: Any, size: Any) -> Any:
    """The sizes of a cell's outputs after a layer, or before it if there is none."""
    if layer is None:
        return size
    with_batch = tf.nest.map_structure(lambda one: tf.TensorShape([None]).concatenate(one), size)
    return tf.nest.map_structure(
        lambda shape: tf.TensorShape(shape)[1:], layer.compute_output_shape(with_batch)
    )


def embedding_function(embedding: Any) -> Any:
    """A function from ids to vectors: the argument itself, or a look-up in it."""
    if callable(embedding):
        return embedding
    return lambda ids: tf.nn.embedding_lookup(embedding, ids)
