"""Renaming nodes of a graph, and everything that names them."""

from __future__ import annotations

import random

import tensorflow.compat.v1 as tf


def renamed(graph, names):
    """A copy of a MetaGraphDef with nodes renamed, `names` from old to new, wherever an input or a colocation names them."""
    result = tf.MetaGraphDef()
    result.CopyFrom(graph)
    for node in result.graph_def.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [_renamed(text, names) for text in node.input]
        if "_class" in node.attr:
            values = [value.decode().partition("@") for value in node.attr["_class"].list.s]
            node.attr["_class"].list.s[:] = [(loc + at + names.get(name, name)).encode() for loc, at, name in values]
    return result


def random_names(graph, count, seed):
    """New names for `count` nodes of a graph, from old to new; they tell nothing of the old ones."""
    rng = random.Random(seed)
    chosen = rng.sample(sorted(node.name for node in graph.graph_def.node), count)
    return {name: "renamed/%d" % rng.getrandbits(60) for name in chosen}


def _renamed(text, names):
    control, rest = ("^", text[1:]) if text.startswith("^") else ("", text)
    name, colon, output = rest.partition(":")
    return control + names.get(name, name) + colon + output
