"""Times of nodes: by name, by signature, predicted from others; casts; held-back measurements."""

import dataclasses

import pytest

from graphmp.tuning.costs import CastTime, Costs, NodeCost, OperationSignature, OperationTime
from graphmp.tuning.prediction import NodeTime, Prediction, interpolated
from graphmp.tuning.signatures import elements, fits, work
from tests.support.costed import MACHINE, exactly, signature

pytestmark = pytest.mark.unit


def costs(*rows, **fields):
    """Costs of (signature, nanoseconds in float32, in half)."""
    measured = [
        OperationTime(key, exactly(a), None if b is None else exactly(b)) for key, a, b in rows
    ]
    return Costs(MACHINE, "bfloat16", tuple(measured), **fields)


def matmul(m, k, n):
    return signature("MatMul", (m, k), (k, n), outputs=[(m, n)])


def neg(*shape):
    return signature("Neg", shape, outputs=[shape])


def test_a_node_of_the_measured_graph_has_its_own_time():
    """And its own number of runs, not that of the static analysis."""
    found = Prediction(
        costs((neg(4), 10.0, 20.0), (neg(4), 30.0, 5.0), nodes={"a": NodeCost(1, 3.0)})
    )
    assert found.node("a", neg(None), 32) == NodeTime(90.0, 15.0, "measured")
    assert found.node("other", neg(4), 2) == NodeTime(20.0, 40.0, "measured")
    assert found.node("a", matmul(1, 1, 1), 1).how == "unknown"


def test_half_precision_takes_as_long_as_in_whole_steps():
    found = Prediction(
        costs(
            (neg(4), 10.0, 20.0),
            nodes={"a": NodeCost(0)},
            casts=(CastTime("half", 16, exactly(8.0)),),
            overhead=1.0,
            half_scale=1.5,
        )
    )
    assert found.node("a", neg(4), 1) == NodeTime(10.0, 30.0, "measured")
    assert found.node("", neg(8), 1) == NodeTime(20.0, 60.0, "predicted")
    assert found.cast("half", 16) == 13.0


def test_of_nodes_alike_with_other_times_the_middle_one_counts():
    found = Prediction(costs((neg(4), 10.0, 10.0), (neg(4), 90.0, 90.0), (neg(4), 12.0, 12.0)))
    assert found.node("other", neg(4), 1) == NodeTime(12.0, 12.0, "measured")


def test_a_node_within_another_kernel_takes_no_time():
    found = Prediction(costs((neg(4), 10.0, 20.0), nodes={"a": NodeCost(-1, 1.0, "b")}))
    assert found.node("a", neg(4), 1) == NodeTime(0.0, 0.0, "measured", "b")


def test_unknown_dimensions_fit_any():
    found = Prediction(costs((matmul(8, 4, 2), 10.0, 5.0)))
    assert found.node("", matmul(None, 4, 2), 1) == NodeTime(10.0, 5.0, "measured")
    assert found.node("", matmul(None, 4, 3), 1).how == "predicted"


def test_of_several_that_fit_the_nearest_to_the_batch_counts():
    rows = (matmul(8, 4, 2), 10.0, 5.0), (matmul(64, 4, 2), 80.0, 40.0)
    assert Prediction(costs(*rows, batch_size=64)).node("", matmul(None, 4, 2), 1).float32 == 80.0
    assert Prediction(costs(*rows, batch_size=8)).node("", matmul(None, 4, 2), 1).float32 == 10.0


def test_an_unmeasured_size_is_interpolated_by_work():
    found = Prediction(costs((matmul(8, 8, 8), 10.0, 4.0), (matmul(32, 32, 32), 640.0, 64.0)))
    between = found.node("", matmul(16, 16, 16), 1)
    assert between.float32 == pytest.approx(80.0) and between.half == pytest.approx(16.0)
    assert found.node("", matmul(64, 64, 64), 1).float32 == pytest.approx(8 * 640.0)
    assert found.node("", matmul(2, 2, 2), 1).float32 == pytest.approx(5.0)


