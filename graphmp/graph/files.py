"""Graph files: reading a graph whatever its format, and writing files that are never half there."""

from __future__ import annotations

import os
import pathlib
import re
import sys
import uuid
import warnings
from typing import Any, Callable, Optional, Tuple, Union

import tensorflow.compat.v1 as tf
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graphmp.errors import GraphmpError
from graphmp.graph.view import GraphView

Path = Union[str, "os.PathLike[str]"]

_ACCEPTED = "accepted is a MetaGraphDef or a GraphDef, binary or text"
_NODE_FIRST = re.compile(rb"\x0a[\x80-\xff]*[\x00-\x7f]\x0a")  # a message in field 1 that begins with its own field 1: a node and its name
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # a binary graph has the byte 0x12 ahead of every op; text writes such bytes as escapes


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
    if not _CONTROL.search(data):
        try:
            return _first_graph(text_format.Parse, data.decode("utf-8-sig"), "text")
        except UnicodeDecodeError:
            pass
    return _first_graph(_parse_binary, data, "%s bytes" % format(len(data), ","))


def _first_graph(parse: Callable[[Any, Any], Any], data: Any, kind: str) -> Tuple[Optional[tf.MetaGraphDef], str]:
    """Reads `data` as a MetaGraphDef and as a GraphDef. With no graph in either, tells of the reading that got further.

    What is likely a GraphDef is tried as one first: protobuf 3.20 writes to stderr when a reading fails on a string.
    """
    failures = []
    readings = [lambda meta: meta, lambda meta: meta.graph_def]
    if isinstance(data, bytes) and _NODE_FIRST.match(data):
        readings.reverse()
    for select in readings:
        meta_graph = tf.MetaGraphDef()
        try:
            parse(data, select(meta_graph))
        except (DecodeError, text_format.ParseError, RecursionError) as error:
            failures.append((getattr(error, "GetLine", int)() or 0, str(error)))
            continue
        if _has_nodes(meta_graph.graph_def):
            return meta_graph, ""
        failures.append((sys.maxsize, "no nodes that have a name and an op"))
    return None, "%s, and not a graph (%s)" % (kind, max(failures)[1])


def _parse_binary(data: bytes, message: Any) -> None:
    """Raises DecodeError too where protobuf 3.20 gives up halfway, which it only warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        message.ParseFromString(data)
    if any(issubclass(warning.category, RuntimeWarning) for warning in caught):
        raise DecodeError(str(caught[0].message))


def _has_nodes(graph_def: tf.GraphDef) -> bool:
    """Whether there are nodes and all have a name and an op. A MetaGraphDef's op list, read as an op, isn't printable."""
    return len(graph_def.node) > 0 and all(node.name and node.op and node.op.isprintable() for node in graph_def.node)
