"""Whether TensorFlow trains a graph: imported, initialised and run in a fork."""

from __future__ import annotations

import os
import pathlib
import signal
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

_SECONDS = 20
_ASSIGN = ("Assign", "AssignVariableOp")


def trains(path: str) -> bool:
    """Whether three runs of the op `train` work, on batches of ones."""
    pid = os.fork()
    if not pid:
        worked = False
        try:
            signal.alarm(_SECONDS)
            _train(tf.MetaGraphDef.FromString(pathlib.Path(path).read_bytes()))
            worked = True
        finally:
            os._exit(0 if worked else 1)
    return os.waitpid(pid, 0)[1] == 0


def _train(meta_graph: Any) -> None:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta_graph.graph_def, name="")
        operations = graph.get_operations()
        assigned = [op for op in operations if op.type in _ASSIGN and op.name.endswith("/Assign")]
        feeds = {
            op.outputs[0]: _ones(op.outputs[0]) for op in operations if op.type == "Placeholder"
        }
        with tf.Session(graph=graph) as session:
            session.run(assigned)
            for _ in range(3):
                session.run(graph.get_operation_by_name("train"), feeds)


def _ones(tensor: Any) -> Any:
    shape = tensor.shape.as_list() if tensor.shape.ndims is not None else [2, 3]
    return np.ones([2 if size is None else size for size in shape], tensor.dtype.as_numpy_dtype)
