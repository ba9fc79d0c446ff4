"""Gradient code: claims by names, confirmed or refused by structure."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.gradient_code import find, gradient_code
from graphmp.graph.structure.view import GraphView
from graphmp.tf_hooks.gradient_calls import noted
from tests.support.painting import graph

pytestmark = pytest.mark.unit

FORWARD = ("x Placeholder dtype=float32", "w Const", "h MatMul x w", "loss Neg h")
BACKWARD = (
    "g/grad_ys_0 OnesLike loss",
    "g/loss_grad/Neg Neg g/grad_ys_0",
    "g/h_grad/MatMul MatMul x g/loss_grad/Neg",
)


def code_of(*lines):
    return gradient_code(GraphView(graph(*FORWARD, *BACKWARD, *lines).graph_def))


def test_gradients_run_backwards():
    assert code_of() == {"g": {"g/grad_ys_0", "g/loss_grad/Neg", "g/h_grad/MatMul"}}


@pytest.mark.parametrize(
    "lines",
    [
        ("w_grad/clip Neg g/h_grad/MatMul",),
        ("between Neg g/h_grad/MatMul", "w_grad/clip Neg between"),
    ],
)
def test_a_variable_has_no_gradient_code(lines):
    assert set(code_of(*lines)) == {"g"}


@pytest.mark.parametrize(
    "lines",
    [
        ("loss_grad/clip Neg g/h_grad/MatMul",),
        ("between Neg g/h_grad/MatMul", "loss_grad/clip Neg between"),
    ],
)
def test_what_works_on_gradients_of_what_comes_before_is_no_gradient(lines):
    """The loss is made of the matmul whose gradient is clipped."""
    assert set(code_of(*lines)) == {"g"}


def test_a_call_that_starts_from_another_ones_gradient_is_one():
    """A segment of the model that is differentiated separately."""
    found = code_of(
        "a_h Neg x",
        "second/grad_ys_0 Identity g/h_grad/MatMul",
        "second/a_h_grad/Neg Neg second/grad_ys_0",
    )
    assert found["second"] == {"second/grad_ys_0", "second/a_h_grad/Neg"}


def test_a_scope_that_is_claimed_wrongly_hides_no_other():
    lines = [line.replace("g/", "train/g/") for line in BACKWARD]
    found = gradient_code(
        GraphView(
            graph(*FORWARD, *lines, "train/loss_grad/clip Neg train/g/h_grad/MatMul").graph_def
        )
    )
    assert found == {
        "train/g": {"train/g/grad_ys_0", "train/g/loss_grad/Neg", "train/g/h_grad/MatMul"}
    }


def test_what_a_conversion_put_in_is_none():
    assert code_of("graphmp/first_step/g/h_grad/MatMul/row Neg g/h_grad/MatMul") == code_of()


def test_in_a_loop_everything_comes_behind_everything():
    """The gradient of an iteration's last node is computed from the next iteration's gradients."""
    with tf.Graph().as_default() as built:
        rows = tf.TensorArray(tf.float32, 3)

        def body(turn, value, rows):
            value = tf.where(value > 0, tf.tanh(value), value, name="chosen")
            return turn + 1, value, rows.write(turn, value)

        last = tf.while_loop(
            lambda turn, *_: turn < 3,
            body,
            [0, tf.ones([4]) * tf.placeholder(tf.float32, [4]), rows],
        )[2].stack()
        tf.gradients(
            last,
            [op.outputs[0] for op in built.get_operations() if op.type == "Placeholder"],
            name="gradients_of_others",
        )
        calls = noted(built)
    found = find(GraphView(built.as_graph_def()))
    assert (
        found.assumed == {}
        and {name for name in calls[0].nodes if "_grad/" in name}
        <= found.scopes["gradients_of_others"]
    )


def test_names_that_tensorflow_gives_are_asked_too():
    assert set(code_of("gradients/loss_grad/clip Neg g/h_grad/MatMul")) == {"g"}


def test_what_takes_no_gradients_is_assumed():
    found = find(GraphView(graph(*FORWARD, *BACKWARD, "edges/h_grad/Neg Neg x").graph_def))
    assert found.assumed == {"edges/h_grad/Neg": "h"} and found.scopes["edges"] == {
        "edges/h_grad/Neg"
    }


def test_a_given_scope_decides():
    view = GraphView(graph(*FORWARD, *BACKWARD, "edges/h_grad/Neg Neg x").graph_def)
    assert find(view, ["g"]) == (code_of(), {})
    assert set(find(view, ["g", "edges"]).scopes) == {"g", "edges"}


def test_zeros_are_gradients():
    found = find(
        GraphView(
            graph(
                *FORWARD, *BACKWARD, "g/zeros_like ZerosLike h", "g/h_grad/Neg Neg g/zeros_like"
            ).graph_def
        )
    )
    assert found.assumed == {} and "g/h_grad/Neg" in found.scopes["g"]


def test_gradients_that_nobody_copied_start_a_chain():
    """As before TensorFlow 1.5: `grad_ys` is the user's tensor."""
    lines = (
        "given Neg x",
        "old/loss_grad/Neg Neg given",
        "old/h_grad/MatMul MatMul x old/loss_grad/Neg",
    )
    found = find(GraphView(graph(*FORWARD, *lines).graph_def))
    assert found.assumed == {} and found.scopes["old"] == {"old/loss_grad/Neg", "old/h_grad/MatMul"}


def test_the_dense_input_of_a_sum_of_gradients_is_gradient_code():
    """TensorFlow makes IndexedSlices dense below the name of the sum that reads them."""
    with tf.Graph().as_default() as built:
        hidden = tf.tanh(tf.placeholder(tf.float32, [8, 4]))
        rows = tf.gather(hidden, [0, 1])
        tf.gradients([tf.reduce_sum(rows), tf.reduce_sum(tf.square(hidden))], [hidden.op.inputs[0]])
    nodes = {op.name for op in built.get_operations() if op.name.startswith("gradients/AddN")}
    dense = [op.name for op in built.get_operations() if op.type == "UnsortedSegmentSum"]
    assert dense and dense[0].startswith("gradients/AddN/")
    assert nodes <= gradient_code(GraphView(built.as_graph_def()))["gradients"]
    other = code_of("g/Mul Neg g/h_grad/MatMul", "g/Mul/below Neg x", "g/AddN_1/clip Neg x")
    assert other["g"].isdisjoint({"g/Mul/below", "g/AddN_1/clip"})
