"""`graphmp inspect --memory`: what is kept for the backward pass and the peak, against numbers worked out by hand and by brute force."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmp.cli.main import run_command
from graphmp.config import Config
from graphmp.graph.messages import serialize
from graphmp.graph.order import in_order
from graphmp.graph.view import GraphView, Port
from graphmp.performance.step_stats import peak_bytes, seconds_by_op
from graphmp.policy.policy import Policy
from graphmp.rewrite.inspection.alike import grouped
from graphmp.rewrite.inspection.memory.aliases import Aliases
from graphmp.rewrite.inspection.memory.comparison import compare
from graphmp.rewrite.inspection.memory.memory import memory
from graphmp.rewrite.inspection.sizes import Sizes, recorded
from graphmp.rewrite.inspection.training_step import find_training
from graphmp.rewrite.op_defs import OpDefs
from graphmp.rewrite.pipeline import rewrite
from graphmp.rewrite.units import TypedGraph
from graphmp.runtime.memory import measure
from tests.support import tiny

CONFIG = Config.make(loss_scale="none")
POLICY = Policy.default("float16")
LOOP = 32  # iterations that a while loop counts as


def built(build):
    """The graph that a function builds."""
    with tf.Graph().as_default():
        build()
        return tf.train.export_meta_graph()


def before_and_after(build):
    """The memory of a graph and of its conversion."""
    found = compare(built(build), CONFIG, POLICY).comparison
    assert found.error == "" and found.converted is not None
    return found.original, found.converted


def sizes_of(kept):
    """Bytes by tensor, those of unknown rank left out: oneDNN's and cuDNN's scratch of a fused batch norm."""
    return {tensor.tensor: tensor.bytes for tensor in kept.tensors if tensor.shape is not None or tensor.op != "FusedBatchNormV3"}


def dense(batch=8):
    """Two layers and a squared error, under momentum."""
    x, t = tf.placeholder(tf.float32, [batch, 12], name="x"), tf.placeholder(tf.float32, [batch, 1], name="t")
    h = tf.nn.relu(tf.matmul(x, tf.get_variable("w", [12, 16])), name="h")
    loss = tf.reduce_mean(tf.square(tf.subtract(tf.matmul(h, tf.get_variable("u", [16, 1])), t, name="off")))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, tf.train.get_or_create_global_step())


def test_a_dense_net():
    before, after = before_and_after(dense)
    assert sizes_of(before.activations) == {"h": 8 * 16 * 4, "off": 8 * 4}  # what the relu reads is not kept
    assert sizes_of(before.feeds) == {"x": 8 * 12 * 4} and before.copies.bytes == 0
    assert sizes_of(after.activations) == {"h": 8 * 16 * 2, "x_graphmp_float16": 8 * 12 * 2, "off": 8 * 4}
    assert after.feeds.bytes == 0
    assert sum(sizes_of(after.copies).values()) >= 16 * 1 * 2 and set(sizes_of(after.copies)) <= {"w/read_graphmp_float16", "u/read_graphmp_float16"}
    weights = (12 * 16 + 16) * 4
    for held in (before.held, after.held):
        assert (held.weights, held.slots, held.other_variables, held.feeds) == (weights, weights, 8, 8 * 13 * 4)
    off = next(tensor for tensor in after.activations.tensors if tensor.tensor == "off")
    assert (off.dtype, off.shape, off.reader) == ("float32", [8, 1], "gradients/Square_grad/Mul") and off.reason.startswith("infer")
    assert all(tensor.reason == "" for tensor in after.activations.tensors if tensor.dtype == "float16")


def test_a_convolution_and_batch_norm():
    def build():
        x = tf.placeholder(tf.float32, [2, 8, 8, 3], name="x")
        h = tf.nn.conv2d(x, tf.get_variable("k", [3, 3, 3, 4]), [1, 1, 1, 1], "SAME", name="conv")
        h = tf.nn.fused_batch_norm(h, tf.get_variable("g", [4]), tf.get_variable("b", [4]), name="norm")[0]
        h = tf.reshape(tf.nn.relu(h, name="h"), [2, 256])
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.matmul(h, tf.get_variable("u", [256, 1]))))

    before, after = before_and_after(build)
    kept = sizes_of(before.activations)
    statistics = {name for name in kept if name.startswith("norm:")}
    assert {name: size for name, size in kept.items() if name not in statistics} == {"conv": 2048, "h": 2048}  # the reshape is h
    assert len(statistics) == 2 and all(kept[name] == 16 for name in statistics)
    found = sizes_of(after.activations)
    assert {name: size for name, size in found.items() if name not in statistics} == {"conv": 1024, "h": 1024, "x_graphmp_float16": 768}
    assert {found[name] for name in statistics} == {16}  # float32 still
    assert set(sizes_of(before.integers).values()) <= {16}  # shapes of the convolution


def recurrent():
    x, w = tf.placeholder(tf.float32, [8, 16], name="x"), tf.get_variable("w", [16, 16])
    _, h = tf.while_loop(lambda i, h: i < 5, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x], name="loop")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(h))


def test_a_while_loop_saves_a_tensor_of_each_iteration_once():
    """The matmul's gradient needs what the iteration before left, the tanh's what this one computes: one tensor an iteration."""
    before, after = before_and_after(recurrent)
    assert sizes_of(before.activations) == {"loop/Tanh": 8 * 16 * 4 * 5}
    assert sizes_of(after.activations) == {"loop/Tanh": 8 * 16 * 2 * 5}
    assert sizes_of(after.copies) == {"w/read_graphmp_float16": 16 * 16 * 2}
    assert before.peak.bytes >= before.activations.bytes


def test_a_while_loop_of_functions_saves_as_much():
    tf.enable_control_flow_v2()
    try:
        graph = built(recurrent)
    finally:
        tf.disable_control_flow_v2()
    assert any(node.op in ("StatelessWhile", "While") for node in graph.graph_def.node)
    found = memory(graph, find_training(graph, CONFIG), recorded(graph.graph_def)).activations.tensors
    lists = [tensor for tensor in found if tensor.op == "EmptyTensorList"]
    assert [(tensor.dtype, tensor.bytes) for tensor in lists] == [("float32", 8 * 16 * 4 * LOOP)]
    assert not any(tensor.op in ("StatelessWhile", "While") for tensor in found)  # the weight comes out as it went in


def test_a_tensor_array_is_as_large_as_what_is_written():
    def build():
        x, w = tf.placeholder(tf.float32, [6, 8, 16], name="x"), tf.get_variable("w", [16, 16])
        rows = tf.TensorArray(tf.float32, 6, element_shape=[8, 16], name="rows").unstack(x)
        made = tf.TensorArray(tf.float32, 6, element_shape=[8, 16], name="made")
        _, made = tf.while_loop(lambda i, a: i < 6, lambda i, a: (i + 1, a.write(i, tf.tanh(tf.matmul(rows.read(i), w)))), [0, made], name="loop")
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(made.stack(name="stacked"))))

    before, _ = before_and_after(build)
    kept = {name.partition("/")[0]: size for name, size in sizes_of(before.activations).items()}
    assert kept["rows"] == 6 * 8 * 16 * 4  # read in the loop, saved for the matmul's gradient
    assert kept["made"] == 8 * 16 * 4 * 6  # the tanh, saved too
    assert set(kept) <= {"rows", "made", "stacked", "loop"} and kept.get("loop", 0) <= 4 * 6  # the order of the reads, a number


ALIASES = (
    ("a Identity x", "x"),
    ("a Reshape x s Tshape=int32", "x"),
    ("a Squeeze x", "x"),
    ("a StopGradient x", "x"),
    ("a Relu x", "a"),
    ("a Shape x", "a"),
    ("a Cast x SrcT=float32 DstT=float16", "a"),
    ("a Switch x p;b Relu a:1;c Merge a b", "b"),  # what a branch computes
    ("a Switch x p;c Merge a a:1", "x"),  # both pass it through
    ("e Enter x;m Merge e n;w Switch m p;a Relu w:1;n NextIteration a;c Exit w", "a"),  # what the last iteration left
    ("e Enter x;m Merge e n;w Switch m p;a Identity w:1;n NextIteration a;c Exit w", "x"),  # no iteration changes it
    ("v VariableV2 dtype=float32;a Identity v", "v"),
    ("v VarHandleOp dtype=float32;a ReadVariableOp v dtype=float32", "v"),
    ("v VariableV2 dtype=float32;a Assign v x", "v"),
    ("k StackV2 elem_type=float32;a StackPushV2 k x;b StackPopV2 k elem_type=float32", "x"),
)


@pytest.mark.parametrize("lines, maker", ALIASES, ids=[lines for lines, _ in ALIASES])
def test_aliases(lines, maker):
    lines = [line + " T=float32" if line.split()[1] not in ("VariableV2", "VarHandleOp", "StackV2") else line for line in lines.split(";")]
    graph_def = tiny.meta_graph("x Placeholder dtype=float32", "s Placeholder dtype=int32", "p Placeholder dtype=bool", *lines).graph_def
    for node in graph_def.node:
        if node.op == "Merge":
            node.attr["N"].i = 2
    meta_graph = tf.MetaGraphDef(graph_def=graph_def)
    graph = TypedGraph(graph_def, OpDefs(meta_graph))
    last = lines[-1].split()[0]
    assert Aliases(graph, Sizes(graph, recorded(graph_def))).maker(Port(last, 0)).node == maker


def test_gradient_code_that_depends_on_no_gradient_runs_with_the_forward_pass():
    """The comparison of a Maximum's gradient is kept, a bool each, and not what it compares."""

    def build():
        x, w = tf.placeholder(tf.float32, [8, 16]), tf.get_variable("w", [16, 16])
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.maximum(tf.matmul(x, w, name="left"), tf.matmul(x, w, name="right"))))

    before, _ = before_and_after(build)
    assert not {"left", "right"} & set(sizes_of(before.activations))
    assert 8 * 16 in sizes_of(before.integers).values()


