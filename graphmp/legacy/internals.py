"""Fetching parts of TensorFlow, Keras and tf-slim by name.

The tables of this package name a source as text: `module`, `module:attribute.path`, or
`tf:attribute.path` for a part of `tensorflow.compat.v1`. Nothing is imported before its use.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pathlib
import sys
import types
from typing import Any, List

import tensorflow.compat.v1 as tf
from absl import logging


def on_tensorflow_1() -> bool:
    """Whether this is TensorFlow 1, which has `tf.contrib`."""
    return tf.VERSION.startswith("1.")


def executed_eagerly() -> bool:
    """Whether TensorFlow executes eagerly, and made the context of that for any use of it."""
    safe = fetch("tensorflow.python.eager.context:context_safe")
    return tf.executing_eagerly() and safe() is not None


def in_version_2(name: str) -> bool:
    """Whether TensorFlow 2 has a part of this dotted name.

    True for attributes of its functions and classes, for Keras, and for what is below a module that
    is no attribute of the one above it, as `tensorflow.python`; these are not examined.
    """
    value: Any = sys.modules["tensorflow"]
    path = "tensorflow"
    for part in name.split("."):
        path += "." + part
        if not isinstance(value, types.ModuleType) or part == "keras":
            return True
        if not hasattr(value, part):
            return _can_be_imported(path)
        value = getattr(value, part)
    return True


def _can_be_imported(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the module above it isn't there
        return False


def in_version_1(name: str) -> bool:
    """Whether TensorFlow 1 has a part of this dotted name: contrib, examples, and what v1 has."""
    if name.partition(".")[0] in ("contrib", "examples"):
        return True
    try:
        fetch("tf:" + name)
    except (AttributeError, ImportError):
        return False
    return True


def fetch(source: str) -> Any:
    """The object that a source names.

    Raises:
        ImportError: the module is missing, or a lazily loaded part of TensorFlow is not installed.
        AttributeError: the module has no such attribute.
    """
    module, _, path = source.partition(":")
    value = tf if module == "tf" else importlib.import_module(module)
    for name in path.split(".") if path else ():
        value = getattr(value, name)
    return value


def note(text: str, *values: Any) -> None:
    """Log a line, without giving the root logger a handler as absl does at its first call.

    A script's basicConfig would have no effect then.
    """
    if logging.vlog_is_on(1):
        logging.vlog(1, text, *values)


def loaded(module: types.ModuleType) -> types.ModuleType:
    """The module behind one of TensorFlow's lazy loaders, or the module itself.

    Lazily loaded are tf.keras, tf.layers, tf.nn.rnn_cell and tf.estimator.
    """
    if "LazyLoader" not in type(module).__name__:
        return module
    dir(module)
    return importlib.import_module(module.__name__)


@functools.lru_cache(maxsize=None)
def library_folders() -> List[str]:
    """Folders of code that is never the user's: graphmp, TensorFlow, tf-slim and importlib."""
    folders = [
        pathlib.Path(__file__).parents[1],
        pathlib.Path(tf.__file__).parents[4],
        pathlib.Path(importlib.__file__).parent,
    ]
    slim = importlib.util.find_spec("tf_slim")
    if slim is not None and slim.origin:
        folders.append(pathlib.Path(slim.origin).parent)
    return [str(folder) for folder in folders]
