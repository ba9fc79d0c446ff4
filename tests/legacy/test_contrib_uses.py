"""The names that `tools/contrib_uses.py` counts in a file, and its table."""

from __future__ import annotations

import collections
import sys
import types

import pytest

from graphmp.legacy.estimator.gone import GoneModule
from graphmp.legacy.stand_ins import StandIn, StandInModule
from tests.support.places import TOOLS

sys.path.insert(0, str(TOOLS))
from contrib_uses import Row, page, resolved, rows
from parts.contrib_names import Names, parsed

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


@pytest.mark.unit
def test_stand_ins_are_missing():
    root, contrib = types.ModuleType("tensorflow"), types.ModuleType("contrib")
    root.contrib, root.gone = contrib, GoneModule("gone")  # type: ignore[attr-defined]
    contrib.f, contrib.absent = len, StandIn("absent")  # type: ignore[attr-defined]
    contrib.nothing = StandInModule("contrib.nothing", "nothing")  # type: ignore[attr-defined]
    assert resolved(root, "contrib.f.x") == "contrib.f"
    assert resolved(root, "contrib") == "contrib."
    names = ("contrib.absent", "contrib.absent.x", "contrib.nothing", "contrib.nothing.x", "gone.X")
    assert [resolved(root, name) for name in names] == [None] * 5


@pytest.mark.unit
def test_the_page_names_the_packages():
    versions = {"plain": {"old": None}, "installed": {"old": "old"}}
    data = {
        "uses": {"one": {"old": 1}},
        "files": 1,
        "skipped": 0,
        "resolved": {
            "1.15.5": {"installed": {"old": "old"}},
            "2.21.0": dict(versions, packages={"tf-slim": "1.1.0", "tf-keras": "2.21.0"}),
        },
    }
    assert page(data, "2.21.0")[0].endswith(
        "1 (100.0%) are served on TensorFlow 2.21.0 with tf-keras 2.21.0, tf-slim 1.1.0."
    )
