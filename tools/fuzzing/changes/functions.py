"""Changes of functions: one more, of an odd signature."""

from __future__ import annotations

import random
from typing import Any

from fuzzing.changes.nodes import FLOAT


def function(rng: random.Random, meta_graph: Any) -> None:
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
