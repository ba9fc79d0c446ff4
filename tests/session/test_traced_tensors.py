"""What traces say of tensors."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import cast_beside
from graphmp.session.steps.traced_tensors import casts_in


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_inserted_casts_are_found_where_tensorflow_moved_them(half):
    """Its optimizer casts before a Transpose, under another name; the model's casts don't count."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [32, 64], name="x")
        ids = tf.placeholder(tf.int32, [32], name="ids")
        moved = tf.transpose(tf.exp(x), name="moved")
        down = cast_beside(moved, half)
        up = cast_beside(tf.negative(down, name="n"), tf.float32)
        target = tf.reduce_sum(up) + tf.reduce_sum(tf.cast(ids, tf.float32, name="own"))
        trace = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        with tf.Session() as session:
            feeds = {x: np.ones([32, 64]), ids: np.ones([32])}
            session.run(target, feeds, options, trace)
    found = casts_in(trace)
    assert sorted(cast[1:3] for cast in found) == [("float32", 2048), ("half", 2048)]
    assert all(cast.nanoseconds > 0 for cast in found)
