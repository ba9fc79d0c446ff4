"""What a step sends from device to device.

Counted, halved by the conversion, printed by `graphmp inspect --wire`.
"""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.state.devices import Places, apart, machine
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.training_step import Training, find_training, step_nodes
from graphmp.inspect.wire import inspect_wire
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import decide
from graphmp.rewrite.placement.costs import LAUNCH, SENT, costs, price
from graphmp.rewrite.units import TypedGraph
from tests.support import painting
from tests.support.commands import graphmp, refused
from tests.support.tiny import meta_graph

PS, WORKER = "/job:ps/task:0", "/job:worker/task:0"
CLUSTER = tf.train.ClusterSpec({"ps": ["a:1", "b:1"], "worker": ["c:1"]})
POLICY = Policy.default("float16")


@pytest.mark.unit
@pytest.mark.parametrize(
    "one, other, expected",
    [
        ("", "", False),
        ("", "/device:CPU:0", False),
        ("/cpu:0", "/device:CPU:0", False),
        ("/gpu:0", "/device:GPU:1", True),
        ("/cpu:0", "/device:GPU:0", True),
        ("", PS, True),
        (PS, WORKER, True),
        (PS, "/job:ps/task:1", True),
        (PS, PS + "/device:CPU:0", False),
        ("/job:worker", WORKER, False),
        ("/job:localhost/replica:0/task:0/device:CPU:0", "", False),
        ("/job:localhost/task:0/device:GPU:0", "/device:CPU:0", True),
    ],
)
def test_what_has_to_be_sent(one, other, expected):
    assert apart(one, other) is apart(other, one) is expected


def where(graph):
    """The device of each node."""
    places = Places(GraphView(graph.graph_def))
    return {node.name: places.of(node.name) for node in graph.graph_def.node}


@pytest.mark.unit
def test_a_node_is_where_it_says_or_where_what_it_is_placed_with_is():
    graph = meta_graph(
        "v VarHandleOp @%s" % PS,
        "read ReadVariableOp v",
        "same Identity read",
        "near Identity read @%s" % WORKER,
        "first Abs near",
    )
    for name, beside in (("same", "first"), ("first", "near")):
        graph.graph_def.node[[node.name for node in graph.graph_def.node].index(name)].attr[
            "_class"
        ].list.s.append(b"loc:@" + beside.encode())
    assert where(graph) == {"v": PS, "read": PS, "same": WORKER, "near": WORKER, "first": WORKER}


@pytest.mark.unit
def test_colocation_in_a_circle_and_with_what_is_gone_is_nowhere():
    graph = meta_graph("a Abs", "b Abs", "c Abs")
    for node, beside in zip(graph.graph_def.node, (b"b", b"a", b"gone")):
        node.attr["_class"].list.s.append(b"loc:@" + beside)
    assert where(graph) == {"a": "", "b": "", "c": ""}


@pytest.mark.unit
def test_the_machine_of_a_device():
    assert machine("/job:ps/task:1/device:GPU:0") == "/job:ps/task:1"
    assert machine("/device:GPU:0") == machine("") == ""


def trained(build, **setter):
    """The graph of a worker whose variables are on parameter servers."""
    with tf.Graph().as_default() as graph:
        with tf.device(
            tf.train.replica_device_setter(cluster=CLUSTER, worker_device=WORKER, **setter)
        ):
            tf.train.MomentumOptimizer(0.1, 0.9).minimize(
                build(), tf.train.get_or_create_global_step()
            )
        return tf.train.export_meta_graph(
            graph=graph, graph_def=graph.as_graph_def(add_shapes=True)
        )


def dense(kind=False):
    """A hidden layer of 300 x 200 and one of 200 x 10, of variables of either kind."""
    with tf.variable_scope("", use_resource=kind):
        x = tf.placeholder(tf.float32, [None, 300], name="x")
        logits = tf.layers.dense(
            tf.layers.dense(x, 200, tf.nn.relu, name="hidden"), 10, name="logits"
        )
    return tf.losses.sparse_softmax_cross_entropy(
        tf.placeholder(tf.int32, [None], name="y"), logits
    )


WEIGHTS = 300 * 200 + 200 + 200 * 10 + 10


