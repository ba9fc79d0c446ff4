"""Shares of a step, and the likely causes where a conversion isn't faster."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench.causes import (
    CASTS,
    FEW_PRODUCTS,
    IDLE,
    INPUT,
    KERNELS,
    SCALING,
    SHAPES,
    SLOWER,
    MeasuredStep,
    causes,
)
from graphmp.bench.kernels.shares import Shares, is_product, other_ops, shares
from tests.support.benched import FAST
from tests.support.classifiers import classifier

pytestmark = pytest.mark.unit


def metadata(nodes, device="/job:localhost/replica:0/task:0/device:CPU:0"):
    """A trace: (node, op, microseconds)."""
    found = tf.RunMetadata()
    stats_of_device = found.step_stats.dev_stats.add(device=device)
    for name, op, micros in nodes:
        stats_of_device.node_stats.add(
            node_name=name,
            timeline_label="%s = %s(a, b)" % (name, op),
            op_end_rel_micros=micros,
            all_end_rel_micros=micros,
        )
    return found


def test_shares_of_a_step():
    meta_graph = classifier(batch=3)
    trace = metadata(
        [
            ("MatMul", "_FusedMatMul", 40),
            ("c", "Cast", 10),
            ("graphmp/loss_scale/x", "Mul", 5),
            ("graphmp/c", "Cast", 5),
            ("r", "Relu", 40),
        ]
    )
    found = shares(trace, meta_graph.graph_def)
    assert found == pytest.approx(
        Shares(100e-6, 40e-6, 15e-6, 5e-6, 40e-6, 0.0)
    )  # 3 examples are no multiple of 8
    assert found.share("casts") == pytest.approx(0.15) and Shares().share("casts") == 0
    assert other_ops(trace) == {"Relu": pytest.approx(40e-6)}


def test_kernels_on_a_gpu_are_those_of_its_streams():
    trace = metadata([("MatMul", "MatMul", 7)])
    gpu = "/job:localhost/replica:0/task:0/device:GPU:0"
    trace.MergeFrom(metadata([("MatMul", "MatMul", 1)], gpu))
    stream = trace.step_stats.dev_stats.add(device="/device:GPU:0/stream:all")
    stream.node_stats.add(
        node_name="MatMul:MatMul",
        timeline_label="volta_fp16_s884gemm",
        op_end_rel_micros=50,
        all_end_rel_micros=50,
    )
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


STEP = MeasuredStep(0.010, "float16", FAST, FAST._replace(products=0.004, total=0.005), None, False)


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
        (
            dict(on_gpu=True, converted=Shares(0.005, 0.004, misfits=0.002, gpu=0.010)),
            [(SHAPES, 0.4)],
        ),
        (
            dict(waiting=0.030, converted=Shares(0.005, 0.002, 0.001, 0.002)),
            [(INPUT, 0.75), (SCALING, 0.4), (CASTS, 0.2)],
        ),
    ],
)
def test_causes_by_what_they_cost(changes, kinds):
    found = causes(STEP._replace(**changes))
    assert [(cause.kind, pytest.approx(cause.share)) for cause in found] == kinds


@pytest.mark.parametrize(
    "after, share",
    [
        (dict(Relu=0.0012, Mul=0.001), None),
        (dict(Relu=0.0021, Mul=0.001, Elu=1.0, Assign=1.0), 0.22),
    ],
)
def test_ops_that_are_slower_in_half_precision(after, share):
    """Their added time counts, against all kernels.

    An op that float32 doesn't run isn't compared, nor one that is never half.
    """
    before = dict(Relu=0.001, Mul=0.001, Assign=0.001)
    found = causes(STEP._replace(float32_ops=before, converted_ops=after))
    assert [(cause.kind, pytest.approx(cause.share)) for cause in found] == (
        [] if share is None else [(SLOWER, share)]
    )
    assert [cause.text for cause in found] in ([], ["Relu takes 2.1 ms, in float32 1 ms"])


def test_causes_have_their_numbers():
    (found,) = causes(STEP._replace(float32=Shares(0.020, 0.010)))
    assert (
        found.text
        == "matmuls and convolutions are 50% of the float32 kernels' time; were they free, a step"
        " would be 2.00 times as fast"
    )
    (found,) = causes(STEP._replace(converted=Shares(0.0125, 0.010)))
    assert found.text == "matmuls and convolutions take 10 ms in float16, 9 ms in float32"
    (found,) = causes(STEP._replace(waiting=0.010))
    assert found.text.startswith("10 ms for data, 10 ms computing")
