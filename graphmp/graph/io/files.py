"""Graph files: reading graphs of all formats."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import stat
import sys
from typing import Any, Callable, Sequence, Tuple

import tensorflow.compat.v1 as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graphmp.errors import GraphmpError
from graphmp.files.folder import refuse_half_replaced
from graphmp.files.reading import Path, read_bytes, unreadable
from graphmp.graph.io import saved_model
from graphmp.graph.io.strict import parse_strictly

META_GRAPH, GRAPH, SAVED_MODEL = "MetaGraphDef", "GraphDef", "SavedModel"

_ACCEPTED = "accepted is a MetaGraphDef or a GraphDef, binary or text, or a SavedModel"
_TOO_LARGE = 1 << 31  # protobuf reads and writes only less
_CONTROL = re.compile(
    rb"[\x00-\x08\x0e-\x1f]"
)  # a binary graph has the byte 0x12 before each op; text escapes such bytes
_VERSION_FIRST = (
    b"\x08"  # a number in field 1: the schema version of a SavedModel; in a graph it is a message
)
_PART = re.compile(r"\.(index|data-\d{5}-of-\d{5})$")  # a checkpoint's files, without its graph
_NO_NODES = "no nodes that have a name and an op"
_END = (sys.maxsize, 0)


def parse_graph(path: Path, tag: str = "") -> Tuple[str, tf.MetaGraphDef, str]:
    """Parse a MetaGraphDef, a GraphDef or a SavedModel, binary or text, by its content.

    A protobuf parser accepts many files of other formats, because it keeps unknown fields. A form
    counts only if it has nodes, each with a name and an op. Other rooms read graphs by `read_graph`
    of `gate/reading.py`, which checks them too.

    Args:
        path: a file, or the folder of a SavedModel.
        tag: the tags of the graph to take from a SavedModel, separated by commas; may be empty if
            there is only one graph.

    Returns:
        The file that was read, the MetaGraphDef, around a GraphDef if that was read, and the
        SHA-256 of the bytes.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP008 if it is not a graph, GMP002 if the
            file has no graph with this tag.
    """
    file = _file_of(path)
    refuse_half_replaced(pathlib.Path(file))
    data = read_bytes(file, _TOO_LARGE - 1)
    form, meta_graphs = _parse(file, data)
    if form == SAVED_MODEL:
        meta_graph = saved_model.select(meta_graphs, tag, file)
        if not _has_nodes(meta_graph.graph_def):
            raise _not_a_graph(file, "a graph with %s" % _NO_NODES)
    elif tag:
        raise GraphmpError(
            "GMP002",
            "%s: --tag=%s: found a %s; accepted with a tag is a SavedModel" % (file, tag, form),
        )
    else:
        meta_graph = meta_graphs[0]
    return file, meta_graph, hashlib.sha256(data).hexdigest()


def _file_of(path: Path) -> str:
    """The existing file to read, of acceptable size: `path`, or the SavedModel in that folder."""
    try:
        status = os.stat(path)
        file = saved_model.file_in(os.fspath(path)) if stat.S_ISDIR(status.st_mode) else ""
    except (OSError, ValueError) as error:
        raise unreadable(os.fspath(path), error) from None
    if file is None:
        raise _not_a_graph(path, "a folder without %s" % " or ".join(saved_model.FILES))
    if file:
        return _file_of(file)
    if status.st_size >= _TOO_LARGE:
        raise _not_a_graph(
            path, "a file of %s bytes" % format(status.st_size, ","), ", of less than 2 GiB"
        )
    return os.fspath(path)


def _not_a_graph(path: Path, found: str, limit: str = "") -> GraphmpError:
    if os.fspath(path).endswith(".py"):
        found, limit = (
            "a Python file",
            "; `graphmp convert %s` writes the graph that it builds" % path,
        )
    meta = _meta_beside(os.fspath(path))
    if meta:
        found, limit = "a part of a checkpoint", "; take its %s" % meta
    return GraphmpError("GMP008", "%s: found %s; %s%s" % (path, found, _ACCEPTED, limit))


def _meta_beside(path: str) -> str:
    """The graph of the checkpoint that a file is a part of, by its name; empty for other files."""
    if os.path.basename(path) == "checkpoint":
        return ".meta, which lies beside it"
    part = _PART.search(path)
    return path[: part.start()] + ".meta" if part else ""


def damaged(file: str, finding: str) -> GraphmpError:
    """The refusal of a file whose graph TensorFlow could not run, whatever its ops."""
    return _not_a_graph(file, "a damaged graph (%s)" % finding)


def _parse(file: str, data: bytes) -> Tuple[str, Sequence[tf.MetaGraphDef]]:
    """The format of a file, and its graphs, at least one. Raises GMP008 if there are none."""
    if not data:
        raise _not_a_graph(file, "an empty file")
    if not _CONTROL.search(data):
        try:
            return _first_form(
                file,
                text_format.Parse,
                data.decode("utf-8-sig"),
                (META_GRAPH, GRAPH, SAVED_MODEL),
                "text",
            )
        except UnicodeDecodeError:
            pass
    forms = (SAVED_MODEL,) if data.startswith(_VERSION_FIRST) else (META_GRAPH, GRAPH, SAVED_MODEL)
    return _first_form(file, parse_strictly, data, forms, "%s bytes" % format(len(data), ","))


def _first_form(
    file: str, parse: Callable[[Any, Any], Any], data: Any, forms: Sequence[str], kind: str
) -> Tuple[str, Sequence[tf.MetaGraphDef]]:
    """Try the forms in turn; if none has a graph, report the attempt that got furthest."""
    failures = []
    for form in forms:
        whole = saved_model.new() if form == SAVED_MODEL else tf.MetaGraphDef()
        try:
            parse(data, whole.graph_def if form == GRAPH else whole)
        except (
            DecodeError,
            text_format.ParseError,
            ValueError,
            RecursionError,
        ) as error:  # ValueError: a number out of its field's range
            failures.append((_place(error), str(error)))
            continue
        meta_graphs = whole.meta_graphs if form == SAVED_MODEL else [whole]
        if any(_has_nodes(meta_graph.graph_def) for meta_graph in meta_graphs):
            return form, meta_graphs
        failures.append((_END, _NO_NODES))
    raise _not_a_graph(
        file, "%s, and not a graph (%s)" % (kind, max(failures, key=lambda failure: failure[0])[1])
    )


def _place(error: Exception) -> Tuple[int, int]:
    """Line and column of a text's error; the end if unknown, as for bytes."""
    if isinstance(error, text_format.ParseError) and error.GetLine():
        return error.GetLine(), error.GetColumn() or 0
    return _END


def _has_nodes(graph_def: tf.GraphDef) -> bool:
    """Whether there are nodes, all with a name and an op.

    The op list of a MetaGraphDef, read as an op, isn't printable.
    """
    return len(graph_def.node) > 0 and all(
        node.name and node.op and node.op.isprintable() for node in graph_def.node
    )
