"""Imported by each Python that inherits the environment of `graphmp run --children`.

It waits for the first import of TensorFlow and then prepares the process, as `graphmp run` would
have. A process that never imports TensorFlow, or that imports graphmp itself, is left alone.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from typing import Any, Dict, Optional

_HERE = os.path.dirname(os.path.abspath(__file__))
_TENSORFLOW = "tensorflow"


class Waiting(importlib.abc.MetaPathFinder):
    """Prepares the process when TensorFlow is asked for."""

    def __init__(self, told: Dict[str, Any]):
        self._told = told

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname != _TENSORFLOW:
            return None
        sys.meta_path.remove(self)
        if "graphmp" in sys.modules:
            return None
        sys.path.append(self._told["root"])
        quiet = importlib.import_module("graphmp.conversion.quiet")
        with quiet.quiet_stderr():
            launcher = importlib.import_module("graphmp.cli.launcher")
        launcher.adopt(self._told["spec"])
        # Python would take the spec of a module that is there and load that once more.
        imported = sys.modules.pop(_TENSORFLOW)
        return importlib.util.spec_from_loader(fullname, _Imported(imported))


class _Imported(importlib.abc.Loader):
    """Hands on the module that was imported meanwhile."""

    def __init__(self, module: types.ModuleType):
        self._module = module

    def exec_module(self, module: types.ModuleType) -> None:
        """Put the imported module in the place of the new one."""
        sys.modules[_TENSORFLOW] = self._module


def _next() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    mine = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError:
        if mine is not None:
            sys.modules["sitecustomize"] = mine


def _begin() -> None:
    told = json.loads(os.environ.get("GRAPHMP_CHILDREN", "{}"))
    if told.get("prefix") == sys.prefix:  # another Python finds no TensorFlow here
        sys.meta_path.insert(0, Waiting(told))


_next()
_begin()
