"""Reading graph files: parsed by content, then checked at the gate."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate.gate import check
from graphmp.graph.io.files import Path, damaged, parse_graph, silent_stderr


def read_graph(path: Path, tag: str = "") -> tf.MetaGraphDef:
    """Read a MetaGraphDef, a GraphDef or a SavedModel, binary or text, by its content.

    Args:
        path: a file, or the folder of a SavedModel.
        tag: the tags of the graph to take from a SavedModel, separated by commas; may be empty if
            there is only one graph.

    Returns:
        The MetaGraphDef; a GraphDef is wrapped into one.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP008 if it is not a graph that TensorFlow
            could run, GMP002 if the file has no graph with this tag.
    """
    file, meta_graph = parse_graph(path, tag)
    try:
        with silent_stderr():  # protobuf 3.20's words about keys that are in the file twice
            _settle(meta_graph)
            check(meta_graph)
    except GraphmpError as error:
        raise damaged(file, error.message) from None
    return meta_graph


def _settle(meta_graph: tf.MetaGraphDef) -> None:
    """Read the maps that the gate doesn't: of a key that is in the file twice one value is left."""
    maps = [meta_graph.collection_def, meta_graph.signature_def]
    for signature in meta_graph.signature_def.values():
        maps += [signature.inputs, signature.outputs]
    for function in meta_graph.graph_def.library.function:
        maps += [function.attr, function.ret]
    for each in maps:
        len(each)
