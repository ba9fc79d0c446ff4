"""A graph whose batches and weights are rounded to half precision, and which computes in float32: how much that alone changes."""

from __future__ import annotations

from typing import Iterator

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.op_sets import PLACEHOLDERS, VARIABLE_OPS
from graphmp.verify.sides import Side


def rounded(meta_graph: tf.MetaGraphDef, dtype: int) -> tf.MetaGraphDef:
    """A copy in which all who read a float32 placeholder, or a float32 variable by way of a read of its own, read it rounded to `dtype`."""
    result = tf.MetaGraphDef()
    result.CopyFrom(meta_graph)
    side, editor = Side(meta_graph, meta_graph.graph_def), Editor(result.graph_def)
    for name in _sources(side):
        narrow = editor.add(name + "/narrow", "Cast", [Port(name, 0)], SrcT=FLOAT32, DstT=dtype)
        wide = editor.add(name + "/wide", "Cast", [narrow], SrcT=dtype, DstT=FLOAT32)
        editor.read_instead(side.view.consumers(name), wide)
    return result


def _sources(side: Side) -> Iterator[str]:
    view = side.view
    for name, node in view.nodes.items():
        of_variable = (
            bool(view.inputs(name)) and view.nodes[view.inputs(name)[0].node].op in VARIABLE_OPS
        )
        is_source = node.op in PLACEHOLDERS or (
            of_variable and node.op in ("Identity", "ReadVariableOp")
        )
        if is_source and side.dtype(Port(name, 0)) == FLOAT32:
            yield name
