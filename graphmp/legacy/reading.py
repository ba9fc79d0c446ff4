"""The imports of a Python file, and the names of TensorFlow that it uses, read off its source."""

from __future__ import annotations

import ast
import pathlib
from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

_EAGER_OFF = frozenset(("disable_eager_execution", "disable_v2_behavior"))
_CONDITIONS = (ast.If, ast.IfExp, ast.Try)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CONTRIB = "tensorflow.contrib"
NUMPY = "Tensor.numpy"


class FileFacts(NamedTuple):
    """One file's uses of TensorFlow, and its imports.

    Attributes:
        plain: whether it imports `tensorflow` itself.
        adapted: whether it asks for TensorFlow 1 in a way that TensorFlow 2 has.
        in_graphs: whether it switches eager execution off, under whatever condition.
        contrib: whether it imports a part of contrib, without a condition.
        imports: dotted names.
        names: the parts of `tensorflow` that it uses, by line.
        sure: those that it uses under no condition, which TensorFlow's version might be.
        at_import: those of these that it uses while it is imported, outside of functions.
        imports_at_import: dotted names that it imports in the same way.
    """

    plain: bool
    adapted: bool
    in_graphs: bool
    contrib: bool
    imports: List[str]
    names: List[Tuple[int, str]]
    sure: FrozenSet[str]
    at_import: FrozenSet[str]
    imports_at_import: FrozenSet[str]


def read(path: pathlib.Path, folder: pathlib.Path) -> Optional[FileFacts]:
    """The facts of a file; None if it can't be parsed.

    Args:
        path: the file.
        folder: the folder from which it is imported, for relative imports.
    """
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
    contrib = any(
        name.startswith(_CONTRIB) for node in tree.body for name in _imported(node, package)
    )
    adapted = any(map(_is_adapted, ast.walk(tree)))
    in_graphs = any(_last_name(node) in _EAGER_OFF for node in ast.walk(tree))
    used = list(_used(tree))
    names = [(_line(node), name) for node, name in used]
    always = set(_unconditional(tree))
    sure = frozenset(name for node, name in used if node in always)
    run = set(_unconditional(tree, inside=False))
    at_import = frozenset(name for node, name in used if node in run)
    at_once = frozenset(name for node in run for name in _imported(node, package))
    return FileFacts(plain, adapted, in_graphs, contrib, imports, names, sure, at_import, at_once)


def _unconditional(tree: ast.AST, inside: bool = True) -> Iterator[ast.AST]:
    """The nodes of a file that are under no condition; those inside functions only if `inside`."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _CONDITIONS):
            continue
        yield node
        if inside or not isinstance(node, _FUNCTIONS):
            waiting.extend(ast.iter_child_nodes(node))
        else:
            waiting += getattr(node, "decorator_list", [])
            waiting += filter(None, [*node.args.defaults, *node.args.kw_defaults])


def _used(tree: ast.AST) -> Iterator[Tuple[ast.AST, str]]:
    """Each part of `tensorflow` that a file uses: its node, and its dotted name.

    For example `train.AdamOptimizer` for `tf.train.AdamOptimizer`.
    """
    aliases: Dict[str, str] = {}
    for node in ast.walk(tree):
        for name, part in _parts_imported(node):
            aliases[name] = part if name != "tensorflow" else ""
            if part:
                yield node, part
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "numpy"
            and not node.args
        ):
            yield node, NUMPY
        parts: List[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in aliases:
            yield inner, ".".join(filter(None, [aliases[inner.id], *parts]))


def _parts_imported(node: ast.AST) -> Iterator[Tuple[str, str]]:
    """The names that an import binds to `tensorflow` or a part of it, each with the part imported.

    `import tensorflow.gfile` binds `tensorflow`, as Python does, and imports the part `gfile`.
    """
    if isinstance(node, ast.Import):
        found = [(alias.asname or "tensorflow", alias.name) for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        found = [
            (alias.asname or alias.name, "%s.%s" % (node.module, alias.name))
            for alias in node.names
        ]
    else:
        return
    for name, path in found:
        package, _, part = path.partition(".")
        if package == "tensorflow":
            yield name, part.rstrip(".*")


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


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def _last_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _is_adapted(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _EAGER_OFF or (node.attr == "v1" and _last_name(node.value) == "compat")
    if isinstance(node, ast.Name):
        return node.id in _EAGER_OFF
    return any(
        "compat.v1" in name or name.rpartition(".")[2] in _EAGER_OFF for name in _imported(node, ())
    )
