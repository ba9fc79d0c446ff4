"""Graph files: reading a graph whatever its format, and writing files that are never half there."""

from __future__ import annotations

import os
import pathlib
import uuid
from typing import Any, Callable, List, Optional, Tuple, Union

import tensorflow.compat.v1 as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graphmp.errors import GraphmpError
from graphmp.graph.view import GraphView

Path = Union[str, "os.PathLike[str]"]

_ACCEPTED = "accepted is a MetaGraphDef or a GraphDef, binary or text"
_NO_GRAPH = "a protobuf without nodes that have a name and an op"


def read_graph(path: Path) -> tf.MetaGraphDef:
    """Reads a MetaGraphDef or a GraphDef, binary or text; the content decides, not the name.

    A protobuf parser takes many a file for what it is not, because it keeps fields that it does not know. A reading
    counts only if it gives nodes, each with a name and an op, whose names are unique and whose inputs all exist.
    That also finds nearly every file that was cut short.

    Returns:
        The MetaGraphDef; a GraphDef comes wrapped into one.

    Raises:
        GraphmpError: GMP003 if the file can't be read, GMP008 if it is not a graph.
    """
    meta_graph, found = _parse(_read(path))
    if meta_graph is None:
        raise _not_a_graph(path, found)
    try:
        GraphView(meta_graph.graph_def)
    except GraphmpError as error:
        raise _not_a_graph(path, "a damaged graph (%s)" % error.message) from None
    return meta_graph


def serialize(meta_graph: tf.MetaGraphDef) -> bytes:
    """The binary form of a graph: the same bytes for the same graph, in any process."""
    data: bytes = meta_graph.SerializeToString(deterministic=True)
    return data


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file as a whole or not at all: under a temporary name in the same folder, then renamed.

    A link is followed. A device or a pipe is written to and not replaced: a rename would destroy /dev/null.

    Raises:
        GraphmpError: GMP004 if it can't be written; the old file is then what it was.
    """
    target = pathlib.Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _write_and_rename(target, data)
    except OSError as error:
        raise GraphmpError("GMP004", "%s: cannot be written: %s" % (path, error.strerror or error)) from None


def _write_and_rename(target: pathlib.Path, data: bytes) -> None:
    temporary = target.with_name(".graphmp-%s" % uuid.uuid4().hex)
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        os.replace(temporary, target)
    except BaseException:
        if temporary.exists():
            temporary.unlink()
        raise


def _read(path: Path) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except IsADirectoryError:
        raise _not_a_graph(path, "a folder") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise GraphmpError("GMP003", "%s: %s" % (path, getattr(error, "strerror", None) or error)) from None


def _not_a_graph(path: Path, found: str) -> GraphmpError:
    return GraphmpError("GMP008", "%s: found %s; %s" % (path, found, _ACCEPTED))


def _parse(data: bytes) -> Tuple[Optional[tf.MetaGraphDef], str]:
    """The graph in `data`, or None and what was found instead."""
    if not data:
        return None, "an empty file"
    meta_graph, found = _first_graph(_parse_binary, data)
    if meta_graph is not None:
        return meta_graph, ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None, found[0] if len(found) == 1 else "%s bytes that are not such a protobuf, or only a part of one" % format(len(data), ",")
    meta_graph, found = _first_graph(text_format.Parse, text)
    return meta_graph, "text (%s)" % _furthest(found)


def _first_graph(parse: Callable[[Any, Any], Any], data: Any) -> Tuple[Optional[tf.MetaGraphDef], List[Any]]:
    """Reads `data` as a MetaGraphDef, then as a GraphDef; with no graph in either, says what was wrong with each."""
    found: List[Any] = []
    for select in (lambda meta: meta, lambda meta: meta.graph_def):
        meta_graph = tf.MetaGraphDef()
        try:
            parse(data, select(meta_graph))
        except (DecodeError, text_format.ParseError, RecursionError) as error:
            found.append(error)
            continue
        if _has_nodes(meta_graph.graph_def):
            return meta_graph, []
        found.append(_NO_GRAPH)
    return None, found


def _parse_binary(data: bytes, message: Any) -> None:
    message.ParseFromString(data)


def _has_nodes(graph_def: tf.GraphDef) -> bool:
    return len(graph_def.node) > 0 and all(node.name and node.op for node in graph_def.node)


def _furthest(found: List[Any]) -> str:
    """Of what was wrong with two readings of one text, the one that came up later in the text."""
    return str(max(found, key=lambda error: (isinstance(error, str), getattr(error, "GetLine", int)() or 0)))
