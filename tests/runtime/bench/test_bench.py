"""Benches: statistics of timings, shares of a step, causes, memory, batches, and graphs that take turns."""

from __future__ import annotations

import json
import math
import signal

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from scipy import stats

import graphmp
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.messages import serialize
from graphmp.performance import text
from graphmp.performance.bench import FAILED, FLOAT32, GRAPHMP, OUT_OF_MEMORY, TENSORFLOW, TIMED, Bench, Input, Memory, Run
from graphmp.performance.causes import CASTS, FEW_PRODUCTS, IDLE, INPUT, KERNELS, SCALING, SHAPES, Measured, causes
from graphmp.performance.device import Device, accumulation, limits
from graphmp.performance.shares import Shares, is_product, shares
from graphmp.performance.timings import Ratio, order, speedup, spread
from graphmp.runtime.bench import accumulation as sums
from graphmp.runtime.bench import device as devices
from graphmp.runtime.bench import feeds, graphs, memory, pipeline, processes, run, tensor_cores, turns
from graphmp.runtime.bench.child import Child
from graphmp.runtime.bench.options import Options
from graphmp.runtime.bench.processes import Process, Starter, Trouble, death
from graphmp.runtime.bench.session import TrainingSession
from tests.support.benches import Local
from tests.support.classifiers import classifier

TF1 = tf.__version__ < "2"
CPU = Device("CPU with AMX_BF16", (), True)
PLAIN_CPU = Device("CPU without bfloat16 instructions")
GPU = Device("A100", (8, 0))
ROUNDS = [[0.01, 0.012, 0.011], [0.02, 0.021, 0.02], [0.01, 0.01, 0.03]]


@pytest.fixture
def local(monkeypatch):
    monkeypatch.setattr(run, "Process", Local)


@pytest.fixture(scope="module")
def conversion():
    return graphmp.convert(classifier())


def benched(conversion, device=CPU, **options):
    return run.bench(conversion, device, Options(**dict(dict(steps=2, warmup=1, rounds=2, batch_sizes=(4, 8)), **options)), {})


@pytest.fixture
def original(tmp_path):
    """Makes a session of a graph's original."""
    opened = []

    def make(meta_graph, **options):
        found = graphmp.convert(meta_graph, **options)
        opened.append(TrainingSession(graphs.make(found, tmp_path).trainings[FLOAT32]))
        return opened[-1]

    yield make
    for session in opened:
        session.close()


# -- statistics ----------------------------------------------------------------------------------------------------------


def test_spread_is_that_of_all_steps():
    steps = np.concatenate(ROUNDS)
    assert spread(ROUNDS) == pytest.approx((np.median(steps), *np.percentile(steps, [25, 75]), steps.min(), steps.max()))


def test_speedup_is_paired_by_rounds():
    fast = [[second / factor for second in steps] for steps, factor in zip(ROUNDS, (1.5, 1.6, 1.8))]
    logs = np.log([1.5, 1.6, 1.8])
    low, high = stats.t.interval(0.95, 2, loc=logs.mean(), scale=stats.sem(logs))
    assert speedup(ROUNDS, fast) == pytest.approx((stats.gmean([1.5, 1.6, 1.8]), math.exp(low), math.exp(high)))
    assert speedup(ROUNDS, fast).shows_a_difference
    assert not speedup(ROUNDS, ROUNDS).shows_a_difference


def test_a_slow_round_for_all_changes_no_speedup():
    slow = [[10 * second for second in steps] for steps in ROUNDS[:1]] + ROUNDS[1:]
    halved = [[second / 2 for second in steps] for steps in slow]
    assert speedup(slow, halved) == pytest.approx((2.0, 2.0, 2.0))


def test_one_round_has_no_interval():
    ratio = speedup(ROUNDS[:1], [[0.005, 0.0055, 0.006]])
    assert ratio == (pytest.approx(2.0), None, None) and not ratio.shows_a_difference


def test_each_variant_begins_equally_often():
    assert [order("abc", number) for number in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]
    assert order(["one"], 3) == ["one"]


# -- shares and causes ---------------------------------------------------------------------------------------------------


def metadata(nodes, device="/job:localhost/replica:0/task:0/device:CPU:0"):
    """A trace: (node, op, microseconds)."""
    found = tf.RunMetadata()
    stats_of_device = found.step_stats.dev_stats.add(device=device)
    for name, op, micros in nodes:
        stats_of_device.node_stats.add(
            node_name=name, timeline_label="%s = %s(a, b)" % (name, op), op_end_rel_micros=micros, all_end_rel_micros=micros
        )
    return found


def test_shares_of_a_step():
    meta_graph = classifier(batch=3)
    trace = metadata(
        [("MatMul", "_FusedMatMul", 40), ("c", "Cast", 10), ("graphmp/loss_scale/x", "Mul", 5), ("graphmp/c", "Cast", 5), ("r", "Relu", 40)]
    )
    found = shares(trace, meta_graph.graph_def)
    assert found == pytest.approx(Shares(100e-6, 40e-6, 15e-6, 5e-6, 40e-6, 0.0))  # 3 examples are no multiple of 8
    assert found.share("casts") == pytest.approx(0.15) and Shares().share("casts") == 0


