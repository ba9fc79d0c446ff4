"""Whole models, rewritten as built graphs.

Same variables, all matmuls in half, same losses and updates.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support import training
from tests.support.models import LIKE_OTHERS, MODELS
from tests.support.training import AS_WRITTEN, rewritten, tensor_core_dtypes

TOLERANCE = {"float16": 0.01, "bfloat16": 0.05}
BFLOAT16_STEPS = (
    0 if tf.__version__ < "2" else 4
)  # 1.15.5 lacks most bfloat16 kernels on its CPU: there graphs are loaded


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model(name):
    original = training.original(name)
    converted = rewritten(original, loss_scale="none")
    assert converted.variables == original.variables
    counts = tensor_core_dtypes(original.graph)
    assert tensor_core_dtypes(converted.graph)["float16"] == counts["float32"]
    np.testing.assert_allclose(converted.losses, original.losses, rtol=TOLERANCE["float16"])
    assert_same_updates(original, converted, 0.99)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LIKE_OTHERS else [])
        for name in sorted(MODELS)
    ],
)
def test_bfloat16(name):
    original = training.original(name)
    converted = rewritten(original, BFLOAT16_STEPS, AS_WRITTEN, compute_dtype="bfloat16")
    assert (
        tensor_core_dtypes(converted.graph)["bfloat16"]
        == tensor_core_dtypes(original.graph)["float32"]
    )
    np.testing.assert_allclose(
        converted.losses, original.losses[:BFLOAT16_STEPS], rtol=TOLERANCE["bfloat16"]
    )
    if BFLOAT16_STEPS:
        assert_same_updates(original, converted, 0.95)


def assert_same_updates(original, converted, least):
    """Check that the changes of each variable point the same way.

    Their cosine is at least `least`, unless the variable hardly moved.
    """
    for name, before in original.before.items():
        change, other = (
            np.ravel(run.after[name] - before).astype(np.float64) for run in (original, converted)
        )
        if np.linalg.norm(change) > 1e-6 * max(1.0, np.linalg.norm(before)):
            cosine = change.dot(other) / (np.linalg.norm(change) * np.linalg.norm(other) or 1.0)
            assert cosine >= least, (name, cosine)
