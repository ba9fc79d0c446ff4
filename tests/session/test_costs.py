"""Sessions and decorated functions with a file of costs: by it, or refused in one line."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from graphmp.tuning import files
from graphmp.tuning.machine import this_machine
from tests.support.costed import MACHINE, of_nodes


def build(x):
    """A loss of two matmuls."""
    w, v = tf.get_variable("w", [8, 16]), tf.get_variable("v", [16, 1])
    return tf.reduce_mean(tf.square(tf.matmul(tf.matmul(x, w, name="first"), v, name="second")))


def written(folder, graph, machine):
    """Costs by which the first matmul is slower in half precision, and the second one quicker."""
    meta_graph = tf.train.export_meta_graph(graph=graph)
    times = {"first": (10e3, 90e3), "second": (90e3, 10e3)}
    costs = dataclasses.replace(of_nodes(meta_graph, times, 100.0), machine=machine)
    path = folder / "x.costs"
    path.write_bytes(files.dumps(costs))
    return str(path)


def trained(session, loss, x):
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    session.run(tf.global_variables_initializer())
    session.run(train, {x: np.ones([4, 8], np.float32)})


def dtypes(graph, scope="graphmp/"):
    """The dtypes of the clones of both matmuls."""
    clones = {
        op.name.split("/")[-1]: op.outputs[0].dtype
        for op in graph.get_operations()
        if op.type == "MatMul" and op.name.startswith(scope) and "grad" not in op.name
    }
    return clones.get("first", tf.float32), clones.get("second", tf.float32)


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_session_places_casts_by_time(graph, tmp_path):
    x = tf.placeholder(tf.float32, [None, 8], "x")
    loss = build(x)
    with graphmp.Session(costs=written(tmp_path, graph, this_machine())) as session:
        trained(session, loss, x)
    assert dtypes(graph) == (tf.float32, tf.float16)


def test_costs_of_another_machine_are_refused(graph, tmp_path):
    x = tf.placeholder(tf.float32, [None, 8], "x")
    loss = build(x)
    path = written(tmp_path, graph, MACHINE)
    refused = pytest.raises(GraphmpError, match=r"GMP027: .*measured on another machine")
    with graphmp.Session(costs=path) as session, refused as error:
        trained(session, loss, x)
    assert "device CPU, here" in error.value.message and "\n" not in str(error.value)


def test_a_decorated_function_is_converted_in_its_session(graph, tmp_path):
    x = tf.placeholder(tf.float32, [None, 8], "x")
    with tf.Graph().as_default() as other:
        build(tf.placeholder(tf.float32, [None, 8], "x"))
        path = written(tmp_path, other, this_machine())
    loss = graphmp.mixed_precision(costs=path)(build)(x)
    with tf.Session() as session:
        trained(session, loss, x)
    assert dtypes(graph) == (tf.float32, tf.float16)


@pytest.mark.parametrize("options", [{"engine": "recipe"}, {"engine_strict": True}])
def test_the_recipe_alone_takes_no_costs(options):
    with pytest.raises(GraphmpError, match="GMP020: costs=: it is for graphs that are built"):
        graphmp.mixed_precision(build, costs="x.costs", **options)
