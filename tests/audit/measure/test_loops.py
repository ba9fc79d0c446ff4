"""Measurements in while loops and branches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.measure.instrument import PREFIX, Instrument, MeasuredTensor
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.view import GraphView
from graphmp.policy.dtypes import FLOAT32
from graphmp.policy.formats import FLOAT16
from tests.support.control_flow import control_flow
from tests.support.measured import Measuring


@pytest.fixture
def old_loops():
    """While loops and branches of Switch and Merge."""
    with control_flow(functions=False):
        yield


def measured_by(graph, target):
    """Names of the tensors that an op waits for to be measured."""
    calls = graph.get_operation_by_name(target).control_inputs
    return [
        tensor.op.name
        for call in calls
        for tensor in call.inputs
        if not tensor.name.startswith(PREFIX)
    ]


@pytest.mark.usefixtures("old_loops")
class TestControlFlow:
    def test_a_loop_adds_up_its_steps(self, graph):
        seen = []

        def body(i, x):
            seen.append(tf.multiply(x, 10.0, name="inside"))
            return i + 1, seen[0]

        _, last = tf.while_loop(lambda i, x: i < 6, body, [0, tf.constant([1.0, -0.5])])
        last = tf.identity(last, name="last")
        found = Measuring(graph, [*seen, last])
        inside, after = found.stats(fetches=["last:0"])
        assert found.instrument.left_out == [] and measured_by(
            found.graph, found.instrument.target
        ) == ["last"]
        assert (inside.elements, inside.largest, inside.overflow) == (12, 1e6, 3)
        assert (after.elements, after.largest) == (2, 1e6)
        np.testing.assert_allclose(np.sort(np.abs(inside.sketch))[-2:], [555555, 1111110])

    def test_a_loop_in_a_loop(self, graph):
        seen = []

        def inner(i, x):
            seen.append(tf.add(x, 1.0, name="inside"))
            return i + 1, seen[0]

        def outer(i, x):
            return i + 1, tf.while_loop(lambda i, x: i < 3, inner, [0, x])[1]

        _, last = tf.while_loop(lambda i, x: i < 4, outer, [0, tf.constant([0.0])])
        tf.identity(last, name="last")
        (inside,) = Measuring(graph, seen).stats(fetches=["last:0"])
        assert (inside.elements, inside.largest, abs(inside.sketch.sum())) == (12, 12, 78)

    def test_with_a_scale_from_outside(self, graph):
        seen = []
        scale = tf.placeholder(tf.float32, [], "scale")

        def body(i, x):
            seen.append(tf.add(x, 1.0))
            return i + 1, seen[0]

        tf.identity(
            tf.while_loop(lambda i, x: i < 3, body, [0, tf.constant([0.0])])[1], name="last"
        )
        (inside,) = Measuring(graph, seen, scale=scale).stats({"scale": 2.0**-20}, ["last:0"])
        assert (inside.elements, inside.largest, inside.subnormal) == (3, 3 * 2.0**-20, 3)

    def test_a_loop_that_takes_no_step(self, graph):
        seen = []

        def body(x):
            seen.append(tf.add(x, 1.0))
            return seen[0]

        tf.identity(tf.while_loop(lambda x: x < 0, body, [tf.constant(1.0)]), name="last")
        (inside,) = Measuring(graph, seen).stats(fetches=["last:0"])
        assert (inside.elements, inside.largest) == (0, 0)

    def test_gradients_of_a_loop(self, graph):
        w = tf.get_variable("w", initializer=[2.0], use_resource=False)
        _, last = tf.while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, x * w), [0, tf.constant([1.0])]
        )
        (gradient,) = tf.gradients(last, w)
        tf.identity(gradient, name="gradient")
        inside = [
            op.outputs[0]
            for op in graph.get_operations()
            if op.type == "Mul" and "gradients" in op.name and "while" in op.name
        ]
        found = Measuring(graph, inside)
        assert [s.elements for s in found.stats(fetches=["gradient:0"])] == [5] * len(
            inside
        ) and inside
        assert max(s.largest for s in found.stats(fetches=["gradient:0"])) == 2**5

    def test_a_branch_that_is_not_taken_counts_nothing(self, graph):
        flag = tf.placeholder(tf.bool, [], "flag")
        seen = []

        def branch(factor):
            seen.append(tf.multiply(tf.constant([1.0, 2.0]), factor))
            return seen[-1]

        tf.identity(tf.cond(flag, lambda: branch(3.0), lambda: branch(5.0)), name="last")
        found = Measuring(graph, seen)
        for value, elements in ((True, [2, 0]), (False, [0, 2])):
            assert [s.elements for s in found.stats({"flag": value}, ["last:0"])] == elements

    def test_tensors_around_a_branch_are_measured_whichever_way_it_goes(self, graph):
        x, outer, inner = (
            tf.placeholder(tf.float32, [2], "x"),
            tf.placeholder(tf.bool, [], "outer"),
            tf.placeholder(tf.bool, [], "inner"),
        )
        seen = {"before": tf.multiply(x, 2.0)}

        def nested():
            seen["inside"] = tf.nn.relu(tf.cond(inner, lambda: x + 1.0, lambda: x - 1.0))
            return seen["inside"]

        seen["joined"] = tf.cond(outer, nested, lambda: x)
        seen["after"] = tf.nn.relu(seen["joined"])
        seen["gradient"] = tf.gradients(seen["after"], x)[0]
        with tf.control_dependencies([seen["joined"]]):
            seen["waits"] = tf.add(x, 3.0)
        assert conditional(GraphView(graph.as_graph_def())) & {
            each.op.name for each in seen.values()
        } == {seen["inside"].op.name}
        found = Measuring(graph, list(seen.values()))
        for flags in itertools.product((False, True), (False, True)):
            stats_of = found.stats(dict(zip(("outer", "inner"), flags), x=[1.0, 2.0]))
            assert [s.elements for s in stats_of] == [2, 2 * flags[0], 2, 2, 2, 2]

    def test_a_branch_in_a_loop(self, graph):
        seen = []

        def every_third(x):
            seen.extend([tf.add(x, 1.0), tf.subtract(x, 1.0)])
            return tf.identity(seen[0])

        def body(i, x):
            return i + 1, tf.cond(tf.equal(i % 3, 0), lambda: every_third(x), lambda: x)

        tf.identity(
            tf.while_loop(lambda i, x: i < 7, body, [0, tf.constant([0.0])])[1], name="last"
        )
        found = Measuring(graph, seen)
        inside, alone = found.stats(fetches=["last:0"])
        assert (inside.elements, inside.largest) == (3, 3)
        assert found.instrument.left_out == [1] and alone.elements == 0

    def test_what_nothing_reads_in_its_loop_is_left_out(self, graph):
        seen = []

        def body(i, x):
            seen.extend([tf.add(x, 1.0, name="read"), tf.add(x, 2.0, name="alone")])
            return i + 1, tf.identity(seen[0])

        tf.identity(
            tf.while_loop(lambda i, x: i < 3, body, [0, tf.constant([0.0])])[1], name="last"
        )
        found = Measuring(graph, seen)
        assert (
            found.instrument.left_out == [1]
            and measured_by(found.graph, found.instrument.target) == []
        )
        assert [s.elements for s in found.stats(fetches=["last:0"])] == [3, 0]


@pytest.mark.unit
def test_names_of_what_is_added(graph):
    x = tf.placeholder(tf.float32, [2], "x")
    before = graph.as_graph_def()
    after = graph.as_graph_def()
    instrument = Instrument(after, FLOAT16, [MeasuredTensor("x:0", FLOAT32, "")])
    assert list(after.node[: len(before.node)]) == list(before.node)
    assert all(node.name.startswith(PREFIX + "/") for node in after.node[len(before.node) :])
    assert instrument.target == PREFIX + "/measured" and x.op.name == "x"
