"""Whether a script is written for TensorFlow 1, read off its source and that of the modules that come with it."""

from __future__ import annotations

import ast
import pathlib
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from graphmp.runtime.legacy import internals

_ADAPTED = frozenset(("disable_eager_execution", "disable_v2_behavior"))
_INSTALLED = frozenset(("dist-packages", "site-packages"))


class _Facts(NamedTuple):
    """What one file says about TensorFlow, and the modules it imports."""

    plain: bool
    adapted: bool
    imports: List[str]


def needed(script: pathlib.Path) -> bool:
    """Whether a script runs on this TensorFlow only after `install`.

    So it is on TensorFlow 2 when the script, or a module of its author's that it imports (and so on), imports plain
    `tensorflow`, and none of them mentions `compat.v1` or switches TensorFlow 2 behaviour off itself. Its author's are the
    modules beside it and those on `sys.path` that are not installed with Python.

    Args:
        script: A Python source file; one that does not parse needs nothing.
    """
    if internals.on_tensorflow_1():
        return False
    script = pathlib.Path(script)
    folders = [script.parent] + _folders_on_path()
    seen: Dict[pathlib.Path, Optional[_Facts]] = {}
    waiting = [(script, script.parent)]
    while waiting:
        path, folder = waiting.pop()
        if path in seen:
            continue
        seen[path] = facts = _read(path, folder)
        waiting += [found for name in (facts.imports if facts else ()) for found in _files(folders, name)]
    known = [facts for facts in seen.values() if facts]
    return seen[script] is not None and any(facts.plain for facts in known) and not any(facts.adapted for facts in known)


def _folders_on_path() -> List[pathlib.Path]:
    """What PYTHONPATH, or an installation that can be edited, puts on `sys.path`; graphmp's own folder is none of a script's."""
    own = pathlib.Path(__file__).resolve().parents[3]
    folders = [pathlib.Path(entry).resolve() for entry in sys.path[1:] if entry]
    installed = {pathlib.Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    return [folder for folder in folders if folder != own and folder.name not in _INSTALLED and not installed & {folder, *folder.parents}]


def _read(path: pathlib.Path, folder: pathlib.Path) -> Optional[_Facts]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    package = path.parent.relative_to(folder).parts
    imports = [name for node in ast.walk(tree) for name in _imported(node, package)]
    plain = any(name.split(".")[0] == "tensorflow" and not name.startswith("tensorflow.compat") for name in imports)
    return _Facts(plain, any(map(_is_adapted, ast.walk(tree))), imports)


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
    return any("compat.v1" in name or name.rpartition(".")[2] in _ADAPTED for name in _imported(node, ()))


def _files(folders: List[pathlib.Path], module: str) -> Iterator[Tuple[pathlib.Path, pathlib.Path]]:
    """The files that importing a dotted name runs, of the first of the folders that has it, each with that folder."""
    parts = module.split(".")
    for folder in folders:
        bases = [folder.joinpath(*parts[:length]) for length in range(1, len(parts) + 1)]
        files = [path for base in bases for path in (base / "__init__.py", base.with_name(base.name + ".py")) if path.is_file()]
        if files:
            yield from ((path, folder) for path in files)
            return
