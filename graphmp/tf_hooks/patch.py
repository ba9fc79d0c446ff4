"""Wrapping an attribute of a module or class, once."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable

Wrapper = Callable[..., Any]
_LOCK = threading.RLock()
_MARK = "_graphmp_wrappers"


def wrap(owner: Any, name: str, wrapper: Wrapper) -> None:
    """Replace `owner.name` by a function that calls `wrapper(original, *args, **kwargs)`.

    Idempotent: a wrapper that is already around that attribute isn't added again.
    """
    with _LOCK:
        original = vars(owner)[name]
        present = getattr(original, _MARK, ())
        if wrapper in present:
            return

        @functools.wraps(original)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        setattr(wrapped, _MARK, present + (wrapper,))
        setattr(owner, name, wrapped)
