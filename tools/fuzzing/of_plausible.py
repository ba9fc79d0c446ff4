"""The family of plausible graphs: sound in form, odd in meaning, through all commands.

If TensorFlow imports such a graph and a conversion of it succeeds, TensorFlow must import the
conversion; if the graph trains, the conversion must train too.
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any, Callable, Iterator, List

import tensorflow.compat.v1 as tf
from google.protobuf import text_format

from fuzzing import seeds
from fuzzing.of_graphs import OUT, converted
from fuzzing.runner import Case
from fuzzing.trained import trains
from graphmp.graph.io import messages, saved_model
from graphmp.graph.io.messages import serialize

FLOAT = tf.float32.as_datatype_enum
_FLAGS = [
    [],
    ["--loss_scale=none"],
    ["--compute_dtype=bfloat16"],
    ["--clip_norm=1"],
    ["--loss_scale=128"],
    ["--compute_dtype=float32"],
    ["--engine_strict"],
]


def of_plausible(rng: random.Random) -> Case:
    """A graph with one to three plausible changes, in a file of any form, for any command."""
    meta_graph = tf.MetaGraphDef.FromString(rng.choice(seeds.trainings()))
    for _ in range(rng.randint(1, 3)):
        rng.choice(_CHANGES)(rng, meta_graph)
    name, flags = _stored(rng, meta_graph)
    return _command(rng, name, flags)


def _command(rng: random.Random, name: str, tagged: List[str]) -> Case:
    kind = rng.choice(
        ["convert"] * 8
        + ["diff", "inspect", "memory", "cost", "wire", "explain", "verify", "audit", "data"]
    )
    if kind == "convert":
        argv = ["convert", name, "-o", OUT, *tagged, *rng.choice(_FLAGS)]
        return Case(argv, lambda status: _trains_too(status, name))
    if kind in ("inspect", "memory", "cost", "wire"):
        form = [] if kind == "inspect" else ["--" + kind]
        return Case(["inspect", name, *tagged, *form])
    if kind == "explain":
        return Case(["explain", name, rng.choice(["loss", "train", "MatMul"]), *tagged])
    if kind == "audit":
        argv = ["audit", name, "--random_data", "--steps=2", *tagged]
        return Case(argv)
    pathlib.Path("sound.meta").write_bytes(seeds.trainings()[0])
    names = ["sound.meta", name]
    rng.shuffle(names)
    if kind == "data":
        return Case(["verify", *names, "--random_data", "--steps=2"])
    return Case([kind, *names])


def _trains_too(status: int, source: str) -> str:
    """What is wrong with a conversion of a graph that trains or is imported."""
    problem = converted(status, source)
    if problem or status:
        return problem
    return (
        "wrong success: the original trains and the conversion doesn't"
        if trains(os.path.join(OUT, "original.meta"))
        and not trains(os.path.join(OUT, "converted.meta"))
        else ""
    )


def _stored(rng: random.Random, meta_graph: Any) -> Any:
    """Write a graph in one of the forms; the name, and the flags that it needs."""
    kind = rng.choice(["meta"] * 5 + ["text", "graph", "saved", "several", "twice"])
    if kind == "saved" or kind == "several":
        return "model", _saved(rng, meta_graph, kind == "several")
    if kind == "text":
        text = text_format.MessageToString(meta_graph)
        pathlib.Path("g.pbtxt").write_text(_odd_text(rng, text), encoding="utf-8")
        return "g.pbtxt", []
    if kind == "graph":
        pathlib.Path("g.pb").write_bytes(serialize(meta_graph.graph_def))
        return "g.pb", []
    data = serialize(meta_graph)
    if kind == "twice":  # fields twice in a file are merged
        part = tf.MetaGraphDef()
        part.CopyFrom(meta_graph)
        part.ClearField("graph_def")
        data += serialize(part)
    pathlib.Path("g.meta").write_bytes(data)
    return "g.meta", []


def _odd_text(rng: random.Random, text: str) -> str:
    return rng.choice(
        [
            text,
            "# a comment\n" + text.replace("\n", "\r\n"),
            text.replace("node {", "node: <").replace("\n  }\n  node", "\n  >\n  node"),
            text + "unknown_field: 3\n",
            text + "[a.b.extension] { x: 1 }\n",
            text.replace("dtype: DT_FLOAT", "dtype: 1"),
            text.replace('"', "'"),
            "\ufeff" + text,
        ]
    )


def _saved(rng: random.Random, meta_graph: Any, several: bool) -> List[str]:
    """A SavedModel, whole or in part, with assets and variables that may lead elsewhere."""
    model = saved_model.new()
    model.saved_model_schema_version = rng.choice([0, 1, 1, 99])
    sets = [["serve"], ["train"], ["serve", "gpu"], []]
    rng.shuffle(sets)
    for tags in sets[: 3 if several else 1]:
        each = model.meta_graphs.add()
        if rng.random() < 0.8:
            each.CopyFrom(meta_graph)
        each.meta_info_def.tags.extend(tags)
        asset = each.asset_file_def.add(filename=rng.choice(["v.txt", "../../up", "/etc/hosts"]))
        asset.tensor_info.name = rng.choice(["x:0", "gone:0", ""])
    if several and rng.random() < 0.3:
        model.meta_graphs.add().CopyFrom(model.meta_graphs[0])
    os.makedirs("model/variables")
    pathlib.Path("model/variables/variables.index").write_bytes(b"\0")
    os.makedirs("model/assets")
    data = serialize(model)
    if rng.random() < 0.2:
        pathlib.Path("model/saved_model.pbtxt").write_text(text_format.MessageToString(model))
    if rng.random() < 0.9 or not os.path.exists("model/saved_model.pbtxt"):
        pathlib.Path("model/saved_model.pb").write_bytes(data)
    return rng.choice([[], ["--tag=" + ",".join(sets[0])], ["--tag=train"]])


def _nodes(meta_graph: Any, *ops: str) -> List[Any]:
    return [node for node in meta_graph.graph_def.node if not ops or node.op in ops]


def _some(rng: random.Random, things: Any, share: float = 0.5) -> Iterator[Any]:
    return (thing for thing in things if rng.random() < share)


def _dtype(rng: random.Random, meta_graph: Any) -> None:
    """Another dtype, of one node, of many, or of all."""
    new = rng.choice([2, 3, 9, 14, 19])
    share = rng.choice([0.02, 0.3, 1.1])
    for node in _some(rng, _nodes(meta_graph), share):
        for value in node.attr.values():
            if value.WhichOneof("value") == "type" and value.type == FLOAT:
                value.type = new
            elif value.WhichOneof("value") == "tensor" and value.tensor.dtype == FLOAT:
                array = tf.make_ndarray(value.tensor).astype(tf.as_dtype(new).as_numpy_dtype)
                value.tensor.CopyFrom(tf.make_tensor_proto(array))


def _function(rng: random.Random, meta_graph: Any) -> None:
    """A function of an odd signature, called from the graph."""
    function = meta_graph.graph_def.library.function.add()
    name = rng.choice(["odd", "MatMul", "graphmp_odd", "odd/name", "__inference_odd_1"])
    function.signature.name = name
    function.signature.input_arg.add(name="a", type=FLOAT)
    function.signature.output_arg.add(name="b", type=FLOAT)
    kind = rng.choice(
        ["plain", "argument", "unused", "generic", "list", "stateful", "control", "twice", "none"]
    )
    node = function.node_def.add(name="c", op="Square", input=["a"])
    node.attr["T"].type = FLOAT
    function.ret["b"] = "a" if kind == "argument" else "c:y:0"
    outputs = 1
    if kind == "unused":
        function.signature.input_arg[0].description = "unused"
        function.node_def[0].input[0] = "a"
        function.attr["_noinline"].b = True
    elif kind == "generic":
        function.signature.attr.add(name="T", type="type")
        function.signature.input_arg[0].ClearField("type")
        function.signature.input_arg[0].type_attr = "T"
        node.attr["T"].placeholder = "T"
    elif kind == "list":
        function.signature.input_arg[0].number_attr = "N"
        function.signature.attr.add(name="N", type="int")
    elif kind == "stateful":
        function.signature.is_stateful = True
    elif kind == "control":
        if hasattr(function, "control_ret"):
            function.control_ret["done"] = rng.choice(["c", "gone"])
            function.signature.control_output.append("done")
    elif kind == "twice":
        function.signature.output_arg.add(name="b2", type=FLOAT)
        function.ret["b2"] = "c:y:0"
        outputs = 2
    elif kind == "none":
        del function.signature.output_arg[:]
        function.ClearField("ret")
        outputs = 0
    op = rng.choice(["PartitionedCall", "StatefulPartitionedCall", name])
    call = meta_graph.graph_def.node.add(name="calls_" + kind, op=op, input=["loss"])
    if op != name:
        call.attr["f"].func.name = name
        call.attr["Tin"].list.type.append(FLOAT)
        call.attr["Tout"].list.type.extend([FLOAT] * outputs)
        if not outputs:
            call.attr["Tout"].list.SetInParent()
    if rng.random() < 0.3:
        gradient = meta_graph.graph_def.library.gradient.add()
        gradient.function_name, gradient.gradient_func = name, rng.choice([name, "gone"])


def _frame(rng: random.Random, meta_graph: Any) -> None:
    """Something odd about a while loop."""
    enters = _nodes(meta_graph, "Enter", "RefEnter")
    if not enters:
        return
    kind = rng.choice(["one", "all", "constant", "parallel", "exit", "condition", "context"])
    if kind == "one":
        rng.choice(enters).attr["frame_name"].s = b"another"
    elif kind == "all":
        for node in enters:
            node.attr["frame_name"].s = b"same"
    elif kind == "constant":
        node = rng.choice(enters)
        node.attr["is_constant"].b = not node.attr["is_constant"].b
    elif kind == "parallel":
        for node in enters:
            node.attr["parallel_iterations"].i = rng.choice([0, -1, 1, 10**9])
    elif kind == "exit":
        rng.choice(_nodes(meta_graph, "Exit")).input[0] = rng.choice(enters).name
    elif kind == "condition":
        condition = rng.choice(_nodes(meta_graph, "LoopCond"))
        condition.input[0] = rng.choice(_nodes(meta_graph, "Less", "LoopCond")).name
    else:
        collection = meta_graph.collection_def["while_context"].bytes_list
        collection.value.extend(collection.value[:1])


def _variable(rng: random.Random, meta_graph: Any) -> None:
    """Something odd about a variable."""
    found = _nodes(meta_graph, "VariableV2", "VarHandleOp", "Variable")
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
        for other in _nodes(meta_graph):
            other.input[:] = [
                node.name if text == node.name + "/read" else text for text in other.input
            ]
    elif kind == "shape":
        node.attr["shape"].shape.dim.add(size=rng.choice([1, 2, -1]))
    elif kind == "dtype":
        node.attr["dtype"].type = rng.choice([2, 3, 19])
    elif kind == "read":
        for other in _some(rng, _nodes(meta_graph, "ReadVariableOp")):
            other.attr["dtype"].type = 19
    else:
        for other in _some(rng, _nodes(meta_graph, "Assign", "ApplyGradientDescent", "ApplyAdam")):
            other.attr["use_locking"].b = not other.attr["use_locking"].b
            if "validate_shape" in other.attr:
                other.attr["validate_shape"].b = False


def _collection(rng: random.Random, meta_graph: Any) -> None:
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


def _saver(rng: random.Random, meta_graph: Any) -> None:
    """A Saver of other names, versions or numbers."""
    saver = meta_graph.saver_def
    saver.filename_tensor_name = rng.choice([saver.filename_tensor_name, "x:0", "gone:0", "", "x"])
    saver.save_tensor_name = rng.choice([saver.save_tensor_name, "loss:0", "gone:0", ""])
    saver.restore_op_name = rng.choice([saver.restore_op_name, "train", "gone", ""])
    saver.max_to_keep = rng.choice([5, -1, 0, 2**31 - 1])
    saver.version = rng.choice([0, 1, 2])


def _signature(rng: random.Random, meta_graph: Any) -> None:
    """Signatures of tensors that are others, of other dtypes, or nowhere."""
    signature = meta_graph.signature_def[rng.choice(["serving_default", "train", ""])]
    for tensors, name in ((signature.inputs, "x:0"), (signature.outputs, "loss:0")):
        info = tensors[rng.choice(["a", "", "b c"])]
        info.name = rng.choice([name, "gone:0", "loss:7", "train", "", "x"])
        info.dtype = rng.choice([FLOAT, 3, 19])
    signature.method_name = rng.choice(["tensorflow/serving/predict", "", "x"])


def _order(rng: random.Random, meta_graph: Any) -> None:
    """The nodes in another order."""
    nodes = list(meta_graph.graph_def.node)
    rng.shuffle(nodes)
    copied = [tf.NodeDef.FromString(serialize(node)) for node in nodes]
    del meta_graph.graph_def.node[:]
    meta_graph.graph_def.node.extend(copied)


def _controls(rng: random.Random, meta_graph: Any) -> None:
    """Control inputs twice, and more of them; inputs spelled with `:0`."""
    names = [node.name for node in meta_graph.graph_def.node]
    for node in _some(rng, meta_graph.graph_def.node, 0.2):
        control = [text for text in node.input if text.startswith("^")]
        data = [text for text in node.input if not text.startswith("^")]
        data = [text if ":" in text else text + ":0" for text in data]
        if names.index(node.name):
            control.append("^" + names[rng.randrange(names.index(node.name))])
        node.input[:] = data + control * 2


def _names(rng: random.Random, meta_graph: Any) -> None:
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


def _devices(rng: random.Random, meta_graph: Any) -> None:
    """Nodes on devices that may not be there."""
    devices = ["/cpu:0", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0", "/gpu:0"]
    for node in _some(rng, meta_graph.graph_def.node):
        node.device = rng.choice(devices)


def _versions(rng: random.Random, meta_graph: Any) -> None:
    """Versions of a producer, old or of tomorrow."""
    versions = meta_graph.graph_def.versions
    versions.producer = rng.choice([0, 1, 8, 20, 22, 26, 134, 1645, 9999])
    versions.min_consumer = rng.choice([0, 0, 0, 12, 22])
    meta_graph.meta_info_def.tensorflow_version = rng.choice(["", "0.1", "9.9.9", "\n"])


def _op_list(rng: random.Random, meta_graph: Any) -> None:
    """An op list that lies."""
    ops = meta_graph.meta_info_def.stripped_op_list.op
    kind = rng.choice(["none", "input", "attribute", "twice", "stateful"])
    if kind == "none":
        del ops[:]
    for op in _some(rng, ops, 0.2):
        if kind == "input":
            op.input_arg.add(name="more", type=FLOAT)
        elif kind == "attribute":
            op.attr.add(name="more", type="int")
        elif kind == "stateful":
            op.is_stateful = not op.is_stateful
        elif kind == "twice":
            ops.add().CopyFrom(op)


def _constants(rng: random.Random, meta_graph: Any) -> None:
    """Constants that half precision doesn't hold, or of no elements."""
    for node in _some(rng, _nodes(meta_graph, "Const"), 0.3):
        tensor = node.attr["value"].tensor
        if tensor.dtype != FLOAT:
            continue
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        number = rng.choice([float("nan"), float("inf"), 1e-40, -0.0, 1e38, 65520.0, 5e-8])
        tensor.CopyFrom(tf.make_tensor_proto(number, tf.float32, shape))


