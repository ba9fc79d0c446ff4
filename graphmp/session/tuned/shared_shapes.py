"""The shapes of what a step takes from a pipeline, so that only steps of equal shapes are compared.

A feed's shape is seen in the feed. What comes from an iterator or a queue is computed by nodes that
all variants share: the shapes of these values, where they aren't static, are fetched with the step.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, FrozenSet, Iterable, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import ancestors
from graphmp.session.live.watch import WATCH_SCOPE
from graphmp.tf_hooks.internals import outside


class SharedShapes:
    """Shapes of the values that clones read from shared nodes."""

    def __init__(
        self,
        graph: Any,
        clones: Iterable[str],
        added: AbstractSet[str],
        hidden: AbstractSet[str],
    ):
        """Nothing is added to the graph yet.

        Args:
            graph: the tf.Graph.
            clones: names of the clones.
            added: names of all nodes that conversions added.
            hidden: nodes that can't be fetched, as in loops and branches.
        """
        self._graph = graph
        read = {
            tensor.name: tensor
            for name in clones
            for tensor in graph.get_operation_by_name(name).inputs
            if tensor.op.name not in added and tensor.op.name not in hidden and _varies(tensor)
        }
        self._tensors = list(read.values())
        self._shapes: Dict[str, Any] = {}

    def of(self, ops: Tuple[Any, ...], fed: FrozenSet[Any]) -> List[Any]:
        """Tensors to fetch with a run of some of the original's ops, given the ops that are fed."""
        if not self._tensors:
            return []
        behind = ancestors(ops, stop=lambda op: op in fed) - fed
        return [self._shape(tensor) for tensor in self._tensors if tensor.op in behind]

    def _shape(self, tensor: Any) -> Any:
        if tensor.name not in self._shapes:
            with outside(self._graph), own_scope(WATCH_SCOPE):
                self._shapes[tensor.name] = tf.shape(tensor, name="shape")
        return self._shapes[tensor.name]


def _varies(tensor: Any) -> bool:
    """Whether a tensor's shape isn't known before it is computed."""
    dtype = tensor.dtype
    fetchable = dtype == dtype.base_dtype and dtype not in (tf.resource, tf.variant)
    return fetchable and not tensor.shape.is_fully_defined()
