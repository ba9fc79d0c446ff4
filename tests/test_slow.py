"""The tables of slow tests name tests that exist."""

import pytest

from tests.support.places import ROOT
from tests.support.slow import KEPT, MEASURED, names, table


@pytest.mark.unit
@pytest.mark.parametrize("tests", [table(), names(MEASURED), names(KEPT)])
def test_each_line_names_a_test(tests):
    for test in tests:
        path, *_, name = test.split("[")[0].split("::")
        assert "def %s(" % name in (ROOT / path).read_text(), test
