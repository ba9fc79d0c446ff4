"""One call of `tf.gradients` in a graph of a few lines: its seeds, its losses, its code."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.io.messages import with_nodes_reversed
from graphmp.graph.structure.view import Port
from graphmp.scaling.losses.scopes import gradient_scope
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.tf_hooks.op_defs import OpDefs
from tests.support.control_flow import control_flow
from tests.support.painting import graph

pytestmark = pytest.mark.unit

FORWARD = ("x Placeholder dtype=float32", "y Tanh x")
SEED = (
    "gradients/Shape Const",
    "gradients/Const Const",
    "gradients/Fill Fill gradients/Shape gradients/Const",
)
CONSTANTS = {"gradients/Shape": np.zeros([0], np.int32), "gradients/Const": 1.0}


def scope_of(*lines, reverse=False, **constants):
    """The scope `gradients` of a graph."""
    meta_graph = graph(*lines, **dict(CONSTANTS, **constants))
    built = TrainingGraph(
        with_nodes_reversed(meta_graph) if reverse else meta_graph,
        Config.make(),
        OpDefs(meta_graph),
    )
    return gradient_scope(built, "gradients", built.code["gradients"])


def seeds(*lines, **constants):
    return [port.node for port in scope_of(*lines, **constants).seeds]


@pytest.mark.parametrize("value", [1.0, 2.0])
def test_a_seed_of_ones_is_the_fill_and_not_its_number(value):
    """As TensorFlow wrote it before it named seeds; a two is no such start."""
    lines = (*FORWARD, *SEED, "gradients/y_grad/TanhGrad TanhGrad y gradients/Fill")
    assert seeds(*lines, **{"gradients/Const": value}) == ["gradients/Fill"] * (value == 1.0)


def test_zeros_and_ones_elsewhere_are_no_seeds():
    """Zeros for an output without gradient, ones in an op's gradient, and unread ones."""
    found = seeds(
        *FORWARD, *SEED, "gradients/zeros Const", "gradients/unread OnesLike y",
        "gradients/y_grad/OnesLike OnesLike y",
        "gradients/y_grad/mul Mul gradients/Fill gradients/y_grad/OnesLike",
        "gradients/AddN AddN gradients/y_grad/mul gradients/zeros",
        **{"gradients/zeros": 0.0}
    )  # fmt: skip
    assert found == ["gradients/Fill"]


def test_nor_are_those_of_gradient_code_without_a_scope():
    meta_graph = graph(
        *FORWARD, *(line.replace("gradients/", "") for line in SEED),
        "y_grad/OnesLike OnesLike y", "y_grad/mul Mul y_grad/TanhGrad y_grad/OnesLike",
        "y_grad/TanhGrad TanhGrad y Fill",
        **{name.replace("gradients/", ""): value for name, value in CONSTANTS.items()}
    )  # fmt: skip
    built = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    assert gradient_scope(built, "", built.code[""]).seeds == (Port("Fill", 0),)


def test_gradients_that_start_from_a_value_outside():
    """As TensorFlow read `grad_ys` before it copied them.

    Other inputs, shapes and forward values, are no seeds.
    """
    found = seeds(
        *FORWARD, "shape Const", "given Placeholder dtype=float32",
        "gradients/y_grad/Reshape Reshape given shape",
        "gradients/y_grad/TanhGrad TanhGrad y gradients/y_grad/Reshape",
        shape=np.array([4], np.int32)
    )  # fmt: skip
    assert found == ["given"]


def test_a_value_at_which_two_calls_start_is_a_seed_of_each():
    scope = scope_of(
        *FORWARD, "z Sigmoid x", "shape Const", "given Placeholder dtype=float32",
        "gradients/y_grad/Reshape Reshape given shape",
        "gradients/y_grad/TanhGrad TanhGrad y gradients/y_grad/Reshape",
        "gradients_1/z_grad/Reshape Reshape given shape",
        "gradients_1/z_grad/SigmoidGrad SigmoidGrad z gradients_1/z_grad/Reshape",
        shape=np.array([4], np.int32)
    )  # fmt: skip
    assert scope.seeds == (Port("given", 0),) and scope.losses == ("y",)


def test_what_lies_between_two_parts_of_gradient_code_belongs_to_it():
    """Such as a custom gradient with its own scope; nodes that only read gradients don't belong."""
    scope = scope_of(
        *FORWARD, *SEED, "two Const", "mine/double Mul gradients/Fill two",
        "gradients/y_grad/TanhGrad TanhGrad y mine/double",
        "shown Identity mine/double", two=2.0
    )  # fmt: skip
    assert "mine/double" in scope.nodes and not {"shown", "y", "two"} & scope.nodes
    assert scope.leaving == (Port("mine/double", 0),) and scope.degrees.of["mine/double"] == 1


def test_gradients_keep_their_scale_through_a_list_of_tensors():
    """As in TensorFlow 2's loops and conditionals."""
    scope = scope_of(
        *FORWARD, *SEED, "shape Const",
        "gradients/y_grad/list TensorListFromTensor gradients/Fill shape",
        "gradients/y_grad/stack TensorListStack gradients/y_grad/list shape",
        "gradients/y_grad/TanhGrad TanhGrad y gradients/y_grad/stack",
        shape=np.array([4], np.int32)
    )  # fmt: skip
    assert scope.degrees.of["gradients/y_grad/TanhGrad"] == 1 and scope.degrees.unclear == []


