"""Python programs that a script starts without `--children`: they run as under python."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any, List, Sequence

from graphmp.tf_hooks import patch

_PYTHON = re.compile(r"python[\d.]*(\.exe)?$")
_MOST = 60  # characters of a command in a message


class Started:
    """The commands by which a process starts Python files and modules.

    By `subprocess` and what uses it, and by `os.system`.
    """

    def __init__(self) -> None:
        self._commands: List[str] = []

    def listen(self) -> None:
        """Note commands from here on."""
        patch.wrap(subprocess.Popen, "__init__", self._popen)
        patch.wrap(os, "system", self._system)

    def in_words(self) -> str:
        """A line about them; empty without one."""
        if not self._commands:
            return ""
        first, others = self._commands[0], len(self._commands) - 1
        shown = first if len(first) <= _MOST else first[:_MOST] + "..."
        more = ", and %d more" % others if others else ""
        text = "not converted: what the script started by %s%s; --children prepares such processes"
        return text % (shown, more)

    def _popen(self, original: Any, process: Any, args: Any, *rest: Any, **options: Any) -> None:
        self._note(args if isinstance(args, (list, tuple)) else [args])
        original(process, args, *rest, **options)

    def _system(self, original: Any, command: Any) -> Any:
        self._note([command])
        return original(command)

    def _note(self, args: Sequence[Any]) -> None:
        words = " ".join(map(os.fsdecode, args)).split()
        if _starts_python(words):
            self._commands.append(" ".join(words))


def _starts_python(words: Sequence[str]) -> bool:
    """Whether a command runs a file or module by Python, and not by graphmp."""
    at = next((n for n, word in enumerate(words) if _PYTHON.search(word)), len(words))
    for word in words[at + 1 :]:
        if word == "-c":
            break
        if word == "-m" or word.endswith(".py"):
            return "graphmp" not in words
    return False
