"""Ops of a converted graph that the running TensorFlow has no kernels for: bfloat16 in 1.15."""

from __future__ import annotations

import collections
from typing import Any, Counter, Dict, List

import tensorflow.compat.v1 as tf

from graphmp.errors import warning
from graphmp.policy.dtypes import BFLOAT16
from graphmp.policy.half_kernels import DEVICES, has_kernel, types_of

_MOST = 3  # ops that are named


def missing_kernels(graph_def: Any) -> List[Dict[str, str]]:
    """The warning GMP127 for a graph with nodes in bfloat16 that neither CPU nor GPU can run here.

    TensorFlow 2 has kernels for all that a conversion makes.
    """
    if not tf.__version__.startswith("1."):
        return []
    missing: Counter[str] = collections.Counter()
    for body in (graph_def.node, *(each.node_def for each in graph_def.library.function)):
        missing.update(node.op for node in body if _lacks_kernel(node))
    if not missing:
        return []
    named = ", ".join(op for op, _ in missing.most_common(_MOST))
    more = " and %d more" % (len(missing) - _MOST) if len(missing) > _MOST else ""
    text = "TensorFlow %s has no bfloat16 kernels for %s%s (%d nodes): train in float16 here, or in"
    text += " bfloat16 on TensorFlow 2"
    return [warning("GMP127", "", text % (tf.__version__, named, more, sum(missing.values())))]


def _lacks_kernel(node: Any) -> bool:
    types = types_of(node)
    if BFLOAT16 not in types.values() or not _is_known(node.op, types):
        return False
    return not any(has_kernel(node.op, types, device, here=True) for device in DEVICES)


def _is_known(op: str, types: Dict[str, int]) -> bool:
    """Whether TensorFlow 2 runs an op in these types: no call, argument or op of a library."""
    return any(has_kernel(op, types, device) for device in DEVICES)