SUM = (
    "x Placeholder dtype=float32", "a Tanh x", "b Sigmoid x", "total AddN a b",
    "shown Identity total", *SEED,
    "gradients/a_grad/TanhGrad TanhGrad a gradients/Fill",
    "gradients/b_grad/SigmoidGrad SigmoidGrad b gradients/Fill",
)  # fmt: skip
BIAS = (
    "x Placeholder dtype=float32", "w Const", "b Const", "product MatMul x w",
    "y BiasAdd product b",
    "shown Identity y", *SEED,
    "gradients/y_grad/BiasAddGrad BiasAddGrad gradients/Fill",
    "gradients/product_grad/MatMul MatMul x gradients/Fill",
)  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
def test_a_bias_hands_its_gradient_on_and_is_the_loss(reverse):
    assert scope_of(*BIAS, reverse=reverse, w=np.eye(4), b=np.ones(4)).losses == ("y",)


def test_the_loss_is_the_sum_of_what_gradients_start_at():
    """A sum has no gradient code."""
    assert scope_of(*SUM).losses == ("total",)


def test_a_shape_that_nothing_tells_is_unknown():
    meta_graph = graph("x Placeholder shape=[4,3]", "y Placeholder dtype=float32", "z Tanh y")
    built = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    assert built.shape(Port("x", 0)) == [4, 3]
    assert built.shape(Port("z", 0)) is built.shape(Port("x", 1)) is None


def test_the_result_of_an_inner_loop_is_inside_the_outer_one():
    with tf.Graph().as_default() as nested:
        x = tf.placeholder(tf.float32, [], "x")

        def turn(i, value):
            inner = tf.while_loop(lambda j, _: j < 2, lambda j, v: (j + 1, 2 * v), [0, value])
            return i + 1, tf.identity(inner[1], "turned")

        tf.while_loop(lambda i, _: i < 3, turn, [0, x], name="outer")
        meta_graph = tf.train.export_meta_graph(graph=nested)
    built = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    exits = {n.name: built.loops(n.name) for n in meta_graph.graph_def.node if n.op == "Exit"}
    assert {len(path) for path in exits.values()} == {0, 1}
    assert {path for path in exits.values() if path} == {built.loops("outer/turned")}


def test_a_loop_requires_the_sides_between_it_and_the_loop_around_it():
    """Three loops, each in a branch of the one around it."""

    def nest(depth, flags, value):
        def turn(i, x):
            if depth == 3:
                return i + 1, 2 * x
            return i + 1, tf.cond(flags[depth], lambda: nest(depth + 1, flags, x), lambda: x)

        return tf.while_loop(lambda i, _: i < 2, turn, [0, value], name="loop%d" % depth)[1]

    with control_flow(functions=False), tf.Graph().as_default() as nested:
        flags = [tf.placeholder(tf.bool, (), "flag%d" % depth) for depth in range(3)]
        tf.cond(flags[0], lambda: nest(1, flags, tf.constant(1.0)), lambda: tf.constant(0.0))
        meta_graph = tf.train.export_meta_graph(graph=nested)
    built = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    paths = sorted(built.loop_conditions, key=len)
    required = [built.sides_of_loop(path) for path in paths]
    assert [len(path) for path in paths] == [1, 2, 3] and len(set(required)) == 3
    assert [len(sides) for sides in required] == [1, 1, 1]


def test_the_model_of_a_loop_is_not_between_the_gradients_of_two_turns():
    """Each turn descends on the input by a step."""
    with tf.Graph().as_default() as descent:
        x, w = tf.placeholder(tf.float32, [2, 4]), tf.get_variable("w", [4, 4])

        def turn(i, x):
            loss = tf.square(tf.matmul(x, w, name="product"))
            return i + 1, x - tf.gradients(loss, x)[0]

        tf.while_loop(lambda i, _: i < 3, turn, [0, x])
        meta_graph = tf.train.export_meta_graph(graph=descent)
    built = TrainingGraph(meta_graph, Config.make(), OpDefs(meta_graph))
    scope = gradient_scope(built, "while/gradients", built.code["while/gradients"])
    assert "while/product" not in scope.nodes


def test_state_that_is_made_in_the_scope_is_no_gradient_code():
    """A moving average of a gradient: its variable, its read and write, and what only these need."""
    code = (*SEED, "gradients/y_grad/TanhGrad TanhGrad y gradients/Fill")
    scope = scope_of(
        *FORWARD, *code, "shown Identity gradients/y_grad/TanhGrad",
        "gradients/mean VariableV2 dtype=float32", "gradients/mean/read Identity gradients/mean",
        "gradients/rate Const", "gradients/mul Mul gradients/y_grad/TanhGrad gradients/rate",
        "gradients/AssignSub AssignSub gradients/mean gradients/mul", **{"gradients/rate": 0.1}
    )  # fmt: skip
    assert scope.nodes == {line.split()[0] for line in code}
