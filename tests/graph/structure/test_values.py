"""Values of constants, including broken ones and ones too large for memory."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import (
    MOST_READ,
    MOST_WHOLE,
    all_equal,
    array,
    changed,
    compact,
    constant,
    elements,
    number,
)
from tests.support.places import ROOT

pytestmark = pytest.mark.unit


def filled(value, size):
    """A float32 vector of `size` elements that stores only the given ones."""
    tensor = tf.make_tensor_proto(np.float32(0))
    del tensor.float_val[:]
    tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.extend(value)
    return tensor


def test_one_element_stands_for_petabytes():
    tensor = filled([3.0], 1 << 50)
    assert elements(tensor) == 1 << 50
    assert compact(tensor).tolist() == [3.0]


@pytest.mark.parametrize(
    "value, size, expected",
    [([], 4, [0.0]), ([], 0, []), ([1.0, 2.0], 2, [1.0, 2.0]), ([1.0, 2.0], 5, [1.0, 2.0])],
)
def test_what_is_stored(value, size, expected):
    assert compact(filled(value, size)).tolist() == expected


def test_content():
    assert compact(tf.make_tensor_proto(np.arange(4, dtype=np.float32).reshape(2, 2))).tolist() == [
        0.0,
        1.0,
        2.0,
        3.0,
    ]


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_all_equal(value):
    node = tf.NodeDef(op="Const")
    node.attr["value"].tensor.CopyFrom(filled([2.0], 1 << 50))
    assert all_equal(node, value) == (value == 2.0)


def test_broken_ones():
    unknown, short = filled([1.0], 2), filled([], 2)
    unknown.dtype = 0
    short.tensor_content = b"abc"
    assert array(unknown) is None and array(short) is None
    assert array(filled([1.0], 1)).tolist() == [1.0]


def test_large_splats_are_not_expanded():
    assert array(filled([1.0], MOST_READ + 2)) is None
    assert array(filled([1.0, 2.0], 4)).tolist() == [1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("values", [[0.5], [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("size", [3, MOST_WHOLE, MOST_WHOLE + 1, 1 << 50])
def test_a_large_splat_stays_one_in_another_dtype(values, size):
    half = changed(filled(values, size), tf.float16)
    assert half.dtype == tf.float16.as_datatype_enum
    assert elements(half) == size
    assert compact(half)[-1] == values[-1] and compact(half)[: len(values)].tolist() == values
    assert len(half.SerializeToString()) < 40 + (4 * size if size <= MOST_WHOLE else 0)


def test_number():
    node = tf.NodeDef(op="Const")
    node.attr["value"].tensor.CopyFrom(filled([2.0], 1))
    assert number(node) == 2.0 and constant(node).tolist() == [2.0]
    node.attr["value"].tensor.CopyFrom(filled([2.0], 1 << 50))
    assert number(node) is None and constant(node) is None
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(b"text"))
    assert number(node) is None and number(tf.NodeDef(op="NoOp")) is None


def test_no_other_module_expands_tensors_of_files():
    own = {"graph/structure/values.py", "loss_scale/checkpoints.py", "legacy/table.py"}
    own.add("scaling/insertion/checkpoints.py")  # the scale's own variables
    found = {
        path.relative_to(ROOT / "graphmp").as_posix()
        for path in (ROOT / "graphmp").rglob("*.py")
        if "make_ndarray" in path.read_text(encoding="utf-8")
    }
    assert found == own
