"""Matching nodes whose names differ.

What is found, what must not be, on tiny graphs and on recorded ones.
"""

from __future__ import annotations

import pytest

import graphmp
from graphmp.compare.api import compare
from graphmp.gate.reading import read_graph
from tests.support.corpus import corpus_graphs, own_graphs, recorded
from tests.support.renaming import random_names, renamed
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

CAST = "x_half Cast x SrcT=float32 DstT=float16"
MATCHED = [
    ("by inputs", ["x X", "a Relu x", "b Tanh a"], ["x X", "q Relu x", "b Tanh q"], {"a": "q"}),
    ("the end of a chain", ["x X", "a Relu x"], ["x X", "q Relu x"], {"a": "q"}),
    ("the start of a chain", ["a X", "b Tanh a"], ["q X", "b Tanh q"], {"a": "q"}),
    ("a chain", ["x X", "a Relu x", "b Relu a", "c Tanh b"], ["x X", "q Relu x", "r Relu q", "c Tanh r"], {"a": "q", "b": "r"}),
    ("all", ["x X", "a Relu x", "b Tanh a"], ["p X", "q Relu p", "r Tanh q"], {"x": "p", "a": "q", "b": "r"}),
    ("by the slot", ["a X", "b X", "c Sub a b"], ["p X", "q X", "c Sub q p"], {"a": "q", "b": "p"}),
    ("by the output", ["x X", "a Relu x", "b Relu x:1"], ["x X", "p Relu x:1", "q Relu x"], {"a": "q", "b": "p"}),
    ("by control inputs", ["x X", "y X", "a NoOp ^x", "b NoOp ^y"], ["x X", "y X", "p NoOp ^y", "q NoOp ^x"], {"a": "q", "b": "p"}),
    ("in another dtype", ["x X", "a Relu x T=float32"], ["x X", "q Relu x T=float16"], {"a": "q"}),
    ("through a cast", ["x X", "a Relu x"], ["x X", CAST, "q Relu x_half"], {"a": "q"}),
    ("ahead of a cast", ["a X", "b Tanh a"], ["q X", "h Cast q SrcT=float32 DstT=float16", "b Tanh h"], {"a": "q"}),
    ("a cast of the model's", ["x X", "a Cast x SrcT=int32 DstT=float32"], ["x X", "q Cast x SrcT=int32 DstT=float32"], {"a": "q"}),
    ("with its initial value",
     ["v V", "w V", "i C", "a Assign v i", "j C", "b Assign w j"],
     ["v V", "w V", "p C", "q Assign w p", "r C", "s Assign v r"],
     {"i": "r", "a": "s", "j": "p", "b": "q"}),
    ("a loop",
     ["x X", "e Enter x", "m Merge e n", "n NextIteration m"],
     ["x X", "p Enter x", "q Merge p r", "r NextIteration q"],
     {"e": "p", "m": "q", "n": "r"}),
]  # fmt: skip
APART = [
    ("twins", ["x X", "a Relu x", "b Relu x"], ["x X", "p Relu x", "q Relu x"]),
    ("two for one", ["x X", "a Relu x"], ["x X", "p Relu x", "q Relu x"]),
    ("another op", ["x X", "a Relu x"], ["x X", "q Tanh x"]),
    ("another input", ["x X", "y X", "a Relu x"], ["x X", "y X", "q Relu y"]),
    ("no edge", ["x X", "a Relu"], ["x X", "q Relu"]),
    (
        "a cast to another dtype",
        ["x X", "a Cast x SrcT=int32 DstT=float32"],
        ["x X", "q Cast x SrcT=int32 DstT=int64"],
    ),
    ("a cycle that no loop makes", ["a Relu b", "b Tanh a"], ["p Relu q", "q Tanh p"]),
]


@pytest.mark.parametrize(
    "before, after, expected", [row[1:] for row in MATCHED], ids=[row[0] for row in MATCHED]
)
def test_matched(before, after, expected):
    diff = compare(meta_graph(*before), meta_graph(*after))
    assert diff.bodies[0].renamed == expected
    assert {c.before: c.after for c in diff.changes if c.category == "node renamed"} == expected
    assert not {"rewired", "control"} & set(diff.counts())
    assert compare(diff.apply(meta_graph(*before)), meta_graph(*after)).identical


@pytest.mark.parametrize("before, after", [row[1:] for row in APART], ids=[row[0] for row in APART])
def test_never_a_guess(before, after):
    assert compare(meta_graph(*before), meta_graph(*after)).bodies[0].renamed == {}


