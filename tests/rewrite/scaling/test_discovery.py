"""Gradient code is found in graphs whose names tell nothing."""

from __future__ import annotations

import collections

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.hooks.op_defs import OpDefs
from graphmp.rewrite.scaling.losses import find_losses
from graphmp.rewrite.scaling.training_graph import TrainingGraph
from tests.support.renaming import random_names, renamed
from tests.support.scaled import shaped
from tests.support.training_graphs import SHAPES

pytestmark = pytest.mark.unit


def found(meta_graph):
    """For each loss: how many gradients it has, and what it updates, by op."""
    graph = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    nodes = graph.view.nodes
    rows = []
    for loss in find_losses(graph, Config.make()):
        updates = collections.Counter(nodes[name].op for name in loss.updates)
        rows.append((len(loss.gradients), sorted(updates.items())))
    return sorted(rows)


FETCHED = {"fed_back", "fed_to_another_copy"}  # which outputs are gradients shows in their names alone
WITHOUT_MATMULS = {"scattered_by_hand"}  # nothing is half


@pytest.mark.parametrize("name", sorted(set(SHAPES) - FETCHED - WITHOUT_MATMULS))
def test_losses_of_renamed_graphs(name):
    meta_graph = tf.train.export_meta_graph(graph=shaped(name))
    other = renamed(meta_graph, random_names(meta_graph, len(meta_graph.graph_def.node), 7))
    other.ClearField("collection_def")
    meta_graph.ClearField("collection_def")
    assert found(other) == found(meta_graph)
