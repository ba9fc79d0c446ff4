"""Whether a script is written for TensorFlow 1, read off its source and that of the modules beside it."""

from __future__ import annotations

import ast
import pathlib
from typing import Dict, Iterator, List, NamedTuple, Optional

from graphmp.runtime.legacy import internals

_ADAPTED = frozenset(("disable_eager_execution", "disable_v2_behavior"))


class _Facts(NamedTuple):
    """What one file says about TensorFlow, and the modules it imports."""

    plain: bool
    adapted: bool
    imports: List[str]


def needed(script: pathlib.Path) -> bool:
    """Whether a script runs on this TensorFlow only after `install`.

    So it is on TensorFlow 2 when the script, or a module in its folder that it imports (and so on), imports plain
    `tensorflow`, and none of them mentions `compat.v1` or switches TensorFlow 2 behaviour off itself.

    Args:
        script: A Python source file; one that does not parse needs nothing.
    """
    if internals.on_tensorflow_1():
        return False
    script = pathlib.Path(script)
    seen: Dict[pathlib.Path, Optional[_Facts]] = {}
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen[path] = facts = _read(path, script.parent)
        waiting += [found for name in (facts.imports if facts else ()) for found in _files(script.parent, name)]
    known = [facts for facts in seen.values() if facts]
    return seen[script] is not None and any(facts.plain for facts in known) and not any(facts.adapted for facts in known)


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


def _files(folder: pathlib.Path, module: str) -> Iterator[pathlib.Path]:
    """The files below a folder that importing a dotted name from it runs."""
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        base = folder.joinpath(*parts[:length])
        for path in (base / "__init__.py", base.with_name(base.name + ".py")):
            if path.is_file():
                yield path
