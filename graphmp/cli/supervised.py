"""A command in a child process, so that a crash is one line and a wait without end has an end.

TensorFlow ends the process where a kernel fails a check, and some ops wait or compute in a way that
nothing in their process can interrupt. The parent imports no TensorFlow; it passes signals on,
waits, and says how a child ended that couldn't say so itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from typing import Optional, Sequence

from graphmp.errors import GraphmpError
from graphmp.time_limit import ALARM, TOO_LONG

_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_NO_CRASH = (*_PASSED_ON, "SIGPIPE")
_KILL_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)
_SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides it


def supervise(command: str) -> bool:
    """Go on in a child process; the parent ends as the child does.

    Nothing happens without fork, or beside other threads.

    Args:
        command: words for the error, such as `graphmp audit`.

    Returns:
        Whether there is a parent.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        return False
    numbers = [getattr(signal, name) for name in _PASSED_ON]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # until the parent can pass them on
    parent, child = os.getpid(), os.fork()
    if child:
        sys.exit(_status(_wait(child, numbers), command))
    os.setpgid(0, 0)  # a terminal's Ctrl-C comes once, from the parent
    _end_with(parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return True


def _end_with(parent: int) -> None:
    """End this process when its parent does, where the system can."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_KILL_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def _wait(child: int, numbers: Sequence[int]) -> int:
    """The child's wait status; signals to this process are passed on, and it pauses with it."""

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    def pause(number: int, frame: object) -> None:
        os.killpg(child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.killpg(child, signal.SIGCONT)

    with contextlib.suppress(OSError):
        os.setpgid(child, child)  # before a signal can come, whoever is first
    for number in numbers:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, pass_on)
    signal.signal(signal.SIGTSTP, pause)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return os.waitpid(child, 0)[1]


def _status(ended: int, command: str) -> int:
    """The exit status for a wait status; a crash is said on stderr."""
    if not os.WIFSIGNALED(ended):
        return os.WEXITSTATUS(ended)
    number = os.WTERMSIG(ended)
    error = _crash(signal.Signals(number), command)
    if error is None:
        return 128 + number
    if sys.stderr.isatty():
        sys.stderr.write(_SHOW_CURSOR)
    sys.stderr.write("graphmp: error %s\n" % error)
    return error.exit_status


def _crash(number: signal.Signals, command: str) -> Optional[GraphmpError]:
    """The error for a signal; None if it was somebody's wish."""
    if number.name in _NO_CRASH:
        return None
    if number == ALARM:
        text = "a run of the graph did not end in time, and TensorFlow cannot interrupt it"
        return GraphmpError(TOO_LONG, text + "; accepted is more time, by --step_timeout=SECONDS")
    if number == signal.SIGKILL:
        text = "its process was killed: the system does that if memory is short"
        return GraphmpError("GMP028", "%s: %s; accepted is a graph that fits" % (command, text))
    text = "TensorFlow crashed (%s) on what it was given; try another version, or other data"
    return GraphmpError("GMP028", "%s: %s" % (command, text % number.name))
