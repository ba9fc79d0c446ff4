"""Messages while a user's script builds or trains: Python warnings at the user's own line."""

from __future__ import annotations

import traceback
import warnings

from graphmp.recipe.refusal import user_frame


def say(text: str) -> None:
    """Warn with one line, even if it was said before.

    A logger's first line would disable the user's logging.basicConfig.
    """
    where = user_frame(traceback.extract_stack())
    path, number = where[:2] if where else ("graphmp", 1)
    warnings.warn_explicit(text, RuntimeWarning, path, number)
