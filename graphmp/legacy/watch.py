"""Files of a program that its source doesn't name: found when they are run or imported.

A program may import a module by a name from its command line, or run another file by `runpy`.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import os
import pathlib
import runpy
import sys
from typing import Any, Callable, Optional

from graphmp.legacy.script import Program


def watch(program: Program, install: Callable[[], None]) -> None:
    """Call `install` once, before the program runs code that shows that it needs TensorFlow 1.

    Args:
        program: the files known so far, to which those that it runs are added.
        install: makes `import tensorflow` mean TensorFlow 1.
    """
    program.runs(())
    watcher = Watcher(program, install)
    sys.meta_path.insert(0, watcher)
    for name, add in (("run_path", watcher.ran_file), ("run_module", watcher.imported)):
        setattr(runpy, name, _after(add, getattr(runpy, name)))


class Watcher(importlib.abc.MetaPathFinder):
    """The first of all finders, which finds nothing."""

    def __init__(self, program: Program, install: Callable[[], None]):
        self._program = program
        self._install: Optional[Callable[[], None]] = install

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """See `importlib.abc.MetaPathFinder`."""
        self.imported(fullname)
        return None

    def imported(self, name: str) -> None:
        """Read a module that is imported or run."""
        if self._install is not None and self._program.add_module(name):
            self._look()

    def ran_file(self, path: Any) -> None:
        """Read a file that is run."""
        file = pathlib.Path(path)
        if self._install is not None and os.path.isfile(file):
            self._program.add_file(file)
            self._look()

    def _look(self) -> None:
        if self._install is not None and self._program.facts.needs_version_1:
            install, self._install = self._install, None
            install()


def _after(add: Callable[[Any], None], original: Callable[..., Any]) -> Callable[..., Any]:
    """A function of runpy that first adds what it is going to run."""

    @functools.wraps(original)
    def run(what: Any, *args: Any, **kwargs: Any) -> Any:
        add(what)
        return original(what, *args, **kwargs)

    return run
