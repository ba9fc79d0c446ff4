"""How the rewrite changes a graph: casts, groups, functions, what survives, what it recognises, what its check finds."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.contexts import Contexts
from graphmp.graph.frames import frames
from graphmp.graph.gradient_code import gradient_nodes, gradient_scopes
from graphmp.graph.messages import serialize
from graphmp.graph.view import GraphView
from graphmp.hooks.internals import load_graph
from graphmp.report.facts import coverage
from graphmp.rewrite import check, graph_parts
from graphmp.rewrite.functions import called_functions
from graphmp.rewrite.op_defs import OpDefs
from graphmp.version import __version__
from tests.support import painting
from tests.support.painting import built, chain, converted, decide, graph, half_nodes, inserted, nodes, rewrite, verified
from tests.support.places import ROOT
from tests.support.tiny import BFLOAT16, FLOAT16, FLOAT32
from tests.support.training_graphs import SHAPES

TF2 = tf.__version__ > "2"
needs_tf2 = pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 has no such op")
X, W = "x Placeholder shape=[4,4]", "w Const"
EYE = np.eye(4, dtype=np.float32) * 0.75


def of_op(meta_graph, *ops):
    """Nodes of the main graph with one of the ops."""
    return [node for node in meta_graph.graph_def.node if node.op in ops]


def held(node):
    """The dtype that a node's handle, or what it puts there, has."""
    return next(node.attr[name].type for name in ("dtype", "elem_type", "element_dtype", "T") if name in node.attr)


# -- casts -------------------------------------------------------------------------------------------------------------


@needs_tf2
def test_an_op_with_a_dtype_for_each_operand_is_half_as_a_whole():
    """BatchMatMulV3 has the type attributes Ta, Tb and Tout."""
    before = graph("x Placeholder shape=[2,4,4]", "m BatchMatMulV3 x x Tout=float32", "e Exp m")
    after = verified(before, ["e:0"], compute_dtype="bfloat16")
    assert {nodes(after)["m"].attr[name].type for name in ("Ta", "Tb", "Tout")} == {BFLOAT16}
    assert coverage(after.graph_def) == {"tensor_core_ops": 1, "converted_ops": 1}


def test_one_cast_for_a_tensor_and_dtype():
    lines = [X, W, "one MatMul x w", "two MatMul x w", "three MatMul w x", "e Exp one", "l Log1p one", "s Sin one"]
    before = graph(*lines, w=EYE)
    after = verified(before, ["e:0", "two:0", "three:0"])
    assert painting.casts(before, after) == ["one -> float32", "x -> float16"]
    found = nodes(after)
    assert [found[name].input[0] for name in ("one", "two", "e", "l", "s")] == ["x_graphmp_float16"] * 2 + ["one_graphmp_float32"] * 3
    assert found["three"].input[1] == "x_graphmp_float16"


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
    lines = [X, W, "axis Const", "s Split axis x num_split=2", "m MatMul s:1 w", "n MatMul s w", "u Unpack m num=4", "e Exp u:2"]
    before = graph(*lines, w=EYE[:2], axis=np.int32(1))
    del nodes(before)["s"].attr["T"]
    nodes(before)["s"].attr["T"].type = FLOAT32
    after = verified(before, ["e:0", "n:0"], keep_float32=["^s$"])
    assert nodes(after)["m"].input[0] == "s_1_graphmp_float16" and nodes(after)["n"].input[0] == "s_graphmp_float16"
    assert nodes(after)["e"].input[0] == "u_2_graphmp_float32"


def test_a_name_that_is_taken_gets_a_suffix():
    lines = [X, W, "axis Const", "s Split axis x num_split=2", "s_1 Sin x", "m MatMul s:1 w", "n MatMul s_1 w2", "w2 Const"]
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
    assert (second.op, second.device, second.attr["dtype"].type) == ("Const", "/device:CPU:0", FLOAT16)
    assert nodes(after)["w"] == nodes(before)["w"] and nodes(after)["e"].input == ["w"]


def test_a_second_constant_waits_for_what_the_first_waits_for():
    before = graph(X, "w Const ^x", "m MatMul x w", "e Exp w", w=EYE)
    assert nodes(verified(before, ["m:0", "e:0"]))["w_graphmp_float16"].input == ["^x"]


@pytest.mark.parametrize("side, op", [(256, "Const"), (257, "Cast")])
def test_a_large_constant_for_both_dtypes_is_cast(side, op):
    before = graph("x Placeholder shape=[1,%d]" % side, W, "m MatMul x w", "e Exp w", w=np.full([side, side], 0.01))
    assert nodes(verified(before, ["m:0"]))["w_graphmp_float16"].op == op


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e-7, 65504.0, -0.0])
def test_values_of_constants_in_half(value):
    before = graph(X, W, "m MatMul x w", "c Const", "s Maximum m c", "n MatMul s w", w=EYE, c=value)
    after = verified(before)
    np.testing.assert_array_equal(tf.make_ndarray(nodes(after)["c"].attr["value"].tensor), np.float16(value))


def test_devices_of_casts():
    """Less is sent: a cast to half stands where the tensor is made, one to float32 where it is read."""
    lines = [X + " @/job:a", "w Const @/job:b", "m MatMul x w @/job:b", "e Exp m @/job:c", "s Sin m @/job:d"]
    after = nodes(converted(graph(*lines, w=EYE)))
    assert after["x_graphmp_float16"].device == "/job:a" and after["m_graphmp_float32"].device == "/job:c"


