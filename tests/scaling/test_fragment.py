"""Parts of a graph that TensorFlow builds, inserted into a graph.

Their inputs from the graph, and their devices.
"""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Port
from graphmp.scaling.insertion.fragment import Fragment
from tests.support import painting
from tests.support.tiny import FLOAT32

pytestmark = pytest.mark.unit


@pytest.fixture
def spliced():
    """Nodes by name of a graph with an `g` and of a part that reads its second output."""
    meta_graph, part = painting.graph("x Placeholder", "g Identity x"), Fragment()
    with part.building():
        given = part.input(Port("g", 1), FLOAT32)
        own = tf.negative(given, name="own")
        with tf.colocate_with(own):
            beside_own = tf.abs(given, name="beside_own")
        with tf.colocate_with(given):
            beside_given = tf.abs(own, name="beside_given")
            with tf.colocate_with(own):
                beside_both = tf.abs(own, name="beside_both")
        tf.negative(tf.negative(own, name="unread"), name="unread_too")
        with tf.control_dependencies([given, own]):
            tf.no_op(name="waits")
    assert [part.port(tensor).node for tensor in (beside_own, beside_given, beside_both)] == [
        "beside_own",
        "beside_given",
        "beside_both",
    ]
    part.splice(Editor(meta_graph.graph_def), meta_graph, {})
    return painting.nodes(meta_graph)


def test_a_part_reads_the_graph_but_does_not_wait_for_it_and_has_no_node_without_use(spliced):
    assert {name: list(node.input) for name, node in spliced.items() if name not in ("x", "g")} == {
        "own": ["g:1"], "beside_own": ["g:1"], "beside_given": ["own"], "beside_both": ["own"],
        "waits": ["^own"],
    }  # fmt: skip


def test_nodes_are_placed_with_others_of_the_part_alone(spliced):
    placed = {
        name: list(node.attr["_class"].list.s)
        for name, node in spliced.items()
        if "_class" in node.attr
    }
    assert placed == {"beside_own": [b"loc:@own"], "beside_both": [b"loc:@own"]}


def test_a_name_that_is_taken_is_an_error():
    meta_graph, part = painting.graph("x Placeholder"), Fragment()
    with part.building():
        tf.no_op(name="x")
    with pytest.raises(GraphmpError, match="GMP022: the graph has a node x"):
        part.splice(Editor(meta_graph.graph_def), meta_graph, {})
