"""The functions of `tf.contrib.framework` that neither tf-slim nor `tensorflow.compat.v1` has."""

from __future__ import annotations

from typing import List, Optional, Sequence

import tensorflow.compat.v1 as tf

__all__ = ["get_placeholders", "reduce_sum_n"]


def get_placeholders(graph: tf.Graph) -> List[tf.Tensor]:
    """The outputs of the Placeholder nodes of a graph.

    Own: nothing in `tf.graph_util` lists them.
    """
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


def reduce_sum_n(tensors: Sequence[tf.Tensor], name: Optional[str] = None) -> tf.Tensor:
    """Sums every tensor to a scalar and adds the scalars. Own: `tf.add_n` alone does not reduce."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(tensor, name=tensor.op.name + "/sum") for tensor in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)
