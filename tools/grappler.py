"""TensorFlow's own mixed-precision pass, ahead of time and without a GPU. Needs TensorFlow 2.

The pass converts only what it finds on a device that it deems worth it: for float16 a GPU of compute capability 7.0, which
need not be there, for bfloat16 a CPU. It has no public entry; these modules have had the same names since 2.2.
"""

from __future__ import annotations

import os
import re
from typing import List

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import device_properties_pb2, rewriter_config_pb2
from tensorflow.python.grappler import cluster, tf_optimizer

os.environ["TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_SIMULATE_GPU"] = "1"  # read each time the pass runs

PASSES = {  # the pass of each compute dtype, and the device that it looks at
    "float16": ("auto_mixed_precision", "/device:GPU:0"),
    "bfloat16": ("auto_mixed_precision_onednn_bfloat16", "/device:CPU:0"),
}
_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply|Assign|(Resource)?Scatter(Add|Sub|Update)")


def convert(meta_graph: tf.MetaGraphDef, compute_dtype: str) -> tf.MetaGraphDef:
    """The graph as the pass leaves it, with the op list of the original and nothing else of a MetaGraphDef."""
    optimizer, device = PASSES[compute_dtype]
    config = tf.ConfigProto()
    options = config.graph_options.rewrite_options
    options.optimizers.append(optimizer)
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    result = tf.MetaGraphDef()
    item = _item(meta_graph, device)
    result.graph_def.CopyFrom(tf_optimizer.OptimizeGraph(config, item, verbose=False, cluster=_cluster(), strip_default_attributes=False))
    result.meta_info_def.CopyFrom(meta_graph.meta_info_def)
    return result


def _item(meta_graph: tf.MetaGraphDef, device: str) -> tf.MetaGraphDef:
    """The graph with all nodes on one device and its updates as what is fetched; the pass leaves fetched nodes alone."""
    item = tf.MetaGraphDef()
    item.CopyFrom(meta_graph)
    for node in item.graph_def.node:
        node.device = device
    item.ClearField("collection_def")
    item.collection_def["train_op"].node_list.value.extend(_fetches(meta_graph.graph_def))
    return item


def _fetches(graph_def: tf.GraphDef) -> List[str]:
    return [node.name for node in graph_def.node if _UPDATE.match(node.op)] or [graph_def.node[-1].name]


def _cluster() -> cluster.Cluster:
    gpu = _device("/GPU:0", "GPU", {"architecture": "7.0", "cuda": "12000", "cudnn": "9000"})
    return cluster.Cluster(devices=[gpu, _device("/CPU:0", "CPU", {})])


def _device(name: str, kind: str, environment: dict) -> device_properties_pb2.NamedDevice:
    device = device_properties_pb2.NamedDevice(name=name)
    device.properties.type = kind
    device.properties.frequency = 1000  # MHz; the pass asks for none of it, but a cluster has to have it
    device.properties.num_cores = 4
    device.properties.environment.update(environment)
    return device
