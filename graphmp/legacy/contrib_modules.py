"""`tf.contrib` as modules that look a name up in the table on use."""

from __future__ import annotations

import importlib
import types
from typing import Any, ClassVar, List, Set

from graphmp.legacy import internals, stand_ins, table
from graphmp.legacy.estimator import loader

NAME = "tensorflow.contrib"
_OF_ESTIMATORS = ("tf:estimator", *table.MODULES["learn"])


class Listed:
    """The modules below contrib whose names a script has listed, for the whole process."""

    paths: ClassVar[Set[str]] = set()


def is_module(path: str) -> bool:
    """Whether `tensorflow.contrib.<path>` can be imported; "" is contrib itself."""
    return path in table.IMPORTABLE


class ContribModule(types.ModuleType):
    """A module of `tf.contrib`: a row of `table.MODULES`, or one of TensorFlow 1.15.5's packages.

    Packages without a row are missing all their names.
    """

    def __init__(self, path: str):
        super().__init__(NAME + "." + path if path else NAME)
        self.__path__: List[str] = []
        self._path = path

    def __getattr__(self, name: str) -> Any:
        """Look in `table.NAMES`, then in the modules below, then in the sources of the row.

        A name that nothing serves on this TensorFlow gets a stand-in if the script doesn't use it
        yet.

        Raises:
            GraphmpError: GMP018 (an AttributeError as well), if nothing serves the name and the
                script uses it.
            AttributeError: for a dunder name, or a package that TensorFlow 1.15.5 doesn't have
                either.
        """
        if name.startswith("__"):
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        symbol = self._path + "." + name if self._path else name
        if is_module(symbol) and symbol not in table.IN_PLACE_OF_MODULES:
            return importlib.import_module(NAME + "." + symbol)
        if not self._path:
            raise AttributeError(
                "module %r has no attribute %r, not in TensorFlow 1.15.5 either" % (NAME, name)
            )
        return _served(self._path, name, symbol)

    def __setattr__(self, name: str, value: Any) -> None:
        """Imported modules are bound to their package, except where it has another value."""
        bound = isinstance(value, ContribModule)
        if not (bound and "%s.%s" % (self._path, name) in table.IN_PLACE_OF_MODULES):
            super().__setattr__(name, value)

    def __dir__(self) -> List[str]:
        return self.__all__

    @property
    def __all__(self) -> List[str]:
        """The public names for `from tensorflow.contrib.layers import *`."""
        Listed.paths.update([self._path] if self._path else [])
        prefix = self._path + "." if self._path else ""
        names: Set[str] = {
            key[len(prefix) :].split(".")[0]
            for key in (*table.IMPORTABLE, *table.NAMES)
            if key and key.startswith(prefix)
        }
        for source in table.MODULES.get(self._path, ()):
            value = internals.fetch(source)
            public = getattr(value, "__all__", None)
            names.update(dir(value) if public is None else public)
        return sorted(name for name in names if not name.startswith("_") and hasattr(self, name))


def _served(path: str, name: str, symbol: str) -> Any:
    needs = None
    for source in _sources(path, name, symbol):
        try:
            return internals.fetch(source)
        except AttributeError:
            if source.startswith(_OF_ESTIMATORS) and loader.missing():
                needs = loader.PACKAGE.replace("_", "-")
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "tf_slim":
                raise
            needs = "tf-slim"
    return stand_ins.attribute(symbol, needs)


def _sources(path: str, name: str, symbol: str) -> List[str]:
    if symbol in table.NAMES:
        return [table.NAMES[symbol]]
    return [
        source + ("." if ":" in source else ":") + name for source in table.MODULES.get(path, ())
    ]
