"""Processes that run graphs for a bench, and what their end means."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
import sys
from typing import Any, Dict, Mapping, Optional

from graphmp.errors import GraphmpError
from graphmp.performance.bench import FAILED, OUT_OF_MEMORY
from graphmp.runtime.bench.session import Training
from graphmp.runtime.builds import ROOT

# The child finds graphmp where this process did, and nothing in the working folder.
_CHILD = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + [sys.argv.pop(1)]; "
    "import graphmp.environment; from graphmp.runtime.bench.child import main; main(sys.argv[1])"
)
_NO_MEMORY = ("bad_alloc", "out of memory", "cannot allocate memory", "resource exhausted", "failed to allocate", "status: 1, message: could not ")


class Trouble(Exception):
    """A variant could not be run.

    Attributes:
        status: OUT_OF_MEMORY or FAILED.
        message: what happened, in one line.
    """

    def __init__(self, status: str, message: str):
        self.status = status
        self.message = " ".join(message.split())
        super().__init__("%s: %s" % (status, self.message))


def spec(trainings: Mapping[str, Training], memory_limit: int, on_gpu: bool) -> Dict[str, Any]:
    """What a process needs to know.

    Args:
        trainings: the graphs by variant.
        memory_limit: bytes that it may take; 0 for what the machine has.
        on_gpu: whether these are a GPU's.
    """
    return {"trainings": {name: list(training) for name, training in trainings.items()}, "memory_limit": memory_limit, "on_gpu": on_gpu}


class Process:
    """A child process, started when it is first asked, and anew after it died; to be closed after use."""

    def __init__(self, specification: Dict[str, Any], folder: pathlib.Path):
        """Writes what it will read.

        Args:
            specification: of `spec`.
            folder: for its files.
        """
        self._limited = bool(specification["memory_limit"])
        self._log = folder / "child.log"
        self._path = folder / "spec.json"
        self._path.write_text(json.dumps(specification))
        self._child: Optional[Any] = None

    def ask(self, order: str, *arguments: Any) -> Any:
        """Has an order carried out.

        Raises:
            Trouble: where there is no memory, where it fails, where the process dies.
            GraphmpError: what the child says is the user's.
        """
        child = self._child = self._child or self._start()
        try:
            child.stdin.write(json.dumps({"order": order, "arguments": arguments}) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise death(child.returncode, self._log.read_text(errors="replace"), self._limited)
        return value_of(json.loads(line))

    def close(self) -> None:
        """Ends it: its standard input is closed."""
        child, self._child = self._child, None
        if child is not None:
            child.communicate()

    def _start(self) -> Any:
        with self._log.open("wb") as log:
            command = [sys.executable, "-c", _CHILD, ROOT, str(self._path)]
            return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, universal_newlines=True)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: Any) -> None:
        if self._child is not None:
            self._child.kill()
        self.close()


def says_no_memory(text: str) -> bool:
    """Whether a message is about memory that couldn't be had; oneDNN says it as status 1 (2.21)."""
    return any(words in text.lower() for words in _NO_MEMORY)


def value_of(answer: Dict[str, Any]) -> Any:
    """The value of an answer.

    Raises:
        Trouble, GraphmpError: as it says.
    """
    if "trouble" in answer:
        raise Trouble(*answer["trouble"])
    if "error" in answer:
        raise GraphmpError(*answer["error"])
    return answer["value"]


def death(returncode: int, log: str, limited: bool) -> Trouble:
    """What a process died of.

    A kernel that has no memory kills, and so does code that expects to get what it asks for; under a limit any signal means that.

    Args:
        returncode: of the process; negative for a signal.
        log: what it wrote.
        limited: whether it had a memory limit.
    """
    last = ([line for line in log.splitlines() if line.strip()] or ["nothing"])[-1].strip()
    if returncode >= 0:
        return Trouble(FAILED, "its process exited with status %d; it printed last: %s" % (returncode, last))
    how = "its process was ended by %s" % signal.Signals(-returncode).name
    if -returncode == signal.SIGKILL or limited or says_no_memory(log):
        return Trouble(OUT_OF_MEMORY, how)
    return Trouble(FAILED, "%s; it printed last: %s" % (how, last))
