"""Changes around a graph's computation: names, devices, versions, op lists."""

from __future__ import annotations

import random
from typing import Any

import tensorflow.compat.v1 as tf

from fuzzing.changes.nodes import FLOAT, some


def devices(rng: random.Random, meta_graph: Any) -> None:
    """Nodes on devices that may not be there."""
    devices = ["/cpu:0", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0", "/gpu:0"]
    for node in some(rng, meta_graph.graph_def.node):
        node.device = rng.choice(devices)


def names(rng: random.Random, meta_graph: Any) -> None:
    """Nodes that have the names that a conversion would give."""
    name = rng.choice(
        [
            "graphmp/loss_scale/current",
            "graphmp",
            "graphmp/loss_scale",
            "MatMul_graphmp_float16",
            "x_graphmp_float16",
            "weights/read_graphmp_float16",
            "GRAPHMP/loss_scale",
            "graphmp/loss_scale/good_steps",
        ]
    )
    if name in {node.name for node in meta_graph.graph_def.node}:
        return
    node = meta_graph.graph_def.node.add(name=name, op=rng.choice(["NoOp", "Const", "Identity"]))
    if node.op == "Const":
        node.attr["dtype"].type = FLOAT
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
    elif node.op == "Identity":
        node.attr["T"].type = FLOAT
        node.input.append("loss")


def op_list(rng: random.Random, meta_graph: Any) -> None:
    """An op list that lies."""
    ops = meta_graph.meta_info_def.stripped_op_list.op
    kind = rng.choice(["none", "input", "attribute", "twice", "stateful"])
    if kind == "none":
        del ops[:]
    for op in some(rng, ops, 0.2):
        if kind == "input":
            op.input_arg.add(name="more", type=FLOAT)
        elif kind == "attribute":
            op.attr.add(name="more", type="int")
        elif kind == "stateful":
            op.is_stateful = not op.is_stateful
        elif kind == "twice":
            ops.add().CopyFrom(op)


def versions(rng: random.Random, meta_graph: Any) -> None:
    """Versions of a producer, old or of tomorrow."""
    versions = meta_graph.graph_def.versions
    versions.producer = rng.choice([0, 1, 8, 20, 22, 26, 134, 1645, 9999])
    versions.min_consumer = rng.choice([0, 0, 0, 12, 22])
    meta_graph.meta_info_def.tensorflow_version = rng.choice(["", "0.1", "9.9.9", "\n"])