def test_a_cast_of_a_variable_is_on_the_variables_device():
    lines = [X + " @/job:worker", "v VariableV2 shape=[4,4] dtype=float32 @/job:ps", "read Identity v @/job:ps", "m MatMul x read @/job:worker"]
    after = nodes(converted(graph(*lines)))
    assert after["read_graphmp_float16"].device == "/job:ps" and after["read_graphmp_float16"].input == ["read"]


@pytest.mark.parametrize("gather", ["g Gather read ids", "g GatherV2 read ids axis", "g ResourceGather v ids dtype=float32"])
def test_rows_are_cast_and_not_the_table(gather):
    variable = ["v VarHandleOp shape=[9,4] dtype=float32"] if "Resource" in gather else ["v VariableV2 shape=[9,4] dtype=float32", "read Identity v"]
    before = graph(X, *variable, "ids Placeholder dtype=int32", "axis Const", gather, "m MatMul g x", axis=np.int32(0))
    after = verified(before)
    assert painting.casts(before, after) == ["g -> float16", "x -> float16"]


def test_integers_and_strings_are_never_cast():
    lines = [X, W, "m MatMul x w", "ids ArgMax m axis Tidx=int32", "axis Const", "shape Shape m", "r Reshape m shape", "n MatMul r w"]
    before = graph(*lines, w=EYE, axis=np.int32(1))
    after = verified(before, ["n:0"])
    assert painting.casts(before, after) == ["x -> float16"]
    assert nodes(after)["shape"].attr["out_type"].type != FLOAT16


# -- loops, arrays, stacks, lists --------------------------------------------------------------------------------------


def _loop():
    """A loop of matmuls whose result leads to a denied op, with its gradient."""
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)
    scale = tf.sin(tf.ones([4, 4]), name="scale")

    def body(i, y):
        return i + 1, tf.nn.relu(tf.matmul(y * scale, w))

    _, y = tf.while_loop(lambda i, y: i < 3, body, [0, x])
    loss = tf.reduce_sum(tf.square(y), name="loss")
    return loss, w


def _loop_with_gradient():
    loss, w = _loop()
    tf.identity(tf.gradients(loss, w)[0], name="gradient")


def frames_agree(meta_graph):
    """Makes sure that a loop variable has one dtype around its loop."""
    named, checked = nodes(meta_graph), 0
    for node in of_op(meta_graph, "NextIteration"):
        merge = next(n for n in of_op(meta_graph, "Merge") if node.name in n.input)
        ring = [node, merge] + [named[text.split(":")[0]] for text in merge.input]
        ring += [n for n in of_op(meta_graph, "Switch") if merge.name in n.input]
        ring += [n for n in of_op(meta_graph, "Exit") if n.input[0].split(":")[0] in {r.name for r in ring}]
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
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.matmul(y, w) * 0.3 + tf.matmul(tf.exp(both), both)), [0, x])
    tf.identity(tf.gradients(tf.reduce_sum(y, name="loss"), x)[0], name="gradient")


def test_loop_invariants_are_cast_before_the_loop():
    before = built(_invariant)
    after = verified(before, ["loss:0", "gradient:0"])
    added = inserted(before, after)
    enters = {name: node for name, node in added.items() if node.op == "Enter"}
    assert enters and all(node.attr["is_constant"].b and node.attr["T"].type == FLOAT16 for node in enters.values())
    for name, node in enters.items():
        first = nodes(before)[name[: -len("_graphmp_float16")]]
        assert node.attr["frame_name"] == first.attr["frame_name"] and node.attr["parallel_iterations"] == first.attr["parallel_iterations"]
        assert node.input[0].endswith("_graphmp_float16") and nodes(after)[node.input[0]].op == "Cast"
    assert not [name for name, node in added.items() if node.op == "Cast" and nodes(after)[node.input[0]].op == "Enter"]
    assert added["w_graphmp_float16"].op == added["both_graphmp_float16"].op == "Cast"


def test_a_loop_variable_that_must_be_float32_is_so_all_around():
    def build():
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        w = tf.constant(EYE)
        tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.exp(tf.matmul(y, w)) * 0.1), [0, x])

    before = built(build)
    after = verified(before, ["while/Exit_1:0"])
    frames_agree(after)
    assert not {n for n in half_nodes(after) if "Exit_1" in n} and "while/MatMul" in half_nodes(after)


def _nested(reads_w=lambda w: 0.1):
    """A loop in a loop; the inner one reads a tensor from outside both."""

    def build():
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        w = tf.sin(tf.constant(EYE), name="w")

        def outer(i, y):
            _, z = tf.while_loop(lambda j, z: j < 2, lambda j, z: (j + 1, tf.matmul(z, w) + reads_w(w)), [0, y], name="inner")
            return i + 1, tf.nn.relu(z)

        _, y = tf.while_loop(lambda i, y: i < 2, outer, [0, x])
        tf.identity(tf.gradients(tf.reduce_sum(tf.matmul(y, w), name="loss"), x)[0], name="gradient")

    return build


def test_nested_loops():
    after = verified(built(_nested()), ["loss:0", "gradient:0"])
    frames_agree(after)
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}


