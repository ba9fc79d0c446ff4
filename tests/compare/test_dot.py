"""The neighbourhood of a node, and its picture for Graphviz."""

from __future__ import annotations

import re

import pytest
import tensorflow.compat.v1 as tf

from graphmp import wording
from graphmp.compare import categories, colours, kinds
from graphmp.compare.api import Diff
from graphmp.compare.changes import BodyPair, Change
from graphmp.compare.neighbourhood import neighbourhood
from graphmp.compare.render import dot
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

BEFORE = [
    "x Placeholder dtype=float32",
    "y MatMul x x T=float32",
    "old Relu y ^x T=float32",
    "z Sum old T=float32",
    "far NoOp ^z",
]
AFTER = [
    "x Placeholder dtype=float32",
    "half Cast x SrcT=float32 DstT=bfloat16",
    "y MatMul half half T=bfloat16",
    "new Relu y ^x T=bfloat16",
    "z Sum new:1 T=float32",
    "far NoOp ^z",
]
CHANGES = (
    Change("y", "edge via cast", "x", "half", part="input 0", reason="b"),
    Change("y", "dtype", "float32", "bfloat16", part="T", reason="a"),
    Change("new", "node renamed", "old", "new", reason="c"),
    Change("half", "node added", None, "Cast"),
)
HOSTILE = [
    'a"b',
    "back\\slash",
    "\\N",
    "\\",
    "new\nline",
    "<b>bold</b>",
    "{a|b}",
    "&amp;",
    "-> b [",
    "\u202e",
    "\u00fc\u6f22",
    "digraph",
]


def view(*lines):
    return GraphView(meta_graph(*lines).graph_def)


def diff(before=BEFORE, after=AFTER, changes=CHANGES, renamed=(("old", "new"),), body="", **kwargs):
    return Diff(
        tuple(changes),
        bodies=(BodyPair("", view("x NoOp"), view("x NoOp"), {}),) * bool(body)
        + (BodyPair(body, view(*before), view(*after), dict(renamed)),),
        **kwargs,
    )


def parse(text):
    """Labels and attributes by cluster, and edges as pairs of labels with their attributes."""
    pydot = pytest.importorskip("pydot")
    (graph,) = pydot.graph_from_dot_data(text)
    clusters, edges = {}, []
    for cluster in graph.get_subgraphs():
        nodes = {
            node.get_name(): node.get_attributes()
            for node in cluster.get_nodes()
            if node.get_name() not in ("node", '"\\n"')
        }
        names = {
            number: attributes["label"].strip('"').partition("\\n")[0]
            for number, attributes in nodes.items()
        }
        clusters[cluster.get_name().replace("cluster_", "")] = {
            names[number]: attributes for number, attributes in nodes.items()
        }
        edges += [
            (names[e.get_source()], names[e.get_destination()], e.get_attributes())
            for e in cluster.get_edges()
        ]
    return clusters, edges


@pytest.mark.parametrize(
    "depth, most, expected",
    [
        (0, 9, {"y": 0}),
        (1, 9, {"y": 0, "x": -1, "old": 1}),
        (2, 9, {"y": 0, "x": -1, "old": 1, "z": 2}),
        (9, 9, {"y": 0, "x": -1, "old": 1, "z": 2, "far": 3}),
        (9, 2, {"y": 0, "x": -1}),
        (9, 1, {"y": 0}),
    ],
)
def test_neighbourhood(depth, most, expected):
    found = neighbourhood(view(*BEFORE), "y", depth, most)
    assert found == expected
    assert [abs(distance) for distance in found.values()] == sorted(
        abs(distance) for distance in found.values()
    )


def test_a_neighbourhood_goes_around_a_loop_once():
    loop = view("m Merge n", "n NextIteration m")
    assert neighbourhood(loop, "m", 9, 9) == {"m": 0, "n": -1}


def test_every_node_is_there_with_its_op_and_dtype():
    clusters, edges = parse(dot.render(diff(), "y", depth=2))
    assert set(clusters["original"]) == {"x", "y", "old", "z"}
    assert set(clusters["converted"]) == {"x", "half", "y", "new", "z"}
    assert clusters["original"]["y"]["label"] == '"y\\nMatMul float32"'
    assert clusters["converted"]["half"]["label"] == '"half\\nCast float32 -> bfloat16"'
    assert clusters["converted"]["half"]["shape"] == "ellipse"
    assert {name for name, shown in clusters["converted"].items() if "color" in shown} == {
        "half",
        "y",
        "new",
    }
    assert ("x", "old", {"style": "dashed"}) in edges
    assert ("new", "z", {"label": '"1"'}) in edges
    assert sum(edge == ("half", "y", {}) for edge in edges) == 2


def test_changes_have_the_colour_of_their_category():
    clusters, _ = parse(dot.render(diff(), "y", depth=2))
    shown = {
        side: {
            name: node["fillcolor"].strip('"')
            for name, node in nodes.items()
            if "fillcolor" in node
        }
        for side, nodes in clusters.items()
    }
    via_cast, renamed, added = (
        colours.of(category) for category in ("edge via cast", "node renamed", "node added")
    )
    assert shown == {
        "original": {"y": via_cast, "old": renamed},
        "converted": {"y": via_cast, "new": renamed, "half": added},
    }