def test_kernels_on_a_gpu_are_those_of_its_streams():
    trace = metadata([("MatMul", "MatMul", 7)])
    gpu = "/job:localhost/replica:0/task:0/device:GPU:0"
    trace.MergeFrom(metadata([("MatMul", "MatMul", 1)], gpu))
    stream = trace.step_stats.dev_stats.add(device="/device:GPU:0/stream:all")
    stream.node_stats.add(node_name="MatMul:MatMul", timeline_label="volta_fp16_s884gemm", op_end_rel_micros=50, all_end_rel_micros=50)
    found = shares(trace, classifier(batch=3).graph_def)
    assert found.gpu == pytest.approx(50e-6) and found.misfits == pytest.approx(57e-6)


@pytest.mark.parametrize(
    "op, expected",
    [
        ("MatMul", True), ("_FusedMatMul", True), ("_MklMatMul", True), ("Einsum", True),
        ("_MklNativeFusedConv2D", True), ("_MklNativeConv2DBackpropFilterWithBias", True),
        ("Conv2DBackpropInput", True), ("BatchMatMulV3", True), ("_MklFusedBatchMatMulV2", True), ("Relu", False), ("_FusedBatchNormEx", False),
        ("MatMulOfMine", False), ("Cast", False), ("_SOURCE", False),
    ],
)  # fmt: skip
def test_products_are_known_whatever_tensorflow_makes_of_them(op, expected):
    assert is_product(op) is expected


FAST = Shares(total=0.010, products=0.009)
STEP = Measured(0.010, "float16", FAST, FAST._replace(products=0.004, total=0.005), None, False)


@pytest.mark.parametrize(
    "changes, kinds",
    [
        (dict(), []),
        (dict(waiting=0.0), []),
        (dict(waiting=0.0001), []),
        (dict(waiting=0.010), [(INPUT, 0.5)]),
        (dict(on_gpu=True), []),
        (dict(on_gpu=True, converted=STEP.converted._replace(gpu=0.003)), [(IDLE, 0.7)]),
        (dict(on_gpu=True, converted=STEP.converted._replace(gpu=0.0099)), []),
        (dict(converted=Shares(0.0125, 0.010)), [(KERNELS, 0.8)]),
        (dict(float32=Shares(0.010, 0.004)), [(KERNELS, 0.8), (FEW_PRODUCTS, 0.6)]),
        (dict(float32=Shares(0.010, 0.0), converted=Shares(0.010, 0.0)), [(FEW_PRODUCTS, 1.0)]),
        (dict(converted=Shares(0.005, 0.004, casts=0.001)), [(CASTS, 0.2)]),
        (dict(converted=Shares(0.005, 0.004, casts=0.001), float32=FAST._replace(casts=0.001)), []),
        (dict(converted=Shares(0.005, 0.004, scaling=0.0005)), [(SCALING, 0.1)]),
        (dict(converted=Shares(0.005, 0.004, misfits=0.002)), []),
        (dict(on_gpu=True, converted=Shares(0.005, 0.004, misfits=0.002, gpu=0.010)), [(SHAPES, 0.4)]),
        (dict(waiting=0.030, converted=Shares(0.005, 0.002, 0.001, 0.002)), [(INPUT, 0.75), (SCALING, 0.4), (CASTS, 0.2)]),
    ],
)
def test_causes_by_what_they_cost(changes, kinds):
    found = causes(STEP._replace(**changes))
    assert [(cause.kind, pytest.approx(cause.share)) for cause in found] == kinds


def test_causes_have_their_numbers():
    (found,) = causes(STEP._replace(float32=Shares(0.020, 0.010)))
    assert found.text == "matmuls and convolutions are 50% of the float32 kernels' time; were they free, a step would be 2.00 times as fast"
    (found,) = causes(STEP._replace(converted=Shares(0.0125, 0.010)))
    assert found.text == "matmuls and convolutions take 10 ms in float16, 9 ms in float32"
    (found,) = causes(STEP._replace(waiting=0.010))
    assert found.text.startswith("10 ms for data, 10 ms computing")


# -- devices -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device, dtype, words",
    [
        (CPU, "bfloat16", ""),
        (CPU, "float16", "float16 is emulated on a CPU: these times say nothing about a GPU; --compute_dtype=bfloat16 is fast here"),
        (PLAIN_CPU, "float16", "float16 is emulated on a CPU: these times say nothing about a GPU"),
        (PLAIN_CPU, "bfloat16", "no bfloat16 in hardware"),
        (GPU, "bfloat16", ""),
        (GPU, "float16", ""),
        (Device("V100", (7, 0)), "float16", ""),
        (Device("V100", (7, 0)), "bfloat16", "below compute capability 8.0"),
        (Device("P100", (6, 0)), "float16", "below compute capability 7.0 has no Tensor Cores: half precision saves memory there, hardly time"),
        (CPU, "float32", "nothing is in half precision"),
    ],
)
def test_where_times_say_little(device, dtype, words):
    found = limits(device, dtype)
    assert len(found) == bool(words) and words in "".join(found)


