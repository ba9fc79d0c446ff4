"""Changes of edges: the order of nodes, their inputs, loops, and what is gone."""

from __future__ import annotations

import random
from typing import Any

import tensorflow.compat.v1 as tf

from fuzzing.changes.nodes import nodes_of, some
from graphmp.graph.io.messages import serialize


def controls(rng: random.Random, meta_graph: Any) -> None:
    """Control inputs twice, and more of them; inputs spelled with `:0`."""
    names = [node.name for node in meta_graph.graph_def.node]
    for node in some(rng, meta_graph.graph_def.node, 0.2):
        control = [text for text in node.input if text.startswith("^")]
        data = [text for text in node.input if not text.startswith("^")]
        data = [text if ":" in text else text + ":0" for text in data]
        if names.index(node.name):
            control.append("^" + names[rng.randrange(names.index(node.name))])
        node.input[:] = data + control * 2


def cut(rng: random.Random, meta_graph: Any) -> None:
    """A node and all that depends on it are gone."""
    nodes = list(meta_graph.graph_def.node)
    gone = {rng.choice(nodes[len(nodes) // 2 :]).name}
    while True:
        more = {
            node.name
            for node in nodes
            if any(text.lstrip("^").split(":")[0] in gone for text in node.input)
        }
        if more <= gone:
            break
        gone |= more
    kept = [tf.NodeDef.FromString(serialize(node)) for node in nodes if node.name not in gone]
    if kept:
        del meta_graph.graph_def.node[:]
        meta_graph.graph_def.node.extend(kept)
    if rng.random() < 0.5:
        meta_graph.ClearField("collection_def")


def frame(rng: random.Random, meta_graph: Any) -> None:
    """Something odd about a while loop."""
    enters = nodes_of(meta_graph, "Enter", "RefEnter")
    if not enters:
        return
    kind = rng.choice(["one", "all", "constant", "parallel", "exit", "condition", "context"])
    if kind == "one":
        rng.choice(enters).attr["frame_name"].s = b"another"
    elif kind == "all":
        for node in enters:
            node.attr["frame_name"].s = b"same"
    elif kind == "constant":
        node = rng.choice(enters)
        node.attr["is_constant"].b = not node.attr["is_constant"].b
    elif kind == "parallel":
        for node in enters:
            node.attr["parallel_iterations"].i = rng.choice([0, -1, 1, 10**9])
    elif kind == "exit":
        rng.choice(nodes_of(meta_graph, "Exit")).input[0] = rng.choice(enters).name
    elif kind == "condition":
        condition = rng.choice(nodes_of(meta_graph, "LoopCond"))
        condition.input[0] = rng.choice(nodes_of(meta_graph, "Less", "LoopCond")).name
    else:
        collection = meta_graph.collection_def["while_context"].bytes_list
        collection.value.extend(collection.value[:1])


def order(rng: random.Random, meta_graph: Any) -> None:
    """The nodes in another order."""
    nodes = list(meta_graph.graph_def.node)
    rng.shuffle(nodes)
    copied = [tf.NodeDef.FromString(serialize(node)) for node in nodes]
    del meta_graph.graph_def.node[:]
    meta_graph.graph_def.node.extend(copied)


def swap(rng: random.Random, meta_graph: Any) -> None:
    """Two inputs change places, or an input is another tensor that the node may read."""
    nodes = [node for node in nodes_of(meta_graph) if len(node.input) > 1]
    node = rng.choice(nodes)
    first, second = rng.sample(range(len(node.input)), 2)
    if not (node.input[first].startswith("^") or node.input[second].startswith("^")):
        node.input[first], node.input[second] = node.input[second], node.input[first]
