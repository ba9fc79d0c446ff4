"""Parts of TensorFlow 1 that a script imports by their own paths."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from graphmp import legacy
from graphmp.legacy import unfit

pytestmark = pytest.mark.skipif(tf.VERSION < "2", reason="TensorFlow 1 has them")
MAIN = """
import tensorflow as tf
import helper
%s

def main():
    x = tf.placeholder(tf.float32, [None, 4])
    loss = tf.reduce_mean(tf.matmul(x, tf.get_variable("w", [4, 2])) ** 2)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: [[1, 2, 3, 4]]})

main()
"""
OF_VERSION_1 = [
    "from tensorflow import gfile",
    "from tensorflow.gfile import Exists as exists",
    "from tensorflow.gfile import *",
    "import tensorflow.gfile",
    "import tensorflow.layers as layers",
    "from tensorflow.nn import rnn_cell",
    "from tensorflow.examples.tutorials.mnist import input_data",
]
OF_BOTH = [
    "from tensorflow.train import Checkpoint",
    "import tensorflow.nn as nn",
    "from tensorflow.python.framework import ops",
    "import tensorflow.core.framework.graph_pb2",
    "from tensorflow.lite.python import lite",
    "from tensorflow.keras.layers import CuDNNLSTM",
]


def folder_of(tmp_path, statement):
    """A program one of whose files asks for TensorFlow 1 itself, so that the other has to need it.

    `statement`: an import of that other file; its functions aren't looked into.
    """
    (tmp_path / "helper.py").write_text("import tensorflow.compat.v1 as tf1\n")
    (tmp_path / "main.py").write_text(MAIN % statement)
    return tmp_path / "main.py"


@pytest.mark.unit
@pytest.mark.parametrize("statement", OF_VERSION_1 + OF_BOTH)
def test_which_imports_need_version_1(tmp_path, statement):
    found = legacy.written(folder_of(tmp_path, statement))
    assert found.needs_version_1 is (statement in OF_VERSION_1)


@pytest.mark.unit
@pytest.mark.parametrize("statement", OF_BOTH)
def test_a_script_of_version_2_stays_one(tmp_path, statement):
    (tmp_path / "main.py").write_text(statement + "\nimport tensorflow as tf\ntf.GradientTape\n")
    assert legacy.written(tmp_path / "main.py").eagerly


def test_a_script_trains_after_such_an_import(forks, tmp_path, monkeypatch):
    folder_of(tmp_path, OF_VERSION_1[1])
    monkeypatch.chdir(tmp_path)
    ended = forks.run("main.py")
    assert ended.status == 0 and ended.said[-1].startswith("1 training step")


def test_the_flag_is_named_where_a_part_is_missing(forks, tmp_path, monkeypatch):
    """The files don't say that they need TensorFlow 1: only a function uses it."""
    folder_of(tmp_path, OF_BOTH[0])
    monkeypatch.chdir(tmp_path)
    ended = forks.run("main.py")
    assert ended.status == 1 and "no attribute 'placeholder'" in ended.err
    (line,) = (line for line in ended.said if "--legacy_imports=on runs the script" in line)
    assert line.startswith("tensorflow.placeholder is a part of TensorFlow 1")


@pytest.mark.unit
@pytest.mark.parametrize(
    "error, part",
    [
        (
            ModuleNotFoundError("No module named 'tensorflow.gfile'", name="tensorflow.gfile"),
            "gfile",
        ),
        (
            ImportError("cannot import name 'Session' from 'tensorflow'", name="tensorflow"),
            "Session",
        ),
        (
            ImportError("cannot import name 'AdamOptimizer' from 'x'", name="tensorflow.train"),
            "train.AdamOptimizer",
        ),
        (
            ModuleNotFoundError("No module named 'x'", name="tensorflow.contrib.slim"),
            "contrib.slim",
        ),
        (ModuleNotFoundError("No module named 'tensorflow.fast'", name="tensorflow.fast"), ""),
        (ModuleNotFoundError("No module named 'gfile'", name="gfile"), ""),
        (ImportError("a library is missing"), ""),
        (ValueError("cannot import name 'Session' from 'tensorflow'"), ""),
    ],
)
def test_which_errors_are_of_version_1(monkeypatch, error, part):
    monkeypatch.setattr(unfit, "sys", type("", (), {"modules": {"tensorflow": object()}}))
    hint = unfit.of_version_1(error)
    assert hint.startswith("tensorflow.%s is a part" % part) if part else hint == ""