def test_what_is_fast_is_the_default_dtype():
    assert [device.default_dtype for device in (CPU, PLAIN_CPU, GPU, Device("P100", (6, 0)))] == ["bfloat16", "float16", "float16", "float16"]


@pytest.mark.parametrize("flags, name", [(("avx512_bf16", "amx_bf16", "avx2"), "AMX_BF16 and AVX512_BF16"), (("avx512_bf16",), "AVX512_BF16")])
def test_a_cpu_by_its_flags(monkeypatch, flags, name):
    monkeypatch.setattr(devices, "cpu_flags", lambda: frozenset(flags))
    found = devices.find()
    assert found == Device("CPU with " + name, (), not TF1)  # 1.15.5's CPU has no bfloat16 convolutions
    assert found.default_dtype == ("float16" if TF1 else "bfloat16")


@pytest.mark.parametrize("flags", [None, frozenset(("avx2",))])
def test_a_cpu_without_bfloat16(monkeypatch, flags):
    monkeypatch.setattr(devices, "cpu_flags", lambda: flags)
    assert devices.find() == PLAIN_CPU


def test_a_gpu_by_its_description(monkeypatch):
    described = "device: 0, name: NVIDIA A100, pci bus id: 0000:00:04.0, compute capability: 8.0"
    monkeypatch.setattr(tf.config.experimental, "list_physical_devices", lambda kind: ["GPU:0"])
    monkeypatch.setattr(devices, "ask_tensorflow", lambda: ({"gpus": [described]}, ""))
    assert devices.find() == Device("NVIDIA A100", (8, 0)) and devices.find().on_gpu
    monkeypatch.setattr(devices, "ask_tensorflow", lambda: ({}, "it failed"))
    assert devices.find().on_gpu and devices.find().capability < (7, 0)


def test_sums_by_their_errors():
    assert accumulation({"matmul": 0.8, "convolution": None}, "float16") == {"matmul": "float32", "convolution": None}
    assert accumulation({"matmul": 32.0, "convolution": 2.0}, "bfloat16") == {"matmul": "bfloat16", "convolution": "float32"}


def test_sums_are_measured():
    found = sums.errors("float16")
    assert sorted(found) == ["convolution", "matmul"] and all(value is None or value > 0.4 for value in found.values())
    if TF1:
        assert found["matmul"] > 10  # 1.15.5's CPU adds up in float16


@pytest.mark.parametrize(
    "device, environment, words",
    [
        (
            CPU,
            {"A": None},
            "float16 matmuls add up in float32, convolutions add up in nothing: there is no kernel, as measured; A are for float16 on a GPU",
        ),
        (GPU, {"A": None, "B": "0"}, "as measured; A is not set, B is 0; TensorFlow's default is 1, float32"),
    ],
)
def test_sums_in_words(device, environment, words):
    found = a_bench(device=device, compute_dtype="float16", accumulation={"matmul": "float32", "convolution": None}, environment=environment)
    assert text.sums(found).endswith(words)
    assert text.sums(a_bench(accumulation={})) == ""


# -- the result ----------------------------------------------------------------------------------------------------------

MEMORY = Memory(10**6, "run metadata", 10**8)


def timed(variant, size, factor=1.0, parts=FAST, **changes):
    """A run that is so many times as fast as float32."""
    rounds = [[second / factor for second in steps] for steps in ROUNDS]
    return Run(**dict(dict(variant=variant, batch_size=size, status=TIMED, rounds=rounds, memory=MEMORY, shares=parts), **changes))


def a_bench(*runs, **changes):
    """A bench with such runs."""
    fields = dict(source="model.meta", compute_dtype="bfloat16", tensorflow="2.21.0", device=CPU, data="random, seed 0", runs=runs, input=Input())
    fields.update(steps=3, warmup=1, rounds=3, seed=0, memory_limit=0, variants=dict.fromkeys((FLOAT32, GRAPHMP, TENSORFLOW), ""))
    return Bench(**dict(dict(fields, accumulation={}, environment={}, notes=[]), **changes))


OUT = Run(FLOAT32, 64, OUT_OF_MEMORY, "OOM when allocating")


def test_batch_sizes_that_only_the_conversion_runs():
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32), OUT, timed(GRAPHMP, 64), Run(FLOAT32, 128, OUT_OF_MEMORY))
    assert found.only_converted == [64]
    assert text.memory_lines(found) == ["batch size 64: float32 runs out of memory, the converted graph runs"]
    assert found.speedup(found.run(GRAPHMP, 64)) is None and found.run(FLOAT32, 64).spread is None
    assert a_bench(OUT, Run(GRAPHMP, 64, OUT_OF_MEMORY)).only_converted == []