@pytest.mark.parametrize("kind", [False, True])
def test_weights_and_gradients_of_a_dense_model_are_sent_in_half(kind):
    found = inspect_wire(trained(lambda: dense(kind)), Config.make(loss_scale="none"), POLICY)
    assert [found.error, found.trains, found.unknown] == ["", True, 32]
    down = sum(pair.before for pair in found.pairs if pair.source != WORKER)
    up = sum(pair.before for pair in found.pairs if pair.source == WORKER)
    assert (
        4 * WEIGHTS <= down <= 4 * WEIGHTS + 64 and 4 * WEIGHTS <= up <= 4 * WEIGHTS + 128
    )  # learning rate, momentum, step
    assert sum(pair.after for pair in found.pairs) <= 0.51 * (down + up)
    assert {row.dtype for row in found.after if row.bytes > 64} == {"float16"}


@pytest.mark.unit
def test_a_dynamic_scale_adds_only_scalars():
    found = inspect_wire(trained(dense), Config.make(), POLICY)
    assert {row.dtype for row in found.after if row.bytes > 64} == {"float16"}
    assert sum(row.bytes for row in found.after) <= 0.51 * sum(row.bytes for row in found.before)


@pytest.mark.unit
def test_rows_of_an_embedding_are_cast_where_the_table_is():
    def looked_up():
        partitioner = tf.fixed_size_partitioner(2)
        table = tf.get_variable(
            "table", [1000, 64], partitioner=partitioner, initializer=tf.zeros_initializer()
        )
        rows = tf.nn.embedding_lookup(
            table, tf.placeholder(tf.int32, [None, 5], name="ids"), partition_strategy="div"
        )
        logits = tf.layers.dense(rows, 1000, name="logits")
        return tf.losses.sparse_softmax_cross_entropy(
            tf.placeholder(tf.int32, [None, 5], name="y"), logits
        )

    found = inspect_wire(trained(looked_up), Config.make(loss_scale="none"), POLICY)
    rows = [row for row in found.after if "embedding_lookup" in row.tensor and row.bytes > 2048]
    assert len(rows) == 4 and {row.dtype for row in rows} == {
        "float16"
    }  # rows from two servers, and their gradients
    assert not [
        row
        for row in found.after
        if row.bytes >= 1000 * 64 * 2 and row.source != WORKER and "table" in row.tensor
    ]


@pytest.mark.unit
def test_what_is_pushed_into_accumulators_belongs_to_the_step():
    def synchronised():
        loss = dense()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.1), replicas_to_aggregate=2, total_num_replicas=2
        )
        optimizer.minimize(loss, tf.train.get_or_create_global_step())
        return tf.constant(0.0) * tf.get_variable("other", [])

    graph = trained(synchronised)
    nodes = step_nodes(GraphView(graph.graph_def), find_training(graph, Config.make()))
    assert (
        sum(
            graph_node.op.endswith("AccumulatorApplyGradient")
            for graph_node in graph.graph_def.node
            if graph_node.name in nodes
        )
        == 4
    )
    found = inspect_wire(graph, Config.make(), POLICY)
    pushed = [row for row in found.after if row.source == WORKER and row.bytes > 64]
    assert sum(row.bytes for row in pushed) == 2 * WEIGHTS - 2 * 10 and {
        row.dtype for row in pushed
    } == {"float16"}


@pytest.mark.unit
def test_a_tensor_is_sent_once_to_each_device_and_a_constant_without_one_never():
    graph = meta_graph(
        "x Placeholder dtype=float32 @%s" % PS,
        "c Const dtype=float32",
        "a Add x c T=float32 @%s" % WORKER,
        "b Add x c T=float32 @%s" % WORKER,
        "d Abs x T=float32 @/job:worker/task:1",
        "e Abs x T=float32 @%s" % PS,
        c=1.0,
    )
    graph.graph_def.node[0].attr["_output_shapes"].list.shape.add().dim.add(size=8)
    found = inspect_wire(graph, Config.make(loss_scale="none"), POLICY)
    assert not found.trains and found.after == found.before  # nothing there is worth half precision
    assert [(row.tensor, row.target, row.bytes) for row in found.before] == [
        ("x:0", WORKER, 32),
        ("x:0", "/job:worker/task:1", 32),
    ]
    assert [(pair.source, pair.target, pair.tensors, pair.before) for pair in found.pairs] == [
        (PS, WORKER, 1, 32), (PS, "/job:worker/task:1", 1, 32),
    ]  # fmt: skip


