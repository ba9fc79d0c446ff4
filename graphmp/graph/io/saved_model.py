"""SavedModels: the file in the folder, and one of the graphs in the file."""

from __future__ import annotations

import os
import shlex
from typing import Any, FrozenSet, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.io import messages

FILES = ("saved_model.pb", "saved_model.pbtxt")  # in TensorFlow's order of preference


def new() -> Any:
    """An empty SavedModel message, which compat.v1 doesn't export."""
    return messages.new("tensorflow.SavedModel")


def file_in(folder: str) -> Optional[str]:
    """The path of the SavedModel in a folder; None if it has none.

    Raises:
        OSError: the folder can't be read.
    """
    entries = os.listdir(folder)
    return next((os.path.join(folder, name) for name in FILES if name in entries), None)


def select(meta_graphs: Sequence[tf.MetaGraphDef], tag: str, path: str) -> tf.MetaGraphDef:
    """The graph with the tags in `tag`, separated by commas; a single graph needs no tag.

    Raises:
        GraphmpError: GMP002 if no graph has these tags, or if none were given for several graphs.
    """
    wanted = _tags(tag.split(","))
    for meta_graph in meta_graphs:
        if _tags(meta_graph.meta_info_def.tags) == wanted:
            return meta_graph
    if len(meta_graphs) == 1 and not wanted:
        return meta_graphs[0]
    accepted = sorted(
        {
            "--tag=" + shlex.quote(",".join(sorted(meta_graph.meta_info_def.tags)))
            for meta_graph in meta_graphs
        }
    )
    found = (
        "no graph of the SavedModel has the tags --tag=%s" % tag
        if wanted
        else "found a SavedModel with %d graphs" % len(meta_graphs)
    )
    raise GraphmpError("GMP002", "%s: %s; accepted is %s" % (path, found, " or ".join(accepted)))


def _tags(texts: Sequence[str]) -> FrozenSet[str]:
    return frozenset(text.strip() for text in texts) - {""}
