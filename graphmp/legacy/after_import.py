"""Changing a module when a script imports it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Callable, Dict, Mapping, Optional

Change = Callable[[Any], None]


def after_import(changes: Mapping[str, Change]) -> None:
    """Change modules, by name: now those that are imported, others when they are.

    A module that is changed already when this is called again is changed again.
    """
    for name, change in changes.items():
        if name in sys.modules:
            change(sys.modules[name])
    finders = [finder for finder in sys.meta_path if isinstance(finder, _Finder)]
    if not finders:
        finders = [_Finder()]
        sys.meta_path.insert(0, finders[0])
    finders[0].changes.update(changes)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a module as other finders do, with a loader that changes it."""

    def __init__(self) -> None:
        self.changes: Dict[str, Change] = {}
        self._looking = False

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname not in self.changes or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_change(module: types.ModuleType) -> None:
                execute(module)
                self.changes[fullname](module)

            spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec
