"""Nodes of functions by their names in traces."""

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.inlined import Inlined

pytestmark = pytest.mark.unit

FUNCTIONS = {
    "body_f": ("mm", "Less", "inner/g"),
    "cond_f": ("Less",),
    "g": ("mm", "a/b/c"),
    "then_f": ("mm",),
    "else_f": ("mm",),
}


@pytest.fixture(scope="module")
def inlined():
    graph = tf.GraphDef()
    for name, op, calls in (
        ("mm", "MatMul", {}),
        ("scope/loop", "While", {"body": "body_f", "cond": "cond_f"}),
        ("scope/call", "PartitionedCall", {"f": "g"}),
        ("scope/call/x", "Neg", {}),
        ("g", "g", {}),
        ("if", "If", {"then_branch": "then_f", "else_branch": "else_f"}),
        ("grad", "SymbolicGradient", {"f": "g"}),
    ):
        node = graph.node.add(name=name, op=op)
        for key, function in calls.items():
            node.attr[key].func.name = function
    for name, nodes in FUNCTIONS.items():
        function = graph.library.function.add()
        function.signature.name = name
        for node in nodes:
            called = "g" if node == "inner/g" else "Neg"
            function.node_def.add(name=node, op=called)
    return Inlined(graph)


@pytest.mark.parametrize(
    "name, path",
    [
        ("mm", "mm"),
        ("g", "g"),
        ("g/mm", "library/g/mm"),
        ("scope/call/mm", "library/g/mm"),
        ("scope/call/a/b/c", "library/g/a/b/c"),
        ("scope/call/x", "scope/call/x"),
        ("scope/loop/body/_1/mm", "library/body_f/mm"),
        ("scope/loop/body/_17/Less", "library/body_f/Less"),
        ("scope/loop/cond/_0/Less", "library/cond_f/Less"),
        ("scope/loop/body/_1/inner/g/mm", "library/g/mm"),
        ("if/then/_3/mm", "library/then_f/mm"),
        ("if/else/_4/mm", "library/else_f/mm"),
        ("grad/Func/_2/mm", "library/g/mm"),
        ("scope/loop/merge/_9", None),
        ("scope/call/other", None),
        ("scope/loop", "scope/loop"),
        ("", None),
        ("nothing/at/all", None),
    ],
)
def test_the_node_behind_an_inlined_name(inlined, name, path):
    assert inlined.path(name) == path
    node = inlined.node(name)
    assert (node is None) == (path is None)
    assert node is None or path.endswith(node.name)
