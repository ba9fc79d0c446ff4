"""A graph that is fed from the device's memory.

On a GPU the copy of a large batch from numpy takes longer than many a step, and hides what half
precision gains.
"""

from __future__ import annotations

from typing import Dict, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.bench.processes.timed_session import TimedSession, TrainingFile
from graphmp.feeds.batches import Batch
from graphmp.files.single import write_atomic
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize

LARGE = 1 << 20  # bytes of a fed tensor that is kept
SUFFIX = "_resident"  # of the variables
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")


def opened(training: TrainingFile, batch: Batch, gpu_memory: int = 0) -> Tuple[TimedSession, Batch]:
    """A session with the large float32 tensors of a batch, and what a step is still fed.

    Args:
        training: the graph; a file beside it has the same with variables for placeholders.
        batch: arrays by tensor name.
        gpu_memory: as for TimedSession.
    """
    meta_graph, path = read_graph(training.path), training.path + SUFFIX
    kept = _replaced(meta_graph.graph_def, batch)
    write_atomic(path, serialize(meta_graph))
    session = TimedSession(training._replace(path=path), gpu_memory)
    for node, value in kept.items():
        session.session.run(node + "/assign", {node + "/value:0": value})
    fed = {name: value for name, value in batch.items() if _node(name) + SUFFIX not in kept}
    return session, fed


def _replaced(graph_def: tf.GraphDef, batch: Batch) -> Dict[str, np.ndarray]:
    """Make large placeholders Identities of new variables. Return the variables' values by name."""
    large = {
        _node(name): value
        for name, value in batch.items()
        if value.dtype == np.float32 and value.nbytes >= LARGE
    }
    kept = {}
    for node in list(graph_def.node):
        if node.name in large and node.op in _PLACEHOLDERS:
            value = kept[node.name + SUFFIX] = large[node.name]
            graph_def.node.extend(_variable(node.name + SUFFIX, value.shape))
            node.op, node.input[:] = "Identity", [node.name + SUFFIX]
            node.attr.clear()
            node.attr["T"].type = tf.float32.as_datatype_enum
    return kept


def _variable(name: str, shape: Tuple[int, ...]) -> list[tf.NodeDef]:
    """The nodes of a variable and its assignment."""
    with tf.Graph().as_default() as graph:
        variable = tf.raw_ops.VariableV2(
            shape=shape, dtype=tf.float32, container="", shared_name="", name=name
        )
        value = tf.placeholder(tf.float32, shape, name=name + "/value")
        tf.raw_ops.Assign(
            ref=variable, value=value, validate_shape=True, use_locking=True, name=name + "/assign"
        )
    return list(graph.as_graph_def().node)


def _node(tensor: str) -> str:
    return tensor.split(":")[0]
