"""Acting at one of the calls that change a file system: an error, an interrupt, a kill."""

from __future__ import annotations

import importlib
import os
import signal
import sys

from tests.support.places import TOOLS


def acting_at(number, act, after=False):
    """See `counted` of tools/fuzzing/of_writes.py; `act` gets a signal's two arguments."""
    sys.path.insert(0, str(TOOLS))
    try:
        writes = importlib.import_module("fuzzing.of_writes")
    finally:
        sys.path.remove(str(TOOLS))
    return writes.counted(number, lambda: act(2, None), after)


def fails(number):
    """An act that raises an OSError."""

    def act(*_):
        raise OSError(number, os.strerror(number))

    return act


def interrupts(*_):
    """An act that is Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def entries(folder):
    """The names in a folder."""
    return sorted(os.listdir(str(folder)))
