"""What names claim to be gradient code, and what structure says of it."""

from __future__ import annotations

import pytest

from graphmp.graph.gradient_code import gradient_code
from graphmp.graph.view import GraphView
from tests.support.painting import graph

pytestmark = pytest.mark.unit

FORWARD = ("x Placeholder dtype=float32", "w Const", "h MatMul x w", "loss Neg h")
BACKWARD = ("g/grad_ys_0 OnesLike loss", "g/loss_grad/Neg Neg g/grad_ys_0", "g/h_grad/MatMul MatMul x g/loss_grad/Neg")


def code_of(*lines):
    return gradient_code(GraphView(graph(*FORWARD, *BACKWARD, *lines).graph_def))


def test_gradients_run_backwards():
    assert code_of() == {"g": {"g/grad_ys_0", "g/loss_grad/Neg", "g/h_grad/MatMul"}}


@pytest.mark.parametrize("lines", [("w_grad/clip Neg g/h_grad/MatMul",), ("between Neg g/h_grad/MatMul", "w_grad/clip Neg between")])
def test_a_variable_has_no_gradient_code(lines):
    assert set(code_of(*lines)) == {"g"}


@pytest.mark.parametrize("lines", [("loss_grad/clip Neg g/h_grad/MatMul",), ("between Neg g/h_grad/MatMul", "loss_grad/clip Neg between")])
def test_what_works_on_gradients_of_what_comes_before_is_no_gradient(lines):
    """The loss is made of the matmul whose gradient is clipped."""
    assert set(code_of(*lines)) == {"g"}


def test_a_call_that_starts_from_another_ones_gradient_is_one():
    """A segment of the model that is differentiated by itself."""
    found = code_of("a_h Neg x", "second/grad_ys_0 Identity g/h_grad/MatMul", "second/a_h_grad/Neg Neg second/grad_ys_0")
    assert found["second"] == {"second/grad_ys_0", "second/a_h_grad/Neg"}


def test_a_scope_that_is_claimed_wrongly_hides_no_other():
    lines = [line.replace("g/", "train/g/") for line in BACKWARD]
    found = gradient_code(GraphView(graph(*FORWARD, *lines, "train/loss_grad/clip Neg train/g/h_grad/MatMul").graph_def))
    assert found == {"train/g": {"train/g/grad_ys_0", "train/g/loss_grad/Neg", "train/g/h_grad/MatMul"}}


def test_what_a_conversion_put_in_is_none():
    assert code_of("graphmp/first_step/g/h_grad/MatMul/row Neg g/h_grad/MatMul") == code_of()
