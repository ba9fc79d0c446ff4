"""Differences between a conversion's written files and those of today's conversion."""

from __future__ import annotations

import json
from typing import Any, Iterator, Tuple

import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from graphmp.compare.api import compare
from graphmp.compare.explain import described
from graphmp.errors import GraphmpError

_LONGEST = 120
_ABSENT = object()


def first_difference(name: str, found: bytes, expected: bytes) -> str:
    """The first difference between two contents of a file.

    For example `dense/kernel: dtype of T: float32 -> float16`.

    Args:
        name: the file's name, which determines its kind.
        found: its bytes, which differ from `expected`.
        expected: the bytes of today's conversion.
    """
    difference = (
        _of_graphs
        if name.endswith(".meta")
        else _of_reports
        if name.endswith(".json")
        else _of_texts
    )
    return difference(found, expected)


def _of_graphs(found: bytes, expected: bytes) -> str:
    try:
        changes = compare(
            tf.MetaGraphDef.FromString(found), tf.MetaGraphDef.FromString(expected), prove=False
        ).changes
    except (DecodeError, GraphmpError):
        return "is not a graph"
    if not changes:
        return "the order of nodes, or a field that no graph is made of"
    return _cut("%s: %s" % (changes[0].path, described(changes[0])))


def _of_reports(found: bytes, expected: bytes) -> str:
    try:
        before = json.loads(found.decode("utf-8"))
    except (ValueError, RecursionError):
        return "is not JSON"
    for path, old, new in _changes(before, json.loads(expected.decode("utf-8")), ""):
        return _cut("%s: %s -> %s" % (path or "all", _text(old), _text(new)))
    return "its spacing"


def _changes(old: Any, new: Any, path: str) -> Iterator[Tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            yield from _changes(
                old.get(key, _ABSENT), new.get(key, _ABSENT), "%s.%s" % (path, key) if path else key
            )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new)):
            yield from _changes(one, other, "%s[%d]" % (path, number))
    elif old != new:
        yield path, old, new


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "%d rows" % len(value)
    return "nothing" if value is _ABSENT else json.dumps(value, sort_keys=True)


def _of_texts(found: bytes, expected: bytes) -> str:
    old, new = found.decode("utf-8", "replace").splitlines(), expected.decode("utf-8").splitlines()
    for number, (one, other) in enumerate(zip(old, new), 1):
        if one != other:
            return _cut(
                "line %d: %s -> %s"
                % (number, one.strip()[: _LONGEST // 2], other.strip()[: _LONGEST // 2])
            )
    return "%d lines -> %d" % (len(old), len(new))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
