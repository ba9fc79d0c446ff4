"""How the work of a conversion and its proof grows with the graph: no function is called for pairs.

Calls are counted, not seconds.
"""

from __future__ import annotations

import collections
import cProfile
import pathlib
import pstats

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.config import Config
from graphmp.policy.policy import Policy
from graphmp.rewrite import pipeline
from graphmp.verify import verify

LAYERS = 12  # and twice as many
FEW = 2000  # functions with no more calls than this are left out
MOST = 2.8  # times as many calls for twice the graph


def dense(layers, use_resource):
    """Layers with a Saver, whose ops read all variables."""
    with tf.Graph().as_default(), tf.variable_scope("", use_resource=use_resource):
        x = h = tf.placeholder(tf.float32, [8, 16])
        for number in range(layers):
            w = tf.get_variable("w%d" % number, [16, 16])
            h = tf.nn.relu(tf.matmul(h, w) + tf.get_variable("b%d" % number, [16]))
        loss = tf.reduce_mean(tf.square(h - x))
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        tf.train.Saver()
        return tf.train.export_meta_graph()


def calls(work):
    """Calls of each function of graphmp while something runs; those of one name are added up."""
    profile = cProfile.Profile()
    profile.runcall(work)
    package = str(pathlib.Path(graphmp.__file__).parent)
    found = collections.Counter()
    for (path, _, name), (count, *_) in pstats.Stats(profile).stats.items():
        if path.startswith(package):
            found["%s %s" % (path[len(package) + 1 :], name)] += count
    return found


def rewritten(meta_graph):
    return pipeline.rewrite(meta_graph, Config.make(), Policy.default("float16")).meta_graph


@pytest.mark.parametrize("use_resource", [False, True], ids=["references", "resources"])
def test_no_function_is_called_for_pairs_of_nodes(use_resource):
    counts = []
    for layers in (LAYERS, 2 * LAYERS):
        meta_graph = dense(layers, use_resource)
        converted = rewritten(meta_graph)
        counts.append(calls(lambda: rewritten(meta_graph)))  # noqa: B023
        for name, count in calls(lambda: verify(meta_graph, converted)).items():  # noqa: B023
            counts[-1]["verify: " + name] = count
    few, many = counts
    grown = {
        name: (few[name], count)
        for name, count in many.items()
        if count > FEW and count > MOST * few[name]
    }
    assert not grown
