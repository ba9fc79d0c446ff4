"""Gradient code is found in graphs whose names tell nothing."""

from __future__ import annotations

import collections

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.hooks.op_defs import OpDefs
from graphmp.rewrite.scaling.losses import find_losses
from graphmp.rewrite.scaling.training_graph import TrainingGraph
from tests.support.corpus import corpus_folder
from tests.support.renaming import conversion, random_names, renamed
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


# Values tell nothing of where the second call starts: what lies between the two is differentiated like the rest, as one call.
AS_ONE_CALL = {"given_by_another_gradient"}


RECORDED = [
    "AmmarRashed__PPOng__Pong_model.ckpt",
    "DeepBlurt__vae__model.ckpt",
    "Lornatang__tensorflow-dcgan__DCGAN.model-22502",
    "XiangweiTang__Word2Vec__model.ckpt",
    "captured__dcgan",
    "captured__slimhead_resnet",
    "captured__tfcnn",
    "taiguangxing__Wide_n_deep__model.ckpt-2010",
]


def exported(name):
    meta_graph = tf.train.export_meta_graph(graph=shaped(name))
    meta_graph.ClearField("collection_def")
    return meta_graph


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_losses_of_renamed_graphs(name):
    meta_graph = exported(name)
    assert found(renamed(meta_graph, random_names(meta_graph, len(meta_graph.graph_def.node), 7))) == found(meta_graph)


@pytest.mark.parametrize("name", sorted(set(SHAPES) - AS_ONE_CALL))
def test_renamed_graphs_are_converted_alike(name):
    meta_graph = exported(name)
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    one, other = conversion(meta_graph, names), conversion(renamed(meta_graph, names), {})
    assert other.half == one.half
    assert other.losses == one.losses
    assert other.warnings == one.warnings


@pytest.mark.corpus
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_graphs_are_converted_alike(name):
    """What a loss is called is another matter: where its value is computed shows in its gradient code alone."""
    meta_graph = tf.MetaGraphDef.FromString(corpus_folder().joinpath("corpus", "meta", name + ".meta").read_bytes())
    meta_graph.ClearField("collection_def")
    names = random_names(meta_graph, len(meta_graph.graph_def.node), 7)
    one, other = conversion(meta_graph, names), conversion(renamed(meta_graph, names), {})
    assert other.half == one.half
    assert sorted(row[1:] for row in other.losses) == sorted(row[1:] for row in one.losses)
    assert other.warnings == one.warnings
