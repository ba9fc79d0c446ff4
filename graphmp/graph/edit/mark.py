"""The marks of graphs that graphmp converted: collections with the version and the flags, as JSON.

A converted graph has the collection `graphmp`. A graph that a session converts beside itself has
`graphmp_session`, so that its .meta says so: the graph there is the original.

`flags` are those that were asked for: a conversion by the same ones is the same. `instead` has the
values that held in place of some: a graph that scales its own loss gets no scale.
"""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.config import Config, in_words
from graphmp.version import __version__

COLLECTION = "graphmp"
SESSION = "graphmp_session"
_NONE: Mapping[str, Any] = {}
_HOW = ("engine", "engine_strict")  # they choose how to convert, not the result


def mark(
    meta_graph: tf.MetaGraphDef, config: Config, engine: str, instead: Mapping[str, Any] = _NONE
) -> None:
    """Marks a graph as converted; `instead` has the flags that held in place of those asked for."""
    meta_graph.collection_def[COLLECTION].bytes_list.value[:] = [_text(config, engine, instead)]


def mark_session(graph: Any, config: Config) -> None:
    """Marks a tf.Graph as converted beside itself."""
    graph.get_collection_ref(SESSION)[:] = [_text(config, "rewrite")]


def _text(config: Config, engine: str, instead: Mapping[str, Any] = _NONE) -> bytes:
    found = {"graphmp_version": __version__, "engine": engine, "flags": config.as_flags()}
    if instead:
        found["instead"] = dict(instead)
    return json.dumps(found, sort_keys=True).encode("utf-8")


def read_mark(meta_graph: tf.MetaGraphDef) -> Optional[Dict[str, Any]]:
    """The contents of the mark; None for a graph without one."""
    if COLLECTION not in meta_graph.collection_def:
        return None
    return _read(meta_graph.collection_def[COLLECTION].bytes_list.value)


def read_session_mark(graph: Any) -> Optional[Dict[str, Any]]:
    """The contents of a tf.Graph's mark of a session; None for a graph without one."""
    return _read(graph.get_collection(SESSION))


def _read(texts: Iterable[Union[bytes, str]]) -> Optional[Dict[str, Any]]:
    """TensorFlow makes text of the bytes, and puts the scope ahead, where it imports into one."""
    for data in texts:
        try:
            text = data if isinstance(data, str) else data.decode("utf-8")
            found = json.loads(text[max(text.find("{"), 0) :])
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("flags"), dict):
            return dict(found)
    return None


def flags_that_held(found: Mapping[str, Any]) -> Dict[str, Any]:
    """The flags by which a marked graph was converted."""
    instead = found.get("instead")
    return {**found["flags"], **(instead if isinstance(instead, dict) else {})}


def same_conversion(found: Dict[str, Any], config: Config) -> bool:
    """Whether a mark was made by this version with these flags."""
    return found.get("graphmp_version") == __version__ and _what(found["flags"]) == _what(
        config.as_flags()
    )


def differing(found: Dict[str, Any], config: Config) -> Tuple[str, str]:
    """The flags of a mark that aren't those of `config`, and those of `config`; empty if alike."""
    then, now = _what(found["flags"]), _what(config.as_flags())
    names = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    before, after = (
        ", ".join(in_words(name, flags.get(name)) for name in names) for flags in (then, now)
    )
    return before, after


def _what(flags: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in flags.items() if name not in _HOW}
