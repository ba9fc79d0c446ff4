"""A graph that is fed from the device's memory.

On a GPU the copy of a large batch from numpy takes longer than many a step, and hides what half
precision gains.
"""

from __future__ import annotations

from typing import Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.bench.processes.timed_session import TimedSession, TrainingFile
from graphmp.feeds.batches import Batch
from graphmp.files.single import write_atomic
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.view import parse_input
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.op_sets import PLACEHOLDERS

LARGE = 1 << 20  # bytes of a fed tensor that is kept
SUFFIX = "_resident"  # of the variables


def opened(training: TrainingFile, batch: Batch, gpu_memory: int = 0) -> Tuple[TimedSession, Batch]:
    """A session with the large float32 tensors of a batch, and what a step is still fed.

    Args:
        training: the graph; a file beside it has the same with variables for placeholders.
        batch: arrays by tensor name.
        gpu_memory: as for TimedSession.
    """
    meta_graph, path = read_graph(training.path), training.path + SUFFIX
    kept, fed = _replaced(meta_graph.graph_def, batch)
    write_atomic(path, serialize(meta_graph))
    session = TimedSession(training._replace(path=path), gpu_memory)
    for node, value in kept.items():
        session.session.run(node + "/assign", {node + "/value:0": value})
    fed = {
        name: value for name, value in batch.items() if parse_input(name).node + SUFFIX not in kept
    }
    return session, fed


def _replaced(graph_def: tf.GraphDef, batch: Batch) -> Tuple[Batch, Batch]:
    """Make large placeholders Identities of new variables.

    Return the variables' values by name, and what is still fed.
    """
    nodes = {node.name: node for node in graph_def.node}
    kept: Batch = {}
    fed: Batch = {}
    for tensor, value in batch.items():
        node = nodes.get(parse_input(tensor).node)
        large = value.dtype == np.float32 and value.nbytes >= LARGE
        if node is None or node.op not in PLACEHOLDERS or not large:
            fed[tensor] = value
            continue
        name = node.name + SUFFIX
        kept[name] = value
        graph_def.node.extend(_variable(name, value.shape))
        node.op, node.input[:] = "Identity", [name]
        node.attr.clear()
        node.attr["T"].type = FLOAT32
    return kept, fed


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
