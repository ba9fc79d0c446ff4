"""The TensorFlow version that a script is written for, by its source and its own modules."""

from __future__ import annotations

import ast
import pathlib
import sys
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

from graphmp.legacy import internals

_ADAPTED = frozenset(("disable_eager_execution", "disable_v2_behavior"))
_NUMPY = "Tensor.numpy"
_EAGER = frozenset(("GradientTape", "function", _NUMPY))  # names that don't require TensorFlow 1
_INSTALLED = frozenset(("dist-packages", "site-packages"))


class ScriptFacts(NamedTuple):
    """Facts read off the source of a script.

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


class _Facts(NamedTuple):
    """One file's uses of TensorFlow, and its imports.

    `names` are the parts of `tensorflow` that it uses, by line.
    """

    plain: bool
    adapted: bool
    imports: List[str]
    names: List[Tuple[int, str]]


def written(script: pathlib.Path) -> ScriptFacts:
    """The TensorFlow version that a script is written for.

    It needs TensorFlow 1 if it, or a module of its author's that it imports (directly or
    indirectly), imports plain `tensorflow`, and none of them mentions `compat.v1`, switches
    TensorFlow 2 behaviour off itself, or executes eagerly with only names that TensorFlow 2 has.
    Its author's modules are those beside it and those on `sys.path` that are not installed with
    Python.

    Args:
        script: a Python source file; one that can't be parsed needs nothing.
    """
    script = pathlib.Path(script)
    folders = [script.parent] + _folders_on_path()
    seen: Dict[pathlib.Path, Optional[_Facts]] = {}
    waiting = [(script, script.parent)]
    while waiting:
        path, folder = waiting.pop()
        if path in seen:
            continue
        seen[path] = facts = _read(path, folder)
        waiting += [
            found for name in (facts.imports if facts else ()) for found in _files(folders, name)
        ]
    known = {path: facts for path, facts in seen.items() if facts}
    imports = frozenset(name.split(".")[0] for facts in known.values() for name in facts.imports)
    fits = any(facts.plain for facts in known.values()) and not any(
        facts.adapted for facts in known.values()
    )
    if internals.on_tensorflow_1() or seen[script] is None or not fits:
        return ScriptFacts(imports=imports)
    names = [(path, line, name) for path, facts in known.items() for line, name in facts.names]
    eager = ["%s:%d: tf.%s" % found for found in names if found[2] in _EAGER]
    asks = not all(internals.in_version_2(name) for _, _, name in names)
    if eager and not asks:
        return ScriptFacts(eagerly=eager[0], imports=imports)
    return ScriptFacts(True, "", asks, imports)


def _folders_on_path() -> List[pathlib.Path]:
    """Folders of `sys.path` from PYTHONPATH or editable installations, without graphmp's own."""
    own = pathlib.Path(__file__).resolve().parents[2]
    folders = [pathlib.Path(entry).resolve() for entry in sys.path[1:] if entry]
    installed = {pathlib.Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    return [
        folder
        for folder in folders
        if folder != own
        and folder.name not in _INSTALLED
        and not installed & {folder, *folder.parents}
    ]


def _read(path: pathlib.Path, folder: pathlib.Path) -> Optional[_Facts]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    package = path.parent.relative_to(folder).parts
    imports = [name for node in ast.walk(tree) for name in _imported(node, package)]
    plain = any(
        name.split(".")[0] == "tensorflow" and not name.startswith("tensorflow.compat")
        for name in imports
    )
    return _Facts(plain, any(map(_is_adapted, ast.walk(tree))), imports, list(_used(tree)))


def _used(tree: ast.AST) -> Iterator[Tuple[int, str]]:
    """Line and dotted name of each part of `tensorflow` that a file uses.

    For example `train.AdamOptimizer` for `tf.train.AdamOptimizer`.
    """
    aliases: Dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases.update(
                (alias.asname or "tensorflow", "")
                for alias in node.names
                if alias.name == "tensorflow"
            )
        elif isinstance(node, ast.ImportFrom) and node.module == "tensorflow":
            aliases.update((alias.asname or alias.name, alias.name) for alias in node.names)
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name != "*")
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "numpy"
            and not node.args
        ):
            yield node.lineno, _NUMPY
        parts: List[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in aliases:
            yield inner.lineno, ".".join(filter(None, [aliases[inner.id], *parts]))


def _imported(node: ast.AST, package: tuple) -> Iterator[str]:
    """Dotted names that an import statement may load: `from a import b` may mean the module a.b."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else ()
        module = ".".join(above + ((node.module,) if node.module else ()))
        for alias in node.names:
            yield module + "." + alias.name if module else alias.name


def _is_adapted(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        inner = getattr(node.value, "attr", getattr(node.value, "id", ""))
        return node.attr in _ADAPTED or (node.attr == "v1" and inner == "compat")
    if isinstance(node, ast.Name):
        return node.id in _ADAPTED
    return any(
        "compat.v1" in name or name.rpartition(".")[2] in _ADAPTED for name in _imported(node, ())
    )


def _files(folders: List[pathlib.Path], module: str) -> Iterator[Tuple[pathlib.Path, pathlib.Path]]:
    """The files that an import of a dotted name runs, from the first folder that has it.

    Each is returned with that folder.
    """
    parts = module.split(".")
    for folder in folders:
        bases = [folder.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
        files = [
            path
            for base in bases
            for path in (base / "__init__.py", base.with_name(base.name + ".py"))
            if path.is_file()
        ]
        if files:
            yield from ((path, folder) for path in files)
            return