def test_a_conversion_keeps_both_where_gradients_read_both():
    """A square computes in float32 and a matmul in half: gradients want the tensor in both."""

    def build():
        x, w, u = tf.placeholder(tf.float32, [8, 16]), tf.get_variable("w", [16, 16]), tf.get_variable("u", [16, 16])
        h = tf.nn.relu(tf.matmul(x, w), name="h")
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.matmul(h, u)) + tf.reduce_mean(tf.square(h)))

    before, after = before_and_after(build)
    assert sizes_of(before.activations) == {"h": 512}
    kept = {name: size for name, size in sizes_of(after.activations).items() if name.startswith("h")}
    assert kept == {"h": 256, "h_graphmp_float32": 512}
    wide = next(tensor for tensor in after.activations.tensors if tensor.tensor == "h_graphmp_float32")
    assert wide.reason.startswith("a cast for a reader that is float32: ")


RANDOM_OPS = {"Relu": 1, "MatMul": 2, "Add": 2, "Identity": 1}  # op: how many tensors it reads


@st.composite
def computations(draw):
    """Lines of a graph and a size for each node: every node reads earlier ones."""
    lines, sizes = ["n0 Placeholder dtype=float32", "n1 Placeholder dtype=float32"], [7, 3]
    for number in range(2, draw(st.integers(3, 12))):
        op = draw(st.sampled_from(["Relu", "MatMul", "Add", "Identity"]))
        inputs = draw(st.lists(st.integers(0, number - 1), min_size=RANDOM_OPS[op], max_size=RANDOM_OPS[op]))
        after = ["^n%d" % draw(st.integers(0, number - 1))] if draw(st.booleans()) else []
        lines.append(" ".join(["n%d" % number, op, *("n%d" % each for each in inputs), *after, "T=float32"]))
        sizes.append(sizes[inputs[0]] if op == "Identity" else draw(st.sampled_from([1, 2, 3, 7])))
    return lines, sizes


