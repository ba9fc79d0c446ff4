"""What several tests of tools use."""

import importlib

import pytest

from tests.support.places import TOOLS


@pytest.fixture
def tool(monkeypatch):
    """Import a tool or one of its modules by name, as Python would from its folder."""
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module