def _shapes(rng: random.Random, meta_graph: Any) -> None:
    """Placeholders and records of shapes that contradict, or are unknown."""
    for node in _some(rng, _nodes(meta_graph), 0.2):
        if "_output_shapes" in node.attr and rng.random() < 0.5:
            for shape in node.attr["_output_shapes"].list.shape:
                shape.dim.add(size=7)
        elif node.op == "Placeholder":
            shape = node.attr["shape"].shape
            del shape.dim[:]
            shape.unknown_rank = rng.random() < 0.5


def _mark(rng: random.Random, meta_graph: Any) -> None:
    """The collections of a conversion, in a graph that is none, or changed in one that is."""
    texts = ["{}", "null", '{"engine": 3}', '{"engine": "rewrite"}', "[" * 50, "x", ""]
    collection = meta_graph.collection_def[rng.choice(["graphmp", "graphmp_loss_scale"])]
    collection.Clear()
    collection.bytes_list.value.append(rng.choice(texts).encode())


def _attribute(rng: random.Random, meta_graph: Any) -> None:
    """An attribute of another node of the same op, or a flag the other way round."""
    node = rng.choice(_nodes(meta_graph))
    alike = [other for other in _nodes(meta_graph, node.op) if other is not node]
    keys = sorted(node.attr)
    if not keys:
        return
    key = rng.choice(keys)
    if node.attr[key].WhichOneof("value") == "b":
        node.attr[key].b = not node.attr[key].b
    elif alike and key in rng.choice(alike).attr:
        node.attr[key].CopyFrom(rng.choice(alike).attr[key])
    else:
        del node.attr[key]


