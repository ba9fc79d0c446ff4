"""TensorFlow's own mixed-precision pass, ahead of time and without a GPU. Needs TensorFlow 2.

The pass only converts nodes on a suitable device: for float16 a GPU of compute capability 7.0,
which need not exist, for bfloat16 a CPU. It has no public interface; these modules have had the
same names since 2.2.
"""

from __future__ import annotations

import importlib
import re
from typing import Any, Dict, List

import tensorflow.compat.v1 as tf

PASSES = {  # the pass of each compute dtype, and its device
    "float16": ("auto_mixed_precision", "/device:GPU:0"),
    "bfloat16": ("auto_mixed_precision_onednn_bfloat16", "/device:CPU:0"),
}
_UPDATE = re.compile(r"(Resource)?(Sparse)?Apply|Assign|(Resource)?Scatter(Add|Sub|Update)")


def why_missing(compute_dtype: str) -> str:
    """Why the pass isn't available for a compute dtype; empty if it is."""
    if tf.__version__ < "2":
        return (
            "TensorFlow %s has its pass inside a session on a GPU alone; it can be called ahead of"
            " time on TensorFlow 2" % tf.__version__
        )
    return "" if compute_dtype in PASSES else "its passes convert to %s" % " and ".join(PASSES)


def convert(meta_graph: tf.MetaGraphDef, compute_dtype: str) -> tf.MetaGraphDef:
    """The graph after the pass, with the original's op list and nothing else of a MetaGraphDef."""
    optimizer, device = PASSES[compute_dtype]
    config = tf.ConfigProto()
    options = config.graph_options.rewrite_options
    options.optimizers.append(optimizer)
    options.min_graph_nodes = -1
    options.meta_optimizer_iterations = options.ONE
    result = tf.MetaGraphDef()
    item = _item(meta_graph, device)
    optimize = importlib.import_module("tensorflow.python.grappler.tf_optimizer").OptimizeGraph
    result.graph_def.CopyFrom(
        optimize(config, item, verbose=False, cluster=_cluster(), strip_default_attributes=False)
    )
    result.meta_info_def.CopyFrom(meta_graph.meta_info_def)
    return result


def _item(meta_graph: tf.MetaGraphDef, device: str) -> tf.MetaGraphDef:
    """The graph with all nodes on one device and its updates as fetches, which the pass keeps."""
    item = tf.MetaGraphDef()
    item.CopyFrom(meta_graph)
    for node in item.graph_def.node:
        node.device = device
    item.ClearField("collection_def")
    item.collection_def["train_op"].node_list.value.extend(_fetches(meta_graph.graph_def))
    return item


def _fetches(graph_def: tf.GraphDef) -> List[str]:
    return [node.name for node in graph_def.node if _UPDATE.match(node.op)] or [
        graph_def.node[-1].name
    ]


def _cluster() -> Any:
    gpu = _device("/GPU:0", "GPU", {"architecture": "7.0", "cuda": "12000", "cudnn": "9000"})
    devices = [gpu, _device("/CPU:0", "CPU", {})]
    return importlib.import_module("tensorflow.python.grappler.cluster").Cluster(devices=devices)


def _device(name: str, kind: str, environment: Dict[str, str]) -> Any:
    """A NamedDevice."""
    device = importlib.import_module("tensorflow.core.protobuf.device_properties_pb2").NamedDevice(
        name=name
    )
    device.properties.type = kind
    device.properties.frequency = 1000  # MHz; unused by the pass, but required of a cluster
    device.properties.num_cores = 4
    device.properties.environment.update(environment)
    return device