def test_an_unexplained_change_counts_most():
    changes = colours.leading(
        diff(
            changes=(
                Change("y", "dtype", "a", "b", reason="r"),
                Change("y", "node added", "a", "b"),
            ),
            has_report=True,
        )
    )
    assert changes["y"].category == "node added"


@pytest.mark.parametrize("name", ["old", "new"])
def test_a_renamed_node_is_found_by_either_name(name):
    clusters, _ = parse(dot.render(diff(), name))
    assert "penwidth" in clusters["original"]["old"] and "penwidth" in clusters["converted"]["new"]
    assert [len(nodes) for nodes in clusters.values()] == [4, 4]


@pytest.mark.parametrize("side", ["converted", "original"])
def test_a_side_without_the_node_shows_its_part_of_the_neighbourhood(side):
    graphs = (BEFORE, AFTER) if side == "converted" else (AFTER, BEFORE)
    text = dot.render(
        diff(*graphs, renamed=[("old", "new") if side == "converted" else ("new", "old")]), "half"
    )
    clusters, _ = parse(text)
    other = "original" if side == "converted" else "converted"
    assert (set(clusters[side]), set(clusters[other])) == ({"half", "x", "y"}, {"x", "y"})
    assert '"%s: no such node"' % other in text


def test_a_node_with_nothing_around_on_a_side_without_it():
    clusters, edges = parse(
        dot.render(diff(["x NoOp"], ["x NoOp", "lone NoOp"], renamed=()), "lone")
    )
    assert (set(clusters["original"]), set(clusters["converted"]), edges) == (
        {"nothing"},
        {"lone"},
        [],
    )


def test_a_node_in_a_function():
    changes = [Change("y", "dtype", "float32", "float16", part="T", body="f")]
    clusters, _ = parse(dot.render(diff(body="f", changes=changes), "library/f/y"))
    assert "fillcolor" in clusters["original"]["y"] and "fillcolor" in clusters["converted"]["y"]


def test_no_more_nodes_than_asked_for():
    lines = ["x Placeholder"] + ["r%d Relu x" % index for index in range(300)]
    text = dot.render(diff(lines, lines, renamed=()), "x", most=50)
    assert [len(nodes) for nodes in parse(text)[0].values()] == [50, 50]
    assert text.count("the nearest 50 nodes") == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_they_are(name):
    graph = tf.MetaGraphDef()
    graph.graph_def.node.add(name=name, op=name)
    graph.graph_def.node.add(name="reader", op="Relu", input=[name])
    seen = GraphView(graph.graph_def)
    text = dot.render(
        Diff(
            (Change(name, "op", "a", "b", reason=name),),
            names=(name, name),
            bodies=(BodyPair("", seen, seen, {}),),
        ),
        name,
    )
    strings = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    assert '"' not in re.sub(r'"((?:[^"\\]|\\.)*)"', "", text)
    assert all(set(re.findall(r"\\(.)", string)) <= {"\\", '"', "n"} for string in strings)
    assert text.isascii() if name.isascii() else "\u202e" not in text
    clusters, edges = parse(text)
    assert [len(nodes) for nodes in clusters.values()] == [2, 2] and len(edges) == 2


def test_the_same_text_every_time():
    assert dot.render(diff(), "y", depth=2) == dot.render(diff(), "y", depth=2)


@pytest.mark.parametrize(
    "node, message",
    [
        ("yy", "GMP002: node yy: neither graph has it; names like it are y"),
        ("quite\nelse", "GMP002: node quite\\nelse: neither graph has it, and no name is like it"),
        ("library/f/y", "GMP002: node library/f/y: neither graph has it, and no name is like it"),
        ("", "GMP002: node : neither graph has it, and no name is like it"),
    ],
)
def test_an_unknown_node(node, message):
    with pytest.raises(GraphmpError) as caught:
        dot.render(diff(), node)
    assert str(caught.value) == message


def test_names_like_an_unknown_one_in_a_large_graph(monkeypatch):
    monkeypatch.setattr(wording, "_MOST_COMPARED", 2)
    with pytest.raises(GraphmpError, match=r"names like it are a/mul$"):
        dot.render(
            diff(["a/mul NoOp", "b/add NoOp", "c/sub NoOp"], ["d NoOp"], renamed=()), "b/mul"
        )


def test_every_kind_and_category_has_a_colour_of_its_own():
    assert set(colours.KIND) == set(kinds.KINDS)
    assert set(colours.CATEGORY) == {*categories.CATEGORIES, colours.UNEXPLAINED}
    every = [*colours.KIND.values(), *colours.CATEGORY.values(), colours.UNCHANGED, colours.OTHER]
    assert len(set(every)) == len(every)
    assert colours.of("a kind yet to come") == colours.OTHER
