"""The shapes of what a step takes from a pipeline, so that only steps of equal shapes are compared.

A feed's shape is seen in the feed. What comes from an iterator or a queue is computed by nodes that
all variants share: the shapes of these values, where they aren't static, are fetched with the step.
Shapes that random numbers decide, such as that of what a sparse dropout leaves, hardly ever repeat
and are no marks of a batch: in their place count the shapes of what they are computed from.
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Any, Dict, FrozenSet, Iterable, List, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import ancestors
from graphmp.graph.state.state_kinds import kind
from graphmp.graph.structure.walk import reached
from graphmp.session.live.cloning.stand_ins import StandIns
from graphmp.session.live.not_finite.watch import WATCH_SCOPE
from graphmp.tf_hooks.internals import outside

_RANDOM = "random"  # kind of op


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
        shared = [
            tensor
            for name in clones
            for tensor in graph.get_operation_by_name(name).inputs
            if tensor.op.name not in added
        ]
        self._tensors = [
            tensor
            for tensor in _not_by_chance(graph, shared)
            if tensor.op.name not in hidden and _varies(tensor)
        ]
        self._shapes: Dict[str, Any] = {}

    def of(self, ops: Tuple[Any, ...], fed: FrozenSet[Any], stand_ins: StandIns) -> List[Any]:
        """Tensors to fetch with a run of some of the original's ops, given the ops that are fed.

        They are made of the tensors that run: the original of a clone, such as that of a random op,
        would be computed besides.
        """
        if not self._tensors:
            return []
        behind = ancestors(ops, stop=lambda op: op in fed) - fed
        found = [tensor for tensor in self._tensors if tensor.op in behind]
        return [self._shape(stand_ins.tensor(tensor)) for tensor in found]

    def _shape(self, tensor: Any) -> Any:
        if tensor.name not in self._shapes:
            with outside(self._graph), own_scope(WATCH_SCOPE):
                self._shapes[tensor.name] = tf.shape(tensor, name="shape")
        return self._shapes[tensor.name]


def _not_by_chance(graph: Any, tensors: Iterable[Any]) -> List[Any]:
    """The tensors, but in place of one that is computed from random numbers what that is made of.

    These are the random numbers, whose shape is given, and tensors that depend on none.
    """
    drawn = [op for op in graph.get_operations() if kind(op.type) == _RANDOM]
    decided = reached(_readers(drawn), lambda op: _readers([op]))
    found: Dict[str, Any] = {}
    seen: Set[str] = set()
    waiting = collections.deque(tensors)
    while waiting:
        tensor = waiting.popleft()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        if tensor.op in decided:
            waiting.extend(tensor.op.inputs)
        else:
            found[tensor.name] = tensor
    return list(found.values())


def _readers(ops: Iterable[Any]) -> List[Any]:
    return [reader for op in ops for tensor in op.outputs for reader in tensor.consumers()]


def _varies(tensor: Any) -> bool:
    """Whether a tensor's shape isn't known before it is computed."""
    dtype = tensor.dtype
    fetchable = dtype == dtype.base_dtype and dtype not in (tf.resource, tf.variant)
    return fetchable and not tensor.shape.is_fully_defined()
