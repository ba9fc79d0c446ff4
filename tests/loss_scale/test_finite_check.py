"""The finite check by sums: the same flag as of a test of each value."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.loss_scale import gradients as module
from graphmp.loss_scale.gradients import all_finite, all_finite_by_sums

LARGE = np.finfo(np.float32).max
CASES = {
    "finite": [[1.0, -2.0], [0.0]],
    "infinite": [[1.0, np.inf], [0.0]],
    "in the second": [[1.0], [-np.inf, 2.0]],
    "not a number": [[np.nan, 1.0], [0.0]],
    "infinities of both signs": [[np.inf, -np.inf], [0.0]],
    "infinities that cancel across gradients": [[np.inf], [-np.inf]],
    "a sum that overflows": [[LARGE, LARGE], [0.0]],
    "a sum of sums that overflows": [[LARGE], [LARGE]],
    "an overflow and an infinity": [[LARGE, LARGE], [np.inf]],
    "none": [[], [1.0]],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_same_flag(graph, dtype, sparse):
    fed = [tf.placeholder(dtype, [None]) for _ in range(2)]
    gradients = [fed[0], None, tf.IndexedSlices(fed[1], [0]) if sparse else fed[1]]
    flags = [check(gradients, "loss_scale") for check in (all_finite, all_finite_by_sums)]
    with tf.Session() as session:
        for name, values in CASES.items():
            tested, by_sums = session.run(flags, dict(zip(fed, values)))
            assert tested == by_sums == np.isfinite(np.concatenate(values)).all(), name


@pytest.mark.parametrize("small", [0, 4])
def test_the_same_flag_of_small_gradients(graph, monkeypatch, small):
    """Two of them have one sum, one of five elements its own."""
    monkeypatch.setattr(module, "SMALL", small)
    gradients = [tf.placeholder(tf.float32, [size]) for size in (4, 5, 1)]
    finite = all_finite_by_sums(gradients, "loss_scale")
    ops = [op.type for op in graph.get_operations()]
    assert ops.count("Sum") == (2 if small else 3) and ops.count("ConcatV2") == bool(small)
    with tf.Session() as session:
        for place, gradient in enumerate(gradients):
            for value in (1.0, np.inf, np.nan):
                fed = {each: np.ones(each.shape, np.float32) for each in gradients}
                fed[gradient][-1] = value
                assert session.run(finite, fed) == np.isfinite(value), place


@pytest.mark.unit
def test_small_gradients_have_one_sum_on_each_device(graph):
    for device in ("/cpu:0", "/cpu:0", "/gpu:0", "/gpu:0", "/gpu:1"):
        with tf.device(device):
            tf.placeholder(tf.float32, [2])
    gradients = [op.outputs[0] for op in graph.get_operations()]
    all_finite_by_sums(gradients, "loss_scale")
    sums = sorted(op.device for op in graph.get_operations() if op.type == "Sum")
    assert sums == ["/device:CPU:0", "/device:GPU:0", "/device:GPU:1"]


@pytest.mark.unit
@pytest.mark.parametrize("dtypes", [["float16"], ["float32", "float64"], ["float16", "float32"]])
def test_half_precision_and_several_dtypes_have_no_sums(graph, dtypes):
    all_finite_by_sums([tf.placeholder(dtype, [2]) for dtype in dtypes], "loss_scale")
    assert not {"AddN", "Sum"} & {op.type for op in graph.get_operations()}


@pytest.mark.unit
def test_each_value_is_tested_only_if_a_sum_is_not_finite(graph):
    """The tests wait for the dead side of a Switch, and each gradient is read by one live op."""
    gradient = tf.placeholder(tf.float32, [2])
    all_finite_by_sums([gradient], "loss_scale")
    (row,) = gradient.consumers()
    readers = {op.type: op for op in row.outputs[0].consumers()}
    assert set(readers) == {"Sum", "IsFinite"}
    (doubted,) = readers["IsFinite"].control_inputs
    assert doubted.inputs[0].op.type == "Switch" and doubted.inputs[0].value_index == 0
