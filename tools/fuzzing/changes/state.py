"""Changes of variables, and of what names them: collections, Savers, signatures, marks."""

from __future__ import annotations

import random
from typing import Any

from fuzzing.changes.nodes import FLOAT, nodes_of, some
from graphmp.graph.io import messages
from graphmp.graph.io.messages import serialize


def collection(rng: random.Random, meta_graph: Any) -> None:
    """A collection that points at other nodes, or has entries twice."""
    names = [node.name for node in meta_graph.graph_def.node]
    key = rng.choice(
        [
            "train_op",
            "losses",
            "update_ops",
            "summaries",
            "regularization_losses",
            "mine",
            "init_op",
        ]
    )
    lists = meta_graph.collection_def[key].node_list.value
    kind = rng.choice(["nodes", "tensors", "variables", "twice", "swapped", "trainable", "ints"])
    if kind == "nodes":
        lists.extend(rng.sample(names, 3))
    elif kind == "tensors":
        lists.extend(name + ":0" for name in ("loss", "x"))
    elif kind == "ints":
        meta_graph.collection_def["global_step"].int64_list.value.append(3)
    elif kind in ("twice", "swapped", "variables"):
        values = meta_graph.collection_def["variables"].bytes_list.value
        if not values:
            return
        if kind == "twice":
            values.extend(values[:1])
        elif kind == "swapped":
            values.reverse()
        else:
            variable = messages.new("tensorflow.VariableDef")
            variable.ParseFromString(values[0])
            variable.initializer_name = rng.choice(["train", "loss", variable.variable_name[:-2]])
            variable.snapshot_name = rng.choice(["loss:0", variable.snapshot_name, "x:0"])
            values[0] = serialize(variable)
    else:
        del meta_graph.collection_def["trainable_variables"].bytes_list.value[:]


def mark(rng: random.Random, meta_graph: Any) -> None:
    """The collections of a conversion, in a graph that is none, or changed in one that is."""
    texts = ["{}", "null", '{"engine": 3}', '{"engine": "rewrite"}', "[" * 50, "x", ""]
    collection = meta_graph.collection_def[rng.choice(["graphmp", "graphmp_loss_scale"])]
    collection.Clear()
    collection.bytes_list.value.append(rng.choice(texts).encode())


def saver(rng: random.Random, meta_graph: Any) -> None:
    """A Saver of other names, versions or numbers."""
    saver = meta_graph.saver_def
    saver.filename_tensor_name = rng.choice([saver.filename_tensor_name, "x:0", "gone:0", "", "x"])
    saver.save_tensor_name = rng.choice([saver.save_tensor_name, "loss:0", "gone:0", ""])
    saver.restore_op_name = rng.choice([saver.restore_op_name, "train", "gone", ""])
    saver.max_to_keep = rng.choice([5, -1, 0, 2**31 - 1])
    saver.version = rng.choice([0, 1, 2])


def signature(rng: random.Random, meta_graph: Any) -> None:
    """Signatures of tensors that are others, of other dtypes, or nowhere."""
    signature = meta_graph.signature_def[rng.choice(["serving_default", "train", ""])]
    for tensors, name in ((signature.inputs, "x:0"), (signature.outputs, "loss:0")):
        info = tensors[rng.choice(["a", "", "b c"])]
        info.name = rng.choice([name, "gone:0", "loss:7", "train", "", "x"])
        info.dtype = rng.choice([FLOAT, 3, 19])
    signature.method_name = rng.choice(["tensorflow/serving/predict", "", "x"])


def variable(rng: random.Random, meta_graph: Any) -> None:
    """Something odd about a variable."""
    found = nodes_of(meta_graph, "VariableV2", "VarHandleOp", "Variable")
    if not found:
        return
    node = rng.choice(found)
    kind = rng.choice(["shared", "container", "old", "direct", "shape", "dtype", "read", "assign"])
    if kind == "shared":
        for each in found:
            each.attr["shared_name"].s = b"shared"
    elif kind == "container":
        node.attr["container"].s = b"elsewhere"
    elif kind == "old" and node.op == "VariableV2":
        node.op = "Variable"
    elif kind == "direct":
        for other in nodes_of(meta_graph):
            other.input[:] = [
                node.name if text == node.name + "/read" else text for text in other.input
            ]
    elif kind == "shape":
        node.attr["shape"].shape.dim.add(size=rng.choice([1, 2, -1]))
    elif kind == "dtype":
        node.attr["dtype"].type = rng.choice([2, 3, 19])
    elif kind == "read":
        for other in some(rng, nodes_of(meta_graph, "ReadVariableOp")):
            other.attr["dtype"].type = 19
    else:
        for other in some(rng, nodes_of(meta_graph, "Assign", "ApplyGradientDescent", "ApplyAdam")):
            other.attr["use_locking"].b = not other.attr["use_locking"].b
            if "validate_shape" in other.attr:
                other.attr["validate_shape"].b = False
