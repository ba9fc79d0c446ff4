"""Files for Model Explorer: graphs, node data, the mapping, and the script that opens them."""

from __future__ import annotations

import ast
import json
import time

import pytest
import tensorflow.compat.v1 as tf

from graphmp.compare import colours
from graphmp.compare.api import Diff
from graphmp.compare.changes import BodyPair, Change, KeptReason
from graphmp.compare.render import model_explorer
from graphmp.graph.structure.view import GraphView
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

BEFORE = [
    "a Placeholder dtype=float32",
    "s/b MatMul a a T=float32",
    "s/b/c Relu s/b:1 ^a T=float32 @/gpu:0",
    "old Sum s/b/c",
    "gone NoOp",
]
AFTER = [
    "a Placeholder dtype=float32",
    "a/half Cast a SrcT=float32 DstT=float16",
    "a/again Cast a/half SrcT=float16 DstT=bfloat16",
    "s/b MatMul a/half a/half T=float16",
    "s/b/c Relu s/b:1 ^a T=float16",
    "new Sum s/b/c",
]
CHANGES = (
    Change("gone", "node removed", "NoOp", None),
    Change("loss", "meta graph", "1", "2", reason="r"),
    Change("new", "node renamed", "old", "new", reason="matched"),
    Change(
        "s/b", "dtype", "float32", "float16", part="T", reason="MatMul is allowed", kind="allow"
    ),
    Change("s/b", "edge via cast", "a", "a/half", part="input 0", reason="cast", kind="cast down"),
    Change("a/half", "node added", None, "Cast", reason="cast", kind="cast down"),
    Change("v", "dtype", "float32", "float16", part="T", body="f", reason="r", kind="infer"),
)


def view(*lines):
    return GraphView(meta_graph(*lines).graph_def)


def example(**kwargs):
    calls = meta_graph(*AFTER, "call PartitionedCall a", "direct f a")
    calls.graph_def.node[-2].attr["f"].func.name = "f"
    bodies = (
        BodyPair("", view(*BEFORE), GraphView(calls.graph_def), {"old": "new"}),
        BodyPair("f", view(), view("v Relu T=float16"), {}),
    )
    return Diff(
        CHANGES,
        True,
        kept=(
            KeptReason("a", "", "pinned", "it is fed"),
            KeptReason("gone", "f", "pinned", "elsewhere"),
        ),
        bodies=bodies,
        **kwargs,
    )


def loaded(diff=None):
    return {
        name: json.loads(data.decode("ascii"))
        for name, data in model_explorer.files(diff or example()).items()
        if name.endswith(".json")
    }


def nodes(graphs, index=0):
    return {node["id"]: node for node in graphs["graphs"][index]["nodes"]}


def attributes(node):
    assert len({shown["key"] for shown in node["attrs"]}) == len(node["attrs"])
    return {shown["key"]: shown["value"] for shown in node["attrs"]}


def test_a_graph_for_each_body_that_a_side_has():
    files = loaded()
    assert (
        files["original.json"]["label"] == "original"
        and files["converted.json"]["label"] == "converted"
    )
    assert [graph["id"] for graph in files["original.json"]["graphs"]] == ["original main"]
    assert [graph["id"] for graph in files["converted.json"]["graphs"]] == [
        "converted main",
        "converted library/f",
    ]
    assert list(nodes(files["converted.json"], 1)) == ["library/f/v"]


def test_a_node_has_one_id_on_both_sides():
    files = loaded()
    assert set(nodes(files["original.json"])) == {"a", "s/b", "s/b/c", "new", "gone"}
    assert attributes(nodes(files["original.json"])["new"])["name"] == "old"
    assert attributes(nodes(files["converted.json"])["new"])["name"] == "new"


def test_namespaces_are_name_scopes():
    found = {
        identity: node["namespace"] for identity, node in nodes(loaded()["converted.json"]).items()
    }
    assert found == {
        "a": "a",
        "a/half": "a",
        "a/again": "a",
        "s/b": "s/b",
        "s/b/c": "s/b",
        "new": "",
        "call": "",
        "direct": "",
    }


def test_edges_and_attributes():
    original = nodes(loaded()["original.json"])
    assert original["s/b/c"]["incomingEdges"] == [
        {"sourceNodeId": "s/b", "sourceNodeOutputId": "1", "targetNodeInputId": "0"},
        {"sourceNodeId": "a", "sourceNodeOutputId": "control", "targetNodeInputId": "control"},
    ]
    assert original["s/b/c"]["inputsMetadata"] == [
        {"id": "control", "attrs": [{"key": "__tensor_tag", "value": "control"}]}
    ]
    assert "inputsMetadata" not in original["s/b"]
    assert original["new"]["incomingEdges"][0]["sourceNodeId"] == "s/b/c"
    assert attributes(original["s/b/c"]) == {"name": "s/b/c", "device": "/gpu:0", "T": "float32"}
    assert attributes(original["s/b"]) == {
        "name": "s/b",
        "T": "float32",
        "* dtype T": "float32 -> float16; allow: MatMul is allowed",
        "* edge via cast input 0": "a -> a/half; cast down: cast",
    }
    assert attributes(original["gone"])["* node removed"] == "NoOp -> (nothing)"
    assert attributes(original["a"])["* float32"] == "pinned: it is fed"


