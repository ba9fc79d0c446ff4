"""What changed between two graphs, node by node, and why. `graphmp.diff(before, after)` calls `compare`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from graphmp.diff.compare import compare as _compare
from graphmp.diff.model import Diff


class _CallablePackage(ModuleType):
    """Python sets `graphmp.diff` to this package once it is imported; the interface has a function of that name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Diff:
        return _compare(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
