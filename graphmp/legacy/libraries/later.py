"""Names that Pillow and PyYAML dropped, restored when a script imports these libraries.

Pillow 10 dropped the older names of filters; PyYAML 6 wants the class of a loader.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

from graphmp.legacy.after_import import after_import

_FILTERS = {"ANTIALIAS": "LANCZOS", "CUBIC": "BICUBIC", "LINEAR": "BILINEAR"}


def restore() -> None:
    """Restore the names now if a library is imported, or else when it is."""
    after_import({"PIL.Image": _filters, "yaml": _loaders})


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
