"""Growth and floor of a dynamic scale, and the nodes that show a scale."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.loss_scale import scales


def test_the_scale_grows_once_for_each_run_of_good_steps(graph):
    options = {"loss_scale_initial": 8.0, "loss_scale_growth_interval": 3}
    scale = scales.make(Config.make(**options), "loss_scale")
    step = scale.update(tf.constant(True))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = [(session.run(step), session.run(scale.current))[1] for _ in range(7)]
    assert found == [8.0, 8.0, 16.0, 16.0, 16.0, 32.0, 32.0]


def test_a_scale_below_the_floor_counts_as_the_floor(graph):
    """As from a checkpoint of other options."""
    scale = scales.make(Config.make(loss_scale_initial=8.0, loss_scale_min=4.0), "loss_scale")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign(scale.variables[0], 1.0))
        assert session.run(scale.current) == 4.0


@pytest.mark.unit
@pytest.mark.parametrize(
    "kind, handles, shown",
    [
        ("none", False, ("", "")),
        ("none", True, ("", "")),
        ("fixed", False, ("graphmp/loss_scale/current", "")),
        ("fixed", True, ("", "")),  # its nodes are in a function or a loop
        ("dynamic", False, ("graphmp/loss_scale/current", "graphmp/loss_scale/skipped")),
        (
            "dynamic",
            True,
            ("graphmp/loss_scale/scale/value", "graphmp/loss_scale/skipped_steps/value"),
        ),
    ],
)
def test_nodes_that_show_a_scale(kind, handles, shown):
    row = {"scope": "loss_scale", "kind": kind, "handles": handles}
    assert scales.shown(row) == shown


@pytest.mark.parametrize("skips", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_several_scales_have_skipped_nothing_only_if_none_has(graph, skips):
    with tf.variable_scope("graphmp", use_resource=True):
        counts = [
            tf.get_variable("scale_%d/skipped" % n, (), tf.int64, tf.zeros_initializer())
            for n in range(2)
        ]
    before, after, same = scales.skipped_between([(None, each) for each in counts])
    with tf.control_dependencies([graph.get_operation_by_name(name) for name in before]):
        steps = [tf.assign_add(each, skip).op for each, skip in zip(counts, skips)]
    for name in after:
        graph.get_operation_by_name(name)._add_control_inputs(steps)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(same) == (not any(skips))
