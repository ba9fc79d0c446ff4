"""Arguments and results of a build function: casting the former, mapping back the latter."""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterator, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import is_half, is_tensor
from graphmp.recipe.plan import FLOATS
from graphmp.recipe.state import GraphState

Call = Tuple[Tuple[Any, ...], Dict[str, Any]]


def flat(call: Any) -> List[Any]:
    """The leaves of a call's arguments, or of a returned structure.

    Tensors that are keys of a dictionary, as of one to be fed, are leaves too. Dictionaries keep
    their order: `tf.nest` sorts them by their keys, of which tensors and mixed types have no order.
    """
    return list(_leaves(call))


def _leaves(part: Any) -> Iterator[Any]:
    if isinstance(part, dict):
        for key, value in part.items():
            if is_tensor(key):
                yield key
            yield from _leaves(value)
    elif isinstance(part, (list, tuple)):
        for each in part:
            yield from _leaves(each)
    else:
        yield from tf.nest.flatten(part)  # attrs classes


def replaced(call: Any, leaves: List[Any]) -> Any:
    """The same structure with other leaves; the same object if no leaf changed."""
    if all(new is old for new, old in zip(leaves, flat(call))):
        return call
    return _packed(call, iter(leaves))


def _packed(part: Any, leaves: Iterator[Any]) -> Any:
    if isinstance(part, dict):
        pairs = [
            (next(leaves) if is_tensor(key) else key, _packed(value, leaves))
            for key, value in part.items()
        ]
        same = copy.copy(part)  # of its own type, such as an OrderedDict
        same.clear()
        same.update(pairs)
        return same
    if isinstance(part, (list, tuple)):
        parts = [_packed(each, leaves) for each in part]
        return type(part)(*parts) if hasattr(part, "_fields") else type(part)(parts)
    return tf.nest.pack_sequence_as(part, [next(leaves) for _ in tf.nest.flatten(part)])


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
        if is_half(leaf.dtype)
        else leaf
    )
