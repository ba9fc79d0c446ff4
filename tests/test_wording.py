"""Words of messages."""

from __future__ import annotations

import pytest

from graphmp.wording import with_article


@pytest.mark.unit
@pytest.mark.parametrize(
    "text",
    [
        "a MatMul",
        "an AddV2",
        "an FFT",
        "an L2Loss",
        "a Sum",
        "an UnsortedSegmentSum",
        "a Unique",
        "a OneHot",
        "a TPUCompile",
    ],
)
def test_an_article_goes_by_the_sound(text):
    assert with_article(text.split()[1]) == text
