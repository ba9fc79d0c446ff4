"""The table of slow tests names tests that exist."""

import pytest

from tests.support.places import ROOT
from tests.support.slow import table


@pytest.mark.unit
def test_each_line_names_a_test():
    for test in table():
        path, name = test.split("[")[0].split("::")
        assert "def %s(" % name in (ROOT / path).read_text(), test
