"""Loop variables, TensorArrays, Stacks and TensorLists have one dtype each."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.view import GraphView
from tests.support.painting import (
    built,
    converted,
    decide,
    graph,
    half_nodes,
    inserted,
    nodes,
    verified,
)
from tests.support.structure import EYE, W, X, _loop, _loop_with_gradient, _rnn, needs_tf2, of_op
from tests.support.tiny import FLOAT16, FLOAT32


def held(node):
    """The dtype of the values that a node stores or reads by its handle."""
    return next(
        node.attr[name].type
        for name in ("dtype", "elem_type", "element_dtype", "T")
        if name in node.attr
    )


def frames_agree(meta_graph):
    """Check that a loop variable has one dtype around its loop."""
    named, checked = nodes(meta_graph), 0
    for node in of_op(meta_graph, "NextIteration"):
        merge = next(n for n in of_op(meta_graph, "Merge") if node.name in n.input)
        ring = [node, merge] + [named[text.split(":")[0]] for text in merge.input]
        ring += [n for n in of_op(meta_graph, "Switch") if merge.name in n.input]
        ring += [
            n
            for n in of_op(meta_graph, "Exit")
            if n.input[0].split(":")[0] in {r.name for r in ring}
        ]
        assert len({n.attr["T"].type for n in ring}) == 1, [n.name for n in ring]
        checked += 1
    assert checked


def test_loop_variables_have_one_dtype():
    before = built(_loop)
    after = verified(before, ["loss:0"])
    frames_agree(after)
    assert {"while/MatMul", "while/Relu"} <= half_nodes(after)


def test_loop_and_gradient():
    before = built(_loop_with_gradient)
    after = verified(before, ["loss:0", "gradient:0"], rtol=3e-2)
    frames_agree(after)
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}
    for op in ("StackV2", "StackPushV2", "StackPopV2"):
        assert of_op(before, op)


@pytest.mark.unit
def test_stacks_hold_one_dtype():
    before = built(_loop_with_gradient)
    after = converted(before)
    named = nodes(after)
    for push in of_op(after, "StackPushV2"):
        stack = named[push.input[0]]
        while stack.op != "StackV2":
            stack = named[stack.input[0]]
        assert held(push) == stack.attr["elem_type"].type
    assert FLOAT16 in {node.attr["elem_type"].type for node in of_op(after, "StackV2")}


def _invariant():
    """A loop that reads one tensor from outside in both dtypes, and one in half alone."""
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w, both = tf.sin(tf.constant(EYE), name="w"), tf.sin(tf.ones([4, 4]), name="both")
    _, y = tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.matmul(y, w) * 0.3 + tf.matmul(tf.exp(both), both)),
        [0, x],
    )
    tf.identity(tf.gradients(tf.reduce_sum(y, name="loss"), x)[0], name="gradient")


def test_loop_invariants_are_cast_before_the_loop():
    before = built(_invariant)
    after = verified(before, ["loss:0", "gradient:0"])
    added = inserted(before, after)
    enters = {name: node for name, node in added.items() if node.op == "Enter"}
    assert enters and all(
        node.attr["is_constant"].b and node.attr["T"].type == FLOAT16 for node in enters.values()
    )
    for name, node in enters.items():
        first = nodes(before)[name[: -len("_graphmp_float16")]]
        assert (
            node.attr["frame_name"] == first.attr["frame_name"]
            and node.attr["parallel_iterations"] == first.attr["parallel_iterations"]
        )
        assert (
            node.input[0].endswith("_graphmp_float16") and nodes(after)[node.input[0]].op == "Cast"
        )
    assert not [
        name
        for name, node in added.items()
        if node.op == "Cast" and nodes(after)[node.input[0]].op == "Enter"
    ]
    assert added["w_graphmp_float16"].op == added["both_graphmp_float16"].op == "Cast"


def test_a_loop_variable_that_must_be_float32_is_so_all_around():
    def build():
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        w = tf.constant(EYE)
        tf.while_loop(
            lambda i, y: i < 2, lambda i, y: (i + 1, tf.exp(tf.matmul(y, w)) * 0.1), [0, x]
        )

    before = built(build)
    after = verified(before, ["while/Exit_1:0"])
    frames_agree(after)
    assert not {n for n in half_nodes(after) if "Exit_1" in n} and "while/MatMul" in half_nodes(
        after
    )


def _nested(reads_w=lambda w: 0.1):
    """A loop in a loop; the inner one reads a tensor from outside both."""

    def build():
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        w = tf.sin(tf.constant(EYE), name="w")

        def outer(i, y):
            _, z = tf.while_loop(
                lambda j, z: j < 2,
                lambda j, z: (j + 1, tf.matmul(z, w) + reads_w(w)),
                [0, y],
                name="inner",
            )
            return i + 1, tf.nn.relu(z)

        _, y = tf.while_loop(lambda i, y: i < 2, outer, [0, x])
        tf.identity(
            tf.gradients(tf.reduce_sum(tf.matmul(y, w), name="loss"), x)[0], name="gradient"
        )

    return build


def test_nested_loops():
    after = verified(built(_nested()), ["loss:0", "gradient:0"])
    frames_agree(after)
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}


def test_no_invariant_is_cast_inside_a_loop():
    before = built(_nested(tf.exp))
    after = verified(before, ["loss:0", "gradient:0"])
    named = nodes(after)
    assert not [
        name
        for name, node in inserted(before, after).items()
        if node.op == "Cast" and named[node.input[0]].op == "Enter"
    ]


def test_dynamic_rnn_and_its_gradient():
    before = built(_rnn)
    after = verified(before, ["loss:0", "gradient0:0", "gradient1:0"], rtol=3e-2)
    frames_agree(after)
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}


@pytest.mark.unit
@pytest.mark.parametrize("batch", [3, None])
def test_what_a_dynamic_rnn_saves_is_half_whether_its_batch_is_known_or_not(batch):
    """All saved values, not the flows of TensorArrays.

    Casts in the loop are those of the weights' gradients, which are added up in float32.
    """

    def build():
        x = tf.placeholder(tf.float32, [batch, 5, 4], name="x")
        last = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(6), x, dtype=tf.float32)[0][:, -1]
        loss = tf.reduce_mean(tf.square(tf.matmul(last, tf.get_variable("w", [6, 2]))))
        tf.gradients(loss, tf.trainable_variables())

    before = built(build)
    after = converted(before)
    inside = frames(GraphView(after.graph_def))
    casts = [
        name
        for name, node in inserted(before, after).items()
        if node.op == "Cast" and inside.get(name)
    ]
    assert sorted(name.split("_grad/")[0].split("/")[-1] for name in casts) == ["BiasAdd", "MatMul"]
    saved = [node for node in of_op(after, "StackV2") if "flow" not in node.name]
    assert FLOAT32 not in {node.attr["elem_type"].type for node in saved}


@pytest.mark.unit
def test_arrays_and_their_gradient_arrays_hold_one_dtype():
    after = converted(built(_rnn))
    named = nodes(after)
    used = 0
    for node in after.graph_def.node:
        if not node.op.startswith("TensorArray") or node.op in (
            "TensorArrayV3",
            "TensorArraySizeV3",
            "TensorArrayGradV3",
        ):
            continue
        array = named[node.input[0].split(":")[0]]
        while array.op != "TensorArrayV3":
            array = named[array.input[0].split(":")[0]]
        assert held(node) == held(array), node.name
        used += 1
    assert used >= 6


@pytest.mark.unit
def test_an_array_whose_handle_goes_into_a_function_keeps_its_dtype():
    lines = [
        X, W, "size Const", "index Const", "m MatMul x w",
        "array TensorArrayV3 size dtype=float32 clear_after_read=false",
        "write TensorArrayWriteV3 array index m array:1",
        "read TensorArrayReadV3 array index write dtype=float32", "n MatMul read w",
        "call PartitionedCall array Tin=[\"resource\"] Tout=[\"resource\"]",
    ]  # fmt: skip
    meta_graph = graph(*lines, w=EYE, size=np.int32(1), index=np.int32(0))
    painted = decide(meta_graph)
    assert {"m", "n"} <= painted.half and not {"array", "write", "read"} & painted.half
    assert painted.reasons["array"].endswith("handle: used by call")
    forced = decide(meta_graph, force_compute=["^read$"])
    assert not {"array", "write", "read"} & forced.half


@pytest.mark.unit
@pytest.mark.parametrize(
    "user", ['call PartitionedCall read Tin=["float32"] Tout=["float32"]', "n MatMul read w"]
)
def test_a_lone_reader_of_an_array_that_comes_from_elsewhere_keeps_its_dtype(user):
    lines = [
        W, "index Const", "handle Placeholder dtype=resource", "flow Placeholder",
        "read TensorArrayReadV3 handle index flow dtype=float32",
        "m MatMul read w", user,
    ]  # fmt: skip
    painted = decide(graph(*lines, w=EYE, index=np.int32(0)))
    assert "m" in painted.half and "read" not in painted.half
    assert painted.reasons["read"] == "handle: used by handle"


@pytest.mark.unit
@pytest.mark.parametrize("forced", [[], ["."]])
def test_the_flow_of_an_array_is_float32(forced):
    before = built(_rnn)
    named = nodes(converted(before, force_compute=forced))
    for node in named.values():
        if node.op == "TensorArrayWriteV3":
            flow = named[node.input[3].split(":")[0]]
            assert flow.op != "Cast" and (
                "T" not in flow.attr
                or flow.attr["T"].type in (FLOAT32, 0)
                or flow.op.startswith("TensorArray")
            )


@needs_tf2
def test_tensor_lists():
    lines = [
        X, W, "shape Const", "count Const", "index Const", "m MatMul x w",
        "list TensorListReserve shape count element_dtype=float32",
        "put TensorListSetItem list index m",
        "get TensorListGetItem put index shape element_dtype=float32", "n MatMul get w",
    ]  # fmt: skip
    constants = {
        "w": EYE,
        "shape": np.array([4, 4], np.int32),
        "count": np.int32(1),
        "index": np.int32(0),
    }
    after = verified(graph(*lines, **constants), ["n:0"])
    assert {held(nodes(after)[name]) for name in ("list", "put", "get")} == {FLOAT16}
    kept = verified(graph(*lines, **constants), ["n:0"], keep_float32=["^get$"])
    assert {held(nodes(kept)[name]) for name in ("list", "put", "get")} == {FLOAT32}


def _pooled():
    x = tf.placeholder(tf.float32, [2, 8, 8, 4], "x")
    w = tf.get_variable("w", [3, 3, 4, 4])
    h = tf.nn.max_pool(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.nn.conv2d(tf.nn.relu(h), w, [1, 1, 1, 1], "SAME")
    tf.gradients(tf.reduce_sum(tf.square(h)), w)


@pytest.mark.unit
@pytest.mark.parametrize("kept", ["", "MaxPool$", "MaxPoolGrad"])
def test_a_pooling_and_its_gradient_have_one_dtype(kept):
    """The gradient reads the pooling itself: of a cast of it oneDNN has no workspace."""
    after = converted(built(_pooled), keep_float32=kept or ())
    (pool,), (gradient,) = of_op(after, "MaxPool"), of_op(after, "MaxPoolGrad")
    assert gradient.input[1] == pool.name
    assert pool.attr["T"].type == gradient.attr["T"].type == (FLOAT32 if kept else FLOAT16)
    assert {node.attr["T"].type for node in of_op(after, "Conv2D")} == {FLOAT16}
