"""The range guard: constants that half precision can't hold keep their users in float32."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support import painting
from tests.support.painted import W, X
from tests.support.painting import decide, graph


@pytest.mark.unit
@pytest.mark.parametrize(
    "value, held",
    [
        (-1e9, False),
        (1e-12, False),
        (1e-8, False),
        (70000.0, False),
        (65520.0, False),
        (3.4028235e38, False),
        (65504.0, True),
        (1.0, True),
        (0.0, True),
        (6e-8, True),
        (-np.inf, True),
        (np.inf, True),
        (np.nan, True),
    ],
)
@pytest.mark.parametrize("shape", [(), (4,), (4, 4)])
def test_constants_that_half_precision_does_not_hold(value, held, shape):
    lines = [X, W, "m MatMul x w", "c Const", "s Add m c", "n MatMul s w"]
    painted = decide(graph(*lines, w=np.eye(4), c=np.full(shape, value, np.float32)))
    assert ("s" in painted.half) == ("c" in painted.half) == held
    assert "m" in painted.half
    assert ("n" in painted.half) == (held or abs(value) < 1)  # a sum with a large one is large
    if not held:
        assert (
            painted.reasons["s"]
            == painted.reasons["c"]
            == "range guard: c holds %g, which float16 can't" % np.float32(value)
        )


@pytest.mark.unit
@pytest.mark.parametrize("value", [1e-12, 1e9])
def test_bfloat16_has_the_range_of_float32(value):
    lines = [X, W, "m MatMul x w", "c Const", "s Add m c", "n MatMul s w"]
    assert "s" in decide(graph(*lines, w=np.eye(4), c=value), compute_dtype="bfloat16").half


@pytest.mark.unit
@pytest.mark.parametrize(
    "way",
    [
        ["p Identity c"],
        ["p Reshape c shape"],
        ["p Fill shape c"],
        ["q Neg c", "p Identity q"],
        ["q Fill shape c", "p Reshape q shape"],
        ["q ExpandDims c axis", "p BroadcastTo q shape"],
        ["p Pack c c c c"],
        ["yes Const", "p SelectV2 yes c m"],
        ["q Identity c", "e Identity q", "p StopGradient e"],
    ],
    ids=lambda way: "-".join(line.split()[1] for line in way),
)
def test_constants_are_followed(way):
    lines = [
        X,
        W,
        "m MatMul x w",
        "c Const",
        "shape Const",
        "axis Const",
        *way,
        "s Mul m p",
        "t Tanh s",
        "n MatMul t w",
    ]
    constants = {
        "shape": np.array([4, 4], np.int32),
        "axis": np.int32(0),
        "w": np.eye(4),
        "c": -1e9,
    }
    if "yes Const" in way:
        constants["yes"] = np.bool_(True)
    if "Reshape c shape" in way[0]:
        constants["c"] = np.full([4, 4], -1e9)
    meta_graph = graph(*lines, **constants)
    painted = decide(meta_graph)
    assert not {"c", "p", "q", "s", "t"} & painted.half and {"m", "n"} <= painted.half
    assert (
        painted.reasons["s"]
        == painted.reasons["p"]
        == "range guard: c holds -1e+09, which float16 can't"
    )
    assert painted.reasons["t"] == "infer: downstream of what computes in float32"


@pytest.mark.unit
@pytest.mark.parametrize(
    "way, half",
    [
        (["s Mul m c"], False),
        (["p Mul m c", "s Add m p"], False),
        (["p Sub m c", "s Reshape p shape"], False),
        (["p Mul m c", "s Softmax p"], True),
        (["p Mul m c", "s RealDiv p d"], True),
    ],
    ids=lambda way: "-".join(line.split()[1] for line in way) if isinstance(way, list) else "",
)
def test_matmuls_of_multiples_of_a_constant_that_overflows_stay_float32(way, half):
    lines = [X, W, "c Const", "d Const", "shape Const", "m MatMul x w", *way, "n MatMul s w"]
    shape = np.array([4, 4], np.int32)
    painted = decide(graph(*lines, w=np.eye(4), c=8e6, d=8e3, shape=shape))
    assert "m" in painted.half and ("n" in painted.half) == half


@pytest.mark.unit
@pytest.mark.parametrize("forgets", ["ZerosLike", "OnesLike"])
def test_constants_are_not_followed_through_what_forgets_them(forgets):
    lines = [X, W, "m MatMul x w", "c Const", "p %s c" % forgets, "s Mul m p", "n MatMul s w"]
    assert "s" in decide(graph(*lines, w=np.eye(4), c=-1e9)).half


@pytest.mark.unit
@pytest.mark.parametrize(
    "weight, half",
    [
        ([1.0, 1e-9], True),
        ([1.0, 1e-30, 0.0], True),
        ([1e-9, 1e-10], False),
        ([1e-9, 0.0], False),
        ([1.0, 1e5], False),
        ([1e-9, 1e9], False),
        ([0.0, 0.0], True),
    ],
)
def test_a_small_weight_among_others_does_no_harm(weight, half):
    weights = np.zeros([4, 4], np.float32)
    weights[0, : len(weight)] = weight
    painted = decide(graph(X, W, "m MatMul x w", w=weights))
    assert ("m" in painted.half) == half
    if not half:
        assert painted.reasons["m"].startswith("range guard: w holds")


def test_a_small_weight_is_read_in_half_by_the_matmul_and_in_float32_by_the_rest():
    weights = np.eye(4, dtype=np.float32)
    weights[0, 1] = 1e-9
    meta_graph = graph(X, W, "m MatMul x w", "s Mul m w", "n MatMul s w", w=weights)
    painted = decide(meta_graph)
    assert {"m", "n"} <= painted.half and not {"s", "w"} & painted.half
    after = painting.verified(meta_graph, ["n:0"])
    assert painting.nodes(after)["w"] == painting.nodes(meta_graph)["w"]
    assert painting.nodes(after)["m"].input[1] == "w_graphmp_float16"


@pytest.mark.parametrize("count", ["Size m", "Prod shape axis"])
def test_counts_of_shapes_stay_float32(count):
    """The divisor of a mean may be any number; here it is 90,000."""
    lines = [
        "x Placeholder shape=[300,300]", W, "m MatMul x w", "shape Shape m", "axis Const",
        "count %s" % count,
        "f Cast count SrcT=int32 DstT=float32", "d RealDiv m f", "n MatMul d w",
    ]  # fmt: skip
    meta_graph = graph(*lines, w=np.eye(300), axis=np.array([0], np.int32))
    painted = decide(meta_graph)
    assert "d" not in painted.half and {"m", "n"} <= painted.half
    assert (
        painted.reasons["d"] == "infer: downstream of what computes in float32"
        and painted.because["d"] == "f"
    )
    painting.verified(meta_graph, ["d:0"])


@pytest.mark.unit
@pytest.mark.parametrize(
    "line, value, held",
    [
        ("s RealDiv m c", 1e-6, False),
        ("s RealDiv m c", -1.5e-5, False),
        ("s RealDiv m c", 1.6e-5, True),
        ("s RealDiv c m", 1e-6, True),
        ("s Mul m c", 1e-6, True),
    ],
)
def test_a_divisor_whose_reciprocal_half_precision_does_not_hold(line, value, held):
    given = graph(X, W, "m MatMul x w", "c Const", line, "n MatMul s w", w=np.eye(4), c=value)
    painted = decide(given)
    assert ("s" in painted.half) == held and {"m", "n"} <= painted.half
    if not held:
        words = "range guard: 1 / c is %g, which float16 can't hold" % (1 / abs(np.float32(value)))
        assert painted.reasons["s"] == words
    by_constant = line.startswith("s RealDiv m") and tf.VERSION < "2"  # float32 for its own reason
    assert ("s" in decide(given, compute_dtype="bfloat16").half) is not by_constant


def test_a_division_by_a_small_constant_has_float32s_value():
    def build():
        x = tf.placeholder(tf.float32, [2, 4], "x")
        weights = tf.get_variable("w", initializer=1e-6 * np.eye(4, dtype=np.float32))
        small = tf.matmul(x, weights) / 5e-6
        tf.matmul(small, tf.eye(4), name="out")

    original = painting.built(build)
    converted = graphmp.convert(original, compute_dtype="float16").meta_graph
    found = []
    for meta_graph in (original, converted):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.import_meta_graph(meta_graph)
            session.run(tf.global_variables_initializer())
            found.append(session.run("out:0", {"x:0": [[1, 2, 3, 0], [4, 5, 6, 7]]}))
    np.testing.assert_allclose(found[1], found[0], rtol=0.1)
