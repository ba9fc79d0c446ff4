"""A translator's checkpoint, written by TensorFlow 1.15.5, loads and computes the same."""

from __future__ import annotations

import json

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib_modules import ContribModule
from tests.support import contrib_translator
from tests.support.places import ROOT

CHECKPOINT = str(ROOT / "tests/data/translator.ckpt")
RECORDED = json.loads((ROOT / "tests/data/contrib.json").read_text())["translator"]
SCRIPT = """
import sys
sys.path.insert(0, %r)
import tensorflow as tf
from tests.support import contrib_translator

loss = contrib_translator.build(tf.contrib.seq2seq, "loss")
saver = tf.train.Saver()
train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
with tf.Session() as session:
    saver.restore(session, %r)
    for _ in range(3):
        print(session.run([loss, train])[0])
"""


def _same(found):
    assert {mode: found[mode] for mode in ("greedy", "beams")} == {
        mode: RECORDED[mode] for mode in ("greedy", "beams")
    }
    assert abs(found["loss"] - RECORDED["loss"]) < 1e-6


def test_it_computes_the_same():
    _same(contrib_translator.computed(ContribModule("seq2seq"), CHECKPOINT))


def test_its_variables_are_those_of_the_checkpoint():
    stored = dict(tf.train.list_variables(CHECKPOINT))
    for mode in contrib_translator.MODES:
        with tf.Graph().as_default():
            contrib_translator.build(ContribModule("seq2seq"), mode)
            variables = tf.global_variables()
            shapes = {each.op.name: each.shape.as_list() for each in variables}
        assert shapes == stored, mode


def test_a_script_trains_on_from_it(forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT % (str(ROOT), CHECKPOINT))
    ended = forks.run("train.py")
    assert ended.status == 0, ended.err[-2000:]
    losses = [float(line) for line in ended.out.splitlines()[-3:]]
    assert abs(losses[0] - RECORDED["loss"]) < 2e-3  # in float16
    assert losses[2] < losses[0]
    assert "graphmp: 3 training steps" in ended.err
