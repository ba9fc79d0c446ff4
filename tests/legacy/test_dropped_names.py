"""Names that Python, Pillow and PyYAML dropped."""

from __future__ import annotations

import collections
import importlib
import inspect
import sys
import time
import types

import pytest

from graphmp.legacy import after_import
from graphmp.legacy.libraries import later, python_names


@pytest.mark.unit
def test_names_of_python(monkeypatch):
    for module, name in ((collections, "Mapping"), (inspect, "getargspec"), (time, "clock")):
        monkeypatch.delattr(module, name, raising=False)
    python_names.restore()
    assert isinstance({}, collections.Mapping)
    assert time.clock() > 0
    spec = inspect.getargspec(lambda a, b=2, *c, **d: 0)
    assert (spec.args, spec.varargs, spec.keywords, spec.defaults) == (["a", "b"], "c", "d", (2,))


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Makes a library that is not imported yet, and forgets it afterwards."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name: str, text: str) -> types.ModuleType:
        package, _, rest = name.partition(".")
        for each in (package, name):
            monkeypatch.delitem(sys.modules, each, raising=False)
        if rest:
            (tmp_path / package).mkdir()
            (tmp_path / package / "__init__.py").write_text("")
        (tmp_path / (name.replace(".", "/") + ".py")).write_text(text)
        later.restore()
        return importlib.import_module(name)

    return make


@pytest.mark.unit
def test_filters_of_pillow(library):
    image = library("PIL.Image", "LANCZOS, BICUBIC, BILINEAR, CUBIC = 1, 3, 2, 7")
    assert (image.ANTIALIAS, image.LINEAR, image.CUBIC) == (1, 2, 7)


@pytest.mark.unit
def test_loaders_of_pyyaml(library):
    text = "FullLoader = 'full'\ndef load(stream, Loader): return stream, Loader\nload_all = load\n"
    yaml = library("yaml", text)
    assert yaml.load("x") == ("x", "full")
    assert yaml.load("x", Loader="safe") == ("x", "safe")
    assert yaml.load_all("x", "other") == ("x", "other")


@pytest.mark.unit
def test_a_library_that_is_imported_already(monkeypatch):
    image = types.ModuleType("PIL.Image")
    image.LANCZOS = image.BICUBIC = image.BILINEAR = 5
    monkeypatch.setitem(sys.modules, "PIL.Image", image)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    later.restore()
    later.restore()
    assert image.ANTIALIAS == 5
    assert sum(isinstance(each, after_import._Finder) for each in sys.meta_path) == 1