def placed(*lines, device):
    """A graph of painting's whose nodes named in `device` are elsewhere."""
    graph = painting.graph(*lines)
    for node in graph.graph_def.node:
        node.device = device.get(node.name, WORKER)
    return graph


@pytest.mark.unit
def test_what_is_sent_in_float32_is_avoided_where_there_is_a_choice():
    lines = [
        "x Placeholder shape=[1000,1000]",
        "far Exp x",
        "near Identity far",
        "top Neg near",
        "out Exp top",
        "m MatMul top x",
    ]
    near = painting.decide(placed(*lines, device={}))
    sent = painting.decide(placed(*lines, device=dict.fromkeys(("x", "far"), PS)))
    assert "near" in sent.half, sent.reasons
    assert len(near.half) <= len(sent.half)


@pytest.mark.unit
def test_the_price_counts_what_is_sent_in_float32_to_each_device():
    lines = ["x Placeholder shape=[4,4]", "far Exp x", "a Exp far", "b Exp far"]
    together, elsewhere = (
        decide(placed(*lines, device=device), Config.make(), POLICY)[""].graph
        for device in ({}, {"a": "/job:worker/task:1", "b": PS})
    )
    assert (
        price(elsewhere, set()) - price(together, set())
        == 2 * costs(elsewhere, GraphView(elsewhere.view.graph_def).inputs("a")[0]).sent
    )
    assert costs(elsewhere, elsewhere.view.inputs("a")[0]).sent == LAUNCH + SENT * 2 * 16
    assert isinstance(together, TypedGraph) and isinstance(
        find_training(placed(*lines, device={}), Config.make()), Training
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A worker's graph, and one that names no device."""
    folder = tmp_path_factory.mktemp("wire")
    (folder / "worker.meta").write_bytes(trained(dense).SerializeToString())
    with tf.Graph().as_default() as graph:
        tf.train.GradientDescentOptimizer(0.1).minimize(dense())
        (folder / "alone.meta").write_bytes(
            tf.train.export_meta_graph(graph=graph).SerializeToString()
        )
    return folder


@pytest.mark.unit
def test_the_command_prints_a_row_for_each_pair_of_devices(files, capfd):
    status, out, _ = graphmp(capfd, "inspect", files / "worker.meta", "--wire", "--batch_size=8")
    assert status == 0 and out.startswith(
        "worker.meta  a training step by static shapes; unknown dimensions count as 8"
    )
    assert [line.split()[:2] for line in out.splitlines() if line.startswith("  /job:")][:2] == [
        [WORKER, PS],
        [PS, WORKER],
    ]
    total = next(line for line in out.splitlines() if line.startswith("  all")).split()
    assert total[-1] in ("50%", "51%")
    assert (
        "tensors that send most (float16)" in out and "hidden/kernel/read_graphmp_float16:0" in out
    )
    assert out.splitlines()[-1].startswith("next         graphmp convert ")


@pytest.mark.unit
def test_the_command_prints_json(files, capfd):
    status, out, _ = graphmp(capfd, "inspect", files / "worker.meta", "--wire", "--json")
    found = json.loads(out)
    assert (
        status == 0 and found["schema"] == "graphmp.wire/1" and found["compute_dtype"] == "float16"
    )
    assert sum(pair["after"] for pair in found["pairs"]) == sum(
        row["bytes"] for row in found["after"]
    )
    assert sum(pair["before"] for pair in found["pairs"]) == sum(
        row["bytes"] for row in found["before"]
    )


@pytest.mark.unit
def test_the_command_says_where_nothing_is_sent(files, capfd):
    status, out, _ = graphmp(capfd, "inspect", files / "alone.meta", "--wire")
    assert (
        status == 0
        and "nothing is sent: all nodes of the step name the same device, or none" in out
        and "bytes sent" not in out
    )


@pytest.mark.unit
def test_trouble_is_one_line(files, capfd):
    assert "GMP003" in refused(capfd, "inspect", files / "gone.meta", "--wire")[1]
    assert (
        "GMP002: --cost, --memory, --policy and --wire: accepted is one of them"
        in refused(capfd, "inspect", files / "alone.meta", "--wire", "--cost")[1]
    )
