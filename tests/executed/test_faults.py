"""Faults planted in a converted graph: running it tells, without the proof."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.executed.check import proof_with_steps
from tests.support.executed import graphs, verdicts

SAME, GIVEN, SKIPS, AGREES = "same steps again", "same steps", "skips when run", "agrees in half"
UPDATE = "train/update_net/%s/ApplyMomentum"


@pytest.fixture
def planted():
    """A copy of the conversion: its nodes by name, and the graph."""
    copy = tf.MetaGraphDef()
    copy.CopyFrom(graphs()[1])
    return {node.name: node for node in copy.graph_def.node}, copy


def no_gate(nodes):
    update, gate = (
        nodes[UPDATE % "first"],
        nodes["graphmp/loss_scale/skip/%s/switch" % (UPDATE % "first")],
    )
    update.input[:] = [gate.input[0] if text == gate.name + ":1" else text for text in update.input]


def another_neutral_value(nodes):
    (zeros,) = [
        node
        for node in nodes.values()
        if node.op == "ZerosLike" and node.name.startswith("graphmp/loss_scale/skip/")
    ]
    zeros.op = "OnesLike"


def divided_by_one(nodes):
    unscale = nodes["graphmp/loss_scale/unscale"]
    unscale.op = "Identity"
    del unscale.input[1]


def another_variable(nodes):
    for name, other in (("first", "second"), ("second", "first")):
        nodes[UPDATE % name].input[0] = "net/" + other


def one_is_not_checked(nodes):
    row = nodes["graphmp/loss_scale/small"]
    row.input[1] = row.input[0]


def scale_grows_on_overflow(nodes):
    nodes["graphmp/loss_scale/update/mul_1/y"].attr["value"].tensor.CopyFrom(
        tf.make_tensor_proto(2.0)
    )


FAULTS = [
    (no_gate, SKIPS, "the step writes net/first, net/first/Momentum"),
    (another_neutral_value, SKIPS, "the step writes global_step"),
    (divided_by_one, GIVEN, "with other values than the original"),
    (another_variable, GIVEN, "with other values than the original"),
    (one_is_not_checked, SKIPS, "0 skipped steps"),
    (scale_grows_on_overflow, SKIPS, "graphmp/loss_scale/scale goes from"),
]


def test_unspoilt():
    """All is proved, and of the skips it is said what is written all the same."""
    found, still = verdicts(*graphs())
    assert found == {SAME: "proved", GIVEN: "proved", SKIPS: "proved", AGREES: "proved"}
    assert still == {}


@pytest.mark.parametrize(
    "fault, claim, text", FAULTS, ids=[fault.__name__ for fault, _, _ in FAULTS]
)
def test_fault(planted, fault, claim, text):
    nodes, copy = planted
    fault(nodes)
    found, still = verdicts(graphs()[0], copy)
    assert found[SAME] == "proved"  # of the flags, whatever became of the file
    assert found[claim] == "failed" and text in still[claim]


def test_what_goes_on_is_in_the_report():
    """A write that goes on in a skipped step and isn't listed fails."""
    report = {"losses": [{"not_skipped": []}]}
    _, still = verdicts(*graphs(), report=report)
    assert (
        list(still) == [SKIPS] and "writes net/mean, which the report does not list" in still[SKIPS]
    )
    report["losses"][0]["not_skipped"] = [{"node": "net/keep", "why": ""}]
    assert verdicts(*graphs(), report=report)[1] == {}


def test_a_graph_that_does_not_run(planted):
    """What TensorFlow refuses isn't proved."""
    nodes, copy = planted
    nodes["net/MatMul"].input[0] = "x"
    found, still = verdicts(graphs()[0], copy)
    assert found[SKIPS] == "not proved" and "does not run" in still[SKIPS]


def test_an_original_that_can_not_be_converted():
    """Then nothing is proved."""
    original = tf.MetaGraphDef()
    original.CopyFrom(graphs()[0])
    next(node for node in original.graph_def.node if node.name == "net/Square").attr[
        "T"
    ].type = tf.int32.as_datatype_enum
    found, still = verdicts(original, graphs()[1])
    assert (
        set(found.values()) == {"not proved"}
        and "the original can't be converted again: " in still[SAME]
    )


BROKEN = [(["one two", "two one"], "waits for itself"), (["one net/first:7"], "an output that a")]


def added(planted, *lines):
    """Adds Identities, each a name and its input."""
    nodes, graph = planted
    for name, source in (line.split() for line in lines):
        node = graph.graph_def.node.add(name=name, op="Identity", input=[source])
        node.attr["T"].type = tf.float32.as_datatype_enum
    nodes["graphmp/loss_scale/unscale"].input[1] = lines[0].split()[0]
    return graph


@pytest.mark.parametrize("lines, said", BROKEN, ids=["cycle", "output"])
def test_what_tensorflow_would_not_load_is_not_run(planted, lines, said):
    stages = []
    proof = proof_with_steps(
        graphs()[0], added(planted, *lines), AuditOptions(steps=3), 0.1, None, stages.append
    )
    assert stages == ["proving"] and proof.is_broken
    assert [claim.verdict for claim in proof.claims] == ["failed"] and said in proof.claims[0].text