def test_no_invariant_is_cast_inside_a_loop():
    before = built(_nested(tf.exp))
    after = verified(before, ["loss:0", "gradient:0"])
    named = nodes(after)
    assert not [name for name, node in inserted(before, after).items() if node.op == "Cast" and named[node.input[0]].op == "Enter"]


def _rnn():
    x = tf.placeholder(tf.float32, [3, 5, 4], name="x")
    cell = tf.nn.rnn_cell.LSTMCell(6, initializer=tf.initializers.orthogonal(seed=1), name="cell")
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(outputs)) + tf.reduce_mean(tf.square(state.h))
    tf.identity(loss, name="loss")
    for i, gradient in enumerate(tf.gradients(loss, tf.trainable_variables())):
        tf.identity(gradient, name="gradient%d" % i)


def test_dynamic_rnn_and_its_gradient():
    before = built(_rnn)
    after = verified(before, ["loss:0", "gradient0:0", "gradient1:0"], rtol=3e-2)
    frames_agree(after)
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}


@pytest.mark.parametrize("batch", [3, None])
def test_what_a_dynamic_rnn_saves_is_half_whether_its_batch_is_known_or_not(batch):
    """All but what TensorArrays order by; casts in the loop are those of the weights' gradients, which add up in float32."""

    def build():
        x = tf.placeholder(tf.float32, [batch, 5, 4], name="x")
        last = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(6), x, dtype=tf.float32)[0][:, -1]
        loss = tf.reduce_mean(tf.square(tf.matmul(last, tf.get_variable("w", [6, 2]))))
        tf.gradients(loss, tf.trainable_variables())

    before = built(build)
    after = converted(before)
    inside = frames(GraphView(after.graph_def))
    casts = [name for name, node in inserted(before, after).items() if node.op == "Cast" and inside.get(name)]
    assert sorted(name.split("_grad/")[0].split("/")[-1] for name in casts) == ["BiasAdd", "MatMul"]
    saved = [node for node in of_op(after, "StackV2") if "flow" not in node.name]
    assert FLOAT32 not in {node.attr["elem_type"].type for node in saved}


def test_arrays_and_their_gradient_arrays_hold_one_dtype():
    after = converted(built(_rnn))
    named = nodes(after)
    used = 0
    for node in after.graph_def.node:
        if not node.op.startswith("TensorArray") or node.op in ("TensorArrayV3", "TensorArraySizeV3", "TensorArrayGradV3"):
            continue
        array = named[node.input[0].split(":")[0]]
        while array.op != "TensorArrayV3":
            array = named[array.input[0].split(":")[0]]
        assert held(node) == held(array), node.name
        used += 1
    assert used >= 6


def test_an_array_whose_handle_goes_into_a_function_keeps_its_dtype():
    lines = [
        X, W, "size Const", "index Const", "m MatMul x w", "array TensorArrayV3 size dtype=float32 clear_after_read=false",
        "write TensorArrayWriteV3 array index m array:1", "read TensorArrayReadV3 array index write dtype=float32", "n MatMul read w",
        "call PartitionedCall array Tin=[\"resource\"] Tout=[\"resource\"]",
    ]  # fmt: skip
    meta_graph = graph(*lines, w=EYE, size=np.int32(1), index=np.int32(0))
    painted = decide(meta_graph)
    assert {"m", "n"} <= painted.half and not {"array", "write", "read"} & painted.half
    assert painted.reasons["array"].endswith("handle: used by call")


@pytest.mark.parametrize("user", ['call PartitionedCall read Tin=["float32"] Tout=["float32"]', "n MatMul read w"])
def test_a_lone_reader_of_an_array_that_comes_from_elsewhere_keeps_its_dtype(user):
    lines = [
        W, "index Const", "handle Placeholder dtype=resource", "flow Placeholder", "read TensorArrayReadV3 handle index flow dtype=float32",
        "m MatMul read w", user,
    ]  # fmt: skip
    painted = decide(graph(*lines, w=EYE, index=np.int32(0)))
    assert "m" in painted.half and "read" not in painted.half
    assert painted.reasons["read"] == "handle: used by handle"


def test_the_flow_of_an_array_is_float32():
    before = built(_rnn)
    named = nodes(converted(before))
    for node in named.values():
        if node.op == "TensorArrayWriteV3":
            flow = named[node.input[3].split(":")[0]]
            assert flow.op != "Cast" and ("T" not in flow.attr or flow.attr["T"].type in (FLOAT32, 0) or flow.op.startswith("TensorArray"))


@needs_tf2
def test_tensor_lists():
    lines = [
        X, W, "shape Const", "count Const", "index Const", "m MatMul x w", "list TensorListReserve shape count element_dtype=float32",
        "put TensorListSetItem list index m", "get TensorListGetItem put index shape element_dtype=float32", "n MatMul get w",
    ]  # fmt: skip
    constants = {"w": EYE, "shape": np.array([4, 4], np.int32), "count": np.int32(1), "index": np.int32(0)}
    after = verified(graph(*lines, **constants), ["n:0"])
    assert {held(nodes(after)[name]) for name in ("list", "put", "get")} == {FLOAT16}
    kept = verified(graph(*lines, **constants), ["n:0"], keep_float32=["^get$"])
    assert {held(nodes(kept)[name]) for name in ("list", "put", "get")} == {FLOAT32}


# -- contexts ----------------------------------------------------------------------------------------------------------


