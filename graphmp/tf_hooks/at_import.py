"""Recording calls of `tf.gradients` from TensorFlow's import on, without importing TensorFlow."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Callable, Dict, Optional

from graphmp.tf_hooks import patch

# Functions in TensorFlow's modules, and their replacements in `graphmp.tf_hooks.gradient_calls`,
# for 1.15.5, 2.15.1 and 2.21.
_PLACES = {
    "tensorflow.python.ops.gradients_util": {
        "_GradientsHelper": "gradients",
        "_DefaultGradYs": "seeds",
    },
    "tensorflow.python.eager.imperative_grad": {"imperative_grad": "tape_gradients"},
}


def install() -> None:
    """Wrap the functions of imported modules now, and those of others when they are imported."""
    for name in _PLACES:
        if name in sys.modules:
            _listen(sys.modules[name], _PLACES[name])
    if not all(name in sys.modules for name in _PLACES):
        sys.meta_path.insert(0, _ListeningFinder())


class _ListeningFinder(importlib.abc.MetaPathFinder):
    """Finds modules with Python's own finder, and wraps their functions once they are loaded."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        spec = (
            importlib.machinery.PathFinder.find_spec(fullname, path)
            if fullname in _PLACES
            else None
        )
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            loader.exec_module = _then_listen(loader.exec_module, _PLACES[fullname])
        return spec


def _then_listen(
    execute: Callable[[ModuleType], None], places: Dict[str, str]
) -> Callable[[ModuleType], None]:
    def executed(module: ModuleType) -> None:
        execute(module)
        _listen(module, places)

    return executed


def _listen(module: ModuleType, places: Dict[str, str]) -> None:
    for name, stand_in in places.items():
        patch.wrap(module, name, _StandIn(stand_in))


class _StandIn:
    """A function of `graphmp.tf_hooks.gradient_calls`, by name, since that imports TensorFlow.

    Two with the same name are equal, so that installing twice wraps once.
    """

    def __init__(self, name: str):
        self._name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _StandIn) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module("graphmp.tf_hooks.gradient_calls"), self._name)(
            *args, **kwargs
        )
