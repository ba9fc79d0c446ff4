"""Tiling for beams, and following beams back through the steps of a search."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

__all__ = ["gather_tree", "tile_batch"]


def tile_batch(t: Any, multiplier: int, name: Optional[str] = None) -> Any:
    """Repeat each entry of the batch `multiplier` times, in every tensor of a structure.

    The copies of an entry are neighbours.
    """
    with tf.name_scope(name, "tile_batch", tf.nest.flatten(t) + [multiplier]):
        return tf.nest.map_structure(lambda tensor: _tile_batch(tensor, multiplier), t)


def _tile_batch(t: Any, multiplier: int) -> tf.Tensor:
    tensor = tf.convert_to_tensor(t)
    if tensor.shape.ndims is None:
        raise ValueError("t must have statically known rank")
    rows, static = tf.shape(tensor), tensor.shape
    copies = tf.tile(tf.expand_dims(tensor, 1), [1, multiplier] + [1] * (static.ndims - 1))
    tiled = tf.reshape(copies, tf.concat([[rows[0] * multiplier], rows[1:]], 0))
    batch = static.as_list()[0]
    tiled.set_shape([None if batch is None else batch * multiplier] + static.as_list()[1:])
    return tiled


def gather_tree(
    step_ids: Any,
    parent_ids: Any,
    max_sequence_lengths: Any,
    end_token: Any,
    name: Optional[str] = None,
) -> tf.Tensor:
    """The ids on the way to each final beam, [time, batch, beams], by the parents of each step.

    After its first `end_token`, and after the entry's length, a beam only has end tokens.
    """
    with tf.name_scope(name, "GatherTree", [step_ids, parent_ids]):
        ids, parents = (tf.convert_to_tensor(one, tf.int32) for one in (step_ids, parent_ids))
        end = tf.convert_to_tensor(end_token, tf.int32)
        beams = _beam_places(ids, parents, tf.convert_to_tensor(max_sequence_lengths, tf.int32))
        found = tf.where(beams < 0, tf.fill(tf.shape(ids), end), _at(ids, tf.maximum(beams, 0)))
        ends = tf.cast(tf.equal(found, end), tf.int32)
        ended = tf.cumsum(ends, axis=0, exclusive=True) > 0
        found = tf.where(ended, tf.fill(tf.shape(ids), end), found)
        found.set_shape(ids.shape)
        return found


def _beam_places(ids: tf.Tensor, parents: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
    """The beam that each final beam passes at each step; -1 after the entry's length."""
    own = tf.zeros_like(ids[0]) + tf.range(tf.shape(ids)[2])
    steps = tf.range(tf.shape(ids)[0])

    def back(state: Any, step: Any) -> Any:
        time, parent = step
        reached = tf.zeros_like(own) + tf.expand_dims(time, 0) < tf.expand_dims(lengths, 1)
        place = state[1]
        return (
            tf.where(reached, place, -tf.ones_like(place)),
            tf.where(reached, tf.gather(parent, place, batch_dims=1), place),
        )

    return tf.scan(back, (steps, parents), (own, own), reverse=True, back_prop=False)[0]


def _at(values: tf.Tensor, beams: tf.Tensor) -> tf.Tensor:
    """Values [time, batch, beams, ...] at the places of other beams."""
    return tf.gather(values, beams, batch_dims=2)


def gather_tree_from_array(t: Any, parent_ids: Any, sequence_length: Any) -> tf.Tensor:
    """A stacked array of values, those at each step sorted by the final beams that passed there.

    Its elements are [batch, beams, ...] or [batch * beams, ...]. After the length of a beam they
    stay as they are.
    """
    t, parents = tf.convert_to_tensor(t), tf.convert_to_tensor(parent_ids, tf.int32)
    lengths = tf.cast(sequence_length, tf.int32)
    own = tf.zeros_like(parents) + tf.range(tf.shape(parents)[2])
    beams = gather_tree(own, parents, tf.reduce_max(lengths, 1), tf.shape(parents)[2] + 1)
    steps = tf.sequence_mask(lengths, tf.shape(parents)[0])
    beams = tf.where(tf.transpose(steps, [2, 0, 1]), beams, own)
    split = tf.reshape(t, tf.concat([tf.shape(parents), [-1]], 0))
    ordered = tf.reshape(_at(split, beams), tf.shape(t))
    ordered.set_shape(t.shape)
    return ordered
