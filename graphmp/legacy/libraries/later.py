"""Names that Pillow and PyYAML dropped, restored when a script imports these libraries.

Pillow 10 dropped the older names of filters; PyYAML 6 wants the class of a loader.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Callable, Dict, Optional

_FILTERS = {"ANTIALIAS": "LANCZOS", "CUBIC": "BICUBIC", "LINEAR": "BILINEAR"}


def restore() -> None:
    """Restore the names now if a library is imported, or else when it is."""
    for name, change in _CHANGES.items():
        if name in sys.modules:
            change(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a library as other finders do, with a loader that changes it."""

    def __init__(self) -> None:
        self._looking = False

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname not in _CHANGES or self._looking:
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
                _CHANGES[fullname](module)

            spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def _filters(module: types.ModuleType) -> None:
    for name, successor in _FILTERS.items():
        if not hasattr(module, name):
            setattr(module, name, getattr(module, successor))


def _loaders(module: Any) -> None:
    """Give `yaml.load` and `yaml.load_all` the loader that they had without one."""
    for name in ("load", "load_all"):
        function = getattr(module, name)

        @functools.wraps(function)
        def load(
            stream: Any,
            Loader: Any = None,  # noqa: N803 (PyYAML's name)
            function: Callable[..., Any] = function,
        ) -> Any:
            return function(stream, Loader or module.FullLoader)

        setattr(module, name, load)


_CHANGES: Dict[str, Callable[[Any], None]] = {"PIL.Image": _filters, "yaml": _loaders}
