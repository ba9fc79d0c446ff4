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
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

from graphmp.errors import GraphmpError
from graphmp.process_memory import budget

SECONDS, SECONDS_PER_NODE = 8.0, 0.002  # of the child's processor
MEMORY_PER_NODE = 10_000  # bytes: TensorFlow makes a Python object for each node that it imports
_PATIENCE = 8  # times the processor's time: another process may have the processor
CAN_FORK = hasattr(os, "fork")
_DATA = 5  # the field of statm with the pages of private memory that may be written
_LACK = ("MemoryError", "ResourceExhaustedError")
_EXPANDS = "Unable to evaluate a constant node"  # 2.21, after 10 s of waiting for memory
_state = {"behind": False}


class _Limits(NamedTuple):
    """The limits of a child: seconds of a processor, and bytes besides those of its parent."""

    seconds: float
    memory: int


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


def guarded(function: Callable[[], Any], doing: str, graph_def: Optional[Any] = None) -> Any:
    """The result of a function, called in a child behind glass; it must be picklable.

    Args:
        function: what may crash.
        doing: words for the error, such as "importing the graph".
        graph_def: the graph in question: its size sets the limits.

    Raises:
        GraphmpError: GMP028 if the child crashed, or reached a limit.
    """
    if not _state["behind"]:
        return function()
    limit = _limits(graph_def)
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _work(function, reading, writing, limit)
    os.close(writing)
    try:
        data = _read(reading, time.time() + limit.seconds * _PATIENCE)
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


def raise_memory_error(error: Exception) -> None:
    """Raise MemoryError if an error of TensorFlow's importer says that memory was lacking."""
    if type(error).__name__ in _LACK or _EXPANDS in str(error):
        raise MemoryError(str(error)) from error


def _limits(graph_def: Optional[Any]) -> _Limits:
    if graph_def is None:
        return _Limits(SECONDS, budget(0))
    seconds = SECONDS + SECONDS_PER_NODE * len(graph_def.node)
    objects = MEMORY_PER_NODE * len(graph_def.node)
    return _Limits(seconds, budget(graph_def.ByteSize()) + objects)


def _work(function: Callable[[], Any], reading: int, writing: int, limit: _Limits) -> None:
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


def _set_limits(limit: _Limits) -> None:
    resource = importlib.import_module("resource")  # Windows has none, nor a fork

    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # a crash writes its stack there
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(limit.seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    if not sys.platform.startswith("linux"):
        return  # elsewhere the limit of data counts other memory
    with open("/proc/self/statm", "rb") as file:
        size = int(file.read().split()[_DATA]) * resource.getpagesize() + limit.memory
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


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


def _crash(doing: str, status: int, limit: _Limits) -> GraphmpError:
    number: Optional[int] = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    megabytes = limit.memory // 10**6
    if number in (signal.SIGXCPU, signal.SIGKILL):
        found = "TensorFlow did not end within %d s" % limit.seconds
    elif number is None:
        found = "TensorFlow ended without a result, or needed more than %d MB" % megabytes
    else:
        found = "TensorFlow crashed (%s)" % signal.Signals(number).name
    text = "%s while %s; accepted is a graph that this TensorFlow imports: try another version"
    return GraphmpError("GMP028", text % (found, doing))
