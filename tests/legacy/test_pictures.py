"""The functions of `scipy.misc` for images compute what SciPy 1.1's own computed.

The pixels are recorded (`tests/data/make_pictures.py`). Pillow's filters differ between versions:
pixels that are resized may be one off.
"""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pytest
import scipy

from graphmp.legacy.libraries import scipy_and_gym
from tests.support.picture_cases import made
from tests.support.places import ROOT

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not scipy_and_gym._has_pillow(), reason="needs Pillow"),
]
RECORDED = json.loads((ROOT / "tests/data/pictures.json").read_text())


@pytest.fixture
def misc(monkeypatch):
    """`scipy.misc` as a script finds it."""
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(scipy, "misc", None, raising=False)
    scipy_and_gym.restore.__wrapped__()
    return importlib.import_module("scipy.misc")


def test_pixels_are_those_of_scipy(misc, tmp_path):
    found = made(misc, tmp_path)
    assert set(found) == set(RECORDED)
    for name, pixels in RECORDED.items():
        tolerance = 1 if name.startswith(("percent", "fraction", "turned", "of_")) else 0
        assert np.shape(found[name]) == np.shape(pixels), name
        np.testing.assert_allclose(found[name], pixels, rtol=0, atol=tolerance, err_msg=name)


def test_the_module_of_the_functions_too(misc):
    pilutil = importlib.import_module("scipy.misc.pilutil")
    assert pilutil.imread is misc.imread and misc.pilutil is pilutil


def test_black_and_white(misc):
    pixels = np.array([[1, 0, 5], [-1, 2, 0]])
    found = misc.fromimage(misc.toimage(pixels, mode="1"))
    assert found.tolist() == [[255, 0, 255], [0, 255, 0]]


@pytest.mark.parametrize(
    "pixels, options, text",
    [
        (np.ones((2, 2), complex), {}, "complex-valued"),
        (np.ones((2, 2, 2)), {}, "suitable array shape"),
        (np.ones((2, 2, 3)), {"mode": "RGBA"}, "3 colours don't make an image of mode RGBA"),
        (np.ones((2, 2)), {"mode": "RGB"}, "mode RGB"),
        (np.ones((2, 2, 3)), {"channel_axis": 0}, "Channel axis"),
    ],
)
def test_pixels_of_no_image(misc, pixels, options, text):
    with pytest.raises(ValueError, match=text):
        misc.toimage(pixels, **options)


def test_what_is_no_image(misc):
    with pytest.raises(TypeError, match="not a PIL image"):
        misc.fromimage(np.ones((2, 2)))
    with pytest.raises(AttributeError, match=r"removed scipy.misc.imfilter .*use PIL"):
        misc.imfilter  # noqa: B018 (the look-up is what raises)
