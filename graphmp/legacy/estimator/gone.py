"""Stand-ins for modules of TensorFlow that only training on a TPU uses."""

from __future__ import annotations

import types
from typing import Any, Dict

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError


class GoneModule(types.ModuleType):
    """A module of which every name is a class that raises GMP026 when it is called."""

    def __init__(self, name: str):
        super().__init__(name)
        self._classes: Dict[str, type] = {}

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        if name not in self._classes:
            self._classes[name] = type(name, (_Gone,), {"__module__": self.__name__})
        return self._classes[name]


class _Gone:
    """A class or function of which there are no objects or results."""

    def __new__(cls, *_: Any, **__: Any) -> Any:
        raise unserved("%s.%s" % (cls.__module__, cls.__name__))


def unserved(what: str) -> GraphmpError:
    """GMP026 for a part of Estimators that graphmp doesn't serve."""
    return GraphmpError(
        "GMP026",
        "%s is not in TensorFlow %s: graphmp serves Estimators on CPUs and GPUs of one machine and"
        " with parameter servers; TensorFlow 2.15.1 has it" % (what, tf.__version__),
    )
