"""Runs of a session's own nodes, which no clone stands in for."""

from __future__ import annotations

import threading
from typing import Any

_RUNS = threading.local()


def run_itself(session: Any, *args: Any) -> Any:
    """Run as the session would without graphmp; takes what `tf.Session.run` takes."""
    _RUNS.themselves = True
    try:
        return session.run(*args)
    finally:
        _RUNS.themselves = False


def runs_themselves() -> bool:
    """Whether this thread is in such a run."""
    return getattr(_RUNS, "themselves", False)
