"""The forms in which a graph is stored: binary, text, SavedModels, whole or odd."""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any, List

import tensorflow.compat.v1 as tf
from google.protobuf import text_format

from graphmp.graph.io import saved_model
from graphmp.graph.io.messages import serialize


def stored(rng: random.Random, meta_graph: Any) -> Any:
    """Write a graph in one of the forms; the name, and the flags that it needs."""
    kind = rng.choice(["meta"] * 5 + ["text", "graph", "saved", "several", "twice"])
    if kind == "saved" or kind == "several":
        return "model", _saved(rng, meta_graph, kind == "several")
    if kind == "text":
        text = text_format.MessageToString(meta_graph)
        pathlib.Path("g.pbtxt").write_text(_odd_text(rng, text), encoding="utf-8")
        return "g.pbtxt", []
    if kind == "graph":
        pathlib.Path("g.pb").write_bytes(serialize(meta_graph.graph_def))
        return "g.pb", []
    data = serialize(meta_graph)
    if kind == "twice":  # fields twice in a file are merged
        part = tf.MetaGraphDef()
        part.CopyFrom(meta_graph)
        part.ClearField("graph_def")
        data += serialize(part)
    pathlib.Path("g.meta").write_bytes(data)
    return "g.meta", []


def _odd_text(rng: random.Random, text: str) -> str:
    return rng.choice(
        [
            text,
            "# a comment\n" + text.replace("\n", "\r\n"),
            text.replace("node {", "node: <").replace("\n  }\n  node", "\n  >\n  node"),
            text + "unknown_field: 3\n",
            text + "[a.b.extension] { x: 1 }\n",
            text.replace("dtype: DT_FLOAT", "dtype: 1"),
            text.replace('"', "'"),
            "\ufeff" + text,
        ]
    )


def _saved(rng: random.Random, meta_graph: Any, several: bool) -> List[str]:
    """A SavedModel, whole or in part, with assets and variables that may lead elsewhere."""
    model = saved_model.new()
    model.saved_model_schema_version = rng.choice([0, 1, 1, 99])
    sets = [["serve"], ["train"], ["serve", "gpu"], []]
    rng.shuffle(sets)
    for tags in sets[: 3 if several else 1]:
        each = model.meta_graphs.add()
        if rng.random() < 0.8:
            each.CopyFrom(meta_graph)
        each.meta_info_def.tags.extend(tags)
        asset = each.asset_file_def.add(filename=rng.choice(["v.txt", "../../up", "/etc/hosts"]))
        asset.tensor_info.name = rng.choice(["x:0", "gone:0", ""])
    if several and rng.random() < 0.3:
        model.meta_graphs.add().CopyFrom(model.meta_graphs[0])
    os.makedirs("model/variables")
    pathlib.Path("model/variables/variables.index").write_bytes(b"\0")
    os.makedirs("model/assets")
    data = serialize(model)
    if rng.random() < 0.2:
        pathlib.Path("model/saved_model.pbtxt").write_text(text_format.MessageToString(model))
    if rng.random() < 0.9 or not os.path.exists("model/saved_model.pbtxt"):
        pathlib.Path("model/saved_model.pb").write_bytes(data)
    return rng.choice([[], ["--tag=" + ",".join(sets[0])], ["--tag=train"]])