def test_speedup_against_float32_of_the_same_batch_size():
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5), timed(FLOAT32, 64, 4), timed(GRAPHMP, 64, 2))
    assert [found.speedup(each) and found.speedup(each).value for each in found.runs] == [None, pytest.approx(1.5), None, pytest.approx(0.5)]
    assert found.batch_sizes == [32, 64]


def test_causes_only_where_it_is_hardly_faster():
    slow = FAST._replace(casts=0.004)
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5, slow), timed(FLOAT32, 64), timed(GRAPHMP, 64, 1.1, slow))
    assert found.causes(32) is None and [cause.kind for cause in found.causes(64)] == [KERNELS, CASTS]
    assert text.cause_lines(found, 64)[1] == " 40%  casts: casts take 4 ms more than in float32, of 10 ms in kernels"
    assert text.cause_lines(found, 32) == []


def test_waiting_for_input_is_a_cause():
    runs = timed(FLOAT32, 32), timed(GRAPHMP, 32)
    given = a_bench(*runs, input=Input(seconds_a_batch=1.0)).causes(32)
    assert given[0].kind == INPUT and given[0].share > 0.9
    own = a_bench(*runs, input=Input(waiting=0.5)).causes(32)
    assert own[0].kind == KERNELS and (own[1].kind, own[1].share) == (INPUT, pytest.approx(0.5))


def test_remarks_say_where_no_difference_is_shown():
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5), timed(FLOAT32, 64), timed(GRAPHMP, 64), notes=["a note"])
    assert found.remarks == ["a note", "batch size 64: the interval includes 1, so no difference is shown; more --rounds or --steps narrow it"]
    single = a_bench(timed(FLOAT32, 32, rounds=ROUNDS[:1]), timed(GRAPHMP, 32, rounds=ROUNDS[:1]))
    assert single.remarks == ["batch size 32: a single round says nothing of the noise; take more --rounds"]


def test_json_has_what_its_docstring_says():
    found = json.loads(a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32), OUT, timed(GRAPHMP, 64)).to_json("go on"))
    assert set(found) == {
        "accumulation", "batch_sizes", "causes", "compute_dtype", "data", "device", "environment", "fixed", "flags", "input", "memory_limit", "next",
        "notes", "only_converted", "rounds", "runs", "schema", "seconds", "seed", "source", "steps", "tensorflow", "variants", "warmup",
    }  # fmt: skip
    assert (found["schema"], found["next"], found["only_converted"], found["batch_sizes"]) == ("graphmp.bench/1", "go on", [64], [32, 64])
    first, second, third, _ = found["runs"]
    assert set(first) == {
        "apart", "batch_size", "examples_per_second", "kernels", "message", "milliseconds", "peak_bytes", "peak_rss_bytes", "peak_source", "rounds",
        "speedup", "status", "variant",
    }  # fmt: skip
    assert set(first["milliseconds"]) == {"step", "median", "first_quartile", "third_quartile", "least", "most"}
    step = float(stats.gmean([0.011, 0.02, 0.01]))
    assert first["milliseconds"]["median"] == pytest.approx(12.0) and first["milliseconds"]["step"] == pytest.approx(1000 * step)
    assert first["examples_per_second"] == pytest.approx(32 / step)
    assert first["speedup"] is None and second["speedup"] == {"value": pytest.approx(1.0), "low": pytest.approx(1.0), "high": pytest.approx(1.0)}
    assert (third["status"], third["milliseconds"], third["rounds"]) == ("out of memory", None, [])
    assert found["causes"]["32"][0]["kind"] == KERNELS


WILD = [[0.001], [0.02], [0.001]]
SLOW, OTHER = FAST._replace(casts=0.005, products=0.001), FAST._replace(products=0.004)


@pytest.mark.parametrize(
    "runs, changes, expected",
    [
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5)], {}, "graphmp convert model.meta --compute_dtype=bfloat16"),
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32, rounds=WILD)], {}, "graphmp bench model.meta --rounds=12"),
        ([OUT, timed(GRAPHMP, 64)], {}, "graphmp convert model.meta --compute_dtype=bfloat16"),
        ([OUT, Run(GRAPHMP, 64, OUT_OF_MEMORY)], {}, "smaller --batch_sizes"),
        ([timed(FLOAT32, 32), Run(GRAPHMP, 32, FAILED, "no kernel")], {}, "graphmp audit model.meta --random_data"),
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32)], {}, "graphmp bench model.meta --rounds=12, for intervals that tell more"),
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1)], {}, "graphmp doctor says what this machine computes fast"),
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1, FAST._replace(products=0.004))], {}, "graphmp inspect model.meta"),
        (
            [timed(FLOAT32, 32, parts=OTHER), timed(GRAPHMP, 32, 1.1, OTHER._replace(products=0.001))],
            {},
            "larger --batch_sizes, or: graphmp inspect model",
        ),
        ([timed(FLOAT32, 32, parts=OTHER), timed(GRAPHMP, 32, 1.1, OTHER._replace(products=0.001))], dict(fixed=True), "graphmp inspect model.meta"),
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1, SLOW)], {}, "graphmp inspect model.meta, which lists what keeps the casts"),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32)],
            dict(compute_dtype="float16"),
            "run this on a GPU of compute capability 7.0 or later, or: graphmp bench",
        ),
        (
            [timed(FLOAT32, 32), timed(GRAPHMP, 32)],
            dict(compute_dtype="float16", device=PLAIN_CPU),
            "run this on a GPU of compute capability 7.0 or later",
        ),
        ([timed(FLOAT32, 32), timed(GRAPHMP, 32, 0.9)], dict(input=Input(1.0)), "make the input faster, then run this again"),
    ],
)
def test_what_to_do_next(runs, changes, expected):
    assert text.next_step(a_bench(*runs, **changes), True).startswith(expected)


