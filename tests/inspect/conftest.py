"""Fixtures of several test modules."""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.graph.io.messages import serialize
from graphmp.rewrite.pipeline import rewrite
from tests.support import tiny
from tests.support.memory_of_steps import CONFIG, POLICY, built, dense


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working folder: a training graph, its conversion, a graph that only infers."""
    graph = built(lambda: dense(None))
    (tmp_path / "model.meta").write_bytes(serialize(graph))
    (tmp_path / "converted.meta").write_bytes(serialize(rewrite(graph, CONFIG, POLICY).meta_graph))
    net = tiny.meta_graph(
        "x Placeholder dtype=float32",
        "w Const",
        "y MatMul x w T=float32",
        w=np.eye(3, dtype=np.float32),
    )
    (tmp_path / "net.meta").write_bytes(serialize(net))
    monkeypatch.chdir(tmp_path)
    return tmp_path
