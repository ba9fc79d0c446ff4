"""Imports below `tensorflow` for which TensorFlow 2 has no files, or files with other contents.

`tensorflow.contrib.*` comes from the table. Other modules of the public interface
(`tensorflow.train`, `tensorflow.keras.layers`) are those of `tensorflow.compat.v1`. TensorFlow's
own packages are left to Python.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.legacy import contrib_modules, internals, stand_ins
from graphmp.legacy.existing import Existing

# Folders of the TensorFlow package that hold code, not the public interface.
SOURCE_PACKAGES = frozenset(
    (
        "_api",
        "compat",
        "compiler",
        "core",
        "distribute",
        "dtensor",
        "include",
        "lite",
        "python",
        "security",
        "tools",
        "tsl",
    )
)
# TensorFlow 1's tutorials that are served, from the outside in.
_EXAMPLES = (
    "examples",
    "examples.tutorials",
    "examples.tutorials.mnist",
    "examples.tutorials.mnist.input_data",
)
_INPUT_DATA = "graphmp.legacy.examples_mnist"


class LegacyFinder(importlib.abc.MetaPathFinder):
    """Finds the meaning of `import tensorflow.X` for a TensorFlow 1 script."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`.

        Raises:
            GraphmpError: GMP018 (an ImportError as well), for a part of contrib that nothing
                serves, where it gets no stand-in.
        """
        root, _, rest = fullname.partition(".")
        if root != "tensorflow" or rest.partition(".")[0] in SOURCE_PACKAGES:
            return None
        if rest in _EXAMPLES:
            module: Optional[types.ModuleType] = _example(rest)
        elif rest.partition(".")[0] == "contrib":
            module = _contrib_module(fullname, rest[len("contrib.") :])
        else:
            module = _interface_module(rest)
        return (
            None
            if module is None
            else importlib.util.spec_from_loader(fullname, Existing(module), is_package=True)
        )


def _example(path: str) -> types.ModuleType:
    """A part of the tutorials: the loader of MNIST, or a package around it."""
    if path == _EXAMPLES[-1]:
        return internals.fetch(_INPUT_DATA)
    package = types.ModuleType("tensorflow." + path)
    if path == _EXAMPLES[-2]:
        package.input_data = internals.fetch(_INPUT_DATA)  # type: ignore[attr-defined]
    return package


def _contrib_module(fullname: str, path: str) -> Optional[types.ModuleType]:
    if contrib_modules.is_module(path):
        return contrib_modules.ContribModule(path)
    if not contrib_modules.is_module(path.partition(".")[0]):
        return None
    return stand_ins.module(fullname, path, _requested() or path)


def _requested() -> str:
    """The contrib path of the current import statement.

    `a.b.c` is imported as `a`, `a.b`, `a.b.c`.
    """
    frame: Optional[types.FrameType] = sys._getframe(1)
    name = ""
    while frame is not None:
        if not frame.f_code.co_filename.startswith("<frozen importlib"):
            if name:
                break
        elif frame.f_code.co_name == "_find_and_load":
            name = frame.f_locals["name"]
        frame = frame.f_back
    return name[len(contrib_modules.NAME) + 1 :]


def _interface_module(path: str) -> Optional[types.ModuleType]:
    module = tf
    for name in path.split("."):
        module = getattr(module, name, None)
        if not isinstance(module, types.ModuleType):
            return None
        module = internals.loaded(module)
    return module