def test_a_python_file_is_converted_before_it_is_inspected():
    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.1, SLOW), source="model.py")
    assert text.next_step(found, False).startswith("graphmp convert model.py, and graphmp inspect its original.meta")


@pytest.mark.parametrize("form, start", [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_pictures(form, start):
    pytest.importorskip("matplotlib")
    from graphmp.performance import plot

    found = a_bench(timed(FLOAT32, 32), timed(GRAPHMP, 32, 1.5), timed(TENSORFLOW, 32, 1.4), OUT, timed(GRAPHMP, 64), Run(TENSORFLOW, 64, FAILED))
    drawn = plot.render(found, form)
    assert drawn.startswith(start)
    if form == "svg":
        assert drawn.decode().count("<!-- out of memory -->") == 3 and "<!-- graphmp bfloat16 -->" in drawn.decode()


# -- graphs and batches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "device, expected",
    [
        ("", ""), ("/job:ps/replica:0/task:1/device:CPU:0", "/device:CPU:0"), ("/gpu:3", "/device:GPU:3"), ("/job:worker/task:2", ""),
        ("/device:GPU:1", "/device:GPU:1"), ("/job:w/device:TPU:0", ""),
    ],
)  # fmt: skip
def test_devices_of_this_machine(device, expected):
    assert graphs.local_device(device) == expected


def test_all_variants_train_the_same_updates(conversion, tmp_path):
    found = graphs.make(conversion, tmp_path)
    ours = set(found.trainings[GRAPHMP].targets)
    assert ours - set(found.trainings[FLOAT32].targets) == {"graphmp/loss_scale/update/step"}
    if TF1:
        assert "1.15" in found.missing[TENSORFLOW] and TENSORFLOW not in found.trainings
    else:
        assert found.missing == {TENSORFLOW: ""} and found.trainings[TENSORFLOW].targets == found.trainings[FLOAT32].targets


@pytest.mark.skipif(TF1, reason="TensorFlow's own pass can be called ahead of time on TensorFlow 2 only")
def test_a_pass_that_fails_is_named(conversion, tmp_path, monkeypatch):
    monkeypatch.setattr(graphs.grappler, "convert", lambda *_: 1 / 0)
    assert graphs.make(conversion, tmp_path).missing == {TENSORFLOW: "its pass fails: ZeroDivisionError: division by zero"}


def test_gradients_that_are_fed_back_are_computed(tmp_path):
    with tf.Graph().as_default():
        w = tf.get_variable("w", [8, 4])
        x, fed = tf.placeholder(tf.float32, [2, 8], "x"), tf.placeholder(tf.float32, [8, 4], "fed")
        (gradient,) = tf.gradients(tf.reduce_sum(tf.square(tf.matmul(x, w))), [w])
        tf.train.GradientDescentOptimizer(0.1).apply_gradients([(fed, w)])
        found = graphmp.convert(tf.train.export_meta_graph())
    targets = graphs.make(found, tmp_path).trainings[FLOAT32].targets
    assert gradient.op.name in targets and len(targets) == 2


def test_a_graph_with_contradicted_shapes_is_imported(original):
    meta_graph = classifier(batch=4)
    (node,) = [node for node in meta_graph.graph_def.node if node.name == "MatMul"]
    shape = node.attr["_output_shapes"].list.shape.add()
    shape.dim.add(size=3), shape.dim.add(size=16)
    session = original(meta_graph)
    assert session.graph.get_tensor_by_name("MatMul:0").shape.as_list() == [4, 16]


def made(session, tmp_path, data="", sizes=(4, 8)):
    return feeds.make(session, data, sizes, 0, tmp_path)


def test_batches_of_each_size(original, tmp_path):
    found = made(original(classifier()), tmp_path)
    assert [(each.asked, each.batch_size, each.seconds) for each in found] == [(4, 4, None), (8, 8, None)]
    first, second = feeds.read(found[1].path)[:2]
    assert {name: value.shape for name, value in first.items()} == {"x:0": (8, 8), "labels:0": (8,)}
    assert not np.array_equal(first["x:0"], second["x:0"])


def test_a_graph_with_a_batch_size_of_its_own(original, tmp_path):
    assert [each.batch_size for each in made(original(classifier(batch=5)), tmp_path)] == [5]


def test_a_graph_that_insists_on_a_batch_size(original, tmp_path):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 8], "x")
        w = tf.get_variable("w", [8, 4])
        loss = tf.reduce_sum(tf.reshape(tf.matmul(x, w), [6, 4]) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        session = original(tf.train.export_meta_graph())
    assert [(each.asked, each.batch_size) for each in made(session, tmp_path)] == [(4, 6)]


def test_a_graph_that_is_fed_nothing(original, tmp_path):
    with tf.Graph().as_default():
        w = tf.get_variable("w", [8, 4])
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.matmul(tf.ones([2, 8]), w) ** 2))
        session = original(tf.train.export_meta_graph())
    assert [each.batch_size for each in made(session, tmp_path)] == [None]


