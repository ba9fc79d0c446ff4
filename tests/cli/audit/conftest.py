"""Fixtures of several test modules."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from tests.support.audit_command import FUNCTIONS
from tests.support.planted import batches, planted


@pytest.fixture(scope="module")
def files():
    """What is in the folder, made once."""
    with tf.Graph().as_default():
        tf.layers.dense(tf.placeholder(tf.float32, [2, 4], "x"), 3)
        untrained = tf.train.export_meta_graph()
    return {
        "good.meta": planted("nothing"),
        "bad.meta": planted("long_sum"),
        "tiny.meta": planted("tiny_gradients"),
        "untrained.meta": untrained,
    }


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """The working folder, with graphs and data in it."""
    for name, meta_graph in files.items():
        (tmp_path / name).write_bytes(serialize(meta_graph))
    np.savez(str(tmp_path / "data.npz"), **batches())
    np.savez(str(tmp_path / "missing.npz"), x=batches()["x"])
    np.savez(str(tmp_path / "shape.npz"), x=batches()["x"][:, :, :5], labels=batches()["labels"])
    np.savez(str(tmp_path / "labels.npz"), x=batches()["x"], labels=batches()["labels"] + 1000)
    (tmp_path / "feeds.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return tmp_path
