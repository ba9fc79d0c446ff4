"""SciPy's modules that became private."""

from __future__ import annotations

import importlib
import sys

import pytest
import scipy
import scipy.ndimage

from graphmp.legacy.libraries import scipy_and_gym

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", sorted(scipy_and_gym._PRIVATE))
def test_a_private_module_has_the_functions_of_the_public_one(name):
    public = importlib.import_module(scipy_and_gym._PRIVATE[name])
    module = scipy_and_gym._standing_for(name, public.__name__)
    functions = [
        each for each in ("eigsh", "cg", "gaussian_filter", "zoom") if hasattr(public, each)
    ]
    assert functions and all(getattr(module, each) is getattr(public, each) for each in functions)
    assert not hasattr(module, "no_such_name") and not hasattr(module, "__path__")


def test_modules_that_are_there_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    scipy_and_gym.restore.__wrapped__()
    name = "scipy.sparse.linalg.eigen.arpack"
    old = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 8)
    assert callable(importlib.import_module(name).eigsh)
    assert bool(getattr(importlib.import_module(name), "__file__", None)) == old
