"""The loss scales that `graphmp run` tells of when it has converted a graph."""

from __future__ import annotations

import pytest

from graphmp.cli.announced import scales_in_words

pytestmark = pytest.mark.unit

DYNAMIC, FIXED = {"kind": "dynamic", "initial": 32768.0}, {"kind": "fixed", "initial": 128.0}


@pytest.mark.parametrize(
    "rows, words",
    [
        ([], "none"),
        ([DYNAMIC], "dynamic from 32768"),
        ([FIXED], "fixed at 128"),
        ([DYNAMIC, DYNAMIC], "dynamic from 32768 for each of 2 losses"),
        ([DYNAMIC, FIXED], "dynamic from 32768, fixed at 128"),
    ],
)
def test_each_start_is_said_once(rows, words):
    assert scales_in_words(rows) == words
