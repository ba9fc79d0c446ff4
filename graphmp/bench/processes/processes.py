"""Processes that run graphs for a bench, and the meaning of their end."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
from typing import Any, Dict, Mapping, Optional

from graphmp.bench.bench import FAILED, OUT_OF_MEMORY, TOO_SLOW
from graphmp.bench.processes.timed_session import TrainingFile
from graphmp.conversion.builds import ROOT
from graphmp.errors import GraphmpError
from graphmp.time_limit import ALARM, limit, too_long

# The child finds graphmp where this process did, and nothing in the working folder.
_CHILD = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + [sys.argv.pop(1)]; "
    "import graphmp.environment; from graphmp.bench.processes.child import main; main()"
)
END, ENDED, LATE = (
    "end",
    "ended",
    "late",
)  # the order to end a process; the answers that it did, or had to be killed
_NO_MEMORY = (
    "bad_alloc",
    "out of memory",
    "cannot allocate memory",
    "resource exhausted",
    "failed to allocate",
    "status: 1, message: could not ",
)


class Trouble(Exception):
    """A variant could not be run.

    Attributes:
        status: OUT_OF_MEMORY, FAILED or TOO_SLOW.
        message: what happened, in one line.
    """

    def __init__(self, status: str, message: str):
        self.status = status
        self.message = " ".join(message.split())
        super().__init__("%s: %s" % (status, self.message))


def spec(
    trainings: Mapping[str, TrainingFile], memory_limit: int, on_gpu: bool, resident: bool = False
) -> Dict[str, Any]:
    """The specification of a process.

    Args:
        trainings: the graphs by variant.
        memory_limit: bytes for the process; 0 for the machine's memory.
        on_gpu: whether these are a GPU's.
        resident: whether timed steps read the large tensors of a batch from the device's memory.

    Each run of a graph has the present time limit.
    """
    return {
        "trainings": {name: list(training) for name, training in trainings.items()},
        "memory_limit": memory_limit,
        "on_gpu": on_gpu,
        "resident": resident,
        "step_timeout": limit(),
    }


class Starter:
    """A process with TensorFlow imported, from which those that run graphs are forked.

    It is started on first use.
    """

    def __init__(self, folder: pathlib.Path):
        """Nothing is started yet; `folder` is for its log."""
        self._log = folder / "child.log"
        self._child: Optional[Any] = None

    def ask(self, order: Dict[str, Any], limit: Optional[float] = None) -> Dict[str, Any]:
        """The answer to an order, or that the process ended or exceeded its time."""
        child = self._child = self._child or self._start()
        try:
            child.stdin.write(json.dumps(order) + "\n")
            child.stdin.flush()
            if limit is not None and not select.select([child.stdout], [], [], limit)[0]:
                self.close()
                return {LATE: limit}
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return dict(json.loads(line))
        self.close()
        return {ENDED: child.returncode}

    def printed(self, start: int = 0) -> str:
        """The log from byte `start` on."""
        return self._log.read_bytes()[start:].decode(errors="replace") if self._log.exists() else ""

    @property
    def logged(self) -> int:
        """Bytes in the log."""
        return self._log.stat().st_size if self._log.exists() else 0

    def close(self) -> None:
        """End it, and its forks, whatever they do."""
        child, self._child = self._child, None
        if child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()

    def _start(self) -> Any:
        with self._log.open("ab") as log:
            command = [sys.executable, "-c", _CHILD, ROOT]
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                universal_newlines=True,
                start_new_session=True,
            )

    def __enter__(self) -> Starter:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Process:
    """A process that runs graphs, started on first use and restarted after its death.

    To be closed after use.
    """

    def __init__(self, specification: Dict[str, Any], starter: Starter):
        """Nothing is started yet.

        Args:
            specification: from `spec`.
            starter: the process to fork.
        """
        self._specification = specification
        self._starter = starter
        self._begun = False
        self._log_start = 0

    def ask(self, order: str, *arguments: Any, limit: Optional[float] = None) -> Any:
        """Have an order carried out, within a number of seconds if limited.

        Raises:
            Trouble: there is no memory, it fails, the process dies, or it takes too long.
            GraphmpError: the user's errors, from the child.
        """
        if not self._begun:
            self._log_start = self._starter.logged
            self._value(self._specification)
            self._begun = True
        return self._value({"order": order, "arguments": arguments}, limit)

    def _value(self, order: Dict[str, Any], limit: Optional[float] = None) -> Any:
        answer = self._starter.ask(order, limit)
        if LATE in answer:
            self._begun = False
            raise Trouble(
                TOO_SLOW,
                "three steps take more than %.0f s; give smaller --batch_sizes or more --seconds"
                % answer[LATE],
            )
        if ENDED in answer:
            self._begun = False
            raise death(
                answer[ENDED],
                self._starter.printed(self._log_start),
                bool(self._specification["memory_limit"]),
            )
        return value_of(answer)

    def close(self) -> None:
        """End it."""
        if self._begun:
            self._begun = False
            self._starter.ask({"order": END})

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:  # it may be in the middle of an order
            self._starter.close()


def says_no_memory(text: str) -> bool:
    """Whether a message is about missing memory; oneDNN reports it as status 1 (2.21)."""
    return any(words in text.lower() for words in _NO_MEMORY)


def value_of(answer: Dict[str, Any]) -> Any:
    """The value of an answer.

    Raises:
        Trouble, GraphmpError: the answer is one.
    """
    if "trouble" in answer:
        raise Trouble(*answer["trouble"])
    if "error" in answer:
        raise GraphmpError(*answer["error"])
    return answer["value"]


def death(returncode: int, log: str, limited: bool) -> Trouble:
    """The cause of a process's end.

    A system kernel out of memory kills processes, and code that doesn't expect failing allocations
    crashes: under a limit, any signal is taken for lack of memory.

    Args:
        returncode: of the process; negative for a signal.
        log: its output.
        limited: whether it had a memory limit.
    """
    last = ([line for line in log.splitlines() if line.strip()] or ["nothing"])[-1].strip()
    if returncode >= 0:
        return Trouble(
            FAILED, "its process exited with status %d; it printed last: %s" % (returncode, last)
        )
    if -returncode == ALARM:
        return Trouble(TOO_SLOW, too_long(limit()).message)
    how = "its process was ended by %s" % signal.Signals(-returncode).name
    if -returncode == signal.SIGKILL or limited or says_no_memory(log):
        return Trouble(OUT_OF_MEMORY, how)
    return Trouble(FAILED, "%s; it printed last: %s" % (how, last))
