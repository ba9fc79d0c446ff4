"""Random nodes that start late, so that every order of ops that a graph leaves open can happen."""

from __future__ import annotations

import functools
import random
import time

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView

MANY_AT_A_TIME = tf.ConfigProto(
    inter_op_parallelism_threads=8, intra_op_parallelism_threads=1, use_per_session_threads=True
)
MANY_AT_A_TIME.graph_options.rewrite_options.disable_meta_optimizer = True
_MILLISECONDS = (2, 4, 7)
_SHARE = 0.25
_OF_FRAMES = {"Enter", "RefEnter", "Merge", "RefMerge", "NextIteration", "Exit", "LoopCond"}
_NOT_DELAYED = _OF_FRAMES | {"Placeholder", "Variable", "VariableV2", "VarHandleOp"}


def delay(meta_graph, seed):
    """Let a quarter of the nodes of the default graph wait, in steps of milliseconds.

    Nodes in while loops don't wait by themselves.

    Args:
        meta_graph: what the graph was imported from.
        seed: of the nodes, and of how long each waits.
    """
    chance = random.Random(seed)
    graph, view = tf.get_default_graph(), GraphView(meta_graph.graph_def)
    of_node = frames(view)
    waits = [
        tf.py_func(functools.partial(_wait, number), [], tf.double).op for number in _MILLISECONDS
    ]
    for op in graph.get_operations():
        free = op.name in view.nodes and not of_node.get(op.name) and op.type not in _NOT_DELAYED
        if free and chance.random() < _SHARE:
            op._add_control_inputs([chance.choice(waits)])


def _wait(milliseconds):
    time.sleep(milliseconds / 1000.0)
    return 0.0
