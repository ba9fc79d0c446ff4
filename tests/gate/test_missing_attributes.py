"""Nodes that lack attributes: their types and values are unknown, and nothing fails for that."""

from __future__ import annotations

import random

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from tests.support.scaled import shaped

pytestmark = pytest.mark.unit


def exported(name):
    return tf.train.export_meta_graph(graph=shaped(name))


def ends_in_words(meta_graph):
    """Whether a graph is converted, or refused with a code of its own."""
    try:
        graphmp.convert(meta_graph, clip_norm=1.0)
    except GraphmpError as error:
        return error.code in ("GMP008", "GMP021")
    return True


@pytest.mark.parametrize(
    "name, node, attribute",
    [
        ("gan", "G/gradients/G/Square_grad/Const", "value"),
        ("below_an_import_scope", "imported/gradients/Shape", "value"),
        ("functions_for_loops", "gradients/map/while_grad/Identity_7", "T"),
    ],
)
def test_a_node_without_it(name, node, attribute):
    meta_graph = exported(name)
    found = [each for each in meta_graph.graph_def.node if each.name == node]
    assert found or tf.__version__ < "2"  # 1.15.5 makes loops of other nodes
    for each in found:
        each.attr.pop(attribute)
    assert ends_in_words(meta_graph)


@pytest.mark.parametrize("seed", range(6))
def test_any_node_without_any(seed):
    chance = random.Random(seed)
    meta_graph = exported("plain")
    for _ in range(3):
        node = chance.choice([each for each in meta_graph.graph_def.node if each.attr])
        node.attr.pop(chance.choice(sorted(node.attr)))
        node.op = chance.choice([node.op, "NextIteration", "Identity", "Cast", "Fill", "Merge"])
    assert ends_in_words(meta_graph)
