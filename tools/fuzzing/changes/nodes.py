"""The common parts of changes: the nodes of some ops, and a random part of things."""

from __future__ import annotations

import random
from typing import Any, Iterator, List

import tensorflow.compat.v1 as tf

FLOAT = tf.float32.as_datatype_enum


def nodes_of(meta_graph: Any, *ops: str) -> List[Any]:
    """The nodes of a main graph, of some ops if these are given."""
    return [node for node in meta_graph.graph_def.node if not ops or node.op in ops]


def some(rng: random.Random, things: Any, share: float = 0.5) -> Iterator[Any]:
    """About this share of some things, drawn one by one."""
    return (thing for thing in things if rng.random() < share)