def _cond():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)
    y = tf.matmul(x, w)
    z = tf.cond(tf.reduce_sum(x) > -1e3, lambda: tf.nn.relu(tf.matmul(tf.exp(y), w)), lambda: tf.matmul(y, w) + 1.0)
    tf.reduce_sum(tf.square(z), name="loss")


def _loop_in_cond():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)

    def loop():
        return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.exp(tf.matmul(y, w)) * 0.1), [0, x])[1]

    tf.reduce_sum(tf.cond(tf.reduce_sum(x) > -1e3, loop, lambda: tf.matmul(x, w)), name="loss")


def _cond_in_loop():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    w = tf.Variable(EYE, name="w", use_resource=False)

    def body(i, y):
        return i + 1, tf.cond(i > 0, lambda: tf.exp(tf.matmul(y, w)) * 0.1, lambda: tf.nn.relu(tf.matmul(y, w)))

    tf.reduce_sum(tf.while_loop(lambda i, y: i < 3, body, [0, x])[1], name="loss")


def _gradient_after_import(meta_graph, feed):
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.train.import_meta_graph(painting.copy_of(meta_graph))
        loss = tf.get_default_graph().get_tensor_by_name("loss:0")
        gradient = tf.gradients(loss, tf.trainable_variables()[0])[0]
        sess.run(tf.global_variables_initializer())
        return sess.run([loss, gradient], {"x:0": feed})


@pytest.mark.parametrize("build", [_loop, _cond, _loop_in_cond, _cond_in_loop], ids=lambda build: build.__name__)
def test_gradients_can_be_taken_of_an_imported_conversion(build):
    before = built(build)
    after = verified(before, ["loss:0"])
    feed = np.random.RandomState(1).uniform(0.1, 0.5, [4, 4])
    for expected, found in zip(_gradient_after_import(before, feed), _gradient_after_import(after, feed)):
        np.testing.assert_allclose(found, expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.parametrize("build", [_loop, _cond, _loop_in_cond, _cond_in_loop], ids=lambda build: build.__name__)
def test_contexts_list_what_is_put_into_them(build):
    before = built(build)
    after = converted(before)
    listed = Contexts(after)._of
    for name, node in inserted(before, after).items():
        if node.op == "Enter":
            assert name in listed
        for text in node.input:
            source = nodes(after)[text.lstrip("^").split(":")[0]]
            if source.name in listed and source.op not in ("Exit", "Merge"):
                assert name in listed, name


# -- functions ---------------------------------------------------------------------------------------------------------


def _functions(meta_graph):
    return {function.signature.name: function for function in meta_graph.graph_def.library.function}


def assert_rewritten_inside(before, after, op="MatMul"):
    """Makes sure that every function that is called and has such an op has it in half, and that signatures are as before."""
    found, called = 0, called_functions(before.graph_def)
    for name, function in _functions(after).items():
        assert function.signature == _functions(before)[name].signature
        if name not in called:
            assert function == _functions(before)[name]
            continue
        dtypes = {node.attr["T"].type for node in function.node_def if node.op == op}
        assert dtypes <= {FLOAT16}
        found += len(dtypes)
    assert found


def _called():
    function = tf.function(lambda x: tf.exp(tf.matmul(tf.nn.relu(tf.matmul(x, EYE)), EYE)))
    tf.identity(function(tf.placeholder(tf.float32, [4, 4], name="x")), name="y")


def test_partitioned_call():
    before = built(_called)
    assert of_op(before, "PartitionedCall", "StatefulPartitionedCall")
    assert_rewritten_inside(before, verified(before, ["y:0"]))


def test_defun():
    defun = importlib.import_module("tensorflow.python.framework.function").Defun

    def build():
        @defun(tf.float32, func_name="Twice")
        def twice(x):
            return tf.matmul(tf.tanh(tf.matmul(x, EYE)), EYE), tf.exp(x)

        one, two = twice(tf.placeholder(tf.float32, [4, 4], name="x"))
        tf.identity(one, name="y"), tf.identity(two, name="z")

    before = built(build)
    assert of_op(before, "Twice")
    assert_rewritten_inside(before, verified(before, ["y:0", "z:0"]), "BatchMatMulV2")


def test_functions_have_no_unknown_ops():
    assert "GMP109" not in codes(rewrite(built(_called)))


@pytest.fixture
def control_flow_v2():
    tf.enable_control_flow_v2()
    yield
    tf.disable_control_flow_v2()


def test_while_of_functions(control_flow_v2):
    before = built(_loop)
    assert of_op(before, "While", "StatelessWhile")
    assert_rewritten_inside(before, verified(before, ["loss:0"]))


def test_gradient_of_a_while_of_functions(control_flow_v2):
    before = built(_loop_with_gradient)
    assert of_op(before, "While", "StatelessWhile")
    assert_rewritten_inside(before, verified(before, ["loss:0", "gradient:0"], rtol=3e-2))


def test_if_of_functions(control_flow_v2):
    before = built(_cond)
    assert of_op(before, "If", "StatelessIf")
    assert_rewritten_inside(before, verified(before, ["loss:0"]))


def test_nested_functions_are_rewritten_too():
    def build():
        inner = tf.function(lambda x: tf.matmul(x, EYE))
        outer = tf.function(lambda x: inner(tf.nn.relu(inner(x))))
        tf.identity(outer(tf.placeholder(tf.float32, [4, 4], name="x")), name="y")

    before = built(build)
    assert len(_functions(before)) >= 2
    assert_rewritten_inside(before, verified(before, ["y:0"]))


def test_a_function_with_batch_normalisation():
    def build():
        filters = np.full([3, 3, 4, 4], 0.05, np.float32)

        def model(x):
            x, _, _ = tf.nn.fused_batch_norm(tf.nn.conv2d(x, filters, 1, "SAME"), tf.ones([4]), tf.zeros([4]))
            return tf.nn.conv2d(tf.tanh(x), filters, 1, "SAME")

        tf.identity(tf.function(model)(tf.placeholder(tf.float32, [2, 4, 4, 4], name="x")), name="y")

    before = built(build)
    assert_rewritten_inside(before, verified(before, ["y:0"], rtol=2e-2), "Conv2D")


def _shared_with_data(shared):
    """A function that the graph calls; with `shared`, the input pipeline too."""

    def build():
        function = tf.function(lambda x: tf.matmul(x, EYE), input_signature=[tf.TensorSpec([4, 4], tf.float32)])
        other = tf.function(lambda x: tf.matmul(x, EYE), input_signature=[tf.TensorSpec([4, 4], tf.float32)])
        data = tf.data.Dataset.from_tensors(EYE).map(function if shared else other)
        batch = tf.data.make_one_shot_iterator(data).get_next() if shared is None else tf.data.make_initializable_iterator(data).get_next()
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        tf.identity(function(x), name="y"), tf.identity(batch, name="batch")

    return built(build)


@pytest.mark.parametrize("shared", [False, True])
def test_functions_of_the_input_pipeline_are_left_alone(shared):
    before = _shared_with_data(shared)
    after = verified(before, ["y:0"])
    called = {node.attr["f"].func.name for node in of_op(before, "PartitionedCall", "StatefulPartitionedCall")}
    mapped = {node.attr["f"].func.name for node in of_op(before, "MapDataset", "ParallelMapDataset", "ParallelMapDatasetV2")}
    assert called and mapped
    for name, function in _functions(before).items():
        changed = function != _functions(after)[name]
        assert not changed or name in called
    rewritten = {name for name, function in _functions(before).items() if function != _functions(after)[name]}
    assert bool(rewritten) != shared


def test_an_unknown_op_in_a_function_leaves_the_function():
    before = built(_called)
    function = next(f for f in before.graph_def.library.function if any(node.op == "MatMul" for node in f.node_def))
    function.node_def.add(name="own", op="MyOp")
    after = converted(before)
    assert next(f for f in after.graph_def.library.function if f.signature.name == function.signature.name) == function


# -- what survives -----------------------------------------------------------------------------------------------------


def _trained():
    x = tf.placeholder(tf.float32, [4, 4], name="x")
    function = tf.function(lambda x: tf.nn.relu(x))
    hidden = function(tf.layers.dense(x, 4, tf.nn.relu, name="one"))
    loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 4, name="two")), name="loss")
    tf.add_to_collection("mine", loss)
    tf.add_to_collection("text", "some text")
    tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")


