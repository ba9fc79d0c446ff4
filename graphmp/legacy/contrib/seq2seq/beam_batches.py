"""Tensors with one axis for entries and beams, and with one for each."""

from __future__ import annotations

from typing import Any, List

import tensorflow.compat.v1 as tf
from absl import logging

from graphmp.legacy.contrib.seq2seq import parts
from graphmp.legacy.contrib.seq2seq.beam_trees import gather_tree_from_array

__all__: List[str] = []


class BeamBatches:
    """The reshapes of a search; subclasses set `_batch_size` and `_beam_width`."""

    _batch_size: Any
    _beam_width: int

    def _merge_batch_beams(self, t: Any, s: Any = None) -> tf.Tensor:
        """A tensor [batch, beams, *s] as [batch * beams, *s]."""
        t = tf.convert_to_tensor(t)
        batch = parts.static_value(self._batch_size)
        merged = tf.reshape(
            t, tf.concat([[self._batch_size * self._beam_width], tf.shape(t)[2:]], 0)
        )
        merged.set_shape(
            tf.TensorShape([None if batch is None else batch * self._beam_width]).concatenate(
                parts.shape_of([] if s is None else s)
            )
        )
        return merged

    def _split_batch_beams(self, t: Any, s: Any = None) -> tf.Tensor:
        """A tensor [batch * beams, *s] as [batch, beams, *s]."""
        t = tf.convert_to_tensor(t)
        split = tf.reshape(t, tf.concat([[self._batch_size, self._beam_width], tf.shape(t)[1:]], 0))
        expected = tf.TensorShape(
            [parts.static_value(self._batch_size), self._beam_width]
        ).concatenate(parts.shape_of([] if s is None else s))
        if not split.shape.is_compatible_with(expected):
            raise ValueError(
                "Unexpected behavior when reshaping between beam width and batch size.  The"
                " reshaped tensor has shape: %s.  We expected it to have shape (batch_size,"
                " beam_width, depth) == %s.  Perhaps you forgot to create a zero_state with"
                " batch_size=encoder_batch_size * beam_width?" % (split.shape, expected)
            )
        split.set_shape(expected)
        return split

    def _maybe_split_batch_beams(self, t: Any, s: Any) -> Any:
        """`_split_batch_beams`; arrays and scalars stay."""
        return t if _without_beams(t) else self._split_batch_beams(t, s)

    def _maybe_merge_batch_beams(self, t: Any, s: Any) -> Any:
        """`_merge_batch_beams`; arrays and scalars stay."""
        return t if _without_beams(t) else self._merge_batch_beams(t, s)

    def _maybe_sort_array_beams(self, t: Any, parent_ids: tf.Tensor, sequence_length: Any) -> Any:
        """An array, stacked and sorted by `gather_tree_from_array`.

        Other parts of a state stay, and arrays whose elements aren't entries and beams.
        """
        if not parts.is_array(t):
            return t
        shape = t.element_shape
        if not shape.ndims or not self._may_be_sorted(shape):
            logging.warning(
                "The TensorArray %s in the cell state is not sorted by beams, as its elements have"
                " the static shape %s. Set reorder_tensor_arrays to False if that is intended.",
                t.handle.name,
                shape,
            )
            return t
        return gather_tree_from_array(t.stack(), parent_ids, sequence_length)

    def _may_be_sorted(self, shape: tf.TensorShape) -> bool:
        """Whether TensorFlow 1.15.5 sorts an array with elements of this static shape.

        It doesn't where the batch, [batch * beams] and the next axis are all known.
        """
        batch, sizes = parts.static_value(self._batch_size), shape.as_list()
        if batch is None or sizes[0] is None:
            return True
        unknown = sizes[1:2] in ([], [None]) or sizes[:2] == [batch, self._beam_width]
        return unknown and sizes[0] == batch * self._beam_width


def _without_beams(value: Any) -> bool:
    return parts.is_array(value) or parts.known_rank(value) == 0
