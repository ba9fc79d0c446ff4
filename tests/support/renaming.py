"""Renaming nodes of a graph, and all references to them."""

from __future__ import annotations

import random
from typing import AbstractSet, Any, List, Mapping, NamedTuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite


class Conversion(NamedTuple):
    """The results of a conversion, with other names for the graph's nodes.

    Attributes:
        half: the nodes that compute in half precision.
        losses: for each loss its tensors, updates, gates, unskipped writes, and the numbers of its
            seeds and gradients.
        warnings: the codes of the warnings.
    """

    half: AbstractSet[str]
    losses: List[Any]
    warnings: List[str]


def conversion(meta_graph: tf.MetaGraphDef, names: Mapping[str, str]) -> Conversion:
    """Convert a graph; return the results under other names of its nodes."""
    record = rewrite(meta_graph, Config.make(), Policy.default("float16")).record
    half = {names.get(node, node) for node, did, _ in record.done if did == "painted"}
    losses = sorted(_row(row, names) for row in record.losses)
    return Conversion(half, losses, sorted(row["code"] for row in record.warnings))


def _row(row: Mapping[str, Any], names: Mapping[str, str]) -> List[Any]:
    lists = [
        row["loss"],
        row["updates"],
        row["gated"],
        [each["node"] for each in row["not_skipped"]],
    ]
    return [sorted(names.get(name, name) for name in each) for each in lists] + [
        len(row["seeds"]),
        len(row["gradients"]),
    ]


def renamed(graph, names):
    """A copy of a MetaGraphDef with renamed nodes, including inputs and colocations.

    `names` maps old names to new ones.
    """
    result = tf.MetaGraphDef()
    result.CopyFrom(graph)
    for node in result.graph_def.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [_renamed(text, names) for text in node.input]
        if "_class" in node.attr:
            values = [value.decode().partition("@") for value in node.attr["_class"].list.s]
            node.attr["_class"].list.s[:] = [
                (loc + at + names.get(name, name)).encode() for loc, at, name in values
            ]
    return result


def random_names(graph, count, seed):
    """New names for `count` nodes of a graph, by old name; they have no meaning."""
    rng = random.Random(seed)
    chosen = rng.sample(sorted(node.name for node in graph.graph_def.node), count)
    return {name: "renamed/%d" % rng.getrandbits(60) for name in chosen}


def _renamed(text, names):
    control, rest = ("^", text[1:]) if text.startswith("^") else ("", text)
    name, colon, output = rest.partition(":")
    return control + names.get(name, name) + colon + output