def test_attributes_tell_nodes_apart():
    before, after = meta_graph("x X", "a Op x", "b Op x"), meta_graph("x X", "p Op x", "q Op x")
    for graph, values in ((before, (1, 2)), (after, (2, 1))):
        for node, value in zip(graph.graph_def.node[1:], values):
            node.attr["axis"].i = value
    assert compare(before, after).bodies[0].renamed == {"a": "q", "b": "p"}


def test_constants_are_matched_by_value_in_any_floating_dtype():
    import numpy as np

    before = meta_graph("a Const", "b Const", "s Pack a", "t Pack b", a=0.1, b=0.2)
    after = meta_graph(
        "p Const", "q Const", "s Pack q", "t Pack p", p=np.float16(0.2), q=np.float16(0.1)
    )
    assert compare(before, after).bodies[0].renamed == {"a": "q", "b": "p"}


def test_a_name_that_another_node_has_now():
    """Names come first: a and b swap their names, and what is reported is what each name now is."""
    diff = compare(
        meta_graph("x X", "a Relu x", "b Tanh x"), meta_graph("x X", "b Relu x", "a Tanh x")
    )
    assert [(c.node, c.category) for c in diff.changes] == [("a", "op"), ("b", "op")]


def test_colocation_follows_a_renamed_node():
    before, after = meta_graph("x X", "a Relu x"), meta_graph("p X", "a Relu p")
    for graph, name in ((before, b"loc:@x"), (after, b"loc:@p")):
        graph.graph_def.node[1].attr["_class"].list.s.append(name)
    assert [c.category for c in compare(before, after).changes] == ["node renamed"]
    after.graph_def.node[1].attr["_class"].list.s[:] = [b"loc:@a"]
    assert [c.category for c in compare(before, after).changes] == ["attribute", "node renamed"]


def largest():
    """The recorded graph with the most nodes."""
    return max(
        (read_graph(path) for path in corpus_graphs()), key=lambda graph: len(graph.graph_def.node)
    )


def twice(graph):
    """The graph beside itself, to have more nodes."""
    copy = renamed(graph, {node.name: "twin/" + node.name for node in graph.graph_def.node})
    copy.graph_def.node.extend(graph.graph_def.node)
    return copy


def found_right(diff, names, least):
    """Whether no node was matched with a wrong one, and at least this share of the renamed ones
    was found.
    """
    found = diff.bodies[0].renamed
    return {old: names.get(old) for old in found} == found and len(found) >= least * len(names)


@pytest.mark.corpus
def test_500_random_renames_in_10000_nodes():
    graph = twice(largest())
    assert len(graph.graph_def.node) > 10000
    names = random_names(graph, 500, seed=7)
    after = renamed(graph, names)
    diff = compare(graph, after)
    assert found_right(diff, names, 0.95)
    assert set(diff.counts()) <= {
        "node renamed",
        "node removed",
        "node added",
        "rewired",
        "control",
        "attribute",
    }
    assert compare(diff.apply(graph), after).identical


@recorded(slice(1, None, 6), slow=slice(0, None, 4))
def test_every_node_of_a_recorded_graph_renamed(paths):
    for path in paths:
        graph = read_graph(path)
        names = {node.name: "net/" + node.name[::-1] for node in graph.graph_def.node}
        assert found_right(compare(graph, renamed(graph, names)), names, 0.85), path.name


@pytest.mark.parametrize("seed", range(6))
def test_the_same_are_found_whatever_the_names(seed):
    """Sets of names have another order each time.

    What is equal but for the loop around it must stay apart.
    """
    graph = read_graph(next(path for path in own_graphs() if path.stem == "words"))
    names = random_names(graph, len(graph.graph_def.node), seed)
    found = compare(graph, renamed(graph, names)).bodies[0].renamed
    turned = {node.name: "net/" + node.name[::-1] for node in graph.graph_def.node}
    assert found == {
        old: names[old] for old in compare(graph, renamed(graph, turned)).bodies[0].renamed
    }


@recorded(slice(3, 4))
def test_renames_in_a_converted_graph(paths):
    graph = read_graph(paths[-1])
    converted = graphmp.convert(graph).meta_graph
    names = random_names(graph, min(100, len(graph.graph_def.node) // 10), seed=3)
    after = renamed(converted, names)
    diff = compare(graph, after)
    assert found_right(diff, names, 0.9)
    assert compare(diff.apply(graph), after).identical
