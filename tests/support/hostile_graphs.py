"""Hostile graphs: small functions that break one thing of a valid graph each.

`REFUSED` are those that graphmp refuses, by name, with the words that the refusal contains;
`TOLERATED` those that TensorFlow imports and graphmp takes too. `base` is the valid graph.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple

import tensorflow.compat.v1 as tf

FLOAT, STRING = tf.float32.as_datatype_enum, tf.string.as_datatype_enum
HUGE = 10**9


class Hostile(NamedTuple):
    """A change of a graph, and words that its refusal contains; empty if it is taken."""

    change: Callable[[Any], None]
    said: str = ""


def base() -> tf.MetaGraphDef:
    """A valid graph: a matmul of a placeholder and a variable, a square, a constant, a while loop."""
    meta_graph = tf.MetaGraphDef()
    graph_def = meta_graph.graph_def
    graph_def.versions.producer = 22
    add(meta_graph, "x", "Placeholder", dtype=FLOAT)
    variable = add(meta_graph, "w", "VariableV2", dtype=FLOAT)
    for size in (4, 4):
        variable.attr["shape"].shape.dim.add(size=size)
    add(meta_graph, "w/read", "Identity", ["w"], T=FLOAT).attr["_class"].list.s.append(b"loc:@w")
    add(meta_graph, "matmul", "MatMul", ["x", "w/read"], T=FLOAT)
    constant(meta_graph, "two", [2.0])
    add(meta_graph, "product", "Mul", ["matmul", "two"], T=FLOAT)
    add(meta_graph, "out", "Square", ["product"], T=FLOAT)
    return meta_graph


def add(meta_graph: Any, name: str, op: str, inputs: Any = (), **types: int) -> Any:
    """Add a node whose attributes are types."""
    node = meta_graph.graph_def.node.add(name=name, op=op)
    node.input.extend(inputs)
    for key, value in types.items():
        node.attr[key].type = value
    return node


def constant(meta_graph: Any, name: str, value: Any, dtype: Any = None) -> Any:
    """Add a constant."""
    node = meta_graph.graph_def.node.add(name=name, op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
    node.attr["dtype"].type = node.attr["value"].tensor.dtype
    return node


def splat(meta_graph: Any, name: str, value: Any, dtype: Any, size: int = HUGE) -> Any:
    """Add a constant of many elements in a few bytes."""
    node = constant(meta_graph, name, [value], dtype)
    node.attr["value"].tensor.tensor_shape.dim[0].size = size
    return node


def function(meta_graph: Any, name: str, *calls: str) -> Any:
    """Add a function from float to float that calls others, one after the other."""
    made = meta_graph.graph_def.library.function.add()
    made.signature.name = name
    made.signature.input_arg.add(name="a", type=FLOAT)
    made.signature.output_arg.add(name="r", type=FLOAT)
    last = "a"
    for number, called in enumerate(calls):
        node = made.node_def.add(name="call%d" % number, op="PartitionedCall")
        called_by(node, called, last)
        last = "call%d:output:0" % number
    if not calls:
        node = made.node_def.add(name="square", op="Square", input=["a"])
        node.attr["T"].type = FLOAT
        last = "square:y:0"
    made.ret["r"] = last
    return made


def called_by(node: Any, name: str, given: str) -> None:
    """Let a PartitionedCall call a function from float to float."""
    node.input.append(given)
    node.attr["Tin"].list.type.append(FLOAT)
    node.attr["Tout"].list.type.append(FLOAT)
    node.attr["f"].func.name = name


def call(meta_graph: Any, name: str, given: str = "product") -> None:
    """Add a node that calls a function."""
    called_by(add(meta_graph, "call/" + name, "PartitionedCall"), name, given)


def node(meta_graph: Any, name: str) -> Any:
    """A node by its name."""
    return next(each for each in meta_graph.graph_def.node if each.name == name)


def _two_of_a_name(graph: Any) -> None:
    constant(graph, "two", 1.0)


def _missing_input(graph: Any) -> None:
    node(graph, "out").input[0] = "nowhere"


def _missing_control(graph: Any) -> None:
    node(graph, "out").input.append("^nowhere")


def _slot(graph: Any) -> None:
    node(graph, "out").input[0] = "product:7"


def _huge_slot(graph: Any) -> None:
    node(graph, "out").input[0] = "product:99999999999999999999"


def _data_after_control(graph: Any) -> None:
    node(graph, "product").input[:] = ["^x", "matmul", "two"]


def _too_few_inputs(graph: Any) -> None:
    del node(graph, "matmul").input[1:]


def _too_many_inputs(graph: Any) -> None:
    node(graph, "out").input.append("two")


def _unknown_dtype(graph: Any) -> None:
    node(graph, "x").attr["dtype"].type = 97


def _unknown_tensor_dtype(graph: Any) -> None:
    node(graph, "two").attr["value"].tensor.dtype = 97


def _other_tensor_dtype(graph: Any) -> None:
    node(graph, "two").attr["value"].tensor.dtype = STRING


def _kind(graph: Any) -> None:
    node(graph, "out").attr["T"].s = b"float"


def _list_kind(graph: Any) -> None:
    node(graph, "w/read").attr["_class"].s = b"loc:@w"


def _mixed_list(graph: Any) -> None:
    node(graph, "w/read").attr["_class"].list.i.append(3)


def _shapes_kind(graph: Any) -> None:
    node(graph, "out").attr["_output_shapes"].s = b"[]"


def _missing_attribute(graph: Any) -> None:
    del node(graph, "out").attr["T"]


def _class_text(graph: Any) -> None:
    node(graph, "w/read").attr["_class"].list.s[0] = b"loc:@\xff\xfe"


def _class_of_nobody(graph: Any) -> None:
    node(graph, "w/read").attr["_class"].list.s[0] = b"loc:@nobody"


def _device(graph: Any) -> None:
    node(graph, "out").device = "/gpu:zero/what"


def _short_content(graph: Any) -> None:
    node(graph, "two").attr["value"].tensor.ClearField("float_val")
    node(graph, "two").attr["value"].tensor.tensor_content = b"\0\0\0"


def _long_content(graph: Any) -> None:
    _short_content(graph)
    node(graph, "two").attr["value"].tensor.tensor_content = b"\0" * 400


def _too_many_values(graph: Any) -> None:
    node(graph, "two").attr["value"].tensor.float_val.extend([1.0] * 9)


def _negative_dimension(graph: Any) -> None:
    node(graph, "two").attr["value"].tensor.tensor_shape.dim[0].size = -5


def _huge_product(graph: Any) -> None:
    del node(graph, "two").attr["value"].tensor.tensor_shape.dim[:]
    for _ in range(4):
        node(graph, "two").attr["value"].tensor.tensor_shape.dim.add(size=2**40)


def _calls_itself(graph: Any) -> None:
    function(graph, "F", "F")
    call(graph, "F")


def _call_each_other(graph: Any) -> None:
    function(graph, "F", "G")
    function(graph, "G", "H")
    function(graph, "H", "F")
    call(graph, "G")


def _gradient_of_itself(graph: Any) -> None:
    function(graph, "F", "G")
    function(graph, "G")
    graph.graph_def.library.gradient.add(function_name="G", gradient_func="F")
    call(graph, "F")


def _two_functions(graph: Any) -> None:
    function(graph, "F")
    function(graph, "F", "F")
    call(graph, "F")


def _function_input(graph: Any) -> None:
    function(graph, "F").node_def[0].input[0] = "nothing"
    call(graph, "F")


def _function_result(graph: Any) -> None:
    function(graph, "F").ret["r"] = "nothing:y:0"
    call(graph, "F")


def _cycle(graph: Any) -> None:
    node(graph, "product").input[1] = "out"


def _control_cycle(graph: Any) -> None:
    node(graph, "matmul").input.append("^out")


def _collection(graph: Any) -> None:
    graph.collection_def["losses"].node_list.value.append("nowhere:0")


def _context(graph: Any) -> None:
    text = b"\n\x04cond\x12\x07nowhere\x1a\x07nowhere"  # context_name, pred_name, pivot_name
    graph.collection_def["cond_context"].bytes_list.value.append(text)


def _broken_context(graph: Any) -> None:
    graph.collection_def["while_context"].bytes_list.value.append(b"\xff\xff\xff")


def _empty_context(graph: Any) -> None:
    text = b"\n\x04loop\x62\x00"  # context_name, and an empty one of nested_contexts
    graph.collection_def["while_context"].bytes_list.value.append(text)


def _variable_of_nobody(graph: Any) -> None:
    graph.collection_def["variables"].bytes_list.value.append(b"\n\tnowhere:0")


def unpack(graph: Any, size: int = HUGE) -> None:
    """Add an Unpack that declares many outputs."""
    add(graph, "unpack", "Unpack", ["matmul"], T=FLOAT).attr["num"].i = size


def _split(graph: Any) -> None:
    constant(graph, "axis", 0)
    add(graph, "split", "Split", ["axis", "matmul"], T=FLOAT).attr["num_split"].i = HUGE


def _negative_count(graph: Any) -> None:
    add(graph, "split", "Unpack", ["matmul"], T=FLOAT).attr["num"].i = -3


def _shape_n(graph: Any) -> None:
    add(graph, "shapes", "ShapeN", ["matmul"], T=FLOAT).attr["N"].i = HUGE


def _name_with_a_space(graph: Any) -> None:
    add(graph, "a b", "NoOp")


def _long_name(graph: Any) -> None:
    add(graph, "n" * 100_000, "NoOp")


def _many_twice(graph: Any) -> None:
    for depth in range(40):
        function(graph, "f%d" % depth, *(["f%d" % (depth + 1)] * 2 if depth < 39 else []))
    call(graph, "f0")


REFUSED: Dict[str, Hostile] = {
    "functions that call twice": Hostile(_many_twice, "calls of functions"),
    "two nodes of a name": Hostile(_two_of_a_name, "two nodes have the name two"),
    "missing input": Hostile(_missing_input, "nowhere"),
    "missing control input": Hostile(_missing_control, "nowhere"),
    "slot": Hostile(_slot, "product:7"),
    "huge slot": Hostile(_huge_slot, "product:9999"),
    "data after control": Hostile(_data_after_control, "after a control input"),
    "too few inputs": Hostile(_too_few_inputs, "1 data input"),
    "too many inputs": Hostile(_too_many_inputs, "2 data inputs"),
    "unknown dtype": Hostile(_unknown_dtype, "97"),
    "unknown dtype of a tensor": Hostile(_unknown_tensor_dtype, "97"),
    "another dtype of a tensor": Hostile(_other_tensor_dtype, "string"),
    "kind of an attribute": Hostile(_kind, "T"),
    "kind of _class": Hostile(_list_kind, "_class"),
    "mixed list": Hostile(_mixed_list, "_class"),
    "_class that is no text": Hostile(_class_text, "UTF-8"),
    "_class of nobody": Hostile(_class_of_nobody, "nobody"),
    "device": Hostile(_device, "/gpu:zero/what"),
    "short content": Hostile(_short_content, "3 bytes"),
    "long content": Hostile(_long_content, "400 bytes"),
    "too many values": Hostile(_too_many_values, "10 values"),
    "negative dimension": Hostile(_negative_dimension, "-5"),
    "huge product of dimensions": Hostile(_huge_product, "elements"),
    "function that calls itself": Hostile(_calls_itself, "F -> F"),
    "functions that call each other": Hostile(_call_each_other, "F -> G -> H -> F"),
    "two functions of a name": Hostile(_two_functions, "two functions have the name F"),
    "input in a function": Hostile(_function_input, "nothing"),
    "result of a function": Hostile(_function_result, "nothing"),
    "cycle": Hostile(_cycle, "cycle"),
    "cycle of control inputs": Hostile(_control_cycle, "cycle"),
    "collection": Hostile(_collection, "nowhere"),
    "context": Hostile(_context, "nowhere"),
    "context that is none": Hostile(_broken_context, "while_context"),
    "context in a context that is none": Hostile(_empty_context, "without a context"),
    "variable of nobody": Hostile(_variable_of_nobody, "nowhere"),
    "Unpack": Hostile(unpack, "num"),
    "Split": Hostile(_split, "num_split"),
    "negative count": Hostile(_negative_count, "num"),
    "ShapeN": Hostile(_shape_n, "N"),
    "long name": Hostile(_long_name, "100,000"),
}


def _stale_shapes(graph: Any) -> None:
    node(graph, "out").attr["_output_shapes"].list.shape.add().dim.add(size=77)


def _no_stripped_list(graph: Any) -> None:
    graph.meta_info_def.ClearField("stripped_op_list")


def _unknown_op(graph: Any) -> None:
    add(graph, "mine", "OpOfMyOwn", ["out"], T=FLOAT)


def _unknown_attribute(graph: Any) -> None:
    node(graph, "matmul").attr["grad_of_tomorrow"].b = False


def _private_attribute(graph: Any) -> None:
    node(graph, "matmul").attr["_mine"].s = b"\xff\xfe"


def _default_left_out(graph: Any) -> None:
    node(graph, "matmul").attr.pop("transpose_a", None)


def _few_values(graph: Any) -> None:
    node(graph, "two").attr["value"].tensor.tensor_shape.dim[0].size = 4


def _unknown_collection(graph: Any) -> None:
    graph.collection_def["mine"].bytes_list.value.append(b"\xff\xff\xff")


def _splat(graph: Any) -> None:
    splat(graph, "sizes", 1, tf.int32)
    add(graph, "filled", "Fill", ["sizes", "one"], T=FLOAT)
    constant(graph, "one", 1.0)


def _axes(graph: Any) -> None:
    splat(graph, "axes", 0, tf.int32)
    total = add(graph, "sum", "Sum", ["matmul", "axes"], T=FLOAT)
    total.attr["Tidx"].type = tf.int32.as_datatype_enum


def _float_splat(graph: Any) -> None:
    splat(graph, "many", 0.5, tf.float32)
    add(graph, "product2", "Mul", ["matmul", "many"], T=FLOAT)


TOLERATED: Dict[str, Hostile] = {
    "kind of _output_shapes": Hostile(_shapes_kind),
    "gradient that calls its function": Hostile(_gradient_of_itself),
    "stale shapes": Hostile(_stale_shapes),
    "no op list": Hostile(_no_stripped_list),
    "unknown op": Hostile(_unknown_op),
    "unknown attribute": Hostile(_unknown_attribute),
    "private attribute": Hostile(_private_attribute),
    "missing attribute": Hostile(_missing_attribute),
    "name with a space": Hostile(_name_with_a_space),
    "default left out": Hostile(_default_left_out),
    "few values": Hostile(_few_values),
    "unknown collection": Hostile(_unknown_collection),
    "shape of a Fill": Hostile(_splat),
    "axes of a Sum": Hostile(_axes),
    "splat of floats": Hostile(_float_splat),
}


def made(hostile: Hostile) -> tf.MetaGraphDef:
    """The valid graph with a change."""
    graph = base()
    hostile.change(graph)
    return graph


def chain(size: int) -> tf.MetaGraphDef:
    """A chain of nodes behind a matmul."""
    graph, last = base(), "out"
    for number in range(size):
        add(graph, "chain%d" % number, "Relu", [last], T=FLOAT)
        last = "chain%d" % number
    return graph


def many_controls(size: int) -> tf.MetaGraphDef:
    """A node with many control edges."""
    graph = base()
    for number in range(size):
        add(graph, "n%d" % number, "NoOp")
    add(graph, "all", "NoOp", ["^n%d" % number for number in range(size)])
    return graph


def many_functions(size: int) -> tf.MetaGraphDef:
    """A chain of calls of as many functions, each of which also calls the next."""
    graph, last = base(), "out"
    for number in range(size):
        function(graph, "f%d" % number, *(["f%d" % (number + 1)] if number % 20 < 19 else []))
    for number in range(0, size, 20):
        call(graph, "f%d" % number, last)
        last = "call/f%d" % number
    return graph


def huge_gradients(meta_graph: Any) -> None:
    """Make the graph one that trains, with splats of a billion elements in its gradient code."""
    meta_graph.Clear()
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 4], "x")
        weights = tf.get_variable("w", [4, 4])
        loss = tf.reduce_sum(tf.reduce_mean(tf.matmul(x, weights) * tf.ones([4])), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        meta_graph.CopyFrom(tf.train.export_meta_graph())
    for each in meta_graph.graph_def.node:
        if each.op == "Const" and len(each.attr["value"].tensor.tensor_shape.dim) == 1:
            tensor = each.attr["value"].tensor
            if not tensor.tensor_content:
                tensor.tensor_shape.dim[0].size = HUGE
