"""The environment variables that graphmp sets unless the user has."""

from __future__ import annotations

import os

import pytest

from graphmp.environment import FAST_BATCH_NORM, prepare_training

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("given, found", [(None, "1"), ("0", "0")])
def test_fast_batch_normalization_is_asked_for(monkeypatch, given, found):
    monkeypatch.setattr(os, "environ", {} if given is None else {FAST_BATCH_NORM: given})
    prepare_training()
    assert os.environ == {FAST_BATCH_NORM: found}
