"""Optimizers that wrap another one and average gradients over processes, as Horovod's: what checks, scales and half precision make of the all-reduce.

The stand-in is made of TensorFlow's own collectives, and trains in two real processes on this machine.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.errors import GraphmpError
from graphmp.graph.view import GraphView
from tests.clusters import Cluster
from tests.commands import graphmp as run_command
from tests.forks import PATIENCE, ROOT
from tests.training import load, undecorated

NEWEST = tf.__version__ > "2"
PROCESSES, ROWS, STEPS = 2, 16, 6
X = np.random.RandomState(0).randn(ROWS, 12).astype(np.float32)
SHAPES = {"hidden/kernel": (12, 16), "hidden/bias": (16,), "out/kernel": (16, 1), "out/bias": (1,)}
START = {name: np.random.RandomState(1).randn(*shape).astype(np.float32) * 0.3 for name, shape in SHAPES.items()}
HOROVOD = """
import signal, sys
signal.alarm(100)
import horovod.tensorflow as hvd
from tests.test_allreduce import results
hvd.init()
open("rank%d" % hvd.rank(), "w").writelines(line + "\\n" for line in results(sys.argv[1:], hvd.rank(), lambda _: hvd.DistributedOptimizer))
"""
LEADER = "/job:worker/replica:0/task:0"
SCRIPT = "from tests.test_allreduce import process\nfor line in process():\n    print(line, flush=True)"
OP = "CollectiveReduce"


class AllReduceOptimizer(tf.train.Optimizer):
    """Averages over all processes the gradients of another optimizer, which applies them."""

    def __init__(self, optimizer, processes=1, first_key=0, conditional=False, before=tf.identity):
        """Wraps an optimizer.

        Args:
            optimizer: the other one.
            processes: how many there are.
            first_key: no other all-reduce of the processes has it or one of those behind it.
            conditional: whether a conditional asks if there are several, as Horovod's does.
            before: is done to each gradient before it is averaged.
        """
        super().__init__(False, "AllReduce")
        self._optimizer, self._processes, self._first_key = optimizer, processes, first_key
        self._conditional, self._before = conditional, before

    def compute_gradients(self, *args, **kwargs):
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        with tf.name_scope("AllReduce"):
            return [
                (tf.cast(self._averaged(self._before(tf.convert_to_tensor(g)), key), v.dtype.base_dtype), v)
                for key, (g, v) in enumerate(pairs, self._first_key)
            ]

    def apply_gradients(self, *args, **kwargs):
        return self._optimizer.apply_gradients(*args, **kwargs)

    def _averaged(self, gradient, key):
        def average():
            keys = {"group_size": self._processes, "group_key": 1, "instance_key": key}
            summed = tf.raw_ops.CollectiveReduce(input=gradient, merge_op="Add", final_op="Id", subdiv_offsets=[0], **keys)
            return summed / tf.cast(self._processes, gradient.dtype)

        return tf.cond(tf.constant(True), average, lambda: gradient) if self._conditional else average()


def loss_of(x, y, factor):
    hidden = tf.layers.dense(x, 16, tf.nn.relu, name="hidden")
    return tf.reduce_mean(tf.square(tf.layers.dense(hidden, 1, name="out") - y)) * factor


def build(way, wrap):
    """A training step. Returns the loss and the train op.

    Args:
        way: `around_loss` and `around_all` decorate the function of the loss or one that makes the train op too; others nothing.
        wrap: makes an optimizer of another one.
    """

    def both(x, y, factor):
        loss = (graphmp.mixed_precision if way == "around_loss" else undecorated)(loss_of)(x, y, factor)
        return loss, wrap(tf.train.MomentumOptimizer(0.05, 0.9)).minimize(loss, tf.train.get_or_create_global_step())

    x, y = tf.placeholder(tf.float32, [None, 12], "x"), tf.placeholder(tf.float32, [None, 1], "y")
    return (graphmp.mixed_precision if way == "around_all" else undecorated)(both)(x, y, tf.placeholder(tf.float32, (), "factor"))


@contextlib.contextmanager
def functions():
    """While it lasts, `tf.cond` makes functions."""
    tf.enable_control_flow_v2()
    try:
        yield
    finally:
        tf.disable_control_flow_v2()


OPTIONS = {"convert": {"engine": "rewrite"}, "in_half": {"allreduce_half": True}}


def converted(way, wrap, asked=""):
    """A graph with a training step, converted by `graphmp.convert` where `way` is one of OPTIONS, and names of its loss and train op.

    Args:
        way: as for `build`.
        wrap: likewise.
        asked: how the optimizer asks whether there are several processes: by a `conditional`, one made of `functions`, or not at all.
    """
    with tf.Graph().as_default() as graph, functions() if asked == "functions" else contextlib.nullcontext():
        names = [each.name for each in build(way, functools.partial(wrap, conditional=True) if asked else wrap)]
        meta_graph = graphmp.convert(graph, **OPTIONS[way]).meta_graph if way in OPTIONS else None
    if meta_graph is not None:
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(meta_graph)
    return graph, names


def train(way, wrap, x, bad_factor=np.inf, **session):
    """Trains a few steps, then takes one of which the loss is multiplied by `bad_factor`, then another good one.

    Returns:
        The losses, the loss scale before and after the bad step, whether that changed anything else and the last one did, and all variables.
    """
    way, _, asked = way.partition("+")
    graph, (loss, train_op) = converted(way, wrap, asked)
    feed = {"x:0": x, "y:0": x[:, :1] * 0.5, "factor:0": 1.0}
    sess = (graphmp.Session if way == "session" else tf.Session)(graph=graph, **session)
    with graph.as_default():
        sess.run(tf.global_variables_initializer())
        load(sess, START)
        losses = [float(sess.run([loss, train_op], feed)[0]) for _ in range(STEPS)]
        states = [state_of(sess)]
        for factor in (bad_factor, 1.0):
            sess.run(train_op, dict(feed, **{"factor:0": factor}))
            states.append(state_of(sess))
    scales = [state.pop("scale", 0.0) for state in states]
    return {"losses": losses, "scales": scales[:2], "changed": [a != b for a, b in zip(states, states[1:])], "state": states[-1]}


def state_of(sess):
    """Values of the model's variables, and of the loss scale."""
    names = {op.name for op in sess.graph.get_operations()}
    own = {"scale": float(sess.run("graphmp/loss_scale/scale:0"))} if "graphmp/loss_scale/scale" in names else {}
    model = [v for v in tf.global_variables() if not v.op.name.startswith("graphmp/")]
    return dict({v.op.name: sess.run(v).tolist() for v in model}, **own)


