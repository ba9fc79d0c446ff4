"""graphmp: mixed precision for TensorFlow 1 training graphs."""

from __future__ import annotations

import importlib
from typing import Any

# first: TensorFlow reads its settings when it is imported
from graphmp import environment as _environment  # noqa: F401
from graphmp.tf_hooks import at_import as _at_import
from graphmp.version import __version__

# Each public name and its module, imported on first use: `graphmp --help` and `graphmp doctor`
# don't need TensorFlow.
_MODULES = {
    "Config": "graphmp.config",
    "Conversion": "graphmp.conversion.conversion",
    "Diff": "graphmp.compare.api",
    "GraphmpError": "graphmp.errors",
    "InteractiveSession": "graphmp.session.session",
    "Policy": "graphmp.policy.policy",
    "Session": "graphmp.session.session",
    "check_overflow": "graphmp.session.overflow",
    "convert": "graphmp.conversion.convert",
    "diff": "graphmp.compare.api",
    "float32_variable_storage_getter": "graphmp.recipe.storage",
    "mixed_precision": "graphmp.session.decorator",
    "restore": "graphmp.loss_scale.checkpoints",
    "session_config": "graphmp.session.session_config",
}

_at_import.install()

__all__ = sorted(_MODULES) + ["__version__"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError("module 'graphmp' has no attribute %r" % name)
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
