"""Places at which a step is made to overflow."""

from __future__ import annotations

import pytest

from graphmp.executed.skips import _from_the_middle
from tests.support.counted import Compared


@pytest.mark.unit
def test_names_from_the_middle_outwards(monkeypatch):
    assert _from_the_middle("abcd") == ["c", "b", "d", "a"]
    monkeypatch.setattr(Compared, "count", 0)
    _from_the_middle([Compared("n%d" % number) for number in range(400)])
    assert Compared.count < 4000
