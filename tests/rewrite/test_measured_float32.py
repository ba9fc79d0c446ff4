"""What measured times leave in float32 has no loss scale, and is known again by its file of costs."""

from __future__ import annotations

import dataclasses
import random

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.policy.dtypes import is_in_half
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning import files
from tests.support.costed import of_nodes

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def trained():
    """Two layers and Adam, of a batch of any size."""
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.float32, [None, 1])
        hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [8, 16])))
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("v", [16, 1])) - y))
        tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_or_create_global_step())
        return tf.train.export_meta_graph()


def drawn_costs(meta_graph, seed):
    """Times of each node in both types, by chance."""
    chance = random.Random(seed)
    graph = TypedGraph(meta_graph.graph_def, OpDefs(meta_graph))
    names = [name for name in graph.view.nodes if graph.units_of(name)]
    times = {name: (chance.randint(100, 9000), chance.randint(100, 9000)) for name in names}
    return of_nodes(meta_graph, times, chance.randint(1, 900))


def by_times(meta_graph, costs, path):
    """The conversion by a file of these costs, and what its record says of them."""
    path.write_bytes(files.dumps(costs))
    found = rewrite(meta_graph, Config.make(costs=str(path)), Policy.default("float16"))
    return found.meta_graph.graph_def, found.record.costs


@pytest.mark.parametrize("seed", range(8))
def test_the_step_that_was_faster_in_float32(trained, tmp_path, seed):
    costs = drawn_costs(trained, seed)
    timed, first = by_times(trained, costs, tmp_path / "a.costs")
    assert is_in_half(timed)
    costs = dataclasses.replace(costs, faster="float32", placement=first["placement"])
    kept, again = by_times(trained, costs, tmp_path / "b.costs")
    assert again["placement"] == first["placement"] and again["kept"] == "float32"
    assert not is_in_half(kept)
    assert not [node.name for node in kept.node if node.name.startswith("graphmp/")]
