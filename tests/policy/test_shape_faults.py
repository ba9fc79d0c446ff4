"""Kernels that fail for some shapes: which shapes those are, and the table of them."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy import shape_faults, tables
from graphmp.policy.shape_faults import CASES, FAULTS, WORDS, fault, holds

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "case, shapes, expected",
    [
        ("empty", [(0, 3)], True),
        ("empty", [(2, 3), (0,)], True),
        ("empty", [(2, 3)], False),
        ("empty", [(None, 3)], False),
        ("empty", [None], False),
        ("one_per_channel", [(1, 1, 1, 8)], True),
        ("one_per_channel", [(2, 1, 1, 8)], False),
        ("one_per_channel", [(None, 1, 1, 8)], True),
        ("one_per_channel", [(None, 4, 4, 8)], False),
        ("one_per_channel", [(1, None, None, 8)], True),
        ("one_per_channel", [(None, None, None, 8)], False),
        ("one_per_channel", [(1, 8)], False),
        ("one_per_channel", [None], False),
        ("one_element", [(1, 1), ()], True),
        ("one_element", [(1, 2), ()], False),
        ("one_element", [(1, 1), None], False),
        ("one_element", [(None,)], False),
        ("one_element", [], False),
        ("one_row", [(1, 4)], True),
        ("one_row", [(4, 1)], False),
        ("one_row", [()], False),
        ("one_column", [(4, 1)], True),
        ("one_column", [(4, None)], False),
        ("many_per_channel", [(65, 4)], True),
        ("many_per_channel", [(2, 8, 8, 4)], True),
        ("many_per_channel", [(64, 4096)], False),
        ("many_per_channel", [(None, 4)], True),
        ("many_per_channel", [(None, 0, 4)], False),
        ("many_per_channel", [(4096,)], False),
        ("many_per_channel", [None], True),
        ("many_elements", [(8, 8)], False),
        ("many_elements", [(8, 9)], True),
        ("many_elements", [(None,)], True),
        ("many_elements", [()], False),
        ("many_elements", [None], True),
        ("always", [None], True),
    ],
)
def test_cases(case, shapes, expected):
    assert holds(case, shapes) == expected


def test_every_case_has_words():
    assert set(WORDS) == set(CASES)


def test_the_table_is_well_formed():
    rows = tables.rows(FAULTS)
    assert rows and len({tuple(row[:5]) for row in rows}) == len(rows)
    for _version, device, dtype, _op, case, _does in rows:
        assert (device in ("CPU", "GPU"), dtype in ("float16", "bfloat16"), case in CASES) == (
            True,
            True,
            True,
        )


@pytest.mark.parametrize(
    "version, ops",
    [
        ("1.15.5", ["BiasAddGrad", "Mean", "Sum"]),
        ("2.15.1", ["BiasAddGrad", "Mean"]),
        ("2.21.0", ["BiasAddGrad"]),
    ],
)
def test_long_sums_count_up_to_the_version_that_adds_up_in_half(monkeypatch, version, ops):
    monkeypatch.setattr(tf, "__version__", version)
    shape_faults._faults.cache_clear()
    try:
        found = [op for op in ("BiasAddGrad", "Mean", "Sum") if fault(op, "bfloat16", [(4096, 4)])]
        assert found == ops
        assert not any(fault(op, "bfloat16", [(8, 4)]) for op in ops)
        assert not any(fault(op, "float16", [(4096, 4)]) for op in ops)
        assert fault("Mean", "bfloat16", [(0, 4)])  # other faults count for any version
    finally:
        shape_faults._faults.cache_clear()


def test_a_normalisation_is_treated_like_its_gradient():
    one = [(1, 1, 1, 8), (1, 1, 1, 8)]
    for op in ("FusedBatchNormV3", "FusedBatchNormGradV3", "FusedBatchNorm", "FusedBatchNormGrad"):
        found = fault(op, "float16", one)
        assert found is not None and "ends the process for one value per channel" in str(found)
        assert fault(op, "float16", [(8, 4, 4, 8)] * 2) is None
    assert fault("NoSuchOp", "float16", one) is None
