"""The minimum cut against brute force: over arcs, and over the colours of small graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmp.rewrite.placement import placement
from graphmp.rewrite.placement.placement import SINK, SOURCE
from tests.support.placed import INFINITE, colourings, often, problems

pytestmark = pytest.mark.unit


def cost(arcs, half):
    """The cost of a colouring: the arcs from the half side to the float32 side."""
    side = set(half) | {SOURCE}
    return sum(capacity for a, b, capacity in arcs if a in side and b not in side)


def best(arcs):
    """The least cost, and every vertex that is half in some colouring of that cost."""
    vertices = sorted({v for a, b, _ in arcs for v in (a, b) if v > SINK})
    costs = [(cost(arcs, half), half) for half in colourings(vertices)]
    least = min(price for price, _ in costs)
    return least, set().union(*(half for price, half in costs if price == least))


@given(problems(st.integers(1, 6).map(float)))
@often
def test_the_cut_is_the_best_and_the_largest(arcs):
    """Small capacities make ties, which go to half."""
    least, half = best(arcs)
    found = placement._cut(arcs)
    assert cost(arcs, found) == least
    assert found == half


@given(problems(st.integers(1, 2**20).map(float)))
@often
def test_parts_are_cut_one_by_one(arcs):
    assert placement._half_side(arcs) == best(arcs)[1]


@given(problems(st.integers(1, 2**30).map(lambda n: n * 2.0**25)))
@often
def test_capacities_above_32_bits_are_scaled(arcs):
    least, _ = best(arcs)
    assert least <= cost(arcs, placement._cut(arcs)) <= least * (1 + 1e-6) + 2.0**26 * len(arcs)


@given(problems(st.sampled_from([1.0, 2.0**31, 2.0**40, 2.0**62, 1e30])))
@often
def test_capacities_of_all_sizes(arcs):
    least, _ = best(arcs)
    price = cost(arcs, placement._cut(arcs))
    assert least <= price <= least + 1e-6 * sum(c for _, _, c in arcs if c < INFINITE)


@pytest.mark.parametrize(
    "arcs, half",
    [
        ([(SOURCE, 2, 3.0), (2, SINK, 2.0)], {2}),
        ([(SOURCE, 2, 2.0), (2, SINK, 3.0)], set()),
        ([(SOURCE, 2, 2.0), (2, SINK, 2.0)], {2}),  # a tie
        ([(SOURCE, 2, 2.0**40), (2, SINK, 2.0**40)], {2}),
        ([(SOURCE, 2, 5.0), (2, 3, 5.0), (3, SINK, 5.0)], {2, 3}),
        ([(SOURCE, 2, 5.0), (2, SINK, INFINITE)], set()),
        ([(SOURCE, 2, 5.0), (2, 3, INFINITE), (3, SINK, 4.0)], {2, 3}),
        ([(SOURCE, 2, 4.0), (2, 3, INFINITE), (3, SINK, 5.0)], set()),
        ([(SOURCE, 2, 2.0**50), (2, 3, INFINITE), (3, 2, INFINITE), (3, SINK, INFINITE)], set()),
        ([(2, SINK, 5.0)], set()),
        ([(SOURCE, 2, 5.0)], {2}),
        ([(2, 3, INFINITE)], {2, 3}),
        ([(2, 3, 5.0), (3, 2, 5.0)], {2, 3}),
    ],
)
def test_cuts(arcs, half):
    assert placement._cut(arcs) == placement._half_side(arcs) == half


def test_no_arcs():
    assert placement._half_side([]) == placement._cut([]) == set()


def test_parallel_arcs_add_up():
    assert list(placement._merged(iter([(SOURCE, 2, 1.0), (SOURCE, 2, 2.0)]))) == [(SOURCE, 2, 3.0)]


@pytest.mark.parametrize(
    "arc", [(2, 2, 1.0), (SOURCE, SINK, 1.0), (SINK, SOURCE, 1.0), (2, SOURCE, 1.0), (SINK, 2, 1.0)]
)
def test_arcs_that_decide_nothing_are_dropped(arc):
    assert list(placement._merged(iter([arc]))) == []


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 2.0, INFINITE],
        [2.0**31, INFINITE, INFINITE],
        [2.0**62] * 9,
        [1e300, 1.0],
        [INFINITE],
        [],
    ],
)
def test_scaled_capacities_fit_32_bits(values):
    scaled = placement._scaled(values).astype(object)
    finite = [c for c, v in zip(scaled, values) if v < INFINITE]
    assert all(c >= 1 for c in scaled) and sum(finite) <= placement._LIMIT + len(values)
    assert all(sum(finite) < c < 2**31 for c, v in zip(scaled, values) if v == INFINITE)


def test_a_cut_that_is_not_worth_the_flow_is_an_error():
    with pytest.raises(ArithmeticError, match="minimum cut 3, maximum flow 4"):
        placement._check([0], [1], np.array([3], np.int32), {1}, 4)
