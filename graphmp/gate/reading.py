"""Reading graph files: parsed by content, then checked at the gate."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate.gate import check
from graphmp.graph.io.files import Path, damaged, parse_graph
from graphmp.graph.io.strict import silent_stderr
from graphmp.graph.structure.view import GraphView


class Read(NamedTuple):
    """A graph that was read.

    Attributes:
        meta_graph: the MetaGraphDef, around a GraphDef if that was read.
        digest: the SHA-256 of the bytes read.
        view: the view of its main graph.
    """

    meta_graph: tf.MetaGraphDef
    digest: str
    view: GraphView


def read_graph(path: Path, tag: str = "") -> tf.MetaGraphDef:
    """The graph of a file, as `read_once` reads it."""
    return read_once(path, tag).meta_graph


def read_once(path: Path, tag: str = "") -> Read:
    """Read a MetaGraphDef, a GraphDef or a SavedModel, binary or text, by its content.

    Args:
        path: a file, or the folder of a SavedModel.
        tag: the tags of the graph to take from a SavedModel, separated by commas; may be empty if
            there is only one graph.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP008 if it is not a graph that TensorFlow
            could run, GMP002 if the file has no graph with this tag.
    """
    file, meta_graph, digest = parse_graph(path, tag)
    try:
        with silent_stderr():  # protobuf 3.20's words about keys that are in the file twice
            _settle(meta_graph)
            view = check(meta_graph)
    except GraphmpError as error:
        raise damaged(file, error.message) from None
    return Read(meta_graph, digest, view)


def _settle(meta_graph: tf.MetaGraphDef) -> None:
    """Read the maps that the gate doesn't: of a key that is in the file twice one value is left."""
    maps = [meta_graph.collection_def, meta_graph.signature_def]
    for signature in meta_graph.signature_def.values():
        maps += [signature.inputs, signature.outputs]
    for function in meta_graph.graph_def.library.function:
        maps += [function.attr, function.ret]
    for each in maps:
        len(each)
