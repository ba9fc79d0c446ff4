"""Work that may crash or hang the process, done in a forked child with limits.

TensorFlow's importer aborts or never ends on some graphs that it didn't make. The command line puts
it behind glass (`behind_glass`): each `guarded` call then runs in a child of its own, and a crash
becomes an error. The Python interface, and platforms without fork, call in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import select
import signal
import sys
import time
from typing import Any, Callable, Iterator, List, Optional

from graphmp.errors import GraphmpError

SECONDS, SECONDS_PER_NODE = 8.0, 0.002  # of the child's processor
MEMORY = 4 << 30  # bytes that a child may allocate
_PATIENCE = 8  # times the processor's time: another process may have the processor
CAN_FORK = hasattr(os, "fork")
_state = {"behind": False}


@contextlib.contextmanager
def behind_glass() -> Iterator[None]:
    """Let `guarded` use children, in this process, until a session may have been opened."""
    before = _state["behind"]
    _state["behind"] = CAN_FORK
    try:
        yield
    finally:
        _state["behind"] = before


def open_glass() -> None:
    """Call in this process from now on: a session's threads don't survive a fork."""
    _state["behind"] = False


def is_behind_glass() -> bool:
    """Whether `guarded` uses children."""
    return _state["behind"]


def guarded(function: Callable[[], Any], doing: str, nodes: int = 0) -> Any:
    """The result of a function, called in a child behind glass; it must be picklable.

    Args:
        function: what may crash.
        doing: words for the error, such as "importing the graph".
        nodes: the size of the graph, for the limit of time.

    Raises:
        GraphmpError: GMP028 if the child crashed, or reached a limit.
    """
    if not _state["behind"]:
        return function()
    limit = SECONDS + SECONDS_PER_NODE * nodes
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _work(function, reading, writing, limit)
    os.close(writing)
    try:
        data = _read(reading, time.time() + limit * _PATIENCE)
    finally:
        os.close(reading)
        _end(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    if not data:
        raise _crash(doing, status, limit)
    worked, result = pickle.loads(data)
    if worked:
        return result
    raise result


def _work(function: Callable[[], Any], reading: int, writing: int, limit: float) -> None:
    """The child: write the pickled result or error, and end."""
    try:
        os.close(reading)
        _set_limits(limit)
        try:
            answer = pickle.dumps((True, function()))
        except GraphmpError as error:
            answer = pickle.dumps((False, error))
        with os.fdopen(writing, "wb") as file:
            file.write(answer)
    finally:
        os._exit(0)


def _set_limits(limit: float) -> None:
    resource = importlib.import_module("resource")  # Windows has none, nor a fork

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # a crash writes its stack there
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(limit) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    with open("/proc/self/statm", "rb") as file:
        size = int(file.read().split()[0]) * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def _read(reading: int, end: float) -> bytes:
    """All that the child writes; nothing if it doesn't end in time."""
    parts: List[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, end - time.time()))
        if not ready:
            return b""
        part = os.read(reading, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _end(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def _crash(doing: str, status: int, limit: float) -> GraphmpError:
    number: Optional[int] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if number in (signal.SIGXCPU, signal.SIGKILL):
        found = "TensorFlow did not end within %d s" % limit
    elif number is None:
        found = "TensorFlow ended without a result, or needed more than 4 GiB"
    else:
        found = "TensorFlow crashed (%s)" % signal.Signals(number).name
    text = "%s while %s; accepted is a graph that this TensorFlow imports: try another version"
    return GraphmpError("GMP028", text % (found, doing))
