"""Standalone `import keras` of scripts written for Keras 2, where Keras 3 or none is installed.

Keras 2 goes on as tf-keras, which is `tf.keras` here. Its interface of TensorFlow 1 has the names
of Keras 2.1 to 2.3; the modules below `keras` that it lacks are kept under other names in it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys
import types
from typing import Any, Iterable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy import internals
from graphmp.legacy.existing import Existing
from graphmp.legacy.libraries.keras_2_names import ALIASES, INSIDE, MODULES, SUPPLIED, inside

_TF_KERAS = "tf_keras."


def apply(layer: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """A layer's outputs: a method of TensorFlow 1's layers."""
    return layer(inputs, *args, **kwargs)


def serve() -> None:
    """Make `import keras` mean `tf.keras` from now on, where `available`.

    Nothing is changed if `keras` has been imported.
    """
    if "keras" not in sys.modules and available():
        sys.meta_path.insert(0, _Finder())


def available() -> bool:
    """Whether `keras` is not installed as Keras 2, and `tf.keras` is: as tf-keras."""
    return not internals.on_tensorflow_1() and not _has_keras_2() and _is_tf_keras()


def wanted(imports: Iterable[str]) -> bool:
    """Whether any of these names is, or is in, a module that Keras 3 lacks and Keras 2 has."""
    paths = {name.partition(".")[2] for name in imports if name.startswith("keras.")}
    parents = {path.rpartition(".")[0] for path in paths}
    return bool(MODULES.keys() & (paths | parents)) and available()


class Keras2(types.ModuleType):
    """A module of Keras 2, which looks names up in modules of `tf.keras` on use."""

    def __init__(self, path: str, sources: Tuple[str, ...]):
        super().__init__("keras." + path if path else "keras")
        self.__path__: List[str] = []
        self._path = path
        self._sources = sources

    def __getattr__(self, name: str) -> Any:
        """A module of Keras 2 of this name, what is supplied, a source's name, or an alias."""
        if not name.startswith("__") and _exists(_joined(self._path, name)):
            return importlib.import_module(self.__name__ + "." + name)
        if name in SUPPLIED.get(self._path, {}):
            return SUPPLIED[self._path][name]()
        for source in self._sources:
            if hasattr(_module(source), name):
                return getattr(_module(source), name)
        alias = ALIASES.get(self._path, {}).get(name)
        if alias:
            return _module(alias)
        for path in (self._path, *INSIDE.get(self._path, ())) if self._path else ():
            if hasattr(inside(path), name):
                return getattr(inside(path), name)
        raise AttributeError("module %r has no attribute %r" % (self.__name__, name))

    def __dir__(self) -> List[str]:
        return sorted({name for source in self._sources for name in dir(_module(source))})

    @property
    def __all__(self) -> List[str]:
        """The names for `from keras.layers import *`."""
        return [name for name in dir(self) if not name.startswith("_")]


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        root, _, rest = fullname.partition(".")
        if root != "keras" or not _exists(rest):
            return None
        module = Keras2(rest, MODULES.get(rest, (rest,)))
        return importlib.util.spec_from_loader(fullname, Existing(module), is_package=True)


def _exists(path: str) -> bool:
    return path in MODULES or isinstance(_module(path), types.ModuleType)


def _module(path: str) -> Any:
    """A part of `tf.keras`, or None; `tf` in its backend is TensorFlow."""
    value: Any = internals.loaded(tf.keras)
    for name in path.split(".") if path else ():
        value = getattr(value, name, None)
    return value


def _joined(path: str, name: str) -> str:
    return path + "." + name if path else name


def _is_tf_keras() -> bool:
    """Whether `tf.keras` is of the package tf-keras."""
    try:
        return internals.loaded(tf.keras).__name__.startswith(_TF_KERAS)
    except (AttributeError, ImportError):
        return False


def _has_keras_2() -> bool:
    """Whether the installed package `keras` is of version 2; read without importing it."""
    spec = importlib.util.find_spec("keras")
    return spec is not None and _version(spec).startswith("2.")


def _version(spec: importlib.machinery.ModuleSpec) -> str:
    """The version in the metadata of the package beside which a module lies."""
    folder = pathlib.Path(spec.origin or "").parent.parent
    found = sorted(folder.glob("[Kk]eras-*.*-info"))
    return found[0].name.split("-")[1] if found else ""
