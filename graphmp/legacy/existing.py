"""Importing a module that exists already under one more name."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import types


class Existing(importlib.abc.Loader):
    """Loads an existing module without changing it."""

    def __init__(self, module: types.ModuleType):
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        """Undo the import system's changes to the module, which has another home."""
        module.__spec__ = self._spec or module.__spec__
