"""The painter with other compute dtypes, and with unknown ops."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy.reason import ALLOW, Reason, user_rule
from tests.support import painting
from tests.support.painted import W, X
from tests.support.painting import chain, decide, graph
from tests.support.tiny import BFLOAT16, FLOAT16, FLOAT32

TF2 = tf.__version__ > "2"


def test_bfloat16_has_its_own_lists():
    lines = [
        X,
        W,
        "m MatMul x w",
        "axis Const",
        "s Mean m axis keep_dims=true",
        "a Add m s",
        "n MatMul a w",
    ]
    meta_graph = graph(*lines, w=np.eye(4), axis=np.array([1], np.int32))
    assert {"s", "a"} & decide(meta_graph).half == set()
    assert decide(meta_graph).reasons["s"] == "deny: Mean computes in float32"
    painted = decide(meta_graph, compute_dtype="bfloat16")
    assert {"m", "s", "a", "n"} <= painted.half
    after = painting.verified(meta_graph, compute_dtype="bfloat16")
    assert painting.nodes(after)["s"].attr["T"].type == BFLOAT16
    assert "x_graphmp_bfloat16" in painting.nodes(after)
    if TF2:
        painting.assert_close(
            meta_graph, after, ["n:0"], painting.placeholders(meta_graph), rtol=5e-2
        )


@pytest.mark.unit
def test_bfloat16_has_its_own_kernels():
    lines = [X, W, "m MatMul x w", "s Softplus m", "n MatMul s w"]
    meta_graph = graph(*lines, w=np.eye(4))
    assert "s" in decide(meta_graph).half
    assert (
        decide(meta_graph, compute_dtype="bfloat16").reasons["s"]
        == "no kernel: Softplus has none of bfloat16 on every device"
    )


OWN_RULES = [{"force_compute": ["."]}, {"policy": "allow MatMul\nclear Const"}]


@pytest.mark.unit
@pytest.mark.parametrize("options", [{}] + OWN_RULES)
def test_float32_changes_nothing_but_the_mark(options):
    meta_graph = painting.built(_trained)
    rewriting = painting.rewrite(meta_graph, compute_dtype="float32", **options)
    assert list(set(rewriting.meta_graph.collection_def) - set(meta_graph.collection_def)) == [
        "graphmp"
    ]
    del rewriting.meta_graph.collection_def["graphmp"]
    assert rewriting.meta_graph == meta_graph and rewriting.record.done == []


@pytest.mark.unit
def test_float32_leaves_batch_normalisation_as_it_is():
    meta_graph = painting.built(_normalised)
    assert painting.converted(meta_graph, compute_dtype="float32").graph_def == meta_graph.graph_def


def _trained():
    x = tf.placeholder(tf.float32, [2, 4], name="x")
    w = tf.Variable(np.ones([4, 4], np.float32), name="w", use_resource=False)
    loss = tf.reduce_mean(
        tf.matmul(tf.nn.relu(tf.matmul(x, w)), tf.constant(np.full([4, 4], 0.5, np.float32)))
    )
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def _normalised():
    x = tf.placeholder(tf.float32, [2, 4, 4, 4], name="x")
    w = tf.Variable(np.ones([4], np.float32), name="w", use_resource=False)
    normalised, _, _ = tf.nn.fused_batch_norm(x, w, tf.zeros([4]))
    tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_mean(normalised))


def _with_own_op(known):
    """`x -> MatMul -> MyOp -> MatMul`; the graph brings MyOp's definition, or doesn't."""
    meta_graph = graph(
        X, W, "m MatMul x w", "own MyOp m T=float32", "r Relu own", "n MatMul r w", w=np.eye(4)
    )
    if known:
        op = meta_graph.meta_info_def.stripped_op_list.op.add(name="MyOp")
        op.input_arg.add(name="x", type_attr="T")
        op.output_arg.add(name="y", type_attr="T")
        op.attr.add(name="T", type="type")
    return meta_graph


@pytest.mark.unit
def test_an_op_that_the_graph_defines_follows_the_policy():
    assert decide(_with_own_op(True)).reasons["own"] == "unlisted: MyOp is on no list"
    assert "own" in decide(_with_own_op(True), policy="allow MyOp").half
    after = painting.rewrite(_with_own_op(True), policy="allow MyOp")
    assert painting.nodes(after.meta_graph)["own"].attr["T"].type == FLOAT16 and painting.nodes(
        after.meta_graph
    )["own"].input == ["m"]
    assert not [row for row in after.record.warnings if row["code"] == "GMP109"]


@pytest.mark.unit
def test_an_op_that_nobody_knows_is_left_alone():
    meta_graph = _with_own_op(False)
    rewriting = painting.rewrite(meta_graph, policy="allow MyOp")
    after = painting.nodes(rewriting.meta_graph)
    assert after["own"].attr["T"].type == FLOAT32 and after["own"].input == ["m_graphmp_float32"]
    assert after["m"].attr["T"].type == after["n"].attr["T"].type == FLOAT16
    assert [row["node"] for row in rewriting.record.warnings if row["code"] == "GMP109"] == ["own"]


@pytest.mark.unit
def test_the_record_counts_what_stayed_float32():
    record = painting.rewrite(chain("xadias"), keep_float32=["^a4$"]).record
    assert (
        record.kept["deny"] == 1
        and record.kept["last activation"] == 1
        and record.kept["user rule"] == 1
    )
    assert record.left == {"a4": user_rule("keep_float32", "^a4$")}
    assert ("a1", "painted", Reason(ALLOW, "MatMul is worth half precision")) in record.done
    assert [row[0] for row in record.done if row[1] == "inserted"] == [
        "x0_graphmp_float16",
        "weight_graphmp_float16",
        "a1_graphmp_float32",
    ]


@pytest.mark.unit
@pytest.mark.parametrize(
    "rows, ids, half", [(3, "shape=[24]", True), (3, "shape=[23]", False), (1, "", False)]
)
def test_a_table_that_gives_eight_times_its_size_may_be_cast(rows, ids, half):
    """If shapes show the size of the result; otherwise the rows are cast."""
    lines = [
        X,
        "v VariableV2 shape=[%d,4] dtype=float32" % rows,
        "read Identity v",
        "ids Placeholder dtype=int32 " + ids,
        "g Gather read ids",
    ]
    found = decide(graph(*lines, "m MatMul g x"))
    assert found.half == ({"m", "g"} if half else {"m"})
    assert found.reasons["read"] == "variable: reads v"
    assert half or found.reasons["g"] == "look-up: the rows of v are cast, not the table"


@pytest.mark.unit
@pytest.mark.parametrize(
    "epsilon, half", [("1e-3", True), ("1e-7", True), ("1e-12", False), ("0.0", False)]
)
@pytest.mark.parametrize("op", ["Add", "Maximum"])
def test_a_normalisation_is_applied_in_half_where_its_epsilon_bounds_it(op, epsilon, half):
    """The statistics are float32 in either case."""
    lines = [
        X,
        W,
        "m MatMul x w",
        "s Square m",
        "a %s s epsilon" % op,
        "r Rsqrt a",
        "n Mul m r",
        "k MatMul n w",
    ]
    found = decide(graph("epsilon Const", *lines, w=np.eye(4), epsilon=float(epsilon)))
    assert ("n" in found.half) is half
    assert not found.half & {"s", "a", "r"}


@pytest.mark.unit
@pytest.mark.parametrize("size, half", [(4, True), (1, False)])
def test_a_sum_that_reduces_nothing_is_clear(size, half):
    """The gradient of an addition sums over the axes that were broadcast: often none."""

    def build():
        x = tf.placeholder(tf.float32, [4, 4], "x")
        summed = tf.reduce_sum(
            tf.matmul(x, tf.ones([4, 4])), tf.placeholder(tf.int32, [None], "axes"), name="s"
        )
        tf.matmul(tf.reshape(summed, [size, 4]), tf.ones([4, 4]))

    converted = painting.converted(painting.built(build))
    assert {n.name: n.attr["T"].type == FLOAT16 for n in converted.graph_def.node}["s"] == half


@pytest.mark.unit
@pytest.mark.parametrize(
    "shape, half",
    [([None, 7, 7, 8], True), ([None, 512, 512, 8], False), ([None, None, None, 8], False)],
)
def test_a_means_divisor_that_shapes_settle(shape, half):
    """The gradient of a mean divides by a count.

    It is half if the batch cancels and the rest fits, float32 if it doesn't or may not.
    """

    def build():
        x = tf.placeholder(tf.float32, shape, "x")
        features = tf.layers.conv2d(x, 8, 1, use_bias=False)
        tf.gradients(
            tf.layers.dense(tf.reduce_mean(features, [1, 2]), 4, use_bias=False),
            tf.trainable_variables(),
        )

    converted = painting.converted(painting.built(build))
    divisions = [n for n in converted.graph_def.node if n.op == "RealDiv" and "Mean_grad" in n.name]
    assert divisions and all((n.attr["T"].type == FLOAT16) == half for n in divisions)
