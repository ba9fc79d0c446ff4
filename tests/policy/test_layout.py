"""Data formats of ops."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy.layout import channels_last, data_format, is_channels_first

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "written, text, first",
    [
        (b"NCHW", "NCHW", True),
        (b"NCDHW", "NCDHW", True),
        (b"NHWC", "NHWC", False),
        (b"\xff", "\ufffd", False),
        (None, "", False),
    ],
)
def test_the_format_of_a_node(written, text, first):
    node = tf.NodeDef()
    if written is not None:
        node.attr["data_format"].s = written
    assert (data_format(node), is_channels_first(node)) == (text, first)
    assert len(node.attr) == (written is not None)


def test_channels_come_last():
    assert channels_last([2, 3, 4, None], "NCHW") == [2, 4, None, 3]
    assert channels_last([2, 3, 4, 5], "NHWC") == [2, 3, 4, 5]
    assert channels_last(None, "NCHW") is None
