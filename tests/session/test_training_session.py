"""Graphs that TensorFlow refuses, in a session of their own."""

import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.session.steps.training_session import TrainingSession, import_nodes
from graphmp.wording import first_line
from tests.support import hostile_graphs as hostile


def opened(meta_graph, *importer):
    with TrainingSession(meta_graph, [], tf.ConfigProto(), *importer) as session:
        return [op.name for op in session.graph.get_operations()]


def test_stale_shapes_are_dropped():
    stale = hostile.made(hostile.TOLERATED["stale shapes"])
    assert "out" in opened(stale)
    assert opened(stale) == opened(stale, import_nodes) == opened(hostile.base())
    assert "_output_shapes" in hostile.node(stale, "out").attr


@pytest.mark.parametrize("name", ["unknown op", "missing attribute"])
def test_what_is_refused_is_one_line(name):
    with pytest.raises(GraphmpError, match="GMP029: TensorFlow does not import the graph: "):
        opened(hostile.made(hostile.TOLERATED[name]))


CONTRIB = """
import tensorflow.compat.v1 as tf
from graphmp.session.steps.training_session import TrainingSession

graph = tf.MetaGraphDef()
graph.graph_def.node.add(name="bytes", op="BytesInUse")
TrainingSession(graph, ["bytes"], tf.ConfigProto())
"""


@pytest.mark.skipif(tf.__version__ > "2", reason="TensorFlow 2 has no tf.contrib")
def test_contrib_registers_its_ops_where_a_graph_has_one():
    """In a process that has not used tf.contrib."""
    subprocess.run([sys.executable, "-c", CONTRIB], check=True)


def test_a_version_that_is_none():
    graph = hostile.base()
    graph.meta_info_def.tensorflow_version = "\n"
    graph.collection_def["losses"].node_list.value.append("out:0")
    try:
        assert "out" in opened(graph)
    except GraphmpError as error:
        assert error.code == "GMP029"


@pytest.mark.unit
@pytest.mark.parametrize(
    "text, line",
    [
        (
            "Graph execution error:\n\nRetval[1] does not have value",
            "Retval[1] does not have value",
        ),
        ("Graph execution error:\n\nDetected at\nNode: 'x'\nbroken", "broken"),
        ("plain\nmore", "plain"),
    ],
)
def test_the_line_that_says_it(text, line):
    assert first_line(ValueError(text)) == line


MEETING = """
import threading

import tensorflow.compat.v1 as tf

from graphmp.session.steps.as_written import one_by_one

tf.disable_eager_execution()


def meet(config, seconds):
    barrier = threading.Barrier(2)

    def met():
        try:
            barrier.wait(seconds)
        except threading.BrokenBarrierError:
            return False
        return True

    with tf.Graph().as_default(), tf.Session(config=config) as session:
        return all(session.run([tf.py_func(met, [], tf.bool) for _ in range(2)]))


assert meet(tf.ConfigProto(inter_op_parallelism_threads=2), 60), "two threads"
assert not meet(one_by_one(), 0.5), "one"
"""


def test_ops_one_by_one_after_a_session_with_more_threads():
    """Whether two ops of a step run at the same time, if each waits for the other."""
    subprocess.run([sys.executable, "-c", MEETING], check=True)
