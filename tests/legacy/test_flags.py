"""Flags as scripts of TensorFlow 1.0 to 1.4 read them."""

from __future__ import annotations

import json

import pytest

SCRIPT = """
import json
import tensorflow as tf

tf.flags.DEFINE_float("rate", 0.5, "rate")
tf.app.flags.DEFINE_integer("size", 3, "size")
FLAGS = tf.flags.FLAGS
%s
shown = ["%%s=%%s" %% (name.upper(), value) for name, value in sorted(FLAGS.__flags.items())]
hidden = FLAGS.__dict__["__flags"]
print(json.dumps([
    shown, sorted(hidden), hidden["rate"], FLAGS.rate, "size" in FLAGS.__flags, len(hidden),
    dict(hidden) == hidden.copy(),
]))
"""


@pytest.mark.parametrize("line", ["FLAGS._parse_flags()", "", "tf.app.flags.FLAGS.rate"])
def test_listing_flags(forks, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT % line)
    ended = forks.run("train.py", "--rate=0.25")
    assert ended.status == 0, ended.err[-2000:]
    shown = ["RATE=0.25", "SIZE=3"]
    expected = [shown, ["rate", "size"], 0.25, 0.25, True, 2, True]
    assert json.loads(ended.out.splitlines()[-1]) == expected


def test_a_script_that_asks_for_tensorflow_1_itself(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = SCRIPT.replace("import tensorflow as", "import tensorflow.compat.v1 as")
    (tmp_path / "train.py").write_text(text % "FLAGS._parse_flags()")
    ended = forks.run("train.py")
    assert ended.status == 0, ended.err[-2000:]
    assert json.loads(ended.out.splitlines()[-1])[2] == 0.5


def test_setting_a_flag_that_nothing_defines(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(
        "import tensorflow as tf\ntf.flags.DEFINE_integer('size', 3, '')\nFLAGS = tf.flags.FLAGS\n"
        "FLAGS.words = 7\nFLAGS.words = {'a': 8}\nprint(FLAGS.words, FLAGS.__flags)\n"
    )
    ended = forks.run("train.py")
    assert ended.status == 0, ended.err[-2000:]
    assert ended.out.splitlines()[-1] == "{'a': 8} {'size': 3, 'words': {'a': 8}}"
