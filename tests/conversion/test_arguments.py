"""Arguments for a build function that nobody calls."""

from __future__ import annotations

import pytest

from graphmp.conversion.arguments import parse_arg


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    ["{{1}}", "{[]: 1}", "(" * 500, "-" * 5000 + "1", "a b"],
    ids=["set of sets", "list as key", "parentheses", "signs", "words"],
)
def test_a_value_that_is_no_literal_is_text(text):
    assert parse_arg("x=" + text) == ("x", text)
