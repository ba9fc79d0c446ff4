"""The mark of a converted graph: the collection `graphmp`.

It holds the version and the flags of its conversion as JSON.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.version import __version__

COLLECTION = "graphmp"
_HOW = ("engine", "engine_strict")  # they choose how to convert, not the result


def mark(meta_graph: tf.MetaGraphDef, config: Config, engine: str) -> None:
    """Marks a graph as converted."""
    text = json.dumps(
        {"graphmp_version": __version__, "engine": engine, "flags": config.as_flags()},
        sort_keys=True,
    )
    meta_graph.collection_def[COLLECTION].bytes_list.value[:] = [text.encode("utf-8")]


def read_mark(meta_graph: tf.MetaGraphDef) -> Optional[Dict[str, Any]]:
    """The contents of the mark; None for a graph without one."""
    if COLLECTION not in meta_graph.collection_def:
        return None
    for data in meta_graph.collection_def[COLLECTION].bytes_list.value:
        try:
            found = json.loads(data.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("flags"), dict):
            return dict(found)
    return None


def same_conversion(found: Dict[str, Any], config: Config) -> bool:
    """Whether a mark was made by this version with these flags."""
    return found.get("graphmp_version") == __version__ and _what(found["flags"]) == _what(
        config.as_flags()
    )


def _what(flags: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in flags.items() if name not in _HOW}
