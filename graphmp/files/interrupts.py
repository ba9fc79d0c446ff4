"""Signals that end a process, put off while files change places."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import Any, Dict, Iterator, List

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Put off the signals of `ENDING` until the end of the block, then let them have their effect.

    Masking them wouldn't do: one of TensorFlow's threads would take them, and Python's handler runs
    in the main thread all the same. In other threads nothing is put off, nor is what is ignored or
    handled outside of Python.
    """
    came: List[int] = []
    handlers: Dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    handlers[number] = signal.signal(number, lambda n, frame: came.append(n))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came:
            os.kill(os.getpid(), number)
