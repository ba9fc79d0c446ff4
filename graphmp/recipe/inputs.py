"""Arguments and results of a build function: casting the former, mapping back the latter."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import is_tensor
from graphmp.recipe.plan import FLOATS
from graphmp.recipe.state import GraphState

HALF = (tf.float16, tf.bfloat16)
Call = Tuple[Tuple[Any, ...], Dict[str, Any]]


def flat(call: Any) -> List[Any]:
    """The leaves of a call's arguments, or of a returned structure."""
    return list(tf.nest.flatten(call))


def replaced(call: Any, leaves: List[Any]) -> Any:
    """The same structure with other leaves; the same object if no leaf changed."""
    if all(new is old for new, old in zip(leaves, flat(call))):
        return call
    return tf.nest.pack_sequence_as(call, leaves)


def cast_arguments(
    call: Call, chosen: Any, dtype: Any, state: GraphState
) -> Tuple[Call, Dict[str, Any]]:
    """Cast floating-point tensor arguments to `dtype`.

    The flat indices in `chosen`, or all if None.

    Returns:
        The call with casts as arguments, and the caller's tensors by the name of their cast.
    """
    leaves, originals = flat(call), {}
    for i, leaf in enumerate(leaves):
        if is_tensor(leaf) and leaf.dtype in FLOATS and (chosen is None or i in chosen):
            leaves[i] = state.cast(leaf, dtype, "input of the build function")
            originals[leaves[i].name] = leaf
    return replaced(call, leaves), originals


def map_back(result: Any, originals: Dict[str, Any], state: GraphState) -> Any:
    """The caller's results: its own tensors for returned arguments, float32 for half tensors."""
    return replaced(result, [_back(leaf, originals, state) for leaf in flat(result)])


def _back(leaf: Any, originals: Dict[str, Any], state: GraphState) -> Any:
    if not is_tensor(leaf):
        return leaf
    if leaf.name in originals:
        return originals[leaf.name]
    return (
        state.cast(leaf, tf.float32, "returned by the build function")
        if leaf.dtype in HALF
        else leaf
    )
