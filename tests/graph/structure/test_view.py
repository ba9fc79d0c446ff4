"""GraphView and the variables of a graph."""

from __future__ import annotations

import time

import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.graph.state.variables import Variable, saved_names, variables
from graphmp.graph.structure.view import CONTROL, Consumer, GraphView, Port, parse_input
from tests.support.corpus import recorded
from tests.support.tiny import FLOAT32, meta_graph

pytestmark = pytest.mark.unit

#   a -> b -> d      d also waits for c, c reads output 1 of b, and e has no edges
DIAMOND = meta_graph("d Add b a:0 ^c ^a", "b Split a", "c Relu b:1", "a Const", "e NoOp").graph_def
LOOP = meta_graph(
    "enter Enter x", "merge Merge enter next", "x Const", "next NextIteration merge"
).graph_def
FUTURE = 1 << 20


@pytest.mark.parametrize(
    "text, port, shortest",
    [
        ("x", Port("x", 0), "x"),
        ("x:0", Port("x", 0), "x"),
        ("x:12", Port("x", 12), "x:12"),
        ("^x", Port("x", CONTROL), "^x"),
        ("scope/x_1:2", Port("scope/x_1", 2), "scope/x_1:2"),
        ("odd:name", Port("odd:name", 0), "odd:name"),
        ("odd:name:3", Port("odd:name", 3), "odd:name:3"),
        (":3", Port("", 3), ":3"),
    ],
)
def test_parse_input(text, port, shortest):
    assert parse_input(text) == port
    assert str(port) == shortest
    assert parse_input(shortest) == port


def test_edges():
    view = GraphView(DIAMOND)
    assert list(view.nodes) == ["d", "b", "c", "a", "e"]
    assert view.inputs("d") == (("b", 0), ("a", 0))
    assert view.controls("d") == ("c", "a")
    assert view.inputs("c") == (("b", 1),)
    assert (
        view.inputs("e")
        == view.controls("e")
        == view.consumers("e")
        == view.control_consumers("e")
        == ()
    )
    assert sorted(view.consumers("a")) == [Consumer("b", 0, 0), Consumer("d", 1, 0)]
    assert sorted(view.consumers("b")) == [Consumer("c", 0, 1), Consumer("d", 0, 0)]
    assert view.control_consumers("c") == ("d",)


@pytest.mark.parametrize(
    "graph_def, start, control, ancestors, descendants",
    [
        (DIAMOND, "d", True, "abcd", "d"),
        (DIAMOND, "d", False, "abd", "d"),
        (DIAMOND, "c", True, "abc", "cd"),
        (DIAMOND, "c", False, "abc", "c"),
        (DIAMOND, "e", True, "e", "e"),
        (DIAMOND, "", True, "", ""),
        (DIAMOND, "ae", True, "ae", "abcde"),
    ],
)
def test_traversal(graph_def, start, control, ancestors, descendants):
    view = GraphView(graph_def)
    assert view.ancestors(list(start), control) == set(ancestors)
    assert view.descendants(list(start), control) == set(descendants)


def test_traversal_of_a_loop_ends():
    view = GraphView(LOOP)
    assert view.ancestors(["merge"]) == {"enter", "merge", "next", "x"}
    assert view.descendants(["next"]) == {"merge", "next"}


def test_traversal_by_way_of_some_nodes():
    view = GraphView(DIAMOND)
    assert view.followed(["b", "e"], "bcd".__contains__) == {"b", "c", "d"}
    assert view.traced(["d", "c"], "bd".__contains__) == {"b", "d"}
    assert view.behind(Port("d", 0), ["Add", "Split"]) == Port("a", 0)
    assert view.behind(Port("b", 1), ["Add"]) == Port("b", 1)
    assert view.behind(Port("a", 0), ["Const"]) == Port("a", 0)


@pytest.mark.parametrize(
    "lines, message",
    [
        (("a NoOp", "a NoOp"), "two nodes have the name a"),
        (("a Relu gone",), "node a has the input gone, but"),
        (("a Relu gone:2",), "node a has the input gone:2, but"),
        (("b NoOp", "a NoOp ^b ^gone"), "node a has the input ^gone, but"),
    ],
)
def test_broken_graphs_are_refused(lines, message):
    with pytest.raises(GraphmpError) as caught:
        GraphView(meta_graph(*lines).graph_def)
    assert caught.value.code == "GMP008"
    assert message in caught.value.message


