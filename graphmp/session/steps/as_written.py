"""Running a graph unoptimised, op by op, with the same random numbers each time."""

from __future__ import annotations

import zlib
from typing import Optional

import tensorflow.compat.v1 as tf

from graphmp.policy.layout import is_channels_first


def seeded(meta_graph: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A copy whose random ops have seeds by their names, so that original and clone draw alike.

    In loops they draw step by step, in order.
    """
    copy = tf.MetaGraphDef()
    copy.CopyFrom(meta_graph)
    for nodes in [
        copy.graph_def.node,
        *(function.node_def for function in copy.graph_def.library.function),
    ]:
        for node in nodes:
            if "parallel_iterations" in node.attr:
                node.attr["parallel_iterations"].i = 1
            if "seed" in node.attr and "seed2" in node.attr:
                node.attr["seed"].i, node.attr["seed2"].i = (
                    1 + zlib.crc32(node.name.encode("utf-8")) % 100000,
                    7,
                )
    return copy


def unoptimised(graph_def: tf.GraphDef) -> tf.ConfigProto:
    """Options of a session that runs a graph unoptimised: optimising takes longer than the step.

    A graph with channels-first convolutions keeps the layout optimizer: a CPU needs it for them.
    """
    config = tf.ConfigProto()
    if any(map(is_channels_first, graph_def.node)):
        config.graph_options.rewrite_options.optimizers.append("layout")
    else:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    return config


def one_by_one(given: Optional[tf.ConfigProto] = None) -> tf.ConfigProto:
    """A copy of session options under which ops run one after the other.

    The threads are the session's own: the process's shared ones are as many as its first session
    asked for.
    """
    config = tf.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    if given is not None:
        config.MergeFrom(given)
    return config