def test_everything_else_survives():
    before = built(_trained)
    with tf.Graph().as_default():
        before.saver_def.CopyFrom(tf.train.Saver([tf.Variable(1.0, use_resource=False)]).as_saver_def())
    before.signature_def["serving"].outputs["loss"].name = "loss:0"
    before.asset_file_def.add(filename="words.txt")
    after = verified(before, ["loss:0"])
    assert set(after.collection_def) == set(before.collection_def) | {"graphmp"}
    for key in before.collection_def:
        assert after.collection_def[key] == before.collection_def[key], key
    for part in ("meta_info_def", "saver_def", "signature_def", "asset_file_def"):
        assert getattr(after, part) == getattr(before, part), part
    assert after.graph_def.versions == before.graph_def.versions
    assert [f.signature for f in after.graph_def.library.function] == [f.signature for f in before.graph_def.library.function]


def test_only_contexts_change_among_collections():
    before = built(_loop_with_gradient)
    after = converted(before)
    changed = {key for key in before.collection_def if after.collection_def[key] != before.collection_def[key]}
    assert changed == {"while_context"} and set(after.collection_def) - set(before.collection_def) == {"graphmp"}


def test_the_mark():
    after = converted(chain("xa"), keep_float32=["nothing"])
    found = json.loads(after.collection_def["graphmp"].bytes_list.value[0].decode())
    assert (found["graphmp_version"], found["engine"]) == (__version__, "rewrite")
    assert found["flags"] == Config.make(keep_float32=["nothing"], loss_scale="none").as_flags()


def test_no_node_gains_an_attribute():
    """Else a graph that is converted here doesn't load in a TensorFlow that doesn't know the attribute."""
    before = chain("xaiad")
    after = converted(before)
    for name, node in nodes(before).items():
        assert set(nodes(after)[name].attr) == set(node.attr)
    assert set(nodes(after)["x0_graphmp_float16"].attr) == {"SrcT", "DstT"}


def test_deciding_leaves_the_graph_as_it_is():
    before = chain("xaiad")
    untouched = painting.copy_of(before)
    decide(before)
    assert before == untouched


@pytest.mark.parametrize("recorded", [False, True])
def test_rewriting_leaves_its_argument_as_it_is(recorded):
    before = built(_loop_with_gradient) if recorded else chain("xaiad")
    untouched = painting.copy_of(before)
    converted(before)
    assert before == untouched