def test_nodes_cannot_be_replaced():
    with pytest.raises(TypeError):
        GraphView(DIAMOND).nodes["a"] = tf.NodeDef()


@recorded()
def test_edges_of_recorded_graphs_agree_with_the_strings(paths):
    for path in paths:
        graph = read_graph(path)
        before = serialize(graph)
        view = GraphView(graph.graph_def)
        edges = 0
        for node in graph.graph_def.node:
            texts = [str(port) for port in view.inputs(node.name)] + [
                "^" + name for name in view.controls(node.name)
            ]
            assert texts == [text[:-2] if text.endswith(":0") else text for text in node.input], (
                path.name,
                node.name,
            )
            edges += len(view.consumers(node.name)) + len(view.control_consumers(node.name))
        assert edges == sum(len(node.input) for node in graph.graph_def.node), path.name
        assert view.ancestors(view.nodes) == view.descendants(view.nodes) == set(view.nodes)
        variables(graph.graph_def)
        assert serialize(graph) == before, path.name


def test_deep_graph_takes_linear_time():
    """100,000 nodes in a row were read in about a second, on TensorFlow 1.15.5 and 2.21.

    Recursion or a quadratic step would show.
    """
    graph_def = tf.GraphDef()
    for index in range(100000):
        node = graph_def.node.add(name="scope/node_%d" % index, op="AddV2")
        node.input.extend(["scope/node_%d:0" % (index - back) for back in (1, 7) if back <= index])
    started = time.process_time()
    view = GraphView(graph_def)
    assert len(view.ancestors(["scope/node_99999"])) == 100000
    assert len(view.descendants(["scope/node_0"])) == 100000
    assert time.process_time() - started < 20


def variable(op, shape, dtype=FLOAT32):
    graph = meta_graph("v %s" % op, "other Const")
    node = graph.graph_def.node[0]
    node.attr["dtype"].type = dtype
    if shape is None:
        node.attr["shape"].shape.unknown_rank = True
    else:
        node.attr["shape"].shape.SetInParent()
        for size in shape:
            node.attr["shape"].shape.dim.add(size=size)
    return graph.graph_def


@pytest.mark.parametrize(
    "op, declared, shape",
    [
        ("VariableV2", (3, 4), (3, 4)),
        ("VariableV2", (), ()),
        ("VariableV2", (-1, 4), (-1, 4)),
        ("VarHandleOp", (2,), (2,)),
        ("VarHandleOp", None, None),
        ("AutoReloadVariable", (5,), (5,)),
        ("Variable", (3,), (3,)),
        ("Variable", (), None),  # this op has no other way to say that the shape is unknown
    ],
)
def test_variables(op, declared, shape):
    graph_def = variable(op, declared)
    assert variables(graph_def) == [Variable("v", op, FLOAT32, shape)]


def test_variable_without_attributes_is_left_as_it_is():
    graph_def = meta_graph("v VariableV2").graph_def
    before = graph_def.SerializeToString()
    assert variables(graph_def) == [Variable("v", "VariableV2", 0, ())]
    assert graph_def.SerializeToString() == before


def test_dtype_of_a_later_tensorflow():
    assert variables(variable("VariableV2", (1,), FUTURE))[0].dtype == FUTURE


def test_variables_agree_with_tensorflow():
    with tf.Graph().as_default() as graph:
        for resource in (False, True):
            with tf.variable_scope("s%d" % resource, use_resource=resource):
                tf.get_variable("w", [3, 4], tf.float16)
        tf.train.AdamOptimizer().minimize(tf.reduce_sum(tf.get_variable("v", [2])))
        tf.train.Saver()
        expected = {
            (v.op.name, v.dtype.base_dtype.as_datatype_enum, tuple(v.shape.as_list()))
            for v in tf.global_variables()
        }
        found = variables(graph.as_graph_def())
    assert {(v.name, v.dtype, v.shape) for v in found} == expected
    assert len(expected) == 7
    assert saved_names(GraphView(graph.as_graph_def())) == {name for name, _, _ in expected}
