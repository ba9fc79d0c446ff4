"""Whole models under the decorator: same variables, all matmuls in half, same losses."""

from __future__ import annotations

import numpy as np
import pytest

import graphmp
from tests.support import training
from tests.support.models import MODELS, batch_for
from tests.support.training import tensor_core_dtypes, train

# In float16, losses of these models agreed within 0.3% on 1.15.5 and 2.21 over the steps; bfloat16
# has 3 bits less.
TOLERANCE = {"float16": 0.01, "bfloat16": 0.05}


DYNAMIC = [
    "regression",
    "loss_returned",
    "gan",
    "towers",
    "hand_written_optimizer",
    "recurrent_loop",
]
FIXED = [
    pytest.param(name, marks=pytest.mark.slow if name in DYNAMIC else []) for name in sorted(MODELS)
]  # a dynamic scale tells as much


@pytest.mark.parametrize("name", FIXED)
def test_model(name):
    original = training.original(name)
    converted = train(
        MODELS[name],
        graphmp.mixed_precision(loss_scale=64.0),
        batch_for(name),
        start=original.before,
    )
    assert_half(original, converted)


def assert_half(original, converted):
    assert converted.variables == original.variables
    assert set(tensor_core_dtypes(converted.graph)) == {"float16"}
    assert sum(tensor_core_dtypes(converted.graph).values()) == sum(
        tensor_core_dtypes(original.graph).values()
    )
    np.testing.assert_allclose(converted.losses, original.losses, rtol=TOLERANCE["float16"])


@pytest.mark.parametrize("name", ["regression", "batch_norm", "embedding"])
def test_bfloat16(name):
    original = training.original(name)
    converted = train(
        MODELS[name],
        graphmp.mixed_precision(compute_dtype="bfloat16"),
        batch_for(name),
        start=original.before,
    )
    assert converted.variables == original.variables
    assert set(tensor_core_dtypes(converted.graph)) == {"bfloat16"}
    np.testing.assert_allclose(converted.losses, original.losses, rtol=TOLERANCE["bfloat16"])


def _scaled():
    """Each model at one scale and each scale with one model always, the rest with --slow."""
    for name, always in (
        ("regression", 1.0),
        ("embedding", 128.0),
        ("towers", 2.0**15),
        ("recurrent_loop", 128.0),
    ):
        for scale in (1.0, 128.0, 2.0**15):
            yield pytest.param(name, scale, marks=[] if scale == always else pytest.mark.slow)


@pytest.mark.parametrize("name, scale", _scaled())
def test_scaling_alone_changes_nothing(name, scale):
    """compute_dtype=float32 paints nothing; a power of two scales and unscales exactly."""
    original = training.original(name)
    converted = train(
        MODELS[name],
        graphmp.mixed_precision(compute_dtype="float32", loss_scale=scale),
        batch_for(name),
        start=original.before,
    )
    assert set(tensor_core_dtypes(converted.graph)) == {"float32"}
    for variable, value in original.after.items():
        np.testing.assert_array_equal(converted.after[variable], value, err_msg=variable)


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_scale(name):
    original = training.original(name)
    options = dict(loss_scale="dynamic", loss_scale_initial=64.0, loss_scale_growth_interval=2)
    converted = train(
        MODELS[name], graphmp.mixed_precision(**options), batch_for(name), start=original.before
    )
    assert_half(original, converted)
    assert converted.after["graphmp/loss_scale/scale"] == 64.0 * 2 * 2
