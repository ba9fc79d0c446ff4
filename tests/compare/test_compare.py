"""Comparing graphs.

A table of tiny graphs, functions, what must not count as a change, joining a report.
"""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.compare.api import compare
from graphmp.compare.values import attribute_text
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize, with_nodes_reversed
from tests.support.corpus import recorded
from tests.support.places import ROOT
from tests.support.tiny import meta_graph, report


def found(before, after, **kwargs):
    """Changes as tuples (node, category, part, before, after)."""
    return [
        (c.node, c.category, c.part, c.before, c.after)
        for c in compare(before, after, **kwargs).changes
    ]


SAME = [
    ("order of nodes", ["a NoOp", "b NoOp ^a"], ["b NoOp ^a", "a NoOp"]),
    ("output 0 written out", ["a Const", "b Relu a:0"], ["a Const", "b Relu a"]),
    (
        "order of control inputs",
        ["a NoOp", "b NoOp", "c NoOp ^a ^b"],
        ["a NoOp", "b NoOp", "c NoOp ^b ^a"],
    ),
    ("control input given twice", ["a NoOp", "c NoOp ^a ^a"], ["a NoOp", "c NoOp ^a"]),
]

DIFFERENT = [
    (
        ["a NoOp"],
        ["a NoOp", "b MatMul a a T=float16"],
        ("b", "node added", "", None, "MatMul T=float16"),
    ),
    (
        ["a NoOp", "b Cast a SrcT=float32 DstT=int32"],
        ["a NoOp"],
        ("b", "node removed", "", "Cast DstT=int32 SrcT=float32", None),
    ),
    (["a Relu T=float32"], ["a Relu T=float16"], ("a", "dtype", "T", "float32", "float16")),
    (["a Relu"], ["a Relu T=float16"], ("a", "dtype", "T", None, "float16")),
    (
        ["a FusedBatchNorm"],
        ["a FusedBatchNormV3"],
        ("a", "op", "", "FusedBatchNorm", "FusedBatchNormV3"),
    ),
    (["a NoOp"], ["a NoOp @/gpu:0"], ("a", "device", "", None, "/gpu:0")),
    (["a NoOp @/cpu:0"], ["a NoOp @/gpu:0"], ("a", "device", "", "/cpu:0", "/gpu:0")),
    (["a X", "b X", "c Relu a"], ["a X", "b X", "c Relu b"], ("c", "rewired", "input 0", "a", "b")),
    (["a X", "c Relu a"], ["a X", "c Relu a:1"], ("c", "rewired", "input 0", "a", "a:1")),
    (["a X", "c Add a"], ["a X", "c Add a a:0"], ("c", "rewired", "input 1", None, "a")),
    (
        ["a X", "b X", "c Add a b ^b"],
        ["a X", "b X", "c Add a ^b"],
        ("c", "rewired", "input 1", "b", None),
    ),
    (["a X", "b X", "c X ^a"], ["a X", "b X", "c X ^b"], ("c", "control", "", "^a", "^b")),
    (["a X", "b X", "c X"], ["a X", "b X", "c X ^b ^a"], ("c", "control", "", None, "^a ^b")),
    (["a X", "b X", "c X ^a ^b"], ["a X", "b X", "c X ^b"], ("c", "control", "", "^a", None)),
]