def test_an_op_without_measurements_is_as_others_of_its_class():
    found = Prediction(costs((matmul(8, 8, 8), 512.0, 256.0), (neg(8), 32.0, 16.0)))
    product = signature("BatchMatMulV2", (8, 8), (8, 8), outputs=[(8, 8)])
    assert found.node("", product, 1) == NodeTime(512.0, 256.0, "predicted")
    assert found.node("", signature("Sin", (4,), outputs=[(4,)]), 2).float32 == 32.0


def test_without_anything_alike_nothing_is_known():
    found = Prediction(costs((neg(8), 32.0, 16.0)))
    assert found.node("", matmul(8, 8, 8), 1) == NodeTime(0.0, 0.0, "unknown")


def test_a_type_that_was_not_measured_is_predicted():
    found = Prediction(costs((neg(8), 32.0, 16.0), (neg(16), 64.0, None)))
    assert found.node("", neg(16), 1) == NodeTime(64.0, 32.0, "predicted")


def test_casts_by_dtype_and_size():
    casts = [CastTime(to, size, exactly(ns)) for to, size, ns in (
        ("half", 100, 10.0), ("half", 10000, 1000.0), ("float32", 100, 20.0)
    )]  # fmt: skip
    found = Prediction(costs(casts=tuple(casts), overhead=5.0))
    assert found.cast("half", 100) == 15.0 and found.cast("float32", 100) == 25.0
    assert found.cast("half", 1000) == pytest.approx(105.0)
    assert found.cast("float32", 200) == pytest.approx(45.0)
    assert Prediction(costs(overhead=5.0)).cast("half", 100) == 5.0


def test_a_cast_of_an_empty_tensor():
    empty = CastTime("half", 0, exactly(3.0))
    assert Prediction(costs(casts=(empty,))).cast("half", 10) == 30.0
    two = (empty, CastTime("half", 100, exactly(300.0)))
    assert Prediction(costs(casts=two)).cast("half", 10) == pytest.approx(30.0)


def test_held_back_measurements():
    exact = costs(*((neg(size), float(size), float(size)) for size in (10, 20, 40, 80)))
    found = Prediction(exact).held_back()
    assert found.measurements == 8 and found.error < 1e-6
    odd = dataclasses.replace(
        exact,
        measurements=(*exact.measurements, OperationTime(neg(30), exactly(90.0), exactly(30.0))),
    )
    assert Prediction(odd).held_back().worst > 0.5
    assert Prediction(costs((neg(1), 1.0, 1.0))).held_back() is None


def test_a_point_of_a_curve_is_exact():
    assert interpolated([(2.0, 5.0), (4.0, 7.0)], 4.0) == 7.0


@pytest.mark.parametrize(
    "key, found",
    [
        (matmul(2, 3, 5), 30.0),
        (
            signature("Conv2D", (8, 9, 9, 3), (3, 3, 3, 16), outputs=[(8, 9, 9, 16)]),
            8 * 81 * 16 * 27,
        ),
        (
            signature(
                "Conv2DBackpropFilter", (8, 9, 9, 3), (4,), (8, 9, 9, 16), outputs=[(3, 3, 3, 16)]
            ),
            8 * 81 * 16 * 27,
        ),
        (
            signature(
                "Conv2DBackpropInput", (4,), (3, 3, 3, 16), (8, 9, 9, 16), outputs=[(8, 9, 9, 3)]
            ),
            8 * 81 * 16 * 27,
        ),
        (neg(4, 5), 40.0),
        (signature("NoInput"), 1.0),
    ],
)
def test_work(key, found):
    assert work(key) == pytest.approx(found)


def test_elements_of_unknown_shapes():
    key = signature("Neg", (None, 3), None, (None,), ()).inputs
    assert [elements(each, 5) for each in key] == [15, 1024, 5, 1]
    assert elements(key[0]) == 96


def test_signatures_fit_in_op_attributes_and_types():
    key = neg(4)
    assert fits(key, key) and not fits(key, key._replace(op="Abs"))
    assert not fits(key, key._replace(attributes=(("axis", "1"),)))
    assert not fits(key, neg(4, 4)) and fits(OperationSignature("Neg", (), (key.inputs[0],)), key)
