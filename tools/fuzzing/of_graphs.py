"""Families of graphs: bytes of files, and the structure of graphs whose bytes are sound."""

from __future__ import annotations

import json
import os
import pathlib
import random
from typing import Any, List

import tensorflow.compat.v1 as tf
from google.protobuf import text_format

from fuzzing import damage, seeds
from fuzzing.runner import Case

OUT = "out"


def of_bytes(rng: random.Random) -> Case:
    """A graph's file with damaged bytes, binary or text, under any name."""
    data = rng.choice(seeds.graphs())
    if rng.random() < 0.4:
        data = text_format.MessageToString(tf.MetaGraphDef.FromString(data)).encode()
    name = "g" + rng.choice([".meta", ".pb", ".pbtxt", "", ".META", ".txt"])
    pathlib.Path(name).write_bytes(damage.damaged(rng, data))
    return command(rng, name)


def of_structure(rng: random.Random) -> Case:
    """A graph with one to four hostile values, or hostile parts, of the right protobuf types."""
    meta_graph = tf.MetaGraphDef.FromString(rng.choice(seeds.graphs()))
    for _ in range(rng.randint(1, 4)):
        rng.choice(_CHANGES)(rng, meta_graph)
    pathlib.Path("g.meta").write_bytes(meta_graph.SerializeToString())
    return command(rng, "g.meta")


def command(rng: random.Random, name: str) -> Case:
    """A command on a graph."""
    kind = rng.choice(["convert"] * 4 + ["diff", "inspect", "explain", "verify"])
    if kind == "convert":
        flags = rng.choice(
            [[], ["--loss_scale=none"], ["--compute_dtype=bfloat16"], ["--clip_norm=1"]]
        )
        return Case(["convert", name, "-o", OUT, *flags], lambda status: converted(status, name))
    if kind == "explain":
        return Case(["explain", name, "loss"])
    if kind == "inspect":
        return Case(["inspect", name])
    pathlib.Path("sound.meta").write_bytes(seeds.graphs()[0])
    names = ["sound.meta", name]
    rng.shuffle(names)
    return Case([kind, *names])


def converted(status: int, source: str) -> str:
    """The fault of a folder after a conversion, by its exit status; nothing if all is well."""
    names = sorted(os.listdir(OUT)) if os.path.isdir(OUT) else []
    expected = sorted(seeds.conversions()["none"])
    if status:
        return "left behind: %s" % names if names else ""
    if names != expected:
        return "mixed: %s" % names
    graphs = [_imports(os.path.join(OUT, name)) for name in ("original.meta", "converted.meta")]
    if graphs == [True, False]:
        return "wrong success: TensorFlow refuses the conversion of %s" % source
    json.loads(pathlib.Path(OUT, "report.json").read_text(encoding="utf-8"))
    return ""


def _imports(path: str) -> bool:
    """Whether TensorFlow imports a graph."""
    meta_graph = tf.MetaGraphDef.FromString(pathlib.Path(path).read_bytes())
    try:
        with tf.Graph().as_default():
            tf.import_graph_def(meta_graph.graph_def, name="")
    except Exception:  # TensorFlow raises many kinds
        return False
    return True


def _node(rng: random.Random, meta_graph: Any) -> Any:
    bodies = [meta_graph.graph_def.node]
    bodies += [function.node_def for function in meta_graph.graph_def.library.function]
    return rng.choice(rng.choice([body for body in bodies if len(body)]))


def _any_field(rng: random.Random, meta_graph: Any) -> None:
    """A hostile value in a random field, at any depth."""
    message = rng.choice([meta_graph, meta_graph.graph_def, _node(rng, meta_graph)])
    for _ in range(12):
        fields = [field for field, _ in message.ListFields()]
        if not fields:
            return
        field = rng.choice(fields)
        value = getattr(message, field.name)
        if field.message_type is None:
            _set(rng, message, field, value)
            return
        if field.message_type.GetOptions().map_entry:
            key = rng.choice(sorted(value))
            if not hasattr(value[key], "ListFields") or rng.random() < 0.2:
                del value[key]
                return
            message = value[key]
        elif hasattr(value, "append") or hasattr(value, "add"):
            if rng.random() < 0.15:
                del value[rng.randrange(len(value))]
                return
            message = rng.choice(value)
        else:
            message = value


def _set(rng: random.Random, message: Any, field: Any, value: Any) -> None:
    new = _hostile(rng, field)
    try:
        if hasattr(value, "append"):
            if rng.random() < 0.5:
                value.append(new)
            else:
                value[rng.randrange(len(value))] = new
        else:
            setattr(message, field.name, new)
    except (TypeError, ValueError):
        message.ClearField(field.name)


