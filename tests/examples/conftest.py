"""Modules of examples/ for one test each."""

import importlib
import sys

import pytest

from tests.support.gallery import NAMES
from tests.support.places import EXAMPLES


@pytest.fixture
def module(monkeypatch):
    """Import a module of the folder by name, for one test.

    Other folders have modules of the same names.
    """
    monkeypatch.syspath_prepend(str(EXAMPLES))
    names = ["training", *NAMES]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)
