"""Headless Chromium (tools/parts/browser.py) for tests.

Without one they are skipped, or fail if GRAPHMP_BROWSER is set.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.support.places import TOOLS

sys.path.insert(0, str(TOOLS))
from parts.browser import (
    WIDE,
    complaints,
    missing,
    open_page,
    prefer,
    requests,
    resize,
    start,
    wait_for,
)

__all__ = [
    "WIDE",
    "complaints",
    "missing",
    "open_page",
    "prefer",
    "requests",
    "resize",
    "skip_without_one",
    "start",
    "start_or_fail",
    "wait_for",
]

VARIABLE = "GRAPHMP_BROWSER"  # set if there must be one


def skip_without_one():
    """Skip a whole module, in one line, if there is no browser."""
    if missing() and VARIABLE not in os.environ:
        pytest.skip(missing(), allow_module_level=True)


def start_or_fail(profile):
    """A browser; the test fails if a requirement is missing."""
    if missing():
        pytest.fail(missing())
    return start(profile)
