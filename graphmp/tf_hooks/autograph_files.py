"""The files that autograph writes: it deletes them at the interpreter's exit."""

from __future__ import annotations

import atexit
from typing import Any, Callable, List

_deletions: List[Callable[[], Any]] = []


def note_autograph_files() -> None:
    """Note from now on how autograph deletes its files, for a process that will end at once."""
    register = atexit.register

    def noting(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if ".autograph." in str(getattr(function, "__module__", "")):
            _deletions.append(function)
        return register(function, *args, **kwargs)

    atexit.register = noting  # type: ignore[assignment]


def delete_autograph_files() -> None:
    """Delete the files that were noted."""
    for delete in _deletions:
        delete()
