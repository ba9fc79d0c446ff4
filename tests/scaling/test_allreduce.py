"""Optimizers that wrap another one and average gradients over processes, as Horovod's does.

Checks, scales and half precision around the all-reduce.

The stand-in is made of TensorFlow's own collectives, and trains in two real processes on this
machine.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView
from tests.support.allreduce import (
    NEWEST,
    OP,
    PROCESSES,
    AllReduceOptimizer,
    X,
    build,
    loss_of,
    train,
)
from tests.support.clusters import Cluster
from tests.support.commands import graphmp as run_command
from tests.support.control_flow import control_flow
from tests.support.forks import PATIENCE
from tests.support.places import environment
from tests.support.scaled import losses_of

HOROVOD = """
import signal, sys
signal.alarm(100)
import horovod.tensorflow as hvd
from tests.support.allreduce import results
hvd.init()
open("rank%d" % hvd.rank(), "w").writelines(
    line + "\\n"
    for line in results(sys.argv[1:], hvd.rank(), lambda _: hvd.DistributedOptimizer)
)
"""
SCRIPT = (
    "from tests.support.allreduce import process\nfor line in process():\n    print(line,"
    " flush=True)"
)


def trained(forks, *ways, flags=None):
    """The results of each process, by case."""
    pathlib.Path("script.py").write_text(SCRIPT)
    with Cluster(forks, 0, PROCESSES, *ways, flags=flags, script="script.py") as cluster:
        cluster.start_workers()
        ended = cluster.wait()
    assert [each.status for each in ended] == [0] * PROCESSES, "\n".join(each.err for each in ended)
    return [dict(json.loads(line) for line in each.out.splitlines()) for each in ended]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def assert_as_one(found):
    """Check that the processes trained as one would with the whole batch.

    All must skip the step in which one of them overflowed.
    """
    alone = train("plain", lambda optimizer: optimizer, X, 1.0)
    losses = np.mean([each["losses"] for each in found], 0)
    assert losses == pytest.approx(alone["losses"], rel=0.01) and losses[-1] < 0.7 * losses[0]
    assert found[0]["state"] == found[1]["state"] and all(
        np.isfinite(value).all() for value in found[0]["state"].values()
    )
    assert [each["changed"] for each in found] == [[False, True]] * PROCESSES
    assert (
        found[0]["scales"] == found[1]["scales"]
        and found[0]["scales"][1] == found[0]["scales"][0] / 2
    )


# Every way and every question whether there are several processes; 1.15.5 adds up no float16 on a
# CPU.
ALWAYS = [
    "session",
    "convert+functions",
    "around_loss+conditional",
    "around_loss+functions",
    "around_all",
] + ["in_half+conditional"] * NEWEST
OTHERS = ["convert+conditional", "around_loss"] + ["in_half"] * NEWEST


@pytest.mark.parametrize(
    "ways", [ALWAYS, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["always", "others"]
)
def test_two_processes_train_as_one(ways, forks, folder):
    found = trained(forks, *ways)
    for way in ways:
        assert_as_one([each[way] for each in found])


def test_two_processes_train_as_one_under_graphmp_run(forks, folder):
    assert_as_one(
        [each["plain+conditional"] for each in trained(forks, "plain+conditional", flags=[])]
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "ways, command",
    [
        (["session", "convert", "in_half", "around_loss", "around_all"], []),
        (["plain"], ["-m", "graphmp", "run"]),
    ],
    ids=["python", "graphmp run"],
)
def test_horovod(ways, command, folder):
    pytest.importorskip("horovod.tensorflow", reason="Horovod is not installed")
    pathlib.Path("script.py").write_text(HOROVOD)
    launch = [
        sys.executable,
        "-m",
        "horovod.runner.launch",
        "-np",
        str(PROCESSES),
        "--gloo",
        sys.executable,
        *command,
        "script.py",
        *ways,
    ]
    ended = subprocess.run(
        launch,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE,
    )
    assert ended.returncode == 0, ended.stdout.decode()
    found = [
        dict(json.loads(line) for line in pathlib.Path("rank%d" % rank).read_text().splitlines())
        for rank in range(PROCESSES)
    ]
    for way in ways:
        assert_as_one([each[way] for each in found])


def graph_of(asked="", **wrapping):
    """A MetaGraphDef with a training step whose gradients `AllReduceOptimizer` computes."""
    with tf.Graph().as_default() as graph, (
        control_flow(functions=True) if asked == "functions" else contextlib.nullcontext()
    ):
        build("plain", functools.partial(AllReduceOptimizer, conditional=bool(asked), **wrapping))
        return tf.train.export_meta_graph(graph=graph)


def renamed(meta_graph, op, known):
    """The same graph with another op for the all-reduces.

    If `known`, with its definition, as exported by a process that has loaded it.
    """
    for node in meta_graph.graph_def.node:
        if node.op == OP:
            node.op = op
            for key in [key for key in node.attr if key != "T"]:
                del node.attr[key]
    if known:
        definition = meta_graph.meta_info_def.stripped_op_list.op.add(name=op)
        definition.input_arg.add(name="tensor", type_attr="T")
        definition.output_arg.add(name="sum", type_attr="T")
        definition.attr.add(name="T", type="type").allowed_values.list.type.extend(
            [tf.float16.as_datatype_enum, tf.float32.as_datatype_enum]
        )
    return meta_graph


class Found:
    """All-reduces after a conversion.

    Attributes:
        dtypes: the dtype of each.
        before: whether each depends on an unscaled value.
        checked: op types of the nodes that the finite check reads.
    """

    def __init__(self, meta_graph, op=OP, **options):
        self.conversion = graphmp.convert(meta_graph, **options)
        view = GraphView(self.conversion.meta_graph.graph_def)
        unscaled = view.descendants(
            [name for name in view.nodes if "graphmp/loss_scale/unscale" in name], control=False
        )
        reduces = [name for name, node in view.nodes.items() if node.op == op]
        self.dtypes = {
            name.split("/")[-1] + name.split("/")[-2]: (
                tf.as_dtype(view.nodes[name].attr["T"].type).name
            )
            for name in reduces
        }
        self.before = {name in unscaled for name in reduces}
        finite = [
            name
            for name, node in view.nodes.items()
            if node.op == "IsFinite" and "/update/" not in name and "finite_sums" not in name
        ]
        rows = [view.inputs(name)[0] for name in finite]
        joined = [row for row in rows if view.nodes[row.node].op == "ConcatV2"]
        rows = [row for row in rows if row not in joined]
        rows += [part for row in joined for part in view.inputs(row.node)[:-1]]
        checked = [view.behind(row, {"Reshape"}) for row in rows]
        self.checked = {view.nodes[port.node].op for port in checked}
        self.float32 = {tf.as_dtype(view.nodes[name].attr["T"].type).name for name in finite}


@pytest.mark.unit
@pytest.mark.parametrize("asked", ["", "conditional"])
def test_by_default_unscaled_gradients_are_added_up_in_float32(asked):
    found = Found(graph_of(asked))
    assert (
        set(found.dtypes.values()) == {"float32"}
        and len(found.dtypes) == 4
        and found.before == {True}
    )
    assert found.checked == {"Merge" if asked else OP} and found.conversion.report["warnings"] == []


@pytest.mark.unit
@pytest.mark.parametrize("asked", ["", "conditional"])
def test_the_flag_adds_up_scaled_gradients_in_half_and_unscales_the_sum_in_float32(asked):
    found = Found(graph_of(asked), allreduce_half=True)
    assert (
        list(found.dtypes.values()).count("float16") >= 3 and len(found.dtypes) == 4
    )  # one has a single number, for which no cast is worth it
    assert found.before == {False} and found.checked == {"RealDiv"} and found.float32 == {"float32"}
    assert all(
        claim.verdict != "failed"
        for claim in graphmp.diff(graph_of(asked), found.conversion.meta_graph).claims
    )


@pytest.mark.unit
def test_a_call_of_a_function_with_an_all_reduce_is_checked_behind_it():
    found = Found(graph_of("functions"))
    assert (
        found.checked <= {"If", "StatelessIf", "Identity", "Merge"}
        and found.conversion.report["losses"][0]["gated"]
    )


@pytest.mark.unit
def test_gradients_that_are_float32_for_a_reason_stay_so():
    found = Found(graph_of(), allreduce_half=True, keep_float32=["hidden/MatMul"])
    assert found.dtypes["CollectiveReduceAllReduce"] == "float32"  # of the matmul's kernel
    assert "float16" in found.dtypes.values() and found.before == {False}


@pytest.mark.unit
def test_gradients_that_are_clipped_first_are_unscaled_first():
    """The clip reads the same values as before.

    The all-reduce carries what it makes of an infinity to all processes.
    """
    found = Found(graph_of(before=lambda g: tf.clip_by_norm(g, 1.0)), allreduce_half=True)
    assert (
        set(found.dtypes.values()) == {"float32"}
        and found.before == {True}
        and found.checked == {OP}
    )


@pytest.mark.unit
def test_the_models_own_compression_is_given_scaled_gradients():
    found = Found(graph_of(before=lambda g: tf.cast(g, tf.float16)), allreduce_half=True)
    assert set(found.dtypes.values()) == {"float16"} and found.before == {False}


@pytest.mark.unit
def test_graphmps_clip_takes_what_was_added_up():
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(Found(graph_of(), clip_norm=0.1).conversion.meta_graph)
        norm = [op for op in graph.get_operations() if op.type == "L2Loss"]
    assert len(norm) == 4 and {op.inputs[0].op.name.split("/")[0] for op in norm} == {"AllReduce"}


@pytest.mark.unit
@pytest.mark.parametrize("options", [{}, {"allreduce_half": True}])
def test_a_sum_over_several_steps_is_checked_where_gradients_are_added_to_it(options):
    """As with Horovod's `backward_passes_per_step`.

    The addition waits for the check, which can't wait for the all-reduce of the sum.
    """

    def summed(g):
        total = tf.Variable(tf.zeros(g.shape), trainable=False, name="total")
        with tf.control_dependencies([total.assign_add(g)]):
            return tf.cond(tf.constant(True), total.read_value, lambda: g)

    found = Found(graph_of(before=summed), **options)
    assert (
        set(found.dtypes.values()) == {"float32"}
        and found.before == {True}
        and found.checked == {"RealDiv"}
    )


@pytest.mark.unit
@pytest.mark.parametrize("options", [{}, {"allreduce_half": True}])
def test_an_op_that_nobody_knows_is_left_alone(options):
    found = Found(
        renamed(graph_of(), "HorovodAllreduce", known=False), "HorovodAllreduce", **options
    )
    assert set(found.dtypes.values()) == {"float32"} and found.before == {True}
    assert [row["code"] for row in found.conversion.report["warnings"]] == ["GMP109"]


@pytest.mark.unit
def test_an_op_that_the_graph_defines_is_known():
    found = Found(
        renamed(graph_of(), "HorovodAllreduce", known=True), "HorovodAllreduce", allreduce_half=True
    )
    assert (
        list(found.dtypes.values()).count("float16") >= 3
        and found.before == {False}
        and found.checked == {"RealDiv"}
    )
    assert Found(
        renamed(graph_of(), "HorovodAllreduce", known=True), "HorovodAllreduce"
    ).checked == {"HorovodAllreduce"}


@pytest.mark.unit
def test_all_reduces_of_two_towers_have_one_dtype():
    """Some gradients of one tower are kept float32."""
    with tf.Graph().as_default() as graph:
        x, optimizer, gradients = (
            tf.placeholder(tf.float32, [8, 12], "x"),
            tf.train.GradientDescentOptimizer(0.1),
            [],
        )
        for number, part in enumerate(tf.split(x, 2)):
            with tf.name_scope("tower_%d" % number), tf.variable_scope("", reuse=number > 0):
                gradients.append(optimizer.compute_gradients(loss_of(part, part[:, :1], 1.0)))
        pairs = []
        for key, of_one in enumerate(zip(*gradients)):
            keys = {"reduction": "sum", "num_devices": 2, "shared_name": "c%d" % key}
            added = [tf.raw_ops.NcclAllReduce(input=g, **keys) for g, _ in of_one]
            pairs.append((tf.add_n(added) / 4.0, of_one[0][1]))
        optimizer.apply_gradients(pairs)
        meta_graph = tf.train.export_meta_graph(graph=graph)
    nodes = {
        node.name: node
        for node in graphmp.convert(
            meta_graph, allreduce_half=True, keep_float32=["tower_1/hidden"]
        ).meta_graph.graph_def.node
    }
    pairs = [
        [
            nodes["NcclAllReduce" + "_%d" % number * bool(number)].attr["T"].type
            for number in (2 * key, 2 * key + 1)
        ]
        for key in range(4)
    ]
    assert all(one == other for one, other in pairs) and {
        tf.float16.as_datatype_enum,
        tf.float32.as_datatype_enum,
    } == {one for one, _ in pairs}


@pytest.mark.unit
def test_the_flag_is_for_graphs_that_are_built():
    with pytest.raises(GraphmpError, match="allreduce_half"):
        graphmp.mixed_precision(allreduce_half=True)(loss_of)


@pytest.mark.unit
def test_the_flag_of_the_command(folder, capfd):
    pathlib.Path("model.meta").write_bytes(graph_of().SerializeToString())
    status, _, err = run_command(capfd, "convert", "model.meta", "--allreduce_half")
    assert status == 0, err
    assert "--allreduce_half" in pathlib.Path("model_graphmp/flags.txt").read_text()


@pytest.mark.unit
def test_a_count_that_waits_for_gradients_is_no_sum_over_steps():
    """An all-reduce that waits for it adds up scaled gradients."""
    with tf.Graph().as_default() as graph:
        count, w = tf.Variable(0, trainable=False), tf.get_variable("w", [12, 1])
        loss = tf.nn.l2_loss(tf.matmul(tf.placeholder(tf.float32, [8, 12]), w))
        (gradient,) = tf.gradients(loss, w)
        with tf.control_dependencies([gradient]):
            counting = count.assign_add(1)
        with tf.name_scope("all"), tf.control_dependencies([counting]):
            added = tf.raw_ops.NcclAllReduce(
                input=gradient, reduction="sum", num_devices=1, shared_name="c"
            )
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(added, w)])
        meta_graph = tf.train.export_meta_graph(graph=graph)
    assert Found(meta_graph, "NcclAllReduce", allreduce_half=True).before == {False}


@pytest.mark.unit
def test_a_gradient_that_an_all_reduce_waits_for_is_unscaled_where_it_is_computed():
    """It is that of another variable, of this process alone."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [8, 12])
        own, shared = (tf.get_variable(name, [12, 1]) for name in ("own", "shared"))
        loss = tf.nn.l2_loss(tf.matmul(x, own)) + tf.nn.l2_loss(tf.matmul(x, shared))
        gradient, to_share = tf.gradients(loss, [own, shared])
        copy = tf.identity(gradient)
        with tf.control_dependencies([copy]):
            added = tf.raw_ops.NcclAllReduce(
                input=to_share, reduction="sum", num_devices=1, shared_name="c"
            )
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(copy, own), (added, shared)])
        meta_graph = tf.train.export_meta_graph(graph=graph)
    _, (loss,) = losses_of(meta_graph, allreduce_half=True)
    assert {port.node for port in loss.gradients} == {gradient.op.name, added.op.name}
