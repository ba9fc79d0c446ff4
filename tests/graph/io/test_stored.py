"""A graph stored as bytes reads like the MetaGraphDef that it was made from, and holds no parsed
copy of it.
"""

from __future__ import annotations

import copy

import pytest
import tensorflow.compat.v1 as tf
from google.protobuf.internal import encoder
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmp
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.graph.io.stored import StoredMetaGraph, copied, emptied, stored
from graphmp.graph.structure.view import GraphView, view_of
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.corpus import recorded
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

LINES = "d Add b a:0 ^c ^a T=float32", "b Split a", "c Relu b:1 T=float32", "a Const", "e NoOp"


def trained():
    """A graph with variables, collections, a saver and a function."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8], name="x")
        loss = (
            tf.reduce_mean(tf.layers.dense(x, 3))
            if hasattr(tf, "layers")
            else tf.reduce_mean(tf.matmul(x, tf.get_variable("w", [8, 3])))
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        tf.train.Saver()
        graph = tf.train.export_meta_graph()
    function = graph.graph_def.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="inside", op="NoOp")
    return graph


def assert_alike(kept, graph):
    """Makes sure that a stored graph reads as the graph does, by bytes.

    A constant that is NaN does not equal itself.
    """
    assert kept.data == serialize(graph)
    assert serialize(kept.parsed()) == serialize(graph) and kept.parsed() is not kept.parsed()
    nodes = [serialize(node) for node in graph.graph_def.node]
    assert [serialize(node) for node in kept.graph_def.node] == nodes and len(
        kept.graph_def.node
    ) == len(nodes)
    assert (
        kept.graph_def.library == graph.graph_def.library
        and kept.graph_def.versions == graph.graph_def.versions
    )
    assert (
        kept.collection_def == graph.collection_def
        and kept.meta_info_def == graph.meta_info_def
        and kept.saver_def == graph.saver_def
    )
    assert not kept.rest.graph_def.node
    view, before = GraphView(kept.graph_def), GraphView(graph.graph_def)
    assert list(view.nodes) == list(before.nodes)
    for name, node in before.nodes.items():
        assert (
            serialize(view.nodes[name])
            == view.serialized(name)
            == before.serialized(name)
            == serialize(node)
        )
        assert (view.inputs(name), view.controls(name)) == (
            before.inputs(name),
            before.controls(name),
        )
        assert (view.consumers(name), view.control_consumers(name)) == (
            before.consumers(name),
            before.control_consumers(name),
        )


@pytest.mark.parametrize(
    "graph", [meta_graph(*LINES), trained(), tf.MetaGraphDef()], ids=["plain", "trained", "empty"]
)
def test_reads_like_the_graph(graph):
    assert_alike(stored(graph), graph)


@recorded(part=slice(0), slow=slice(None))
def test_reads_like_each_recorded_graph(paths):
    for path in paths:
        graph = read_graph(path)
        assert_alike(stored(graph), graph)
        assert emptied(copied(graph)).data == serialize(graph), path.name


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.text(min_size=1, max_size=300), st.binary(max_size=300)),
        max_size=40,
        unique_by=lambda row: row[0],
    )
)
def test_names_and_values_of_any_length(rows):
    """Lengths of one byte and of two."""
    graph = tf.MetaGraphDef()
    for name, value in rows:
        node = graph.graph_def.node.add(name=name, op="Const")
        node.attr["value"].tensor.tensor_content = value
        node.attr["dtype"].type = 1
    kept = stored(graph)
    assert kept.parsed() == graph and (not rows or emptied(copied(graph)).data == kept.data)
    assert list(kept.graph_def.nodes) == [name for name, _ in rows]
    assert [node.attr["value"].tensor.tensor_content for node in kept.graph_def.node] == [
        value for _, value in rows
    ]


def test_fields_that_nobody_knows():
    """A later TensorFlow's: numbers, texts, fixed sizes and groups, in the graph and around it."""
    key = encoder.TagBytes
    unknown = (
        key(900, 0)
        + b"\x96\x01"
        + key(901, 1)
        + b"12345678"
        + key(902, 2)
        + b"\x03abc"
        + key(903, 5)
        + b"1234"
    )
    group = (
        key(904, 3)
        + key(1, 0)
        + b"\x07"
        + key(2, 3)
        + key(3, 2)
        + b"\x02hi"
        + key(2, 4)
        + key(904, 4)
    )
    graph = meta_graph(*LINES)
    inner = graph.graph_def.SerializeToString() + unknown + group
    data = (
        tf.MetaGraphDef(graph_def=tf.GraphDef.FromString(inner)).SerializeToString()
        + group
        + unknown
    )
    graph = tf.MetaGraphDef.FromString(data)
    kept = stored(graph)
    assert kept.parsed() == graph and kept.data == serialize(graph) == emptied(copied(graph)).data
    assert list(kept.graph_def.nodes) == ["d", "b", "c", "a", "e"]
    assert len(kept.data) >= len(unknown) * 2 + len(group) * 2