@pytest.mark.parametrize("build", [_trained, _loop_with_gradient, _cond, _rnn], ids=lambda build: build.__name__)
def test_a_second_rewrite_changes_nothing(build):
    before = built(build)
    assert serialize(converted(before)) == serialize(converted(before))
    once = rewrite(before)
    twice = rewrite(once.meta_graph)
    assert serialize(once.meta_graph) == serialize(twice.meta_graph)
    assert [row["code"] for row in twice.record["warnings"]] == ["GMP108"] and twice.record["done"] == []


def test_the_same_bytes_in_any_process(tmp_path):
    script = (
        "import tests.conftest, hashlib, sys\n"
        "from tests.support import painting\n"
        "from graphmp.graph.files import read_graph\n"
        "from graphmp.graph.messages import serialize\n"
        "print(hashlib.sha256(serialize(painting.converted(read_graph(sys.argv[1])))).hexdigest())\n"
    )
    path = tmp_path / "graph.meta"
    path.write_bytes(serialize(built(_rnn)))
    children = []
    for seed in ("1", "2"):
        environment = dict(os.environ, PYTHONHASHSEED=seed)
        command = [sys.executable, "-c", script, str(path)]
        children.append(subprocess.Popen(command, cwd=str(ROOT), env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    results = {child.communicate()[0].split()[-1] for child in children}
    assert len(results) == 1


# -- recognised graphs -------------------------------------------------------------------------------------------------


def codes(rewriting):
    return {row["code"]: row for row in rewriting.record["warnings"]}


def test_an_inference_graph_is_converted_with_a_warning():
    rewriting = rewrite(chain("xaia"))
    assert codes(rewriting)["GMP105"]["message"] == "no training in this graph: no gradient code was found"
    assert half_nodes(rewriting.meta_graph)
    assert "GMP105" not in codes(rewrite(built(_trained)))


def test_a_graph_that_is_half_already():
    before = built(lambda: tf.matmul(tf.placeholder(tf.float16, [4, 4]), tf.constant(EYE.astype(np.float16))))
    rewriting = rewrite(before)
    assert codes(rewriting)["GMP108"]["message"].startswith("already half precision (1 of 1 matmuls and convolutions)")
    assert rewriting.meta_graph == before


def test_a_graph_in_mixed_precision_by_hand():
    def build():
        x = tf.placeholder(tf.float32, [4, 4])
        with tf.variable_scope("fp32_vars"):
            w = tf.get_variable("w", [4, 4])
        y = tf.matmul(tf.cast(x, tf.float16), tf.cast(w, tf.float16))
        for _ in range(3):
            y = tf.matmul(tf.cast(y, tf.float32), w)

    rewriting = rewrite(built(build))
    assert "already mixed precision by hand (1 of 4 matmuls and convolutions in half" in codes(rewriting)["GMP108"]["message"]
    assert "below fp32_vars)" in codes(rewriting)["GMP108"]["message"]


def test_a_graph_with_some_half_in_it_is_converted():
    def build():
        x = tf.placeholder(tf.float32, [4, 4], name="x")
        y = tf.cast(tf.matmul(tf.cast(x, tf.float16), tf.constant(EYE.astype(np.float16))), tf.float32)
        for _ in range(3):
            y = tf.matmul(y, tf.constant(EYE))
        tf.identity(y, name="y")

    after = verified(built(build), ["y:0"])
    assert {node.attr["T"].type for node in of_op(after, "MatMul")} == {FLOAT16}


def test_a_float64_graph():
    before = built(lambda: tf.matmul(tf.placeholder(tf.float64, [4, 4]), tf.constant(EYE.astype(np.float64))))
    rewriting = rewrite(before)
    assert codes(rewriting)["GMP108"]["message"].startswith("float64 throughout (1 matmuls and convolutions)")
    assert rewriting.meta_graph == before


@pytest.mark.parametrize(
    "name, found",
    [
        ("loss_scale", True),
        ("optimizer/loss_scale", True),
        ("current_loss_scale", True),
        ("loss_scaler/value", True),
        ("DynamicLossScale/good", True),
        ("loss", False),
        ("scale", False),
        ("gloss_scale_weight", False),
    ],
)
def test_own_loss_scaling_by_the_name_of_a_variable(name, found):
    before = graph(X, W, "m MatMul x w", "%s VariableV2 dtype=float32 shape=[]" % name, w=EYE)
    rewriting = rewrite(before)
    assert ("GMP107" in codes(rewriting)) == found
    if found:
        assert codes(rewriting)["GMP107"]["node"] == name and half_nodes(rewriting.meta_graph)


@pytest.mark.parametrize(
    "scale, unscale, found",
    [
        (128.0, lambda gradients: [g / 128.0 for g in gradients], True),
        (1024.0, lambda gradients: [g * (1 / 1024.0) for g in gradients], True),
        (128.0, lambda gradients: [g * 0.01 for g in gradients], False),  # a learning rate
        (128.0, lambda gradients: gradients, False),
        (2.0, lambda gradients: [g / 2.0 for g in gradients], False),  # a mean of two
        (2.0, lambda gradients: [g * 0.5 for g in gradients], False),
        (128.0, lambda gradients: [gradients[0] / 128.0, gradients[1] / 256.0], False),
        (128.0, lambda gradients: [gradients[0] / 128.0, gradients[1]], False),
    ],
)
def test_own_loss_scaling_by_a_common_divisor(scale, unscale, found, graph):
    x = tf.placeholder(tf.float32, [4, 4])
    ws = [tf.Variable(EYE, name="w%d" % i, use_resource=False) for i in range(2)]
    y = tf.reduce_sum(tf.matmul(tf.tanh(tf.matmul(x, ws[0])), ws[1]))
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    optimizer.apply_gradients(zip(unscale(tf.gradients(y * scale, ws)), ws))
    assert ("GMP107" in codes(rewrite(tf.train.export_meta_graph()))) == found


@pytest.mark.parametrize("options", [{"keep_float32": ["x"]}, {"compute_dtype": "bfloat16"}, {"loss_scale": 128}])
def test_another_conversion_is_refused(options):
    after = converted(chain("xa"))
    with pytest.raises(
        GraphmpError,
        match=r"GMP022: the graph was converted by graphmp .* with --compute_dtype=float16 --loss_scale=none; convert the original again",
    ):
        rewrite(after, **options)


def test_another_versions_conversion_is_refused():
    after = converted(chain("xa"))
    value = after.collection_def["graphmp"].bytes_list.value
    value[0] = value[0].replace(__version__.encode(), b"0.0.0")
    with pytest.raises(GraphmpError, match=r"GMP022: the graph was converted by graphmp 0\.0\.0 with"):
        rewrite(after)


def test_how_a_graph_was_converted_does_not_matter():
    after = converted(chain("xa"))
    assert rewrite(after, engine="rewrite", engine_strict=True).meta_graph == after


@pytest.mark.parametrize("name", ["x_graphmp_float16", "a/b_1_graphmp_float32", "x_graphmp_bfloat16_3"])
def test_a_conversion_without_its_mark_is_refused(name):
    with pytest.raises(GraphmpError, match=r"GMP022: .*\(node %s\)" % name):
        rewrite(graph(X, W, "m MatMul x w", "%s Sin x" % name, w=EYE))


def test_names_that_only_look_like_a_conversion():
    assert half_nodes(converted(graph(X, W, "graphmp_float16 MatMul x w", "x_graphmp_float16y Sin x", w=EYE)))


# -- the check ---------------------------------------------------------------------------------------------------------


def test_check_finds_an_edge_with_two_dtypes():
    before = graph(X, W, "m MatMul x w", w=EYE)
    check.check_types(before.graph_def, OpDefs(before))
    nodes(before)["x"].attr["dtype"].type = BFLOAT16
    with pytest.raises(GraphmpError, match="GMP021: node m reads x as float32, which is bfloat16"):
        check.check_types(before.graph_def, OpDefs(before))


@pytest.mark.parametrize(
    "lines, message",
    [
        ((X, X), "GMP008: two nodes have the name x"),
        ((X, "y Sin nowhere"), "GMP008: node y has the input nowhere, but the graph has no node of that name"),
    ],
)
def test_check_finds_broken_graphs(lines, message):
    broken = tf.MetaGraphDef()
    for line in lines:
        name, op, *inputs = [word for word in line.split() if "=" not in word]
        broken.graph_def.node.add(name=name, op=op, input=inputs)
    with pytest.raises(GraphmpError, match=message):
        check.check_types(broken.graph_def, OpDefs(broken))


def test_check_does_not_mind_ops_that_nobody_knows():
    before = graph(X, "own MyOp x", "y Sin own", "z Add y x")
    check.check_types(before.graph_def, OpDefs(before))


def test_check_refuses_what_does_not_load():
    before = graph(X, W, "m MatMul x w", w=EYE)
    after = painting.copy_of(before)
    del after.graph_def.node[0]
    with pytest.raises(GraphmpError, match="GMP021: TensorFlow loads the original and not the converted graph: "):
        check.loaded(before, after)
    check.loaded(after, after)  # where the original doesn't load either, there is nothing to compare with


def test_a_large_graph_is_imported_in_parts(monkeypatch):
    before = built(SHAPES["plain"].build)
    sizes = []
    monkeypatch.setattr(check, "MOST_AT_ONCE", 20)
    monkeypatch.setattr(check, "load_graph", lambda graph_def: sizes.append(len(graph_def.node)) or load_graph(graph_def))
    after = converted(before)
    assert len(sizes) >= len(after.graph_def.node) / 20
    assert max(sizes) < len(after.graph_def.node)
    of_op(after, "MatMul")[0].attr["T"].type = tf.qint8.as_datatype_enum  # which no matmul takes
    with pytest.raises(GraphmpError, match="GMP021: TensorFlow loads the original and not the converted graph: "):
        check.loaded(before, after)


@pytest.mark.parametrize("build", [build for build, _ in SHAPES.values()], ids=SHAPES)
def test_parts_of_a_graph_load_where_the_whole_does(build):
    after = converted(built(build))
    for part in graph_parts.parts(after.graph_def, OpDefs(after), 40):
        load_graph(part)


@pytest.mark.parametrize("broken", ["colocated", "unknown op", "missing input"])
def test_what_cannot_be_taken_apart_is_imported_whole(broken):
    meta_graph = graph(X, W, "own MyOp x" if broken == "unknown op" else "own Sin x", "m MatMul own w", w=EYE)
    if broken == "colocated":
        nodes(meta_graph)["own"].attr["_class"].list.s.append(b"loc:@nowhere")
    elif broken == "missing input":
        nodes(meta_graph)["m"].input[0] = "nowhere"
    with pytest.raises(LookupError):
        list(graph_parts.parts(meta_graph.graph_def, OpDefs(meta_graph), 1))


def _shaped(node, *shapes):
    for shape in shapes:
        node.attr["_output_shapes"].list.shape.add().CopyFrom(tf.TensorShape(shape).as_proto())


@pytest.mark.skipif(not TF2, reason="TensorFlow 1.15 doesn't compare recorded shapes")
def test_check_drops_stale_shapes():
    before = graph(X, W, "m MatMul x w", "s Sin m", "n MatMul s w", w=EYE)
    _shaped(nodes(before)["s"], [7, 7])
    _shaped(nodes(before)["m"], [4, 4])
    after = painting.copy_of(before)
    after = check.loaded(before, after).parsed()
    assert "_output_shapes" not in nodes(after)["s"].attr and "_output_shapes" in nodes(after)["m"].attr
    painting.dtypes_agree(after)
    assert half_nodes(converted(before))


def test_kernels_of_every_op_are_there(graph):
    """What is half after a conversion of all these runs."""
    x = tf.placeholder(tf.float32, [4, 4, 4, 4], name="x")
    w = tf.constant(np.random.RandomState(0).rand(3, 3, 4, 4).astype(np.float32) * 0.1)
    activations = [tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.selu, tf.nn.softplus, tf.nn.softsign, tf.nn.leaky_relu, tf.erf, tf.tanh, tf.sigmoid]
    layers = [lambda y, f=f: f(y) for f in activations]
    layers += [
        lambda y: tf.nn.max_pool(y, 2, 1, "SAME"),
        lambda y: tf.nn.avg_pool(y, 2, 1, "SAME"),
        lambda y: tf.pad(y, [[0, 0], [0, 0], [0, 0], [0, 0]]),
        lambda y: tf.transpose(y, [0, 2, 1, 3]),
        lambda y: tf.concat([y, y], 3)[:, :, :, 1:5],
        lambda y: tf.add_n(tf.split(tf.tile(y, [1, 1, 1, 2]), 2, 3)),
        lambda y: tf.stack(tf.unstack(y)),
        lambda y: tf.reverse(tf.where(y > 0.0, y, -y), [1]),
        lambda y: tf.clip_by_value(tf.reshape(y, [4, 4, 4, 4]), -1.0, 1.0),
        lambda y: tf.depth_to_space(tf.space_to_depth(y, 2), 2),
        lambda y: tf.batch_to_space(tf.space_to_batch(y, [[0, 0], [0, 0]], 2), [[0, 0], [0, 0]], 2),
        lambda y: tf.gather(y, [0, 2, 1, 3]) * tf.reduce_max(y),
        lambda y: tf.nn.softmax(y) + tf.nn.log_softmax(y),
        lambda y: tf.squeeze(tf.expand_dims(tf.abs(y), 0), 0),
        lambda y: tf.minimum(tf.maximum(y, 0.1), tf.sign(y) + 2.0),
        lambda y: y / (tf.stop_gradient(y) + 3.0) - 0.5,
    ]
    y = tf.nn.conv2d(x, w, 1, "SAME")
    for layer in layers:
        y = tf.nn.conv2d(layer(y), w, 1, "SAME")
    loss = tf.reduce_sum(y, name="loss")
    gradient = tf.gradients(loss, x)[0]
    before = tf.train.export_meta_graph()
    after = verified(before)
    values = painting.values(after, ["loss:0", gradient.name], painting.placeholders(before))
    assert all(np.isfinite(value).all() for value in values)
    kinds = {node.op for node in after.graph_def.node if node.op not in ("Cast", "Const") and node.name in half_nodes(after)}
    assert len(kinds) > 45, sorted(kinds)


def test_combinations_of_ops_agree_in_numbers():
    for letters in itertools.product("aidc", repeat=3):
        verified(chain("x" + "".join(letters) + "a"))


def test_a_function_that_is_differentiated_is_rewritten():
    """SymbolicGradient is a call; what the library names as a function's gradient comes along."""
    function = importlib.import_module("tensorflow.python.framework.function")

    def build():
        body = function.Defun(tf.float32, tf.float32, func_name="body")(lambda x, w: tf.matmul(tf.tanh(tf.matmul(x, w)), w))
        x = tf.placeholder(tf.float32, [4, 4], "x")
        w = tf.Variable(np.eye(4, dtype=np.float32), name="w", use_resource=False)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(body(x, tf.identity(w))))

    graph_def = converted(built(build)).graph_def
    dtypes = {n.attr["T"].type for f in graph_def.library.function for n in f.node_def if "MatMul" in n.op}
    assert any(n.op == "SymbolicGradient" for n in graph_def.node) and dtypes == {FLOAT16}


def test_a_gradient_scope_has_a_name():
    """The gradient of an AddN called AddN, in a scope that has an AddN of its own."""
    names = {"AddN", "gradients/AddN", "gradients/AddN_grad/tuple/group_deps", "m_grad/x", "w"}
    assert gradient_scopes(names) == {"gradients"}
    assert "m_grad/x" not in gradient_nodes(names)
