"""Fixtures of several test modules."""

from __future__ import annotations

import numpy as np
import pytest

from graphmp.audit.options import AuditOptions
from graphmp.rewrite.placement import costs
from tests.support.audited import STEPS
from tests.support.planted import batches


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The planted models' batches, as a file."""
    path = tmp_path_factory.mktemp("data") / "batches.npz"
    np.savez(str(path), **batches())
    return AuditOptions(data=str(path), steps=STEPS)


@pytest.fixture(autouse=True)
def launches_are_cheap(monkeypatch):
    """Casts are placed as in large networks; in small ones they would cost more than float32."""
    monkeypatch.setattr(costs, "LAUNCH", costs.IDLE_CAST)
