"""Ops of a converted graph that the running TensorFlow may not run: bfloat16 in 1.15.

The CPU of 1.15.5 has bfloat16 kernels for few ops, the GPU for fewer. PyPI's build also has a
device XLA_CPU:0 with kernels for most others, and puts such ops there, those in loops, branches and
functions too. Training ends in an error (seen in 1.15.5)

1. at an op that no device has a kernel for;
2. at one that only XLA_CPU:0 has a kernel for if it names another device, or is colocated with an
   op that does, unless the session places softly;
3. at a division by a constant: the optimizer of graphs makes a product with the `Reciprocal` of it,
   after ops were placed, on the CPU.
"""

from __future__ import annotations

import collections
import functools
from typing import Any, Callable, Counter, Dict, Iterator, List, Mapping, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.errors import warning
from graphmp.graph.state.devices import Places
from graphmp.graph.structure.reciprocals import becomes_reciprocal, in_body
from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import BFLOAT16
from graphmp.policy.half_kernels import DEVICES, has_kernel, types_of
from graphmp.wording import plural, some

_MISSING = "TensorFlow %s has no bfloat16 kernels for %s: "
_PLACED = (
    "TensorFlow %s has bfloat16 kernels for %s on its device XLA_CPU:0 alone, and the graph"
    " names another for them: set allow_soft_placement=True in the session's ConfigProto, or "
)
_DIVIDED = (
    "TensorFlow %s makes a Reciprocal of a division by a constant in bfloat16, for which its CPU"
    " has no kernel: %s. Set graph_options.rewrite_options.constant_folding to OFF in the session's"
    " ConfigProto, or "
)
_ELSE = "train in float16 here, or in bfloat16 on TensorFlow 2"


def missing_kernels(graph_def: Any, config: Optional[Any] = None) -> List[Dict[str, str]]:
    """The warnings GMP127 for a graph with nodes in bfloat16 at which training may end here.

    TensorFlow 2 has kernels for all that a conversion makes.

    Args:
        graph_def: the graph.
        config: the ConfigProto of the session that trains it, if that is known. Nothing is said of
            what it already cures.
    """
    if not tf.__version__.startswith("1."):
        return []
    counts: Dict[str, Counter[str]] = {
        text: collections.Counter() for text in (_MISSING, _PLACED, _DIVIDED)
    }
    cured = frozenset(_cured(config)) if config is not None else frozenset()
    places = functools.lru_cache(None)(lambda: Places(GraphView(graph_def)))  # mostly not needed
    for text, op in _faults(graph_def.node, lambda node: places().of(node.name)):
        counts[text][op] += 1
    for function in graph_def.library.function:
        for text, op in _faults(function.node_def, lambda node: str(node.device)):
            counts[text][op] += 1
    return [
        warning("GMP127", "", text % (tf.__version__, _named(found)) + _ELSE)
        for text, found in counts.items()
        if found and text not in cured
    ]


def _cured(config: Any) -> Iterator[str]:
    """The faults that a session's own options cure."""
    rewrites = config.graph_options.rewrite_options
    if config.allow_soft_placement:
        yield _PLACED
    if rewrites.disable_meta_optimizer or rewrites.constant_folding == type(rewrites).OFF:
        yield _DIVIDED


def _named(found: Counter[str]) -> str:
    ops = [op for op, _ in found.most_common()]
    return "%s (%s)" % (some(ops), plural(sum(found.values()), "node"))


def _faults(body: Sequence[Any], device_of: Callable[[Any], str]) -> Iterator[Any]:
    """For each node that may end training the text that says why, and its op."""
    look = in_body({node.name: node for node in body})
    for node in body:
        types = types_of(node)
        if BFLOAT16 not in types.values() or not _runs(node.op, types, DEVICES, here=False):
            continue  # TensorFlow 2 doesn't run a call, an argument or an op of a library either
        if not _runs(node.op, types, (*DEVICES, "XLA_CPU")):
            yield _MISSING, node.op
        elif not _runs(node.op, types, DEVICES):
            if tf.DeviceSpec.from_string(device_of(node)).device_type not in (None, "XLA_CPU"):
                yield _PLACED, node.op
        elif becomes_reciprocal(node.op, "bfloat16", node.input, look):
            yield _DIVIDED, node.op


def _runs(op: str, types: Mapping[str, int], devices: Sequence[str], here: bool = True) -> bool:
    return any(has_kernel(op, types, device, here=here) for device in devices)
