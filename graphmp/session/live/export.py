"""Exporting a live graph without its conversions."""

from __future__ import annotations

from typing import AbstractSet, Any

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.cloning import FUNCTION_SUFFIX
from graphmp.naming import SCOPE
from graphmp.session.live.watch import WATCH_SCOPE

_WATCHES = "%s/%s/" % (SCOPE, WATCH_SCOPE)


def exported(graph: Any, added: AbstractSet[str]) -> tf.MetaGraphDef:
    """The MetaGraphDef of a live graph without the nodes and functions of conversions.

    Args:
        graph: the tf.Graph.
        added: names of the nodes that conversions added.
    """
    with graph.as_default():
        graph_def = graph.as_graph_def(add_shapes=True)
        nodes = [
            node
            for node in graph_def.node
            if node.name not in added and not node.name.startswith(_WATCHES)
        ]
        del graph_def.node[:]
        graph_def.node.extend(nodes)
        functions = [
            f for f in graph_def.library.function if not f.signature.name.endswith(FUNCTION_SUFFIX)
        ]
        del graph_def.library.function[:]
        graph_def.library.function.extend(functions)
        return tf.train.export_meta_graph(graph=graph, graph_def=graph_def)
