"""Names that Python dropped since TensorFlow 1's time: up to 3.7 it had all of them."""

from __future__ import annotations

import collections
import collections.abc
import inspect
import time
from typing import Any, Callable, NamedTuple, Optional, Tuple

__all__ = ["restore"]


class ArgSpec(NamedTuple):
    """The result of `inspect.getargspec`."""

    args: Any
    varargs: Optional[str]
    keywords: Optional[str]
    defaults: Optional[Tuple[Any, ...]]


def restore() -> None:
    """Add what is missing: of `collections` (3.10), `inspect` (3.11) and `time` (3.8)."""
    for name in collections.abc.__all__:
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    if not hasattr(inspect, "getargspec"):
        inspect.getargspec = _getargspec  # type: ignore[attr-defined]
    if not hasattr(time, "clock"):
        time.clock = time.process_time  # type: ignore[attr-defined]


def _getargspec(function: Callable[..., Any]) -> ArgSpec:
    """The arguments of a function, without those that are named only."""
    spec = inspect.getfullargspec(function)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)