def _swap(rng: random.Random, meta_graph: Any) -> None:
    """Two inputs change places, or an input is another tensor that the node may read."""
    nodes = [node for node in _nodes(meta_graph) if len(node.input) > 1]
    node = rng.choice(nodes)
    first, second = rng.sample(range(len(node.input)), 2)
    if not (node.input[first].startswith("^") or node.input[second].startswith("^")):
        node.input[first], node.input[second] = node.input[second], node.input[first]


def _cut(rng: random.Random, meta_graph: Any) -> None:
    """A node and all that depends on it are gone."""
    nodes = list(meta_graph.graph_def.node)
    gone = {rng.choice(nodes[len(nodes) // 2 :]).name}
    while True:
        more = {
            node.name
            for node in nodes
            if any(text.lstrip("^").split(":")[0] in gone for text in node.input)
        }
        if more <= gone:
            break
        gone |= more
    kept = [tf.NodeDef.FromString(serialize(node)) for node in nodes if node.name not in gone]
    if kept:
        del meta_graph.graph_def.node[:]
        meta_graph.graph_def.node.extend(kept)
    if rng.random() < 0.5:
        meta_graph.ClearField("collection_def")


_CHANGES: List[Callable[[random.Random, Any], None]] = [
    _attribute,
    _collection,
    _constants,
    _controls,
    _cut,
    _devices,
    _dtype,
    _frame,
    _function,
    _mark,
    _names,
    _op_list,
    _order,
    _saver,
    _shapes,
    _signature,
    _swap,
    _variable,
    _versions,
]