def with_sizes(lines, sizes, order=None):
    graph = tiny.meta_graph(*lines, order=order)
    for node in graph.graph_def.node:
        node.attr["_output_shapes"].list.shape.add().dim.add(size=sizes[int(node.name[1:])])
    return graph


def simulated_peak(view, order, sizes):
    """Runs the nodes one after the other, with a count of who still needs each buffer."""
    buffer, needed_by = {}, {}
    for name in order:
        reads = [buffer[port.node] for port in view.inputs(name)]
        buffer[name] = reads[0] if view.nodes[name].op == "Identity" else name
        for each in {*reads, buffer[name]}:
            needed_by.setdefault(each, set()).add(name)
    alive, peak = set(), 0
    for name in order:
        op = view.nodes[name].op
        reads = [buffer[port.node] for port in view.inputs(name)]
        if op not in ("Identity", "Placeholder"):
            alive.add(name)
        if op in ("Relu", "Add"):
            ending = [each for each in reads if each in alive and needed_by[each] == {name} and sizes[each] == sizes[name]]
            alive -= set(ending[:1])
        peak = max(peak, sum(sizes[each] for each in alive))
        for each in {*reads, buffer[name]}:
            needed_by[each].discard(name)
            if not needed_by[each]:
                alive.discard(each)
    return peak


