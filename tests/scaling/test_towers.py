"""In-graph towers.

A copy of the model on each of several devices, their gradients averaged, one step for all,
converted in every way.

The devices are two parts of the CPU. Variables are on the first, where gradients are averaged too,
as code for several GPUs has it.
"""

from __future__ import annotations

import collections
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.state.devices import Places, apart
from graphmp.graph.state.live import ancestors, is_update, variable_op
from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.view import GraphView
from tests.support.towers import (
    AVERAGES,
    BATCH,
    KINDS,
    OWN,
    START,
    STEPS,
    WAYS,
    X,
    build,
    build_gan,
    changed,
    expected,
    losses_of,
    session,
    state_of,
    step,
)
from tests.support.training import state

ALL = [
    (way, average, kind) for way in WAYS for average in sorted(AVERAGES) for kind in sorted(KINDS)
]
ALWAYS = [
    each
    for each in ALL
    if (WAYS.index(each[0]) + sorted(AVERAGES).index(each[1]) + sorted(KINDS).index(each[2])) % 2
]  # every pair
COMBINATIONS = [
    pytest.param(*each, id="-".join(each), marks=[] if each in ALWAYS else pytest.mark.slow)
    for each in ALL
]
SCRIPT = "from tests.support.towers import train; print(*train())"


@pytest.mark.parametrize("way, average, kind", COMBINATIONS)
def test_towers_train_as_one_device_with_the_whole_batch(way, average, kind):
    sparse, use_resource = KINDS[kind]
    made = step(way, build, average=AVERAGES[average], sparse=sparse, use_resource=use_resource)
    with session(made, way) as sess:
        losses = losses_of(sess, made)
        trained = state_of(sess)
        sess.run([made.loss, made.train], dict(zip(made.placeholders, (*BATCH, [1.0, np.inf]))))
        skipped = state_of(sess)
        sess.run([made.loss, made.train], dict(zip(made.placeholders, BATCH)))
        after = state_of(sess)
    assert (
        losses == pytest.approx(expected(sparse, use_resource), rel=0.01)
        and losses[-1] < 0.7 * losses[0]
    )
    own = {name for name in skipped if OWN.match(name)}
    assert (
        len(own) == 3 and changed(trained, skipped) == own
    )  # one scale, whatever the number of towers
    assert sorted(skipped[name] for name in own) == [0, 1, 512]
    assert {name for name in after if name in START} <= changed(skipped, after) and after[
        "global_step"
    ] == STEPS + 1


def step_of(made):
    """The ops of a step, without those that compute averages of losses."""
    return ancestors([made.graph.get_operation_by_name(made.train)])


def sent(made):
    """The float tensors of a step that are sent between the devices, except single numbers."""
    view = GraphView(made.graph.as_graph_def())
    places = Places(view)
    edges = [
        (tensor, op)
        for op in step_of(made)
        for tensor in op.inputs
        if apart(places.of(tensor.op.name), places.of(op.name))
    ]
    return {
        tensor
        for tensor, _ in edges
        if tensor.dtype.is_floating and tensor.shape.num_elements() != 1
    }


@pytest.mark.unit
@pytest.mark.parametrize(
    "way, average, kind",
    [each for each in COMBINATIONS if each.values[0] in ("decorator", "convert")],
)
def test_weights_and_gradients_are_sent_in_half_and_averaged_in_float32(way, average, kind):
    sparse, use_resource = KINDS[kind]
    made = step(way, build, average=AVERAGES[average], sparse=sparse, use_resource=use_resource)
    gradients = gradient_nodes(GraphView(made.graph.as_graph_def()))
    down, up = (
        {t for t in sent(made) if (t.op.name in gradients) is inside} for inside in (False, True)
    )
    weights = collections.Counter(
        variable_op(t.op.inputs[0]).name
        for t in down
        if t.op.type == "Cast" and variable_op(t.op.inputs[0])
    )
    assert weights == dict.fromkeys(
        ["hidden/w", "hidden/b", "out/w"], 1
    )  # a cast for the second device
    assert {t.dtype for t in down} == {tf.float16} and len(
        down
    ) == 3 + sparse  # rows of the table too
    assert len(up) == 3 + sparse
    assert {t.dtype for t in up} == {tf.float16}
    updates = [op for op in made.graph.get_operations() if is_update(op)]
    outside = ancestors(
        updates, stop=lambda op: op.name in gradients or op.type == "Cast", control=False
    )
    averaging = [op for op in outside if op.name not in gradients and op.type != "Cast"]
    assert {t.dtype.base_dtype for op in averaging for t in op.outputs if t.dtype.is_floating} == {
        tf.float32
    }
    sums = collections.Counter(
        op.type
        for op in step_of(made)
        if op.type in ("AddN", "Mean") and op.outputs[0].dtype == tf.float32
    )
    assert sums[{"stacked": "Mean"}.get(average, "AddN")] >= 4


@pytest.mark.parametrize("way", ["decorator", "session", "convert"])
def test_each_loss_has_one_scale_over_all_towers(way):
    """An overflow of the generator's in one tower skips only the generator's step."""
    made = step(way, build_gan)
    with session(made, way) as sess:
        before = state(sess)
        sess.run(made.train, dict(zip(made.placeholders, (X, [1.0, 1.0]))))
        trained = state_of(sess)
        sess.run(made.train, dict(zip(made.placeholders, (X, [1.0, np.inf]))))
        skipped = state_of(sess)
    names = {"D/1", "D/2", "G/1", "G/2"}
    assert names <= changed(before, trained) and {"D/1", "D/2"} == names & changed(trained, skipped)
    scales = sorted(name for name in skipped if name.endswith("/scale"))
    assert len(scales) == 2 and sorted(skipped[name] for name in scales) == [512, 1024]


def test_a_script_with_towers_under_graphmp_run(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("towers.py").write_text(SCRIPT)
    ended = forks.run("towers.py", flags=["--loss_scale_initial=1024"])
    assert ended.status == 0, ended.err
    assert ended.numbers == pytest.approx(expected(True), rel=0.01) and ended.out.endswith(
        " True\n"
    )
    assert any("12 of 12 matmuls" in line for line in ended.said) and ended.said[
        -1
    ] == "%d training steps; loss scale 512; 1 skipped" % (STEPS + 1)