def results(ways, task, wrap, **session):
    """Trains in each of some ways on a process's part of the batch; process 1's loss overflows. Yields what each way came to, as JSON.

    Args:
        ways: as for `train`.
        task: the number of the process.
        wrap: for the number of a way what makes an optimizer of another one.
        session: arguments of tf.Session.
    """
    if NEWEST:
        tf.disable_v2_behavior()
    for number, way in enumerate(ways):
        yield json.dumps([way, train(way, wrap(number), X[task::PROCESSES], np.inf if task else 1.0, **session)])


def process():
    """The same with this file's own optimizer, in a process of a cluster."""
    role = json.loads(os.environ["TF_CONFIG"])
    task = role["task"]["index"]
    config = tf.ConfigProto(device_filters=["/job:worker/task:%d" % task], isolate_session_state=True)
    config.experimental.collective_group_leader = LEADER
    server = tf.train.Server(tf.train.ClusterSpec(role["cluster"]), "worker", task, config=config)
    wrap = functools.partial(AllReduceOptimizer, processes=PROCESSES)
    yield from results(sys.argv[1:], task, lambda number: functools.partial(wrap, first_key=100 * number), target=server.target, config=config)
    pathlib.Path("done%d" % task).write_text("")
    while not task and not pathlib.Path("done1").exists():  # the leader ends last
        time.sleep(0.05)


def trained(forks, *ways, flags=None):
    """What two processes found, each by way."""
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
    """That processes trained as one with the whole batch, and skipped the step that one of them overflowed."""
    alone = train("plain", lambda optimizer: optimizer, X, 1.0)
    losses = np.mean([each["losses"] for each in found], 0)
    assert losses == pytest.approx(alone["losses"], rel=0.01) and losses[-1] < 0.7 * losses[0]
    assert found[0]["state"] == found[1]["state"] and all(np.isfinite(value).all() for value in found[0]["state"].values())
    assert [each["changed"] for each in found] == [[False, True]] * PROCESSES
    assert found[0]["scales"] == found[1]["scales"] and found[0]["scales"][1] == found[0]["scales"][0] / 2


DECORATED = ["around_loss", "around_loss+conditional", "around_loss+functions", "around_all"]
BUILT = ["session", "convert+conditional", "convert+functions"] + ["in_half", "in_half+conditional"] * NEWEST  # 1.15.5 adds up no float16 on a CPU


