"""Casts: where they are put, shared and named."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.report.facts import coverage
from tests.support import painting
from tests.support.painting import chain, converted, graph, inserted, nodes, verified
from tests.support.structure import EYE, W, X, needs_tf2
from tests.support.tiny import BFLOAT16, FLOAT16, FLOAT32


@needs_tf2
def test_an_op_with_a_dtype_for_each_operand_is_half_as_a_whole():
    """BatchMatMulV3 has the type attributes Ta, Tb and Tout."""
    before = graph("x Placeholder shape=[2,4,4]", "m BatchMatMulV3 x x Tout=float32", "e Exp m")
    after = verified(before, ["e:0"], compute_dtype="bfloat16")
    assert {nodes(after)["m"].attr[name].type for name in ("Ta", "Tb", "Tout")} == {BFLOAT16}
    assert coverage(after.graph_def) == {"tensor_core_ops": 1, "converted_ops": 1}


def test_one_cast_for_a_tensor_and_dtype():
    lines = [
        X,
        W,
        "one MatMul x w",
        "two MatMul x w",
        "three MatMul w x",
        "e Exp one",
        "l Expm1 one",
        "s Lgamma one",
    ]
    before = graph(*lines, w=EYE)
    after = verified(before, ["e:0", "two:0", "three:0"])
    assert painting.casts(before, after) == ["one -> float32", "x -> float16"]
    found = nodes(after)
    assert [found[name].input[0] for name in ("one", "two", "e", "l", "s")] == [
        "x_graphmp_float16"
    ] * 2 + ["one_graphmp_float32"] * 3
    assert found["three"].input[1] == "x_graphmp_float16"


@pytest.mark.unit
def test_casts_stand_behind_the_original_nodes_in_order():
    before = chain("xadada")
    after = converted(before)
    assert list(nodes(after))[len(nodes(before)) :] == [
        "x0_graphmp_float16",
        "a1_graphmp_float32",
        "d2_graphmp_float16",
        "a3_graphmp_float32",
        "d4_graphmp_float16",
    ]


def test_names_of_casts_of_other_outputs():
    lines = [
        X,
        W,
        "axis Const",
        "s Split axis x num_split=2",
        "m MatMul s:1 w",
        "n MatMul s w",
        "u Unpack m num=4",
        "e Exp u:2",
    ]
    before = graph(*lines, w=EYE[:2], axis=np.int32(1))
    del nodes(before)["s"].attr["T"]
    nodes(before)["s"].attr["T"].type = FLOAT32
    after = verified(before, ["e:0", "n:0"], keep_float32=["^s$"])
    assert (
        nodes(after)["m"].input[0] == "s_1_graphmp_float16"
        and nodes(after)["n"].input[0] == "s_graphmp_float16"
    )
    assert nodes(after)["e"].input[0] == "u_2_graphmp_float32"


def test_a_name_that_is_taken_gets_a_suffix():
    lines = [
        X,
        W,
        "axis Const",
        "s Split axis x num_split=2",
        "s_1 Lgamma x",
        "m MatMul s:1 w",
        "n MatMul s_1 w2",
        "w2 Const",
    ]
    before = graph(*lines, w=EYE[:2], w2=EYE, axis=np.int32(1))
    after = verified(before, ["m:0", "n:0"], keep_float32=["^s$"])
    assert set(inserted(before, after)) == {"s_1_graphmp_float16", "s_1_graphmp_float16_1"}
    assert nodes(after)["m"].input[0] != nodes(after)["n"].input[0]


def test_constants_are_converted_in_place():
    before = graph(X, W, "m MatMul x w", "c Const", "s Add m c", "n MatMul s w", w=EYE, c=0.1)
    after = verified(before, ["n:0"])
    assert set(inserted(before, after)) == {"x_graphmp_float16"}
    for name, value in (("w", EYE), ("c", np.float16(0.1))):
        node = nodes(after)[name]
        assert node.attr["dtype"].type == node.attr["value"].tensor.dtype == FLOAT16
        np.testing.assert_array_equal(tf.make_ndarray(node.attr["value"].tensor), value)


def test_a_constant_for_both_dtypes_gets_a_second_one():
    before = graph(X, "w Const @/device:CPU:0", "m MatMul x w", "e Exp w", "s Mul e e", w=EYE)
    after = verified(before, ["m:0", "s:0"])
    second = nodes(after)["w_graphmp_float16"]
    assert (second.op, second.device, second.attr["dtype"].type) == (
        "Const",
        "/device:CPU:0",
        FLOAT16,
    )
    assert nodes(after)["w"] == nodes(before)["w"] and nodes(after)["e"].input == ["w"]


def test_a_second_constant_waits_for_what_the_first_waits_for():
    before = graph(X, "w Const ^x", "m MatMul x w", "e Exp w", w=EYE)
    assert nodes(verified(before, ["m:0", "e:0"]))["w_graphmp_float16"].input == ["^x"]


@pytest.mark.parametrize("side, op", [(256, "Const"), (257, "Cast")])
def test_a_large_constant_for_both_dtypes_is_cast(side, op):
    before = graph(
        "x Placeholder shape=[1,%d]" % side,
        W,
        "m MatMul x w",
        "e Exp w",
        w=np.full([side, side], 0.01),
    )
    assert nodes(verified(before, ["m:0"]))["w_graphmp_float16"].op == op


@pytest.mark.unit
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e-7, 65504.0, -0.0])
def test_values_of_constants_in_half(value):
    before = graph(X, W, "m MatMul x w", "c Const", "s Maximum m c", "n MatMul s w", w=EYE, c=value)
    after = verified(before)
    np.testing.assert_array_equal(
        tf.make_ndarray(nodes(after)["c"].attr["value"].tensor), np.float16(value)
    )


@pytest.mark.unit
def test_devices_of_casts():
    """Less is sent.

    Casts to half are on the producer's device, casts to float32 on the consumer's.
    """
    lines = [
        X + " @/job:a",
        "w Const @/job:b",
        "m MatMul x w @/job:b",
        "e Exp m @/job:c",
        "s Lgamma m @/job:d",
    ]
    after = nodes(converted(graph(*lines, w=EYE)))
    assert (
        after["x_graphmp_float16"].device == "/job:a"
        and after["m_graphmp_float32"].device == "/job:c"
    )


@pytest.mark.unit
def test_a_cast_of_a_variable_is_on_the_variables_device():
    lines = [
        X + " @/job:worker",
        "v VariableV2 shape=[4,4] dtype=float32 @/job:ps",
        "read Identity v @/job:ps",
        "m MatMul x read @/job:worker",
    ]
    after = nodes(converted(graph(*lines)))
    assert after["read_graphmp_float16"].device == "/job:ps" and after[
        "read_graphmp_float16"
    ].input == ["read"]


@pytest.mark.unit
@pytest.mark.parametrize(
    "gather",
    ["g Gather read ids", "g GatherV2 read ids axis", "g ResourceGather v ids dtype=float32"],
)
def test_rows_are_cast_and_not_the_table(gather):
    variable = (
        ["v VarHandleOp shape=[9,4] dtype=float32"]
        if "Resource" in gather
        else ["v VariableV2 shape=[9,4] dtype=float32", "read Identity v"]
    )
    before = graph(
        X,
        *variable,
        "ids Placeholder dtype=int32",
        "axis Const",
        gather,
        "m MatMul g x",
        axis=np.int32(0),
    )
    after = verified(before)
    assert painting.casts(before, after) == ["g -> float16", "x -> float16"]


def test_integers_and_strings_are_never_cast():
    lines = [
        X,
        W,
        "m MatMul x w",
        "ids ArgMax m axis Tidx=int32",
        "axis Const",
        "shape Shape m",
        "r Reshape m shape",
        "n MatMul r w",
    ]
    before = graph(*lines, w=EYE, axis=np.int32(1))
    after = verified(before, ["n:0"])
    assert painting.casts(before, after) == ["x -> float16"]
    assert nodes(after)["shape"].attr["out_type"].type != FLOAT16
