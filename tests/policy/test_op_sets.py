"""The op sets name ops that exist."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy import op_sets
from graphmp.tf_hooks import internals

pytestmark = pytest.mark.unit

SETS = [name for name in vars(op_sets) if name.isupper() and name != "UPDATE_PREFIXES"]
# Than the registry of 1.15.5.
LATER = {"InitializeTableFromDataset", "StatelessCase", "_Arg", "_Retval", "_XlaMerge"}
ELSEWHERE = {"AutoReloadVariable"} | (set() if tf.__version__ > "2" else LATER)


def known(op):
    try:
        return internals.op_def(op) is not None
    except KeyError:
        return False


@pytest.mark.parametrize("name", SETS)
def test_ops_exist(name):
    found = getattr(op_sets, name)
    assert {op for op in ([found] if isinstance(found, str) else found) if not known(op)} <= (
        ELSEWHERE
    )


def test_no_two_sets_are_one():
    sets = [frozenset(getattr(op_sets, name)) for name in SETS]
    assert len(sets) == len(set(sets))
