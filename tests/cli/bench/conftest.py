"""Fixtures of several test modules."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench import device, graphs, run
from graphmp.bench.processes import accumulation
from graphmp.cli import terminal
from graphmp.graph.io.messages import serialize
from tests.support.bench_command import FUNCTIONS, SCRIPT
from tests.support.benches import Local
from tests.support.classifiers import classifier

sums = functools.lru_cache(None)(accumulation.errors)  # long ones, which each bench adds up


@pytest.fixture(scope="module")
def files():
    """What is in the folder, made once."""
    with tf.Graph().as_default():
        tf.matmul(tf.placeholder(tf.float32, [2, 4], "x"), tf.get_variable("w", [4, 3]))
        untrained = tf.train.export_meta_graph()
    return {"train.meta": classifier(), "untrained.meta": untrained}


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """The working folder, with graphs and data in it, on a CPU with AMX.

    What a process would do is done here.
    """
    for name, meta_graph in files.items():
        (tmp_path / name).write_bytes(serialize(meta_graph))
    np.savez(
        str(tmp_path / "data.npz"), x=np.ones((20, 8), np.float32), labels=np.zeros(20, np.int32)
    )
    np.savez(
        str(tmp_path / "labels.npz"),
        x=np.ones((20, 8), np.float32),
        labels=np.full(20, 1000, np.int32),
    )
    (tmp_path / "feeds.py").write_text(FUNCTIONS)
    (tmp_path / "model.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "Process", Local)
    monkeypatch.setattr(accumulation, "errors", sums)
    monkeypatch.setattr(terminal, "_AT_ONCE", math.inf)  # no progress, however busy the machine is
    monkeypatch.setattr(device, "bfloat16_instructions", lambda: ["AMX_BF16", "AVX512_BF16"])
    # TensorFlow's own pass converts nothing to bfloat16 on a CPU without AVX512.
    monkeypatch.setattr(graphs, "is_in_half", lambda graph_def: True)
    return tmp_path