def test_batches_of_data(original, tmp_path):
    session = original(classifier())
    np.savez(str(tmp_path / "data.npz"), x=np.ones((100, 8), np.float32), labels=np.zeros(100, np.int32))
    assert [each.batch_size for each in made(session, tmp_path, str(tmp_path / "data.npz"))] == [4, 8]
    (tmp_path / "given.py").write_text(
        "import time\nimport numpy as np\ndef batch(step):\n    time.sleep(0.02)\n    return {'x': np.ones((6, 8)), 'labels': np.zeros(6, int)}\n"
    )
    (given,) = made(session, tmp_path, "%s:batch" % (tmp_path / "given.py"))
    assert given.batch_size == 6 and given.seconds >= 0.02


def test_a_guess_without_memory_is_right(original, tmp_path, monkeypatch):
    session = original(classifier())

    def exhausted(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(session.session, "run", exhausted)
    assert [each.batch_size for each in made(session, tmp_path)] == [4, 8]


def with_iterator(dataset):
    """A training graph that reads a dataset."""
    with tf.Graph().as_default():
        iterator = tf.data.make_initializable_iterator(dataset())
        loss = tf.reduce_sum(tf.matmul(iterator.get_next(), tf.get_variable("w", [8, 4])) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        return tf.train.export_meta_graph()


def test_waiting_for_the_graphs_own_pipeline_is_measured(original, tmp_path):
    session = original(with_iterator(lambda: tf.data.Dataset.from_tensors(np.ones((5, 8), np.float32)).repeat()))
    (each,) = made(session, tmp_path)
    found = pipeline.measure(session, feeds.read(each.path)[0])
    assert found.message == "" and 0 <= found.waiting < 1
    assert pipeline.measure(original(classifier()), {"x:0": np.ones((4, 8)), "labels:0": np.zeros(4)}) == Input()


def test_a_pipeline_that_ends_is_a_message(original, tmp_path):
    session = original(with_iterator(lambda: tf.data.Dataset.from_tensors(np.ones((5, 8), np.float32))))
    found = pipeline.measure(session, feeds.read(made(session, tmp_path)[0].path)[0])
    assert found.waiting is None and "End of sequence" in found.message
    assert "the graph's own pipeline wasn't timed" in text.input_line(a_bench(input=found))


# -- processes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "returncode, log, limited, status, words",
    [
        (-signal.SIGKILL, "", False, OUT_OF_MEMORY, "ended by SIGKILL"),
        (-signal.SIGABRT, "terminate called after\n  what():  std::bad_alloc", False, OUT_OF_MEMORY, "ended by SIGABRT"),
        (-signal.SIGSEGV, "", True, OUT_OF_MEMORY, "ended by SIGSEGV"),
        (-signal.SIGSEGV, "Fatal: check failed\n\n", False, FAILED, "ended by SIGSEGV; it printed last: Fatal: check failed"),
        (3, "", True, FAILED, "exited with status 3; it printed last: nothing"),
    ],
)
def test_what_a_process_died_of(returncode, log, limited, status, words):
    trouble = death(returncode, log, limited)
    assert trouble.status == status and words in trouble.message


def test_answers_of_a_child(conversion, tmp_path, monkeypatch):
    child = Child(processes.spec(graphs.make(conversion, tmp_path).trainings, 0, False))

    def answer(error):
        def raises(dtype):
            raise error

        monkeypatch.setattr(child, "accumulation", raises)
        return child.answer({"order": "accumulation", "arguments": ["float16"]})

    assert answer(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating")) == {"trouble": [OUT_OF_MEMORY, "OOM when allocating"]}
    primitive = tf.errors.AbortedError(
        None, None, "Operation received an exception:Status: 1, message: could not create a primitive, in file mkl_conv_ops.cc"
    )
    assert answer(primitive)["trouble"][0] == OUT_OF_MEMORY  # oneDNN's
    assert answer(MemoryError("no room")) == {"trouble": [OUT_OF_MEMORY, "no room"]}
    assert answer(ValueError("what?")) == {"trouble": [FAILED, "what?"]}
    assert answer(GraphmpError("GMP002", "bad")) == {"error": ["GMP002", "bad", 2]}
    with pytest.raises(GraphmpError, match="GMP002: bad"):
        processes.value_of(answer(GraphmpError("GMP002", "bad")))


@pytest.mark.slow
def test_a_process_out_of_memory_is_an_answer_and_the_next_one_starts_anew(tmp_path):
    conversion = graphmp.convert(classifier(units=1024))
    trainings = graphs.make(conversion, tmp_path).trainings
    with Starter(tmp_path) as starter:
        with Process(processes.spec(trainings, 0, False), starter) as process:
            (small, large), _ = process.ask("make_batches", "", [8, 100000], 0, str(tmp_path))
        limit = 700 * 10**6  # TensorFlow itself takes 200 or 370 MB, the large batch 410 for one layer
        with Process(processes.spec(trainings, limit, False), starter) as process:
            with pytest.raises(Trouble) as caught:
                process.ask("fit", FLOAT32, large[2], 1.0)
            assert caught.value.status == OUT_OF_MEMORY
            found, parts, seconds = process.ask("fit", FLOAT32, small[2], 1.0)
            assert Memory(*found).peak > 0 and Memory(*found).rss > 10**8 and Shares(*parts).products > 0 and 0 < seconds < 10


def test_an_allocators_peak_is_taken_where_there_is_one(monkeypatch):
    assert memory.allocator_peak() is None and memory.measured(7).peak == 7 and memory.measured(7).source == "run metadata"
    monkeypatch.setattr(memory, "allocator_peak", lambda: 9)
    assert memory.measured(7)[:2] == (9, "allocator")


def test_the_process_asks_to_be_killed_first(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_SCORE", tmp_path / "score")
    memory.be_killed_first()
    assert (tmp_path / "score").read_text() == "1000"
    monkeypatch.setattr(memory, "_SCORE", tmp_path / "gone" / "score")
    memory.be_killed_first()


# -- turns ---------------------------------------------------------------------------------------------------------------


class Script:
    """A process that records what it is asked, and refuses what it is told to."""

    def __init__(self, refuses=lambda order, asked: False):
        self.asked = []
        self._refuses = refuses

    def ask(self, order, variant, *arguments):
        self.asked.append((order, variant))
        if self._refuses(order, self.asked):
            raise Trouble(OUT_OF_MEMORY, "OOM")
        return [0.001 * len(self.asked)] * 2

    def close(self):
        self.asked.append(("ended", ""))


FIT = [Run(FLOAT32, 8, TIMED), Run(GRAPHMP, 8, TIMED), Run(TENSORFLOW, 8, TIMED)]
BOTH = FIT[:2]


def test_rounds_are_interleaved():
    script, told = Script(), []
    found = turns.timed(FIT, "", script, Options(rounds=3, steps=2), 1.0, told.append)
    steps = [variant for order, variant in script.asked if order == "steps"]
    assert steps == [FLOAT32, GRAPHMP, TENSORFLOW, GRAPHMP, TENSORFLOW, FLOAT32, TENSORFLOW, FLOAT32, GRAPHMP]
    assert [order for order, _ in script.asked[:4]] == ["open"] * 3 + ["steps"] and len(told) == 4 and told[-1] == 0
    assert [len(each.rounds) for each in found] == [3] * 3 and not any(each.apart for each in found)


def test_sessions_that_do_not_fit_together_are_opened_one_by_one():
    script = Script(lambda order, asked: order == "open" and len(asked) == 2)
    found = turns.timed(BOTH, "", script, Options(rounds=2, steps=2), 1.0, lambda left: None)
    assert script.asked[2] == ("ended", "")
    assert script.asked[3:] == [(order, name) for name in (FLOAT32, GRAPHMP, GRAPHMP, FLOAT32) for order in ("open", "steps", "close")]
    assert all(each.apart and each.status == TIMED and len(each.rounds) == 2 for each in found)


def test_what_fits_alone_and_not_in_turn_is_a_result():
    found = turns.timed(BOTH, "", Script(lambda order, asked: order == "steps"), Options(), 1.0, lambda left: None)
    assert [(each.status, each.message) for each in found] == [(OUT_OF_MEMORY, "alone it runs; beside the others: OOM")] * 2


# -- the whole -----------------------------------------------------------------------------------------------------------


def test_a_bench(conversion, local):
    told = []
    options = Options(steps=2, warmup=1, rounds=2, batch_sizes=(4, 8))
    found = run.bench(conversion, CPU, options, {}, lambda what, ends: told.append((what, ends)))
    names = [FLOAT32, GRAPHMP] if TF1 else [FLOAT32, GRAPHMP, TENSORFLOW]
    assert [(each.variant, each.batch_size) for each in found.runs] == [(name, size) for size in (4, 8) for name in names]
    assert all(each.status == TIMED and [len(steps) for steps in each.rounds] == [2, 2] for each in found.runs)
    assert all(each.memory.peak > 0 and each.memory.rss > 0 and 0 < each.shares.products < each.shares.total for each in found.runs)
    assert found.run(GRAPHMP, 4).shares.casts > found.run(FLOAT32, 4).shares.casts
    whats = list(dict.fromkeys(what for what, _ in told))
    assert whats[:3] == ["TensorFlow's own rewrite", "making batches", "float32 alone at batch size 4"]
    assert whats[-2:] == ["timing at batch size 4", "timing at batch size 8"]
    assert all((ends is None) != what.startswith("timing") for what, ends in told)  # how long rounds take is known when they begin
    assert (found.steps, found.rounds, found.warmup, found.seconds) == (2, 2, 1, 0)
    assert found.compute_dtype == "float16" and found.accumulation["matmul"] and found.notes == limits(CPU, "float16")


def test_a_batch_size_without_memory_is_a_row(conversion, local, monkeypatch):
    step = TrainingSession.step

    def limited(self, batch):
        if len(batch["x:0"]) > 4 and "graphmp/loss_scale/update/step" not in self.view.nodes:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        step(self, batch)

    monkeypatch.setattr(TrainingSession, "step", limited)
    found = benched(conversion)
    assert found.only_converted == [8]
    assert [found.run(FLOAT32, size).status for size in (4, 8)] == [TIMED, OUT_OF_MEMORY]
    assert found.run(FLOAT32, 8).message == "OOM when allocating tensor" and found.speedup(found.run(GRAPHMP, 8)) is None


def test_sessions_take_turns_alone_where_there_is_no_memory_for_all(conversion, local, monkeypatch):
    opened = Child.open

    def alone(self, *arguments):
        if self._open:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        opened(self, *arguments)

    monkeypatch.setattr(Child, "open", alone)
    found = benched(conversion, batch_sizes=(4,))
    assert all(each.apart and each.status == TIMED and [len(steps) for steps in each.rounds] == [2, 2] for each in found.runs)


def test_a_conversion_that_fails_is_a_row(conversion, local, monkeypatch):
    step = TrainingSession.step

    def broken(self, batch):
        if "graphmp/loss_scale/update/step" in self.view.nodes:
            raise tf.errors.InvalidArgumentError(None, None, "no such kernel")
        step(self, batch)

    monkeypatch.setattr(TrainingSession, "step", broken)
    assert [(each.variant, each.message) for each in benched(conversion).runs if each.status == FAILED] == [(GRAPHMP, "no such kernel")] * 2


def test_an_original_that_does_not_run_is_an_error(conversion, local, monkeypatch):
    def broken(self, batch):
        raise tf.errors.InvalidArgumentError(None, None, "bad labels")

    monkeypatch.setattr(TrainingSession, "step", broken)
    with pytest.raises(GraphmpError, match="GMP024: <MetaGraphDef>: the step does not run: bad labels"):
        benched(conversion)


def test_batch_sizes_that_change_nothing_are_noted(local):
    found = benched(graphmp.convert(classifier(batch=5), compute_dtype="float32"))
    assert found.batch_sizes == [5] and found.accumulation == {}
    assert found.notes[-1] == "the batch size is 5, by the graph or its data: --batch_sizes=4,8 changes nothing"


def test_a_graph_without_training_is_an_error(local):
    with tf.Graph().as_default():
        tf.matmul(tf.placeholder(tf.float32, [2, 4]), tf.get_variable("w", [4, 4]))
        found = graphmp.convert(tf.train.export_meta_graph())
    with pytest.raises(GraphmpError, match="GMP023"):
        benched(found)


# -- Tensor Cores --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", [CPU, Device("P100", (6, 0))])
def test_tensor_cores_need_a_gpu_that_has_them(device):
    with pytest.raises(GraphmpError, match="--verify_tensor_cores: found %s; accepted is a GPU of compute capability 7.0" % device.name) as caught:
        tensor_cores.check(device)
    assert caught.value.exit_status == 2
    tensor_cores.check(Device("V100", (7, 0)))


def test_a_converted_graph_is_traced_as_it_is(conversion, tmp_path):
    path = tmp_path / "converted.meta"
    path.write_bytes(serialize(conversion.meta_graph))
    (tmp_path / "original.meta").write_bytes(serialize(conversion.original))
    assert tensor_cores.is_converted(str(path), "") and not tensor_cores.is_converted(str(tmp_path / "original.meta"), "")
    training = tensor_cores.losses(conversion.meta_graph, Config.make())
    assert {"graphmp/loss_scale/update/new_scale"} < set(training[0]["updates"])
    found = tensor_cores.traced(conversion.meta_graph, training, "converted.meta", Options(batch_sizes=(4, 8)))
    assert found.graph_def == conversion.meta_graph.graph_def
    assert shares(found.run_metadata, found.graph_def).products > 0
    with pytest.raises(GraphmpError, match="GMP023: x: no training step"):
        tensor_cores.traced(conversion.meta_graph, [], "x", Options())


def test_ratios_of_the_result_are_plain_numbers():
    assert text.ratio(Ratio(1.5, 1.25, 1.75)) == ["1.50x", "1.25-1.75"] and text.ratio(Ratio(1.5, None, None)) == ["1.50x", ""]
    assert text.ratio(None) == ["", ""] and text.batch(None) == "-" and text.batch(1024) == "1,024"
    assert [text.milliseconds(value) for value in (0.000123, 0.01234, 1.5)] == ["0.123", "12.3", "1,500"]