@settings(deadline=None, max_examples=60)
@given(computations(), st.randoms(use_true_random=False))
def test_the_peak_is_that_of_a_simulation(computation, random):
    lines, sizes = computation
    graph = with_sizes(lines, sizes)
    view = GraphView(graph.graph_def)
    found = memory(graph, find_training(graph, CONFIG), recorded(graph.graph_def))
    order = in_order(view, view.nodes.keys())
    assert found.peak.bytes == simulated_peak(view, order, {"n%d" % number: 4 * size for number, size in enumerate(sizes)})
    assert sum(tensor.bytes for tensor in found.peak.tensors) == found.peak.bytes
    places = {name: place for place, name in enumerate(order)}
    assert all(places[other] < places[name] for name in order for other in [*(p.node for p in view.inputs(name)), *view.controls(name)])
    shuffled = random.sample(range(len(lines)), len(lines))
    assert in_order(GraphView(with_sizes(lines, sizes, shuffled).graph_def), view.nodes.keys()) == order


def test_a_batch_size_is_followed_through_the_graph():
    """A dimension that TensorFlow works out from the batch size is not the batch size."""

    def build():
        x, w = tf.placeholder(tf.float32, [None, 7, 4], name="x"), tf.get_variable("w", [4, 4])
        h = tf.tanh(tf.matmul(tf.reshape(x, [-1, 4]), w), name="h")
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(h)))

    graph = built(build)
    sizes = [sizes_of(compare(graph, CONFIG, POLICY, batch_size).comparison.original.activations)["h"] for batch_size in (0, 10, 20)]
    assert sizes == [32 * 4 * 4, 70 * 4 * 4, 140 * 4 * 4]


def test_tensors_alike_are_one_row():
    def build():
        x = tf.placeholder(tf.float32, [8, 16])
        for number in range(3):
            x = tf.nn.relu(tf.matmul(x, tf.get_variable("w%d" % number, [16, 16])), name="h%d" % number)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(x))

    before, _ = before_and_after(build)
    (tensor, count), *_ = grouped(before.activations.tensors, "dtype", "shape", "reason")
    assert (tensor.tensor, tensor.bytes, count) == ("h0", 3 * 512, 3)


