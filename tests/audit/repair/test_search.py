"""The search for the nodes to keep in float32: it finds exactly the guilty ones, in few runs."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmp.audit.repair.search import MOST_RUNS, Search
from tests.support.searched import often

pytestmark = pytest.mark.unit

MOST = 300


def search(nodes, guilty, guess=(), most=100 * MOST_RUNS):
    """Runs a search where a set passes that has all the guilty nodes.

    Sets that were asked for twice fail the test.
    """
    asked = []

    def passes(kept):
        assert kept not in asked and kept <= set(nodes)
        asked.append(kept)
        return set(guilty) <= kept

    found = Search(passes, most).smallest(nodes, guess)
    assert found.runs == len(asked)
    return found


def most_runs(count, guilty):
    """By halving.

    Rounds of each guilty node, one more as near as the one before, one to see whether it was the
    last, and the sets that are tried first.
    """
    return guilty * (math.ceil(math.log2(count)) + 2) + 2


@st.composite
def cases(draw, fewest=1, most_guilty=MOST):
    """Nodes in an order, and the guilty ones among them, at least one."""
    count = draw(st.integers(fewest, MOST))
    guilty = draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=min(count, most_guilty)))
    return [str(number) for number in range(count)], [str(number) for number in guilty]


@given(cases())
@often
def test_it_finds_exactly_the_guilty(case):
    nodes, guilty = case
    found = search(nodes, guilty)
    assert sorted(found.kept) == sorted(guilty)
    assert found.runs <= most_runs(len(nodes), len(guilty))


@given(cases(fewest=16, most_guilty=4))
@often
def test_few_guilty_take_few_runs(case):
    nodes, guilty = case
    log = math.log2(len(nodes))
    assert search(nodes, guilty).runs < 2 * log + len(guilty) * log


seeds = st.integers(0, 2**32 - 1).map(
    random.Random
)  # a draw for each node takes a hundred times as long


@given(cases(), seeds)
@often
def test_a_right_guess_is_searched_alone(case, chance):
    nodes, guilty = case
    guess = [node for node in nodes if node in guilty or chance.randrange(10) == 0]
    found = search(nodes, guilty, guess)
    assert sorted(found.kept) == sorted(guilty)
    assert found.runs <= most_runs(len(guess), len(guilty))


@given(cases(), seeds)
@often
def test_a_wrong_guess_costs_one_run(case, chance):
    nodes, guilty = case
    wrong = chance.choice(guilty)
    guess = [node for node in nodes if node != wrong and chance.random() < 0.5]
    found = search(nodes, guilty, guess)
    plain = search(nodes, guilty)
    assert sorted(found.kept) == sorted(guilty)
    assert found.runs <= plain.runs + 1


@pytest.mark.parametrize("count", [16, 17, 100, 1000, 10000])
@pytest.mark.parametrize("guilty", [1, 2, 3])
def test_runs_where_the_guilty_stand_last(count, guilty):
    """The last ones take the most rounds."""
    nodes = [str(number) for number in range(count)]
    found = search(nodes, nodes[-guilty:])
    assert found.kept == nodes[: -guilty - 1 : -1]
    assert found.runs < (2 + guilty) * math.log2(count)
    assert found.runs <= most_runs(count, guilty)


def test_a_right_guess_is_faster():
    nodes = [str(number) for number in range(1000)]
    assert search(nodes, ["700"], ["699", "700", "701"]).runs <= 4 < search(nodes, ["700"]).runs


@pytest.mark.parametrize("guess", [[], ["1", "2"]])
def test_where_nothing_helps(guess):
    found = Search(lambda kept: False).smallest(["0", "1", "2", "3"], guess)
    assert found.kept is None
    assert found.runs == 1 + bool(guess)


def test_no_nodes_do_not_help():
    assert Search(lambda kept: True).smallest([]) == (None, 0, False)


def test_where_one_of_two_is_enough_either_is_kept():
    """Not every repair is a single one.

    What passes once passes with more, but there are several small sets.
    """
    nodes = [str(number) for number in range(64)]
    found = Search(lambda kept: bool(kept & {"9", "40"})).smallest(nodes)
    assert found.kept == ["9"]


def test_what_is_kept_alone_passes():
    """Whatever passes, if keeping more never hurts.

    The set that is found does, and no node of it can be left out.
    """

    def passes(kept):
        return {"3", "20"} <= kept or {"4", "5", "60"} <= kept

    found = Search(passes).smallest([str(number) for number in range(64)])
    assert passes(frozenset(found.kept))
    assert not any(passes(frozenset(found.kept) - {node}) for node in found.kept)


@pytest.mark.parametrize("first, count, most", [(0, 10, 26), (267, 10, 30), (0, 544, 554)])
def test_guilty_nodes_that_stand_together_take_few_runs(first, count, most):
    """One or two each, where bisection takes ten."""
    nodes = [str(number) for number in range(544)]
    guilty = nodes[first : first + count]
    found = search(nodes, guilty)
    assert sorted(found.kept) == sorted(guilty) and not found.cut
    assert found.runs <= most


def test_a_long_search_ends_with_what_passes():
    """Of 544 nodes every third is guilty."""
    nodes = [str(number) for number in range(544)]
    found = search(nodes, nodes[::3], most=MOST_RUNS)
    assert found.cut and set(nodes[::3]) <= set(found.kept) < set(nodes)
    assert len(set(found.kept)) == len(found.kept)
    assert found.runs <= MOST_RUNS + math.log2(len(nodes)) + 2
