"""Graphs in float32 whose batches and weights are rounded to half precision, for comparison."""

from __future__ import annotations

from typing import Iterator

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.op_sets import PLACEHOLDERS, VARIABLE_OPS
from graphmp.verify.sides import Side


def rounded(meta_graph: tf.MetaGraphDef, dtype: int) -> tf.MetaGraphDef:
    """A copy whose float32 placeholders and variables are rounded to `dtype` when read.

    Variables that are read by a node of their own are rounded there.
    """
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
