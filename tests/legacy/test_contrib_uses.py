"""The names that `tools/contrib_uses.py` counts in a file, and its table."""

from __future__ import annotations

import collections

import pytest

from tools.contrib_names import Names, parsed
from tools.contrib_uses import Row, rows

SOURCE = b"""
import tensorflow as tf
import tensorflow.contrib.slim as slim
from tensorflow.contrib import rnn as cells
from tensorflow.contrib.crf import viterbi_decode
from tensorflow.python.ops import array_ops
layers = tf.contrib.layers
layers.conv2d(tf.nn.relu(x), layers.flatten)
slim.conv2d(1)
cells.LSTMCell(2)(3)
viterbi_decode(4)
array_ops.stack()
other.contrib.layers
"""


@pytest.mark.unit
def test_aliases_are_followed():
    tree = parsed(SOURCE)
    assert tree is not None
    assert collections.Counter(Names(tree).uses()) == {
        "contrib.slim": 1,
        "contrib.rnn": 1,
        "contrib.crf.viterbi_decode": 2,
        "contrib.layers": 1,
        "contrib.layers.conv2d": 1,
        "contrib.layers.flatten": 1,
        "nn.relu": 1,
        "contrib.slim.conv2d": 1,
        "contrib.rnn.LSTMCell": 1,
    }


@pytest.mark.unit
def test_python_2_is_skipped():
    assert parsed(b"print 1") is None


@pytest.mark.unit
def test_only_names_that_are_gone_are_counted():
    names = ["contrib.a.f", "contrib.a.g.h", "old", "kept", "of_2", "contrib.a"]
    old = dict(zip(names, ["contrib.a.f", "contrib.a.g", "old", "kept", None, "contrib.a."]))
    new = dict.fromkeys(names)
    data = {
        "uses": {"one": dict.fromkeys(names, 2), "two": {"contrib.a.f": 1}},
        "resolved": {
            "1.15.5": {"installed": old},
            "2.21.0": {
                "plain": dict(new, kept="kept"),
                "installed": dict(new, **{"contrib.a.f": "contrib.a.f", "kept": "kept"}),
            },
        },
    }
    assert rows(data, "2.21.0") == [
        Row("contrib.a.f", 3, 2, True),
        Row("contrib.a.g", 2, 1, False),
        Row("old", 2, 1, False),
    ]
