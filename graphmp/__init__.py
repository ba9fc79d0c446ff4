"""graphmp: mixed precision for TensorFlow 1 training graphs."""

from __future__ import annotations

import importlib
from typing import Any

from graphmp import environment as _environment  # noqa: F401  # first: TensorFlow reads its settings when it is imported
from graphmp.hooks import at_import as _at_import
from graphmp.version import __version__

# Each public name and its module, imported at first use: `graphmp --help` and `graphmp doctor` need no TensorFlow.
_MODULES = {
    "Config": "graphmp.config",
    "Conversion": "graphmp.runtime.conversion",
    "Diff": "graphmp.diff.model",
    "GraphmpError": "graphmp.errors",
    "InteractiveSession": "graphmp.runtime.session",
    "Policy": "graphmp.policy.policy",
    "Session": "graphmp.runtime.session",
    "check_overflow": "graphmp.runtime.overflow",
    "convert": "graphmp.runtime.convert",
    "diff": "graphmp",
    "float32_variable_storage_getter": "graphmp.recipe.storage",
    "mixed_precision": "graphmp.runtime.decorator",
    "restore": "graphmp.loss_scale.checkpoints",
    "session_config": "graphmp.runtime.session_config",
}

_at_import.install()

__all__ = sorted(_MODULES) + ["__version__"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError("module 'graphmp' has no attribute %r" % name)
    if name == "diff":  # the package is callable: importing it binds this very name to it
        return importlib.import_module("graphmp.diff")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