def _hostile(rng: random.Random, field: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(damage.NAMES)
        return text.encode("utf-8") + b"\xff" if field.type == field.TYPE_BYTES else text
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([float("nan"), float("inf"), -1e300, 1e-320, 0.0])
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    return rng.choice(damage.NUMBERS + (9999, 101, 20, 21))


def _rewire(rng: random.Random, meta_graph: Any) -> None:
    """An input that doesn't exist, of another type, too high, or the node itself."""
    node = _node(rng, meta_graph)
    other = _node(rng, meta_graph).name
    new = rng.choice(
        [
            "gone",
            "^gone",
            other,
            "^" + other,
            other + ":7",
            other + ":99999999999",
            node.name,
            ":",
            "",
        ]
    )
    if len(node.input) and rng.random() < 0.7:
        node.input[rng.randrange(len(node.input))] = new
    else:
        node.input.append(new)


def _drop(rng: random.Random, meta_graph: Any) -> None:
    node = _node(rng, meta_graph)
    if len(node.input) and rng.random() < 0.5:
        del node.input[rng.randrange(len(node.input))]
    elif len(node.attr):
        del node.attr[rng.choice(sorted(node.attr))]


def _attribute(rng: random.Random, meta_graph: Any) -> None:
    """An attribute of another kind, or with a hostile value."""
    node = _node(rng, meta_graph)
    name = rng.choice([*sorted(node.attr), "_class", "T", "N", "num", "_output_shapes"])
    node.attr[name].CopyFrom(_value(rng))


def _value(rng: random.Random) -> Any:
    value = tf.AttrValue()
    kind = rng.choice(["s", "i", "f", "b", "type", "shape", "tensor", "list", "func", "nothing"])
    if kind == "s":
        value.s = rng.choice(damage.NAMES).encode("utf-8") + rng.choice([b"", b"\xff"])
    elif kind == "i":
        value.i = rng.choice(damage.NUMBERS)
    elif kind == "f":
        value.f = float("nan")
    elif kind == "b":
        value.b = True
    elif kind == "type":
        value.type = rng.choice([0, 1, 3, 7, 19, 20, 21, 101, 119, 9999])
    elif kind == "shape":
        value.shape.dim.add(size=rng.choice(damage.NUMBERS))
    elif kind == "tensor":
        value.tensor.CopyFrom(_tensor(rng))
    elif kind == "list":
        value.list.s.append(rng.choice([b"loc:@gone", b"loc:@\xff", b"\x1b[31m"]))
    elif kind == "func":
        value.func.name = rng.choice(["squares", "gone", "\x1b[31m"])
    return value


def _tensor(rng: random.Random) -> Any:
    """A tensor whose contents don't fit its shape, or a huge one of one value."""
    tensor = tf.AttrValue().tensor
    tensor.dtype = rng.choice([1, 3, 7, 19, 9999])
    for _ in range(rng.randint(0, 3)):
        tensor.tensor_shape.dim.add(size=rng.choice(damage.NUMBERS))
    if rng.random() < 0.5:
        tensor.tensor_content = bytes(rng.randint(0, 9))
    else:
        tensor.float_val.append(1.0)
    return tensor


def _constant(rng: random.Random, meta_graph: Any) -> None:
    constants = [node for node in meta_graph.graph_def.node if node.op == "Const"]
    rng.choice(constants).attr["value"].tensor.CopyFrom(_tensor(rng))


def _rename(rng: random.Random, meta_graph: Any) -> None:
    node = _node(rng, meta_graph)
    old, node.name = node.name, rng.choice([*damage.NAMES, _node(rng, meta_graph).name])
    if rng.random() < 0.5:
        for other in meta_graph.graph_def.node:
            for number, text in enumerate(other.input):
                if text.split(":")[0].lstrip("^") == old:
                    other.input[number] = text.replace(old, node.name)


def _op(rng: random.Random, meta_graph: Any) -> None:
    _node(rng, meta_graph).op = rng.choice(
        [
            "Gone",
            "Merge",
            "NextIteration",
            "Enter",
            "Unpack",
            "Split",
            "squares",
            "If",
            "While",
            "Sum",
        ]
    )


def _many(rng: random.Random, meta_graph: Any) -> None:
    """A node that declares more outputs or inputs than there can be."""
    node = meta_graph.graph_def.node.add(name="many", op=rng.choice(["Unpack", "Split", "ShapeN"]))
    node.attr[
        "num" if node.op == "Unpack" else "num_split" if node.op == "Split" else "N"
    ].i = rng.choice([10**9, 2**40, 5000, -1])
    node.attr["T"].type = 1
    node.input.append("loss")


def _function(rng: random.Random, meta_graph: Any) -> None:
    """Functions that call each other, in a circle or twice each, or one that isn't there."""
    library = meta_graph.graph_def.library
    count = rng.choice([1, 2, 20])
    circle = rng.random() < 0.5
    for number in range(count):
        function = library.function.add()
        function.signature.name = "f%d" % number
        function.signature.input_arg.add(name="a", type=1)
        function.signature.output_arg.add(name="b", type=1)
        last = "a"
        for call in range(2):
            node = function.node_def.add(name="c%d" % call, op="PartitionedCall", input=[last])
            following = number + 1 if number + 1 < count else (0 if circle else count)
            node.attr["f"].func.name = "f%d" % following
            node.attr["Tin"].list.type.append(1)
            node.attr["Tout"].list.type.append(1)
            last = "c%d:output:0" % call
        function.ret["b"] = last
    node = meta_graph.graph_def.node.add(name="calls", op="PartitionedCall", input=["loss"])
    node.attr["f"].func.name = "f0"
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)


def _collections(rng: random.Random, meta_graph: Any) -> None:
    """Collections with names that aren't there, or of the wrong kind."""
    name = rng.choice(
        ["losses", "train_op", "trainable_variables", "while_context", "cond_context", "graphmp"]
    )
    collection = meta_graph.collection_def[name]
    collection.Clear()
    text = rng.choice(damage.NAMES)
    if rng.random() < 0.5:
        collection.node_list.value.append(text)
    else:
        collection.bytes_list.value.append(text.encode("utf-8") + b"\xff")


def _device(rng: random.Random, meta_graph: Any) -> None:
    _node(rng, meta_graph).device = rng.choice(
        ["/gpu:99999999999999999999", "/job:\x1b[31m", "cpu", "/a/b/c", *damage.NAMES]
    )


_CHANGES: List[Any] = [
    *[_any_field] * 4,
    _rewire,
    _drop,
    _attribute,
    _constant,
    _rename,
    _op,
    _many,
    _function,
    _collections,
    _device,
]
