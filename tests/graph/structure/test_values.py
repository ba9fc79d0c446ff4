"""Values of constants, including broken ones and ones too large for memory."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.structure.values import all_equal, array, compact, elements

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


@pytest.mark.parametrize("number", [0.0, 2.0])
def test_all_equal(number):
    node = tf.NodeDef(op="Const")
    node.attr["value"].tensor.CopyFrom(filled([2.0], 1 << 50))
    assert all_equal(node, number) == (number == 2.0)


def test_broken_ones():
    unknown, short = filled([1.0], 2), filled([], 2)
    unknown.dtype = 0
    short.tensor_content = b"abc"
    assert array(unknown) is None and array(short) is None
    assert array(filled([1.0], 1)).tolist() == [1.0]
