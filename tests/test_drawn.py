"""Drawn values: the same in each run, others for each seed of the command line."""

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.drawn import draw
from tests.support.places import ROOT


@pytest.fixture
def seed(request, monkeypatch):
    """Sets the seed for the length of a test."""

    def chosen(seed):
        monkeypatch.setattr("hypothesis.core.global_force_seed", seed)
        draw(seed)

    yield chosen
    draw(request.config.getoption("hypothesis_seed"))


def drawn():
    found = []

    @hypothesis.settings(max_examples=20)
    @hypothesis.given(st.integers())
    def take(number):
        found.append(number)

    take()
    return found


@pytest.mark.unit
def test_values_depend_on_the_seed_alone(seed):
    found = []
    for number in (None, 1, 2):
        seed(number)
        found.append(drawn())
        assert drawn() == found[-1]
    assert found[0] != found[1] != found[2]


@pytest.mark.unit
def test_no_test_has_a_seed_of_its_own():
    own = [
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r"settings\([^)]*(derandomize|deadline|database)", path.read_text("utf-8"))
    ]
    assert not own
