"""Values that are computed once, and kept in the object that they belong to."""

from __future__ import annotations

import pytest

from graphmp.once import once, remembered

pytestmark = pytest.mark.unit


class _Subject:
    def __init__(self, number):
        self.number, self.calls = number, 0

    @once
    def square(self):
        self.calls += 1
        return self.number**2


@remembered
def doubled(subject):
    """Twice the number."""
    subject.calls += 1
    return [2 * subject.number]


@remembered
def halved(subject):
    subject.calls += 1
    return [subject.number / 2]


def test_an_attribute_is_computed_at_its_first_use():
    subject = _Subject(3)
    assert (subject.calls, subject.square, subject.square, subject.calls) == (0, 9, 9, 1)


def test_a_function_keeps_a_value_for_each_object():
    three, four = _Subject(3), _Subject(4)
    assert doubled(three) is doubled(three)
    assert (doubled(three), doubled(four), three.calls, four.calls) == ([6], [8], 1, 1)


def test_functions_of_one_object_keep_values_of_their_own():
    subject = _Subject(3)
    assert (doubled(subject), halved(subject), doubled(subject)) == ([6], [1.5], [6])
    assert (doubled.__name__, doubled.__doc__) == ("doubled", "Twice the number.")


def test_objects_that_share_their_facts_share_values():
    three, same = _Subject(3), _Subject(3)
    three.facts = same.facts = {}
    assert doubled(three) is doubled(same)
    assert (three.calls, same.calls) == (1, 0)