# --- the command ---


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder: a training graph, its conversion, a graph that only infers."""
    graph = built(lambda: dense(None))
    (tmp_path / "model.meta").write_bytes(serialize(graph))
    (tmp_path / "converted.meta").write_bytes(serialize(rewrite(graph, CONFIG, POLICY).meta_graph))
    net = tiny.meta_graph("x Placeholder dtype=float32", "w Const", "y MatMul x w T=float32", w=np.eye(3, dtype=np.float32))
    (tmp_path / "net.meta").write_bytes(serialize(net))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys, *argv, status=0):
    assert run_command(["graphmp", "inspect", *argv]) == status
    return capsys.readouterr()


def test_text(folder, capsys):
    out, err = printed(capsys, "model.meta", "--memory")
    lines = out.splitlines()
    assert err == ""
    counted = "unknown dimensions count as 32 (--batch_size=N: as N), a while loop as 32 iterations where the graph names no number"
    assert lines[0] == "model.meta   by static shapes; " + counted
    assert lines[2:4] == ["memory of a step", " " * 42 + "original  float16"]
    table = {line[2:40].strip(): line[40:].split() for line in lines[4:] if line.startswith("  ")}
    assert table["activations kept for the backward pass"] == ["2.18", "kB", "1.92", "kB", "88%"]
    assert table["optimizer slots"] == ["832", "B", "832", "B", "100%"]
    assert "kept for the backward pass (float16): 1.92 kB, the largest" in lines
    assert any(line.startswith("      float32: infer: ") for line in lines)
    assert any(line.startswith("alive at the peak, when ") for line in lines)
    assert (
        lines[-1] == "next         graphmp convert model.meta, or: graphmp explain model.meta off, or: graphmp inspect model.meta --memory --measure"
    )


def test_json(folder, capsys):
    out = printed(capsys, "model.meta", "--memory", "--json", "--batch_size=8").out
    value = json.loads(out)
    assert json.dumps(value, indent=1, sort_keys=True) + "\n" == out
    assert (value["schema"], value["source"], value["unknown"], value["inferred"]) == ("graphmp.memory/1", "model.meta", 8, True)
    assert value["original"]["activations"]["bytes"] == 548 and value["converted"]["activations"]["bytes"] == 484  # and the mean's divisor
    assert set(value["converted"]["activations"]["tensors"][0]) == {"tensor", "op", "dtype", "shape", "bytes", "reader", "reason"}
    assert value["measured"] is None and value["error"] == ""


def test_a_converted_graph_is_shown_alone(folder, capsys):
    out = printed(capsys, "converted.meta", "--memory").out
    assert "GMP108 this graph was converted with the same flags" in out and "(as it is)" in out
    value = json.loads(printed(capsys, "converted.meta", "--memory", "--json").out)
    beside = json.loads(printed(capsys, "model.meta", "--memory", "--json").out)["converted"]
    assert value["converted"] is None and value["original"]["activations"]["bytes"] == beside["activations"]["bytes"]
    assert value["original"]["peak"]["bytes"] == beside["peak"]["bytes"]


def test_a_graph_without_training_has_a_peak_alone(folder, capsys):
    out = printed(capsys, "net.meta", "--memory").out
    assert "no training step was found" in out and "kept for the backward pass" not in out.split("memory of a step")[1]
    assert json.loads(printed(capsys, "net.meta", "--memory", "--json").out)["original"]["peak"]["node"] == "y"


@pytest.mark.parametrize(
    "argv, message",
    [
        (["model.meta", "--memory", "--batch_size=-1"], "GMP002: --batch_size=-1: accepted are numbers above zero"),
        (["model.meta", "--measure"], "GMP002: --measure: accepted together with --memory alone"),
        (["model.meta", "--batch_size=8"], "GMP002: --batch_size: accepted together with --memory or --wire alone"),
        (["model.meta", "--memory", "--wire"], "GMP002: --cost, --memory and --wire: accepted is one of them"),
        (["gone.meta", "--memory"], "GMP003: gone.meta"),
    ],
)
def test_trouble_is_one_line_and_2(folder, capsys, argv, message):
    out, err = printed(capsys, *argv, status=2)
    assert out == "" and err.startswith("graphmp: error " + message) and err.count("\n") == 1


# --- what TensorFlow's traces say ---


def test_measured_beside_static(folder, capsys):
    value = json.loads(printed(capsys, "model.meta", "--memory", "--measure", "--json", "--batch_size=512").out)
    measured = value["measured"]
    assert measured["error"] == ""
    for name in ("original", "converted"):
        (peak,), (with_scratch,) = measured[name]["tensors"].values(), measured[name]["allocated"].values()
        assert 0.8 < peak / value[name]["peak"]["bytes"] < 1.25
        assert with_scratch >= peak
    text = printed(capsys, "model.meta", "--memory", "--measure").out
    assert "peak measured, " in text


def test_a_graph_that_does_not_run_says_so():
    def build():
        x, w = tf.placeholder(tf.float32, [None, 4]), tf.get_variable("w", [4])
        with tf.control_dependencies([tf.assert_negative(tf.shape(x))]):
            tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(w * x)))

    found = measure(built(build), None, CONFIG, 8)
    assert found.original is None and found.converted is None and "runs with none of" in found.error


def test_peak_of_a_trace():
    metadata = tf.RunMetadata()
    device = metadata.step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:CPU:0")
    for name, records in (("a", [(10, 100), (40, -100)]), ("b", [(20, 50), (21, -50)]), ("c", [(21, 70), (50, -70)])):
        memory_used = device.node_stats.add(node_name=name).memory.add(allocator_name="cpu")
        for micros, size in records:
            memory_used.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    beside = metadata.step_stats.dev_stats.add(device="/host:CPU").node_stats.add(node_name="a:Op").memory.add(allocator_name="cpu")
    beside.allocation_records.add(alloc_micros=10, alloc_bytes=1000)
    assert peak_bytes(metadata) == {"cpu": 220}
    assert peak_bytes(tf.RunMetadata()) == {}


def test_scratch_memory_of_a_trace_can_be_left_out():
    metadata = tf.RunMetadata()
    device = metadata.step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:GPU:0")
    memory_used = device.node_stats.add(node_name="a").memory.add(allocator_name="GPU_0_bfc", total_bytes=570, live_bytes=70)
    for micros, size in ((10, 70), (11, 300), (12, 200), (20, -300), (21, -200), (50, -70)):
        memory_used.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    assert peak_bytes(metadata) == {"GPU_0_bfc": 570}
    assert peak_bytes(metadata, scratch=False) == {"GPU_0_bfc": 70}


def test_seconds_of_a_trace():
    metadata = tf.RunMetadata()
    cpu = metadata.step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:CPU:0")
    cpu.node_stats.add(node_name="x", timeline_label="[cpu 1MB] x = MatMul(a, b)", op_start_rel_nanos=1000, op_end_rel_nanos=3000)
    cpu.node_stats.add(node_name="y", timeline_label="y = MatMul(a, b)", op_start_rel_micros=1, op_end_rel_micros=5)
    gpu = metadata.step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:GPU:0")
    gpu.node_stats.add(node_name="z", timeline_label="z = Relu(x)", op_end_rel_micros=900)  # its launch
    stream = metadata.step_stats.dev_stats.add(device="/device:GPU:0/stream:all")
    stream.node_stats.add(node_name="z:Relu", all_end_rel_micros=7)
    found = seconds_by_op(metadata)
    assert list(found) == ["Relu", "MatMul"]
    assert found == pytest.approx({"Relu": 7e-6, "MatMul": 6e-6})


def test_a_real_trace():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.random.uniform([256, 256], seed=1)
        y = tf.matmul(x, x)
        metadata = tf.RunMetadata()
        session.run(y.op, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    (peak,) = peak_bytes(metadata).values()
    assert 2 * 256 * 256 * 4 <= peak < 4 * 256 * 256 * 4
    assert any("MatMul" in op and seconds > 0 for op, seconds in seconds_by_op(metadata).items())
