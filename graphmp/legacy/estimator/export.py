"""The decorator of the package's public names, without its warning that they are deprecated."""

from __future__ import annotations

from typing import Any, Callable, Sequence


class estimator_export:  # noqa: N801 - the package's name
    """Returns what it decorates: the package's interface is generated and imports by module."""

    def __init__(self, *names: str, v1: Sequence[str] = ()):
        self.names = names

    def __call__(self, exported: Callable[..., Any]) -> Callable[..., Any]:
        return exported