@pytest.mark.unit
@pytest.mark.parametrize("before, after", [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_same(before, after):
    diff = compare(meta_graph(*before), meta_graph(*after))
    assert diff.identical
    assert diff.changes == ()


@pytest.mark.unit
@pytest.mark.parametrize(
    "before, after, change",
    DIFFERENT,
    ids=lambda value: "_".join(filter(None, value)) if isinstance(value, tuple) else "",
)
def test_one_change(before, after, change):
    assert found(meta_graph(*before), meta_graph(*after)) == [change]
    assert compare(
        compare(meta_graph(*before), meta_graph(*after)).apply(meta_graph(*before)),
        meta_graph(*after),
    ).identical


@pytest.mark.unit
@pytest.mark.parametrize(
    "before, after, change",
    DIFFERENT,
    ids=lambda value: "_".join(filter(None, value)) if isinstance(value, tuple) else "",
)
def test_backwards_is_the_mirror_image(before, after, change):
    node, category, part, old, new = change
    mirrored = {"node added": "node removed", "node removed": "node added"}.get(category, category)
    assert found(meta_graph(*after), meta_graph(*before)) == [(node, mirrored, part, new, old)]


CAST = "x_half Cast x SrcT=float32 DstT=float16"
CASTS = [
    ("one cast", ["x X", "y Relu x"], ["x X", CAST, "y Relu x_half"], "edge via cast"),
    (
        "a chain of casts",
        ["x X", "y Relu x"],
        ["x X", CAST, "z Cast x_half", "y Relu z:0"],
        "edge via cast",
    ),
    ("a cast of another output", ["x X", "y Relu x:1"], ["x X", CAST, "y Relu x_half"], "rewired"),
    (
        "a cast of another node",
        ["w X", "x X", "y Relu w"],
        ["w X", "x X", CAST, "y Relu x_half"],
        "rewired",
    ),
    (
        "a cast that was there before",
        ["x X", CAST, "y Relu x"],
        ["x X", CAST, "y Relu x_half"],
        "rewired",
    ),
    (
        "an added node that is no cast",
        ["x X", "y Relu x"],
        ["x X", "x_half Identity x", "y Relu x_half"],
        "rewired",
    ),
    ("a removed cast", ["x X", CAST, "y Relu x_half"], ["x X", "y Relu x"], "edge via cast"),
    (
        "one cast for another",
        ["x X", CAST, "y Relu x_half"],
        ["x X", "other Cast x", "y Relu other"],
        "edge via cast",
    ),
    (
        "a cast without input",
        ["x X", "y Relu x"],
        ["x X", "x_half Cast", "y Relu x_half"],
        "rewired",
    ),
    (
        "a constant's copy",
        ["c Const", "y Relu c"],
        ["c Const", "c_half Const", "y Relu c_half"],
        "rewired",
    ),
    (
        "an Enter's copy",
        ["x X", "e Enter x", "y Relu e"],
        ["x X", "e Enter x", CAST, "e_half Enter x_half", "y Relu e_half"],
        "edge via cast",
    ),
    (
        "an Enter of something else",
        ["x X", "w X", "e Enter x", "y Relu e"],
        ["x X", "w X", "e Enter x", "f Enter w", "y Relu f"],
        "rewired",
    ),
    (
        "a cast of itself",
        ["x X", "y Relu x"],
        ["x X", "x_half Cast x_half", "y Relu x_half"],
        "rewired",
    ),
]


@pytest.mark.unit
@pytest.mark.parametrize(
    "before, after, category", [row[1:] for row in CASTS], ids=[row[0] for row in CASTS]
)
def test_edges_through_casts(before, after, category):
    changes = found(meta_graph(*before), meta_graph(*after))
    assert [(node, category) for node, category, _, _, _ in changes if node == "y"] == [
        ("y", category)
    ]


f32, f16 = np.float32, np.float16
CONSTANTS = [
    ("equal", f32([1, 2]), f32([1, 2]), None),
    (
        "another value",
        f32([1, 2, 3, 4, 5, 6]),
        f32([1, 2, 3, 4, 5, 7]),
        ("float32[6] ... 6.0", "float32[6] ... 7.0"),
    ),
    (
        "first of many",
        f32([1, 2, 3, 4, 5, 6]),
        f32([0, 2, 3, 4, 5, 6]),
        ("float32[6] 1.0, 2.0, 3.0, 4.0, ...", "float32[6] 0.0, 2.0, 3.0, 4.0, ..."),
    ),
    ("another shape", f32([[1, 2]]), f32([1, 2]), ("float32[1,2] 1.0, 2.0", "float32[2] 1.0, 2.0")),
    ("only rounded", f32([0.1, 3, -7]), f16([0.1, 3, -7]), None),
    ("rounded to the nearest, not cut", f32(0.1), f16(0.09998), None),
    ("rounded wrongly", f32(0.1), f16(0.1001), ("float32[] 0.1", "float16[] 0.1001")),
    ("became infinite", f32(-70000), f16(-np.inf), ("float32[] -70000.0", "float16[] -inf")),
    ("became zero", f32(1e-12), f16(0), ("float32[] 1e-12", "float16[] 0.0")),
    ("infinite before", f32(np.inf), f16(np.inf), None),
    ("NaN stays NaN", f32([np.nan]), f32([np.nan]), None),
    ("NaN rounded", f32([np.nan]), f16([np.nan]), None),
    ("minus zero", f32([0.0]), f32([-0.0]), ("float32[1] 0.0", "float32[1] -0.0")),
    ("integers of another width", np.int32([1, 2]), np.int64([1, 2]), None),
    ("integers that became floats", np.int32([512]), f16([512]), None),
    (
        "an integer that was rounded",
        np.int32([2049]),
        f16([2050]),
        ("int32[1] 2049", "float16[1] %s" % f16(2050)),
    ),
    (
        "an integer that wrapped around",
        np.int32([300]),
        np.int8([44]),
        ("int32[1] 300", "int8[1] 44"),
    ),
    (
        "strings",
        np.array([b"a", b"b"]),
        np.array([b"a", b"\xff"]),
        ("string[2] ... b", "string[2] ... \\xff"),
    ),
    ("empty", f32([]), f16([]), None),
    (
        "booleans",
        np.array([True, False]),
        np.array([True, True]),
        ("bool[2] ... False", "bool[2] ... True"),
    ),
]


@pytest.mark.unit
@pytest.mark.parametrize(
    "before, after, values", [row[1:] for row in CONSTANTS], ids=[row[0] for row in CONSTANTS]
)
def test_constants(before, after, values):
    changes = found(meta_graph("c Const", c=before), meta_graph("c Const", c=after))
    expected = [] if values is None else [("c", "constant value", "value") + values]
    assert [change for change in changes if change[1] != "dtype"] == expected
    assert len([change for change in changes if change[1] == "dtype"]) == (
        before.dtype.kind != "S" and before.dtype != after.dtype
    )


@pytest.mark.unit
def test_bfloat16_constant_is_only_rounded():
    bfloat16 = tf.bfloat16.as_numpy_dtype
    before, after = (
        meta_graph("c Const", c=f32([1.0, 3.140625])),
        meta_graph("c Const", c=np.array([1.0, 3.140625], bfloat16)),
    )
    assert [change[1] for change in found(before, after)] == ["dtype"]
    after = meta_graph("c Const", c=np.array([1.0, 3.125], bfloat16))
    assert [change[1] for change in found(before, after)] == ["constant value", "dtype"]


@pytest.mark.unit
@pytest.mark.parametrize("value, category", [(f16(0.1), "edge via cast"), (f16(0.2), "rewired")])
def test_an_edge_to_a_copy_of_a_constant(value, category):
    before, after = (
        meta_graph("c Const", "y Relu c", c=f32(0.1)),
        meta_graph("c Const", "h Const", "y Relu h", c=f32(0.1), h=value),
    )
    assert [(node, kind) for node, kind, _, _, _ in found(before, after)] == [
        ("y", category),
        ("h", "node added"),
    ]


@pytest.mark.unit
def test_constant_stored_in_another_way_is_the_same():
    before, after = (
        meta_graph("c Const dtype=float32"),
        meta_graph("c Const dtype=float32", c=f32([7, 7, 7])),
    )
    tensor = before.graph_def.node[0].attr["value"].tensor
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=3)
    tensor.float_val.append(7)  # the last value stands for the rest
    assert serialize(before) != serialize(after)
    assert compare(before, after).identical


@pytest.mark.unit
def test_constants_that_would_not_fit_in_memory():
    graphs = []
    for value in (1, 2):
        graphs.append(meta_graph("c Const"))
        tensor = graphs[-1].graph_def.node[0].attr["value"].tensor
        tensor.dtype = 1
        tensor.tensor_shape.dim.add(size=1 << 50)
        tensor.float_val.append(value)
    assert found(*graphs) == [
        ("c", "constant value", "value", "float32[1125899906842624]", "float32[1125899906842624]")
    ]


@pytest.mark.unit
def test_attributes():
    before, after = meta_graph("a Op"), meta_graph("a Op")
    old, new = before.graph_def.node[0].attr, after.graph_def.node[0].attr
    old["f"].f, new["f"].f = 0.1, 0.2
    old["list"].list.i.extend([1, 2])
    new["list"].list.i.extend([1, 3])
    old["s"].s, new["s"].s = b"NCHW", b"NHWC"
    old["shape"].shape.dim.add(size=-1)
    new["shape"].shape.unknown_rank = True
    old["types"].list.type.extend([1, 1])
    new["types"].list.type.extend([1, 19])
    new["gone"].b = True
    assert found(before, after) == [
        ("a", "attribute", "f", "0.1", "0.2"),
        ("a", "attribute", "gone", None, "True"),
        ("a", "attribute", "list", "[1, 2]", "[1, 3]"),
        ("a", "attribute", "s", "NCHW", "NHWC"),
        ("a", "attribute", "shape", "[?]", "[...]"),
        ("a", "dtype", "types", "[float32, float32]", "[float32, float16]"),
    ]


@pytest.mark.unit
def test_long_values_are_shown_from_where_they_differ():
    before, after = meta_graph("a Op"), meta_graph("a Op")
    before.graph_def.node[0].attr["s"].s = b"x" * 5000 + b"left" + b"y" * 5000
    after.graph_def.node[0].attr["s"].s = b"x" * 5000 + b"right" + b"y" * 5000
    ((_, _, _, old, new),) = found(before, after)
    assert "xleft" in old
    assert "xright" in new
    assert max(len(old), len(new)) < 100


@pytest.mark.unit
@pytest.mark.parametrize(
    "dtype, text", [(1, "float32"), (101, "float32_ref"), (9999, "dtype 9999")]
)
def test_dtype_names(dtype, text):
    assert attribute_text(tf.AttrValue(type=dtype)) == text


def function(graph, name, *lines, inputs=("x",), returns="y"):
    """Adds a function to a MetaGraphDef: float32 arguments, nodes from lines, one result."""
    result = graph.graph_def.library.function.add()
    result.signature.name = name
    for argument in inputs:
        result.signature.input_arg.add(name=argument, type=1)
    result.signature.output_arg.add(name="out", type=1)
    result.node_def.extend(meta_graph(*lines).graph_def.node)
    result.ret["out"] = returns
    return result


@pytest.mark.unit
def test_what_is_no_node():
    before, after = meta_graph("a NoOp"), meta_graph("a NoOp")
    for graph, names in ((before, "fg"), (after, "gf")):
        for name in names:
            function(graph, name, *("%s Relu x" % body for body in names), returns="f:y:0")
            graph.graph_def.library.gradient.add(function_name=name, gradient_func="h")
        graph.collection_def["kept"].node_list.value.extend(["a", "b"])
        graph.meta_info_def.tensorflow_version = "1.15.5"
    assert compare(before, after).identical
    before.collection_def["losses"].node_list.value.append("a")
    after.collection_def["kept"].node_list.value.append("c")
    after.graph_def.library.gradient.add(function_name="f", gradient_func="g")
    after.graph_def.versions.producer = 1
    after.signature_def["serve"].method_name = "predict"
    after.asset_file_def.add(filename="vocabulary.txt")
    after.meta_info_def.tensorflow_version = "2.21.0"
    changes = found(before, after)
    assert {category for _, category, _, _, _ in changes} == {"meta graph"}
    assert [change[0] for change in changes] == [
        "asset_file_def",
        "collection_def/kept",
        "collection_def/losses",
        "library.gradient",
        "meta_info_def",
        "signature_def/serve",
        "versions",
    ]
    assert compare(compare(before, after).apply(before), after).identical


FUNCTIONS = [
    (["y Relu x"], ["y Tanh x"], [("y", "op", "", "Relu", "Tanh")]),
    (["y Relu x T=float32"], ["y Relu x T=float16"], [("y", "dtype", "T", "float32", "float16")]),
    (["y Add x z"], ["y Add z x"], [("y", "rewired", "input 0", "x", "z"), ("y", "rewired", "input 1", "z", "x")]),
    (["s Split x", "y Relu s:output:0"], ["s Split x", "y Relu s:output"], []),
    (["s Split x", "y Relu s:output:0"], ["s Split x", "y Relu s:output:1"], [("y", "rewired", "input 0", "s:output:0", "s:output:1")]),
    (["y Relu x"], ["h Cast x SrcT=float32 DstT=float16", "y Relu h:y:0"],
     [("y", "edge via cast", "input 0", "x", "h:y:0"), ("h", "node added", "", None, "Cast DstT=float16 SrcT=float32")]),
    (["a Relu x", "y Tanh a:y"], ["b Relu x", "y Tanh b:y"], [("b", "node renamed", "", "a", "b")]),
    (["y Relu x"], ["y Relu x", "w NoOp ^y"], [("w", "node added", "", None, "NoOp")]),
]  # fmt: skip


@pytest.mark.unit
@pytest.mark.parametrize("before, after, changes", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_the_body_of_a_function(before, after, changes):
    graphs = [meta_graph("a NoOp"), meta_graph("a NoOp")]
    for graph, lines in zip(graphs, (before, after)):
        function(graph, "f", *lines, inputs=("x", "z"), returns="y:activations:0")
    diff = compare(*graphs)
    assert {change.body for change in diff.changes} <= {"f"}
    assert [(c.node, c.category, c.part, c.before, c.after) for c in diff.changes] == changes
    assert all(change.path == "library/f/" + change.node for change in diff.changes)
    assert compare(diff.apply(graphs[0]), graphs[1]).identical


@pytest.mark.unit
def test_the_same_name_in_the_graph_and_in_functions():
    before, after = meta_graph("x X", "y Relu x T=float32"), meta_graph("x X", "y Relu x T=float32")
    for graph in (before, after):
        function(graph, "f", "y Relu x T=float32")
        function(graph, "g", "y Relu x T=float32")
    after.graph_def.library.function[1].node_def[0].attr["T"].type = 19
    diff = compare(
        before,
        after,
        {
            "changes": [
                {
                    "node": "y",
                    "change": "dtype of T: float32 -> float16",
                    "reason": "of the main graph",
                }
            ]
        },
    )
    assert [(change.path, change.reason) for change in diff.changes] == [("library/g/y", "")]
    diff = compare(
        before,
        after,
        {
            "changes": [
                {
                    "node": "y",
                    "body": "g",
                    "change": "dtype of T: float32 -> float16",
                    "reason": "allow",
                }
            ]
        },
    )
    assert [(change.path, change.reason) for change in diff.changes] == [("library/g/y", "allow")]


@pytest.mark.unit
def test_a_function_that_one_side_lacks():
    before, after = meta_graph("a NoOp"), meta_graph("a NoOp")
    function(after, "f", "y Relu x")
    diff = compare(before, after)
    assert [(c.path, c.category, c.before, c.after) for c in diff.changes] == [
        ("library/f", "function", None, "(x float32) -> (out float32), 1 node"),
        ("library/f/return/out", "node added", None, "_Retval T=float32"),
        ("library/f/x", "node added", None, "_Arg T=float32"),
        ("library/f/y", "node added", None, "Relu"),
    ]
    assert compare(diff.apply(before), after).identical
    back = compare(after, before)
    assert [c.category for c in back.changes] == ["node removed"] * 3 + ["function"]
    assert compare(back.apply(after), before).identical


@pytest.mark.unit
def test_the_signature_of_a_function():
    before, after = meta_graph("a NoOp"), meta_graph("a NoOp")
    function(before, "f", "y Relu x")
    function(after, "f", "y Relu x", inputs=("x", "more"))
    after.graph_def.library.function[0].attr["_noinline"].b = True
    diff = compare(before, after)
    assert [(c.path, c.category) for c in diff.changes] == [
        ("library/f", "function"),
        ("library/f/more", "node added"),
    ]
    assert diff.changes[0].after == "(x float32, more float32) -> (out float32), 1 node"
    assert compare(diff.apply(before), after).identical


@pytest.mark.unit
@pytest.mark.parametrize(
    "lines, message", [(("a NoOp", "a NoOp"), "two nodes"), (("a Relu gone",), "gone")]
)
def test_broken_graphs_are_refused(lines, message):
    with pytest.raises(GraphmpError, match=message):
        compare(meta_graph("a NoOp"), meta_graph(*lines))


BEFORE = meta_graph("x X", "y Relu x T=float32", "z NoOp")
AFTER = meta_graph("x X", CAST, "y Relu x_half T=float16", "z NoOp @/gpu:0")


@pytest.mark.unit
def test_reasons_are_joined_by_node():
    diff = compare(BEFORE, AFTER, report(y="allow", x_half="cast", elsewhere="?"))
    assert [(c.node, c.category, c.reason) for c in diff.changes] == [
        ("z", "device", ""),
        ("y", "dtype", "allow"),
        ("y", "edge via cast", "allow"),
        ("x_half", "node added", "cast"),
    ]
    assert [c.node for c in diff.unexplained] == ["z"]


@pytest.mark.unit
def test_a_row_explains_the_change_that_it_names():
    rows = [
        ("dtype of T: float32 -> float16", "allow"),
        ("edge via cast: x -> x_half", "reads"),
        ("dtype", "again"),
        ("dtype", "again"),
    ]
    diff = compare(
        BEFORE,
        AFTER,
        {"changes": [{"node": "y", "change": change, "reason": reason} for change, reason in rows]},
    )
    assert {c.category: c.reason for c in diff.changes if c.node == "y"} == {
        "dtype": "allow; again",
        "edge via cast": "reads",
    }
    diff = compare(
        BEFORE,
        AFTER,
        {
            "changes": [
                {"node": "y", "change": "dtype of T: float32 -> bfloat16", "reason": "allow"}
            ]
        },
    )
    assert {c.reason for c in diff.changes} == {""}
    assert diff.stale == ("y: dtype of T: float32 -> bfloat16",)


@pytest.mark.unit
def test_without_a_report_nothing_is_unexplained():
    diff = compare(BEFORE, AFTER)
    assert not diff.has_report
    assert diff.unexplained == ()
    assert "explained" not in diff.to_text() + diff.to_markdown()
    assert len(compare(BEFORE, AFTER, {}).unexplained) == 4


@pytest.mark.unit
def test_frozen():
    diff = compare(BEFORE, AFTER)
    with pytest.raises(dataclasses.FrozenInstanceError):
        diff.changes = ()
    with pytest.raises(dataclasses.FrozenInstanceError):
        diff.changes[0].node = ""


@pytest.mark.unit
def test_inputs_are_left_as_they_are():
    before, after = serialize(BEFORE), serialize(AFTER)
    compare(BEFORE, AFTER).to_html()
    assert (serialize(BEFORE), serialize(AFTER)) == (before, after)


@pytest.mark.unit
def test_python_interface():
    assert (
        graphmp.diff(BEFORE, AFTER, report(z="moved")).counts() == compare(BEFORE, AFTER).counts()
    )
    assert isinstance(graphmp.diff(BEFORE, BEFORE), graphmp.Diff)


def test_python_interface_in_a_fresh_process():
    """`graphmp.diff` is the package once that is imported.

    It must be a function before and after.
    """
    script = (
        "import graphmp, tensorflow.compat.v1 as tf; g = tf.MetaGraphDef(); print([graphmp.diff(g,"
        " g).identical for _ in 'ab'])"
    )
    root = str(ROOT)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode().split() == ["[True,", "True]"]


def shuffled(graph, seed):
    nodes = list(graph.graph_def.node)
    random.Random(seed).shuffle(nodes)
    result = tf.MetaGraphDef()
    result.CopyFrom(graph)
    del result.graph_def.node[:]
    result.graph_def.node.extend(nodes)
    return result


def half(graph):
    """The graph with every fifth node in float16 and every seventh gone, its readers included."""
    result, gone = tf.MetaGraphDef(), set()
    result.CopyFrom(graph)
    del result.graph_def.node[:]
    for index, node in enumerate(graph.graph_def.node):
        if index % 7 == 6 or any(text.lstrip("^").split(":")[0] in gone for text in node.input):
            gone.add(node.name)
            continue
        copy = result.graph_def.node.add()
        copy.CopyFrom(node)
        if index % 5 == 4:
            copy.attr["T"].type = 19
    names = {node.name for node in result.graph_def.node}
    kept = [
        node
        for node in result.graph_def.node
        if all(text.lstrip("^").split(":")[0] in names for text in node.input)
    ]
    while len(kept) < len(names):
        names = {node.name for node in kept}
        kept = [
            node
            for node in kept
            if all(text.lstrip("^").split(":")[0] in names for text in node.input)
        ]
    final = tf.MetaGraphDef()
    final.CopyFrom(result)
    del final.graph_def.node[:]
    final.graph_def.node.extend(kept)
    return final


@pytest.mark.unit
@recorded(slice(1, None, 3), slow=slice(None))
def test_shuffling_changes_nothing(paths):
    for path in paths:
        graph = read_graph(path)
        assert compare(graph, graph).identical, path.name
        assert compare(graph, shuffled(graph, 1)).identical, path.name
        assert compare(graph, with_nodes_reversed(graph)).identical, path.name


@pytest.mark.unit
@recorded(slice(1, None, 3), slow=slice(None))
def test_every_difference_is_found(paths):
    for path in paths:
        before = read_graph(path)
        after = half(before)
        diff = compare(before, after)
        assert diff == compare(shuffled(before, 1), shuffled(after, 2)), path.name
        old, new = ({node.name: node for node in graph.graph_def.node} for graph in (before, after))
        nodes = diff.groups()
        assert compare(diff.apply(before), after).identical, path.name
        assert {c.node for c in nodes["node removed"]} == set(old) - set(new), path.name
        changed = {name for name in new if old[name].attr["T"].type != new[name].attr["T"].type}
        assert {c.node for c in nodes["dtype"] if c.part == "T"} == changed, path.name
        assert changed


@pytest.mark.unit
@recorded(slice(1, None, 3), slow=slice(None))
def test_one_cast_is_one_cast(paths):
    """One cast put into one edge of a recorded graph is the one thing that is reported."""
    for path in paths:
        before, after = read_graph(path), read_graph(path)
        reader = next(node for node in after.graph_def.node if node.op in ("MatMul", "Mul", "Sub"))
        cast = after.graph_def.node.add(name="one_cast", op="Cast", input=[reader.input[0]])
        cast.attr["SrcT"].type, cast.attr["DstT"].type = 1, 19
        old, reader.input[0] = reader.input[0], "one_cast"
        assert found(before, after) == [
            (reader.name, "edge via cast", "input 0", old, "one_cast"),
            ("one_cast", "node added", "", None, "Cast DstT=float16 SrcT=float32"),
        ], path.name


@pytest.mark.unit
@recorded(slice(1, None, 3), slow=slice(None))
def test_swapped_inputs_are_rewired(paths):
    for path in paths:
        before, after = read_graph(path), read_graph(path)
        reader = next(node for node in after.graph_def.node if node.op in ("MatMul", "Mul", "Sub"))
        reader.input[:2] = reader.input[:2][::-1]
        assert [(name, category, part) for name, category, part, _, _ in found(before, after)] == [
            (reader.name, "rewired", "input 0"),
            (reader.name, "rewired", "input 1"),
        ], path.name


@pytest.mark.unit
@recorded(slice(8))
def test_two_recorded_graphs_of_different_models(paths):
    """Any two graphs can be compared; what comes out makes the one of the other."""
    half = len(paths) // 2
    for first, second in zip(paths[:half], paths[half:]):
        before, after = read_graph(first), read_graph(second)
        diff = compare(before, after)
        assert diff.failed
        assert compare(diff.apply(before), after).identical, (first.name, second.name)
