"""The TensorFlow version that a program is written for, by the source of its author's files."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import (
    AbstractSet,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from graphmp.legacy import installation, internals, reading
from graphmp.legacy.libraries import keras_2

_OWN = __name__.partition(".")[0]
# Names that don't require TensorFlow 1.
_EAGER = frozenset(("GradientTape", "function", reading.NUMPY))


class ScriptFacts(NamedTuple):
    """Facts read off the source of a program.

    Attributes:
        needs_version_1: whether it runs on this TensorFlow only after `install`.
        eagerly: where it uses TensorFlow 2's eager execution, as `file:line: tf.GradientTape`;
            empty if it needs TensorFlow 1 for anything, or selects its version itself.
        asks_for_version_1: whether it uses a part of TensorFlow that version 2 lacks.
        imports: the packages that it imports.
    """

    needs_version_1: bool = False
    eagerly: str = ""
    asks_for_version_1: bool = False
    imports: FrozenSet[str] = frozenset()


def _is_older(facts: reading.FileFacts, used: AbstractSet[str]) -> bool:
    """Whether a file needs TensorFlow 1 for what it uses, and doesn't ask for it itself."""
    return facts.plain and not facts.adapted and not all(map(internals.in_version_2, used))


class Program:
    """The files of a program that its author wrote: those known so far, and what they import.

    Its author's modules are those beside the script, those on `sys.path` that are not installed
    with Python, and the packages that the program itself is installed with.

    Args:
        script: the file that is run; a command that pip made of an entry point, too.
        module: the module that is run in its place, as by `python -m`.
    """

    def __init__(self, script: Optional[pathlib.Path] = None, module: str = ""):
        self._homes = [pathlib.Path.cwd() if script is None else script.parent]
        self._running = False
        self._on_path: Dict[Tuple[str, ...], List[pathlib.Path]] = {}
        self._packages = frozenset([module.partition(".")[0]] if module else [])
        self._seen: Dict[pathlib.Path, Optional[reading.FileFacts]] = {}
        self._asked: Set[str] = set()
        self._run: List[pathlib.Path] = []
        if module:
            self.add_module(module)
            self.add_module(module + ".__main__")
        elif script is not None:
            entry, self._packages = installation.of_command(script)
            self.add_file(script)
            self.add_module(entry)

    def runs(self, imported: Iterable[str]) -> None:
        """Note that it is running: `sys.path` is its own now, and it has imported these modules."""
        self._running = True
        for name in imported:
            self.add_module(name)

    @property
    def facts(self) -> ScriptFacts:
        """The TensorFlow version that the program is written for.

        It needs TensorFlow 1 if a file imports plain `tensorflow`, and none mentions `compat.v1`,
        switches TensorFlow 2 behaviour off itself, or executes eagerly with only names that
        TensorFlow 2 has; and if a file imports a part of contrib, or a module that Keras 2 alone
        has, whatever others mention; and if one switches eager execution off, but another, which
        mentions no `compat.v1`, uses a part of plain `tensorflow` that TensorFlow 2 lacks; and if
        such a file uses one outside of functions, and is imported without a condition: TensorFlow 2
        fails there.
        """
        known = {path: facts for path, facts in self._seen.items() if facts}
        imports = frozenset(
            name.split(".")[0] for facts in known.values() for name in facts.imports
        )
        if internals.on_tensorflow_1():
            return ScriptFacts(imports=imports)
        older = any(facts.contrib or keras_2.wanted(facts.imports) for facts in known.values())
        if any(facts.in_graphs for facts in known.values()):
            older = older or any(_is_older(facts, facts.sure) for facts in known.values())
        older = older or any(_is_older(facts, facts.at_import) for facts in self._imported())
        fits = any(facts.plain for facts in known.values()) and not any(
            facts.adapted for facts in known.values()
        )
        names = [
            (path, line, name)
            for path, facts in known.items()
            if not facts.adapted
            for line, name in facts.names
        ]
        eager = ["%s:%d: tf.%s" % found for found in names if found[2] in _EAGER]
        asks = older or not all(internals.in_version_2(name) for _, _, name in names)
        if not (fits or older):
            return ScriptFacts(asks_for_version_1=asks, imports=imports)
        if eager and not asks:
            return ScriptFacts(eagerly=eager[0], imports=imports)
        return ScriptFacts(True, "", asks, imports)

    def add_file(self, path: pathlib.Path) -> None:
        """Read a file that the program runs, and what it imports of its author's."""
        self._run.append(path)
        self._add([(path, path.parent)])

    def add_module(self, name: str) -> bool:
        """Read a module that the program imports, if it is its author's; whether any was new."""
        if not name or name in self._asked:
            return False
        self._asked.add(name)
        before = len(self._seen)
        files = list(self._files(name))
        self._run += [path for path, _ in files]
        self._add(files)
        return len(self._seen) > before

    def _imported(self) -> Iterator[reading.FileFacts]:
        """The files that run, and those that they import under no condition, outside functions."""
        waiting, seen = list(self._run), set()
        while waiting:
            path = waiting.pop()
            facts = self._seen.get(path)
            if facts is None or path in seen:
                continue
            seen.add(path)
            yield facts
            waiting += [file for name in facts.imports_at_import for file, _ in self._files(name)]

    def _add(self, waiting: List[Tuple[pathlib.Path, pathlib.Path]]) -> None:
        while waiting:
            path, folder = waiting.pop()
            if path in self._seen:
                continue
            self._seen[path] = facts = reading.read(path, folder)
            for name in facts.imports if facts else ():
                waiting += self._files(name)

    def _files(self, module: str) -> Iterator[Tuple[pathlib.Path, pathlib.Path]]:
        """The files that an import of a dotted name runs, from the first folder that has it.

        Each is returned with that folder.
        """
        parts = module.split(".")
        if parts[0] == _OWN:
            return
        for folder in self._folders(parts[0]):
            bases = [folder.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
            files = [
                path
                for base in bases
                for path in (base / "__init__.py", base.with_name(base.name + ".py"))
                if os.path.isfile(path)
            ]
            if files:
                yield from ((path, folder) for path in files)
                return

    def _folders(self, package: str) -> List[pathlib.Path]:
        path = tuple(sys.path[0 if self._running else 1 :])  # the first entry is graphmp's at first
        if path not in self._on_path:
            self._on_path[path] = installation.authors_folders(path)
        folders = self._homes + self._on_path[path]
        return folders + installation.folder_of(package) if package in self._packages else folders


def written(script: pathlib.Path) -> ScriptFacts:
    """The facts of a script: a Python source file; one that can't be parsed needs nothing."""
    return Program(pathlib.Path(script)).facts
