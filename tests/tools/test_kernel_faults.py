"""tools/kernel_faults.py: which cases of shapes a fault is put down to, and a kernel tried."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy import tables
from graphmp.policy.shape_faults import FAULTS
from tests.support.places import TOOLS


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import kernel_faults

    return kernel_faults


@pytest.mark.unit
@pytest.mark.parametrize(
    "bad, good, expected",
    [
        ([(1, 1, 1, 3)], [(2, 1, 1, 3), (0, 2, 2, 3)], "one_per_channel"),
        ([(0, 3), (0,)], [(1, 3)], "empty"),
        ([(1, 1), (1,)], [(1, 3), (3, 1)], "one_element"),
        ([(1, 3), (1, 7)], [(3, 3)], "one_row"),
        ([(5, 7)], [(7, 5)], "always"),
        ([(0, 3)], [(0, 5)], "always"),
    ],
)
def test_the_case_that_tells_bad_from_good(tool, bad, good, expected):
    tried = [tool.Tried([shape], tool.ABORTS) for shape in bad]
    tried += [tool.Tried([shape], tool.FINE) for shape in good]
    assert tool.fault("Op", tried).split(" #")[0] == "Op %s ends_the_process" % expected


@pytest.mark.unit
def test_what_is_no_fault(tool):
    assert tool.fault("Op", [tool.Tried([(1,)], tool.FINE)]) is None
    assert tool.fault("Op", [tool.Tried([(1,)], tool.REFUSES)]) is None  # it has no kernel
    assert tool.fault("Op", []) is None


@pytest.mark.unit
def test_values_are_compared_by_the_largest(tool):
    one = [np.array([100.0, 1.0], np.float32)]
    assert tool._compared(one, [np.array([100.5, 1.5], np.float16)], 0.01) == tool.FINE
    assert tool._compared(one, [np.array([102.0, 1.0], np.float16)], 0.01) == tool.WRONG
    assert tool._compared(one, [np.array([np.nan, 1.0], np.float16)], 0.01) == tool.WRONG
    assert tool._compared(one, [one[0][:1]], 0.01) == tool.WRONG
    assert tool._compared(one, None, 0.01) == tool.REFUSES


@pytest.mark.slow
def test_the_table_holds_for_this_tensorflow():
    """In a process of its own: the tool forks, which hangs after a session of another test."""
    script = "import kernel_faults as tool, sys; op = sys.argv[1]"
    script += (
        "; print(tool.fault(op, list(tool.attempts(op, list(tool.cases(op)), 'float16', 'CPU'))))"
    )
    for op in ("MatMul", "FusedBatchNormGradV3"):
        listed = [row for row in tables.rows(FAULTS) if row[0] == tf.__version__ and row[3] == op]
        found = subprocess.run(
            [sys.executable, "-c", script, op], cwd=str(TOOLS), stdout=subprocess.PIPE, check=True
        ).stdout.decode()
        assert (found == "None\n") == (not listed)
        assert found == "None\n" or found.split()[1:3] == listed[0][4:6]
