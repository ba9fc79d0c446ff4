"""How long a run of a graph, a batch of `--data`, and a Python file before it trains, may take.

The limit of a run is set by the command line and kept by sessions.

A queue that nothing fills and a loop without end are no crash. TensorFlow gives most of them up by
itself, in a session with a limit; what it can't interrupt (a StagingArea that stays empty, one
long kernel) is ended by the alarm clock, with its process.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import Dict, Iterator

from graphmp.errors import GraphmpError

SECONDS = 300.0  # of a run, by default
SCRIPT_SECONDS = 3600.0  # of a Python file, by default
LONGEST = 1_000_000  # seconds: TensorFlow's limit has milliseconds in 32 bits
TOO_LONG = "GMP030"
ALARM = getattr(signal, "SIGALRM", None)  # Windows has none
_GRACE = 5.0  # seconds for TensorFlow to stop
_AGAIN = 1.0  # seconds after which code that catches every exception is interrupted again
_state: Dict[str, float] = {"seconds": 0.0, "ends_process": False}


@contextlib.contextmanager
def limited_runs(seconds: float, ends_process: bool) -> Iterator[None]:
    """Limit each run of a graph.

    Args:
        seconds: of a run; 0 for no limit.
        ends_process: whether the alarm clock may end the process, because a parent says why.
    """
    before = dict(_state)
    _state.update(seconds=seconds, ends_process=ends_process)
    try:
        yield
    finally:
        _state.update(before)


def limit() -> float:
    """The seconds of a run; 0 without a limit."""
    return _state["seconds"]


@contextlib.contextmanager
def alarmed() -> Iterator[None]:
    """Set the alarm clock for what runs inside, if it may end this process."""
    if not (_state["seconds"] and _state["ends_process"] and ALARM):
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, _state["seconds"] + _GRACE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class _Late(BaseException):
    """Raised by the alarm clock, past `except Exception`."""


@contextlib.contextmanager
def interrupted(what: str) -> Iterator[None]:
    """Interrupt Python code that runs inside at the limit of a run, in the main thread.

    C code that doesn't come back to Python is not interrupted.

    Args:
        what: the first words of the error.

    Raises:
        GraphmpError: GMP030 at the limit.
    """
    seconds = limit()
    if not (seconds and ALARM and threading.current_thread() is threading.main_thread()):
        yield
        return

    def late(number: int, frame: object) -> None:
        raise _Late

    before = signal.signal(ALARM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        yield
    except _Late:
        text = "%s did not end within %g s; accepted is more time, by --step_timeout=SECONDS"
        raise GraphmpError(TOO_LONG, text % (what, seconds)) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(ALARM, before)


def too_long(seconds: float) -> GraphmpError:
    """The error for a run that reached its limit."""
    text = (
        "a run of the graph did not end within %g s: it waits for input that nothing gives, loops"
        " without end, or is slow; accepted is more time, by --step_timeout=SECONDS"
    )
    return GraphmpError(TOO_LONG, text % seconds)
