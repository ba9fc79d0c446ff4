"""What a verification by running is made of."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.executed.infinities import Infinities, Spot
from graphmp.executed.order import in_this_order, open_order
from graphmp.executed.scales import find_scales
from graphmp.executed.variables import VariableSession, changed
from graphmp.executed.widened import plain, widened
from graphmp.graph.structure.view import GraphView
from graphmp.verify.sides import Side
from tests.support.executed import graphs


@pytest.mark.unit
def test_scales_are_found():
    """Two gradients are divided by the scale, which enters once; the flag looks at both."""
    found = find_scales(*graphs(clip_norm=1.0))
    (scale,) = found.dynamic
    assert (
        scale.variables[0] == "graphmp/loss_scale/scale"
        and scale.interval == 2000
        and scale.floor == 1.0
    )
    assert len(found.divided) == 2 and len(found.multiplied) == 1 and len(found.clips) == 2
    assert {source.node for source in found.sources(scale)} == {
        place.node for place in found.divided
    }


@pytest.mark.unit
def test_widened():
    """No half precision is left, nor a clip, and constants have their own values."""
    original, converted = graphs(clip_norm=1.0)
    found = find_scales(original, converted)
    wide = plain(widened(original, converted, found), found)
    assert not {
        node.attr[key].type
        for node in wide.graph_def.node
        for key in ("T", "dtype", "DstT", "SrcT")
        if key in node.attr
    } & {14, 19}
    nodes = {node.name: node for node in wide.graph_def.node}
    assert {nodes[name].op for name in found.clips} == {"Identity"}
    constants = [
        node for node in original.graph_def.node if node.op == "Const" and node.name in nodes
    ]
    assert constants and all(
        node.attr["value"] == nodes[node.name].attr["value"] for node in constants
    )


@pytest.mark.unit
def test_order():
    """A reader of a variable that nothing puts before or behind its update is put before it.

    One that waits for it isn't.
    """
    with tf.Graph().as_default():
        v = tf.get_variable("v", (), use_resource=False)
        tf.add(v, 1.0, name="free")
        update = tf.assign_add(v, 2.0, name="update")
        with tf.control_dependencies([update.op]):
            late = tf.multiply(v.read_value(), 3.0, name="late")
        tf.group(tf.get_default_graph().get_operation_by_name("free"), late, name="train")
        original = tf.train.export_meta_graph()
    edges = open_order(original, ["train"])
    assert edges == [("free", "update")]
    nodes = {node.name: node for node in in_this_order(original, edges).graph_def.node}
    assert "^free" in nodes["update"].input
    assert in_this_order(original, [("late", "update")]) is original  # a cycle


def test_infinities_in_a_loop():
    """A value inside a while loop is infinite where that is asked for, and only there."""
    with tf.Graph().as_default():
        y = tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, tf.multiply(y, 2.0, name="double")),
            (0, tf.constant(1.0)),
        )[1]
        tf.get_variable("v", initializer=0.0, use_resource=False).assign(y, name="keep")
        original = tf.train.export_meta_graph()
    view = GraphView(original.graph_def)
    name = next(name for name in view.nodes if name.endswith("double"))
    spot = Spot(
        view.inputs(name)[0],
        tuple(c for c in view.consumers(view.inputs(name)[0].node) if c.node == name),
        ("while/while_context",),
    )
    infinities = Infinities(Side(original, original.graph_def), [spot])
    with VariableSession(infinities.meta_graph, ["keep"]) as session:
        session.step(infinities.feeds())
        assert session.values()["v"] == 8.0
        session.step(infinities.feeds(0))
        assert session.values()["v"] == np.inf


def test_values():
    """Variables of both kinds are read and loaded; those without a value are left out."""
    with tf.Graph().as_default():
        for kind in (False, True):
            tf.get_variable("v%d" % kind, [2], use_resource=kind)
        original = tf.train.export_meta_graph()
    with VariableSession(original, []) as session:
        before = session.values()
        assert sorted(before) == ["v0", "v1"]
        session.load({"v0": before["v0"] + 1, "v1": before["v1"], "gone": before["v0"]})
        assert changed(before, session.values()) == ["v0"]