def test_two_processes_train_as_one(forks, folder):
    found = trained(forks, *BUILT, *DECORATED)
    for way in BUILT + DECORATED:
        assert_as_one([each[way] for each in found])


def test_two_processes_train_as_one_under_graphmp_run(forks, folder):
    assert_as_one([each["plain+conditional"] for each in trained(forks, "plain+conditional", flags=[])])


@pytest.mark.parametrize(
    "ways, command",
    [(["session", "convert", "in_half", "around_loss", "around_all"], []), (["plain"], ["-m", "graphmp", "run"])],
    ids=["python", "graphmp run"],
)
def test_horovod(ways, command, folder):
    pytest.importorskip("horovod.tensorflow", reason="Horovod is not installed: BUILD_NOTES.md says how to build it")
    pathlib.Path("script.py").write_text(HOROVOD)
    launch = [sys.executable, "-m", "horovod.runner.launch", "-np", str(PROCESSES), "--gloo", sys.executable, *command, "script.py", *ways]
    ended = subprocess.run(launch, env=dict(os.environ, PYTHONPATH=ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stdout.decode()
    found = [dict(json.loads(line) for line in pathlib.Path("rank%d" % rank).read_text().splitlines()) for rank in range(PROCESSES)]
    for way in ways:
        assert_as_one([each[way] for each in found])


def graph_of(asked="", **wrapping):
    """A MetaGraphDef with a training step of which `AllReduceOptimizer` makes the gradients."""
    with tf.Graph().as_default() as graph, functions() if asked == "functions" else contextlib.nullcontext():
        build("plain", functools.partial(AllReduceOptimizer, conditional=bool(asked), **wrapping))
        return tf.train.export_meta_graph(graph=graph)


def renamed(meta_graph, op, known):
    """The same with another op for the all-reduces, and where it is `known` its definition, as a process that has loaded it exports it."""
    for node in meta_graph.graph_def.node:
        if node.op == OP:
            node.op = op
            for key in [key for key in node.attr if key != "T"]:
                del node.attr[key]
    if known:
        definition = meta_graph.meta_info_def.stripped_op_list.op.add(name=op)
        definition.input_arg.add(name="tensor", type_attr="T")
        definition.output_arg.add(name="sum", type_attr="T")
        definition.attr.add(name="T", type="type").allowed_values.list.type.extend([tf.float16.as_datatype_enum, tf.float32.as_datatype_enum])
    return meta_graph


class Found:
    """What a conversion made of all-reduces.

    Attributes:
        dtypes: the dtype of each.
        before: whether each reads what was divided by the loss scale.
        checked: ops of the nodes that the finite check looks at.
    """

    def __init__(self, meta_graph, op=OP, **options):
        self.conversion = graphmp.convert(meta_graph, **options)
        view = GraphView(self.conversion.meta_graph.graph_def)
        unscaled = view.descendants([name for name in view.nodes if "graphmp/loss_scale/unscale" in name], control=False)
        reduces = [name for name, node in view.nodes.items() if node.op == op]
        self.dtypes = {name.split("/")[-1] + name.split("/")[-2]: tf.as_dtype(view.nodes[name].attr["T"].type).name for name in reduces}
        self.before = {name in unscaled for name in reduces}
        finite = [name for name, node in view.nodes.items() if node.op == "IsFinite" and "/update/" not in name]
        self.checked = {view.nodes[view.inputs(name)[0].node].op for name in finite}
        self.float32 = {tf.as_dtype(view.nodes[name].attr["T"].type).name for name in finite}


@pytest.mark.parametrize("asked", ["", "conditional"])
def test_by_default_unscaled_gradients_are_added_up_in_float32(asked):
    found = Found(graph_of(asked))
    assert set(found.dtypes.values()) == {"float32"} and len(found.dtypes) == 4 and found.before == {True}
    assert found.checked == {"Merge" if asked else OP} and found.conversion.report["warnings"] == []


@pytest.mark.parametrize("asked", ["", "conditional"])
def test_the_flag_adds_up_scaled_gradients_in_half_and_unscales_the_sum_in_float32(asked):
    found = Found(graph_of(asked), allreduce_half=True)
    assert list(found.dtypes.values()).count("float16") >= 3 and len(found.dtypes) == 4  # one has a single number, for which no cast is worth it
    assert found.before == {False} and found.checked == {"RealDiv"} and found.float32 == {"float32"}
    assert all(check.status != "failed" for check in graphmp.diff(graph_of(asked), found.conversion.meta_graph).checks)


def test_a_call_of_a_function_with_an_all_reduce_is_checked_behind_it():
    found = Found(graph_of("functions"))
    assert found.checked <= {"If", "StatelessIf", "Identity", "Merge"} and found.conversion.report["losses"][0]["gated"]


def test_gradients_that_are_float32_for_a_reason_stay_so():
    found = Found(graph_of(), allreduce_half=True, keep_float32=["hidden/MatMul"])
    assert list(found.dtypes.values()).count("float16") == 2 and found.before == {False}


def test_gradients_that_are_clipped_first_are_unscaled_first():
    """The clip sees what it saw; what it makes of an infinity the all-reduce carries to all processes."""
    found = Found(graph_of(before=lambda g: tf.clip_by_norm(g, 1.0)), allreduce_half=True)
    assert set(found.dtypes.values()) == {"float32"} and found.before == {True} and found.checked == {OP}


def test_the_models_own_compression_is_given_scaled_gradients():
    found = Found(graph_of(before=lambda g: tf.cast(g, tf.float16)), allreduce_half=True)
    assert set(found.dtypes.values()) == {"float16"} and found.before == {False}


def test_graphmps_clip_takes_what_was_added_up():
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(Found(graph_of(), clip_norm=0.1).conversion.meta_graph)
        norm = [op for op in graph.get_operations() if op.type == "L2Loss"]
    assert len(norm) == 4 and {op.inputs[0].op.name.split("/")[0] for op in norm} == {"AllReduce"}


@pytest.mark.parametrize("options", [{}, {"allreduce_half": True}])
def test_a_sum_over_several_steps_is_checked_where_gradients_are_added_to_it(options):
    """As with Horovod's `backward_passes_per_step`: what is added up waits for the check, which can't wait for the all-reduce of the sum."""

    def summed(g):
        total = tf.Variable(tf.zeros(g.shape), trainable=False, name="total")
        with tf.control_dependencies([total.assign_add(g)]):
            return tf.cond(tf.constant(True), total.read_value, lambda: g)

    found = Found(graph_of(before=summed), **options)
    assert set(found.dtypes.values()) == {"float32"} and found.before == {True} and found.checked == {"RealDiv"}


@pytest.mark.parametrize("options", [{}, {"allreduce_half": True}])
def test_an_op_that_nobody_knows_is_left_alone(options):
    found = Found(renamed(graph_of(), "HorovodAllreduce", known=False), "HorovodAllreduce", **options)
    assert set(found.dtypes.values()) == {"float32"} and found.before == {True}
    assert [row["code"] for row in found.conversion.report["warnings"]] == ["GMP109"]


def test_an_op_that_the_graph_defines_is_known():
    found = Found(renamed(graph_of(), "HorovodAllreduce", known=True), "HorovodAllreduce", allreduce_half=True)
    assert list(found.dtypes.values()).count("float16") >= 3 and found.before == {False} and found.checked == {"RealDiv"}
    assert Found(renamed(graph_of(), "HorovodAllreduce", known=True), "HorovodAllreduce").checked == {"HorovodAllreduce"}


def test_all_reduces_of_two_towers_have_one_dtype():
    """Of one tower's gradients some are kept float32."""
    with tf.Graph().as_default() as graph:
        x, optimizer, gradients = tf.placeholder(tf.float32, [8, 12], "x"), tf.train.GradientDescentOptimizer(0.1), []
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
    nodes = {node.name: node for node in graphmp.convert(meta_graph, allreduce_half=True, keep_float32=["tower_1/hidden"]).meta_graph.graph_def.node}
    pairs = [[nodes["NcclAllReduce" + "_%d" % number * bool(number)].attr["T"].type for number in (2 * key, 2 * key + 1)] for key in range(4)]
    assert all(one == other for one, other in pairs) and {tf.float16.as_datatype_enum, tf.float32.as_datatype_enum} == {one for one, _ in pairs}


def test_the_flag_is_for_graphs_that_are_built():
    with pytest.raises(GraphmpError, match="allreduce_half"):
        graphmp.mixed_precision(allreduce_half=True)(loss_of)


def test_the_flag_of_the_command(folder, capfd):
    pathlib.Path("model.meta").write_bytes(graph_of().SerializeToString())
    status, _, err = run_command(capfd, "convert", "model.meta", "--allreduce_half")
    assert status == 0, err
    assert "--allreduce_half" in pathlib.Path("model_graphmp/flags.txt").read_text()