@pytest.mark.parametrize("graph", [meta_graph(*LINES), trained()], ids=["plain", "trained"])
def test_a_graph_that_nobody_needs_any_more(graph):
    used = copied(graph)
    assert emptied(used).data == stored(graph).data
    assert not used.graph_def.node and used.graph_def.library == graph.graph_def.library


def test_a_stored_graph_is_stored_once_and_copied_apart():
    graph = meta_graph(*LINES)
    kept = stored(graph)
    assert stored(kept) is kept
    graph.graph_def.node[0].op = "Sub"  # what was stored stays
    assert kept.graph_def.nodes["d"].op == "Add"
    own = copied(kept)
    own.graph_def.node[0].op = "Mul"
    assert (
        kept.graph_def.nodes["d"].op == "Add"
        and copied(graph) == graph
        and copied(graph) is not graph
    )


def test_only_fields_are_those_of_the_message():
    kept = stored(trained())
    for absent in ("SerializeToString", "CopyFrom", "nothing"):
        assert not hasattr(kept, absent) and not hasattr(kept.graph_def, absent)
    assert kept.graph_def.ByteSize() == len(kept.data)
    again = copy.copy(kept)
    assert again.data is kept.data and again.collection_def == kept.collection_def


def test_names_that_are_not_unique():
    graph = tf.MetaGraphDef()
    for _ in range(2):
        graph.graph_def.node.add(name="x", op="NoOp")
    with pytest.raises(
        GraphmpError, match="GMP008: two nodes have the name x; accepted are unique names"
    ):
        GraphView(stored(graph).graph_def)


def test_nodes_are_found_without_parsing(monkeypatch):
    kept = stored(meta_graph(*LINES))
    nodes = kept.graph_def.nodes
    assert nodes["a"].op == "Const"
    monkeypatch.setattr("graphmp.graph.io.stored._node", None)
    assert (
        "b" in nodes
        and "z" not in nodes
        and nodes.get("z") is None
        and nodes.keys() >= {"a", "e"}
        and len(nodes) == 5
    )
    with pytest.raises(KeyError):
        nodes["z"]


def test_op_definitions_come_with_it():
    graph = trained()
    own = graph.meta_info_def.stripped_op_list.op.add(name="Own")
    own.output_arg.add(name="y", type=tf.float32.as_datatype_enum)
    found = OpDefs(stored(graph)).get("Own")
    assert found is not None and found.output_arg[0].name == "y"


def test_a_conversion_parses_its_graphs_when_they_are_asked_for(tmp_path):
    graph = trained()
    done = graphmp.convert(graph)
    assert isinstance(done.before, StoredMetaGraph) and isinstance(done.after, StoredMetaGraph)
    assert not {"original", "meta_graph"} & set(vars(done))
    assert done.original == graph and done.original is done.original and done.original is not graph
    assert (
        done.meta_graph is done.meta_graph
        and len(done.meta_graph.graph_def.node) == done.report["graph"]["nodes_after"]
    )
    done.meta_graph.graph_def.node[0].op = "Changed"
    done.save(tmp_path)
    assert (tmp_path / "converted.meta").read_bytes() == done.after.data
    assert (tmp_path / "original.meta").read_bytes() == serialize(graph)


@pytest.mark.parametrize("is_small", [True, False])
def test_a_held_graph_is_parsed_once(monkeypatch, is_small):
    """In a block that holds it, and inside such a block; outside, nodes are copies as before."""
    if not is_small:
        monkeypatch.setattr("graphmp.graph.io.stored._SMALL", 0)
    graph = trained()
    kept = stored(graph)
    with kept.held() as whole, kept.held() as inner:
        assert inner is whole
        nodes = kept.graph_def.nodes
        assert serialize(whole) == serialize(graph)
        assert [serialize(node) for node in kept.graph_def.node] == [
            serialize(node) for node in graph.graph_def.node
        ]
        assert [(name, node.op) for name, node in nodes.items()] == [
            (node.name, node.op) for node in graph.graph_def.node
        ]
        whole.graph_def.node[0].device = "/gpu:0"  # shows that it is the same node
        first = whole.graph_def.node[0].name
        assert nodes[first].device == next(iter(nodes.values())).device == "/gpu:0"
    assert nodes[first].device == next(iter(nodes.values())).device == ""
    assert [node.name for node in nodes.values()] == list(nodes)


def test_a_block_that_fails_holds_nothing_afterwards():
    kept = stored(trained())
    with pytest.raises(KeyError), kept.held() as whole:
        whole.graph_def.node[0].device = "/gpu:0"
        kept.graph_def.nodes["missing"]
    assert next(iter(kept.graph_def.node)).device == ""


def test_a_view_over_another_form_of_the_graph():
    """Edges are the same objects, nodes those of the other form."""
    graph = trained()
    view = view_of(stored(graph))
    other = view.over(graph.graph_def)
    assert list(other.nodes) == list(view.nodes)
    for node in graph.graph_def.node:
        assert other.nodes[node.name] is node
        assert other.inputs(node.name) is view.inputs(node.name)
    back = other.over(stored(graph).graph_def)
    assert [serialize(node) for node in back.nodes.values()] == [
        serialize(node) for node in graph.graph_def.node
    ]