def test_a_call_leads_to_the_function():
    converted = nodes(loaded()["converted.json"])
    assert {
        identity: node["subgraphIds"] for identity, node in converted.items() if node["subgraphIds"]
    } == {
        "call": ["converted library/f"],
        "direct": ["converted library/f"],
    }


def test_node_data_tell_the_kind_or_the_category():
    files = loaded()
    original, converted = files["node_data_original.json"], files["node_data_converted.json"]
    words = {
        identity: result["value"]
        for identity, result in original["original main"]["results"].items()
    }
    assert words == {"a": "pinned", "gone": "unexplained", "new": "node renamed", "s/b": "allow"}
    words = {
        identity: result["value"]
        for identity, result in converted["converted main"]["results"].items()
    }
    assert words == {"a": "pinned", "a/half": "cast down", "new": "node renamed", "s/b": "allow"}
    assert converted["converted library/f"]["results"] == {
        "library/f/v": {"value": "infer", "bgColor": colours.of("infer")}
    }


def test_without_a_report_categories_colour():
    changes = (Change("s/b", "dtype", "float32", "float16", part="T"),)
    diff = Diff(changes, bodies=(BodyPair("", view(*BEFORE), view(*AFTER), {}),))
    assert loaded(diff)["node_data_original.json"]["original main"]["results"] == {
        "s/b": {"value": "dtype", "bgColor": colours.of("dtype")}
    }


def test_the_mapping_has_the_counterparts_and_their_casts():
    navigation = loaded()["sync_navigation.json"]
    assert [
        (entry["leftNodeIds"], entry["rightNodeIds"]) for entry in navigation["mappingEntries"]
    ] == [
        (["a"], ["a", "a/half", "a/again"]),
        (["new"], ["new"]),
        (["s/b"], ["s/b"]),
        (["s/b/c"], ["s/b/c"]),
    ]


def test_a_cast_ahead_of_its_node_in_the_file_still_comes_second():
    diff = Diff((), bodies=(BodyPair("", view("x NoOp"), view("x/cast Cast x", "x NoOp"), {}),))
    assert loaded(diff)["sync_navigation.json"]["mappingEntries"] == [
        {"leftNodeIds": ["x"], "rightNodeIds": ["x", "x/cast"]}
    ]


@pytest.mark.parametrize(
    "name",
    [
        'a"b',
        "back\\slash/x",
        "new\nline/x",
        "</script>",
        "a;b/x",
        "\u202e/x",
        "__proto__",
        "//x",
        "/",
        "\u6f22/x",
    ],
)
def test_hostile_names(name):
    graph = tf.MetaGraphDef()
    graph.graph_def.node.add(name=name, op=name)
    graph.graph_def.node.add(name="reader", op="Relu", input=[name])
    seen = GraphView(graph.graph_def)
    node = nodes(
        loaded(Diff((Change(name, "op", name, "b"),), bodies=(BodyPair("", seen, seen, {}),)))[
            "original.json"
        ]
    )[name]
    assert not set(node["namespace"]) & set(";\\") and node["label"].isprintable()
    assert all(value.isprintable() for value in attributes(node).values())


def test_long_attributes_are_cut():
    graph = meta_graph("x NoOp")
    graph.graph_def.node[0].attr["text"].s = b"y" * 10000
    seen = GraphView(graph.graph_def)
    shown = attributes(
        nodes(loaded(Diff((), bodies=(BodyPair("", seen, seen, {}),)))["original.json"])["x"]
    )["text"]
    assert len(shown) < 500 and shown.endswith("...")


def test_the_same_bytes_every_time():
    assert model_explorer.files(example()) == model_explorer.files(example())
    assert list(model_explorer.files(example())) == sorted(model_explorer.files(example()))


def test_the_script_reads_files_that_are_there():
    files = model_explorer.files(example())
    source = files["open.py"].decode("utf-8")
    ast.parse(source)
    assert '"node_data_%s.json"' in source and {
        "node_data_original.json",
        "node_data_converted.json",
        "original.json",
    } < set(files)
    assert (
        model_explorer.command("a folder").endswith("open.py'")
        and model_explorer.command("out") == "python out/open.py"
    )


def test_a_large_graph_takes_seconds():
    lines = ["n0 Relu"] + [
        "scope%d/n%d Relu %s T=float32"
        % (i % 99, i, "n0" if i == 1 else "scope%d/n%d" % ((i - 1) % 99, i - 1))
        for i in range(1, 20000)
    ]
    seen = view(*lines)
    changes = tuple(
        Change(name, "dtype", "float32", "float16", part="T", reason="r", kind="infer")
        for name in seen.nodes
    )
    start = time.time()
    model_explorer.files(Diff(changes, True, bodies=(BodyPair("", seen, seen, {}),)))
    assert time.time() - start < 20
