"""The memory of a step against TensorFlow's own traces."""

from __future__ import annotations

import json

import pytest
import tensorflow.compat.v1 as tf

from graphmp.inspect.memory.measured import measure
from graphmp.session.steps.step_stats import peak_bytes, seconds_between, seconds_by_op
from tests.support.memory_of_steps import CONFIG, built, printed


def test_measured_beside_static(folder, capsys):
    """Of tensors that any order of the ops keeps side by side.

    What measures a first loss scale is left out: its copy of a gradient takes the gradient's place
    if the gradient's other reader has run before it, which differs from run to run.
    """
    value = json.loads(
        printed(
            capsys,
            "model.meta",
            *("--memory", "--measure", "--json", "--batch_size=512", "--loss_scale=none"),
        ).out
    )
    measured = value["measured"]
    assert measured["error"] == ""
    for name in ("original", "converted"):
        (peak,), (with_scratch,) = (
            measured[name]["tensors"].values(),
            measured[name]["allocated"].values(),
        )
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


@pytest.mark.unit
def test_peak_of_a_trace():
    metadata = tf.RunMetadata()
    device = metadata.step_stats.dev_stats.add(
        device="/job:localhost/replica:0/task:0/device:CPU:0"
    )
    for name, records in (
        ("a", [(10, 100), (40, -100)]),
        ("b", [(20, 50), (21, -50)]),
        ("c", [(21, 70), (50, -70)]),
    ):
        memory_used = device.node_stats.add(node_name=name).memory.add(allocator_name="cpu")
        for micros, size in records:
            memory_used.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    beside = (
        metadata.step_stats.dev_stats.add(device="/host:CPU")
        .node_stats.add(node_name="a:Op")
        .memory.add(allocator_name="cpu")
    )
    beside.allocation_records.add(alloc_micros=10, alloc_bytes=1000)
    assert peak_bytes(metadata) == {"cpu": 220}
    assert peak_bytes(tf.RunMetadata()) == {}


@pytest.mark.unit
def test_scratch_memory_of_a_trace_can_be_left_out():
    metadata = tf.RunMetadata()
    device = metadata.step_stats.dev_stats.add(
        device="/job:localhost/replica:0/task:0/device:GPU:0"
    )
    memory_used = device.node_stats.add(node_name="a").memory.add(
        allocator_name="GPU_0_bfc", total_bytes=570, live_bytes=70
    )
    for micros, size in ((10, 70), (11, 300), (12, 200), (20, -300), (21, -200), (50, -70)):
        memory_used.allocation_records.add(alloc_micros=micros, alloc_bytes=size)
    assert peak_bytes(metadata) == {"GPU_0_bfc": 570}
    assert peak_bytes(metadata, scratch=False) == {"GPU_0_bfc": 70}


@pytest.mark.unit
def test_seconds_of_a_trace():
    metadata = tf.RunMetadata()
    cpu = metadata.step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:CPU:0")
    cpu.node_stats.add(
        node_name="x",
        timeline_label="[cpu 1MB] x = MatMul(a, b)",
        op_start_rel_nanos=1000,
        op_end_rel_nanos=3000,
    )
    cpu.node_stats.add(
        node_name="y", timeline_label="y = MatMul(a, b)", op_start_rel_micros=1, op_end_rel_micros=5
    )
    gpu = metadata.step_stats.dev_stats.add(device="/job:localhost/replica:0/task:0/device:GPU:0")
    gpu.node_stats.add(
        node_name="z", timeline_label="z = Relu(x)", op_end_rel_micros=900
    )  # its launch
    stream = metadata.step_stats.dev_stats.add(device="/device:GPU:0/stream:all")
    stream.node_stats.add(node_name="z:Relu", all_end_rel_micros=7)
    found = seconds_by_op(metadata)
    assert list(found) == ["Relu", "MatMul"]
    assert found == pytest.approx({"Relu": 7e-6, "MatMul": 6e-6})


@pytest.mark.unit
def test_seconds_between_the_kernels_of_a_trace():
    """Two kernels of 30 and 10 microseconds in a step of 100."""
    metadata = tf.RunMetadata()
    cpu = metadata.step_stats.dev_stats.add(device="/job:a/replica:0/task:0/device:CPU:0")
    for start, kernel, whole in ((1000, 30, 40), (1080, 10, 20)):
        cpu.node_stats.add(
            node_name="a",
            all_start_micros=start,
            all_start_nanos=1000 * start,
            op_start_rel_micros=1,
            op_start_rel_nanos=1000,
            op_end_rel_micros=1 + kernel,
            op_end_rel_nanos=1000 + 1000 * kernel,
            all_end_rel_micros=whole,
            all_end_rel_nanos=1000 * whole,
        )
    assert seconds_between(metadata) == pytest.approx(60e-6)
    other = metadata.step_stats.dev_stats.add(device="/job:a/replica:0/task:0/device:GPU:0")
    other.node_stats.add(node_name="b", all_start_micros=1, all_end_rel_micros=7)
    assert seconds_between(metadata) == 0.0
    assert seconds_between(tf.RunMetadata()) == 0.0


def test_a_real_trace():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.random.uniform([256, 256], seed=1)
        y = tf.matmul(x, x)
        metadata = tf.RunMetadata()
        session.run(
            y.op, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata
        )
    (peak,) = peak_bytes(metadata).values()
    assert 2 * 256 * 256 * 4 <= peak < 4 * 256 * 256 * 4
    assert any("MatMul" in op and seconds > 0 for op, seconds in seconds_by_op(metadata).items())
