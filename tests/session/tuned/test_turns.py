"""The turns of a tuning, with times that the tests give."""

from __future__ import annotations

import pytest

from graphmp.session.tuned.turns import (
    FEWEST_ROUNDS,
    MOST_OF_TURN,
    MOST_ROUNDS,
    MOST_STEPS,
    ROUNDS,
    STEPS,
    WARMUP,
    Turns,
    steps_of,
)

pytestmark = pytest.mark.unit
A, B = "float32", "half"
FEWEST_STEPS = steps_of(2, FEWEST_ROUNDS)


def train(turns, seconds, kinds=lambda number: "step", most=1000, **given):
    """Trains until there is a result: the variants of the steps.

    `seconds` gives a step's time by its variant and number.
    """
    found = []
    while turns.outcome() is None and not turns.given_up and len(found) < most:
        number = len(found)
        found.append(turns.current)
        turns.saw(kinds(number), seconds(turns.current, number), **given)
        if turns.turn_is_over:
            turns.go_on()
    return found


def steady(float32, half):
    """Times that vary by 0.1%."""
    return lambda name, number: (float32 if name == A else half) * (1 + 1e-3 * (number % 3))


@pytest.mark.parametrize("float32, half, faster", [(1.0, 0.5, B), (0.5, 1.0, A)])
def test_a_clear_result_takes_the_fewest_steps(float32, half, faster):
    turns = Turns((A, B))
    order = train(turns, steady(float32, half))
    outcome = turns.outcome()
    assert outcome.faster == faster and outcome.rounds == FEWEST_ROUNDS
    assert len(order) == outcome.steps == FEWEST_STEPS
    first = WARMUP + STEPS
    assert order[: 2 * first + STEPS] == [A] * first + [B] * (first + STEPS)  # B goes on
    assert outcome.seconds == pytest.approx({A: float32, B: half}, rel=1e-2)
    assert outcome.speedup.value == pytest.approx(float32 / half, rel=1e-2)


def test_a_small_difference_takes_more_rounds():
    turns = Turns((A, B))
    train(turns, steady(1.0, 0.95))
    assert turns.outcome().faster == B and turns.outcome().rounds == ROUNDS


def test_rounds_end_where_nothing_shows_a_difference():
    """Each round says the opposite of the one before."""
    turns = Turns((A, B))
    train(turns, lambda name, number: 1.0 + 0.2 * ((number // 7) % 2))
    assert turns.outcome().rounds <= MOST_ROUNDS and turns.steps < MOST_STEPS


def test_the_first_runs_do_not_count():
    turns, runs = Turns((A, B)), {A: 0, B: 0}

    def seconds(name, number):
        runs[name] += 1
        return 9.0 if runs[name] <= WARMUP else 1.0

    train(turns, seconds)
    assert turns.outcome().seconds == pytest.approx({A: 1.0, B: 1.0})


def test_the_step_after_a_switch_does_not_count():
    turns, last = Turns((A, B)), [""]

    def seconds(name, number):
        slow, last[0] = name != last[0], name
        return 9.0 if slow else 1.0

    train(turns, seconds)
    assert turns.outcome().seconds == pytest.approx({A: 1.0, B: 1.0})


def test_a_step_that_takes_long_ends_its_turn():
    turns = Turns((A, B))
    order = train(turns, steady(0.01, 5.0))
    assert turns.outcome().faster == A
    assert order.count(B) == WARMUP + 1 + (FEWEST_ROUNDS - 1) + 1  # the last after a switch


def test_a_short_step_never_ends_a_turn():
    """A machine that is busy for a moment makes a step of a millisecond ten times as long."""
    turns = Turns((A, B))
    order = train(turns, steady(0.001, 0.01))
    assert len(order) == FEWEST_STEPS


def test_only_equal_runs_are_compared():
    """Every other run is of another kind, which takes long in float32; each kind by itself."""
    turns = Turns((A, B))

    def seconds(name, number):
        other = number % 2
        return {(A, 0): 1.0, (B, 0): 2.0, (A, 1): 30.0, (B, 1): 60.0}[name, other]

    train(turns, seconds, lambda number: "summary" if number % 2 else "step")
    assert turns.outcome().faster == A
    assert turns.outcome().speedup.value == pytest.approx(0.5)


def test_shapes_that_never_come_back_are_given_up():
    turns = Turns((A, B))
    order = train(turns, steady(1.0, 0.5), lambda number: number)
    assert turns.given_up and turns.outcome() is None
    assert len(order) == MOST_STEPS and len(turns.kinds) == MOST_STEPS
    assert order[:MOST_OF_TURN] == [A] * MOST_OF_TURN and order[MOST_OF_TURN] == B


def test_a_kind_that_one_type_never_sees_makes_no_round():
    turns = Turns((A, B))
    train(turns, steady(1.0, 0.5), lambda number: turns.current)
    assert turns.given_up


def test_a_batch_of_another_size_now_and_then_does_no_harm():
    turns = Turns((A, B))
    train(turns, steady(1.0, 0.5), lambda number: "last" if number % 5 == 4 else "full")
    assert turns.outcome().faster == B
    assert turns.outcome().speedup.value == pytest.approx(2.0, rel=1e-2)


def test_runs_under_a_tracer_do_not_count():
    turns = Turns((A, B))
    train(turns, steady(1.0, 0.5), valid=False)
    assert turns.given_up


def test_a_turn_that_is_forgotten_is_repeated():
    turns = Turns((A, B))
    while turns.current == A:
        turns.saw("step", 1.0)
        if turns.turn_is_over:
            turns.go_on()
    for _ in range(WARMUP + STEPS):
        turns.saw("step", 0.01)  # skipped
    assert turns.turn_is_over
    turns.forget()
    assert not turns.turn_is_over and turns.current == B
    train(turns, steady(1.0, 0.5))
    assert turns.outcome().seconds[B] == pytest.approx(0.5, rel=1e-2)
