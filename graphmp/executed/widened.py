"""A converted graph with its half precision widened to float32, for comparison with the original.

1. Everything half that wasn't half in the original becomes float32: attributes, constants,
   arguments of functions.
2. A rounded copy of an original constant gets the original value again.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.executed.scales import FoundScales
from graphmp.graph.structure.values import changed, compact, number
from graphmp.policy.dtypes import FLOAT32, HALF

_Nodes = Dict[str, tf.NodeDef]


def widened(
    original: tf.MetaGraphDef, converted: tf.MetaGraphDef, found: FoundScales
) -> tf.MetaGraphDef:
    """A copy of a converted graph in float32, which differs only in types.

    Args:
        original: the graph before the conversion.
        converted: the graph after it.
        found: the proof's scales.
    """
    result = tf.MetaGraphDef()
    result.CopyFrom(converted)
    before = _bodies(original)
    _widen(
        result.graph_def.node,
        dict(before[""], **{copy: before[""][name] for copy, name in found.copies.items()}),
    )
    for function in result.graph_def.library.function:
        _widen(function.node_def, before.get(function.signature.name, {}))
        for argument in [*function.signature.input_arg, *function.signature.output_arg]:
            if argument.type in HALF and function.signature.name not in before:
                argument.type = FLOAT32
    return result


def plain(converted: tf.MetaGraphDef, found: FoundScales) -> tf.MetaGraphDef:
    """A copy of a converted graph without its clips, and with powers of two as fixed scales."""
    result = tf.MetaGraphDef()
    result.CopyFrom(converted)
    nodes = {node.name: node for node in result.graph_def.node}
    for name in found.clips:
        _hand_on(nodes[name])
    for name in found.numbers:
        _round(nodes[name])
    return result


def _hand_on(node: tf.NodeDef) -> None:
    """Make a product a copy of its first input."""
    node.op = "Identity"
    del node.input[1]


def _round(node: tf.NodeDef) -> None:
    scale = number(node)
    if not scale:
        return
    node.attr["value"].tensor.CopyFrom(
        tf.make_tensor_proto(np.float32(2.0 ** round(math.log2(scale))))
    )


def _bodies(meta_graph: tf.MetaGraphDef) -> Dict[str, _Nodes]:
    found = {
        function.signature.name: {node.name: node for node in function.node_def}
        for function in meta_graph.graph_def.library.function
    }
    return dict(found, **{"": {node.name: node for node in meta_graph.graph_def.node}})


def _widen(nodes: Iterable[tf.NodeDef], before: _Nodes) -> None:
    for node in nodes:
        old = before.get(node.name)
        for key, value in node.attr.items():
            was = old.attr[key] if old is not None and key in old.attr else None
            if value.type in HALF and (was is None or was.type not in HALF):
                value.type = FLOAT32
            for place, dtype in enumerate(value.list.type):
                kept = (
                    was is not None and len(was.list.type) > place and was.list.type[place] in HALF
                )
                if dtype in HALF and not kept:
                    value.list.type[place] = FLOAT32
        if (
            node.op == "Const"
            and node.attr["value"].tensor.dtype in HALF
            and node.attr["dtype"].type == FLOAT32
        ):
            node.attr["value"].tensor.CopyFrom(_wide(node, old))


def _wide(node: tf.NodeDef, old: Optional[Any]) -> Any:
    rounded = compact(node.attr["value"].tensor)
    exact = compact(old.attr["value"].tensor) if old is not None and old.op == "Const" else None
    if (
        exact is not None
        and exact.dtype == np.float32
        and np.array_equal(exact.astype(rounded.dtype), rounded)
    ):
        return old.attr["value"].tensor  # type: ignore[union-attr]  # exact is its value
    return changed(node.attr["value"].tensor, tf.float32)
