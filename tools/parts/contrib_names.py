"""The names of `tensorflow` that a Python file reads, with its aliases followed."""

from __future__ import annotations

import ast
import warnings
from typing import Dict, Iterator, List, Optional

# Private code of TensorFlow, and interfaces that say which version they are of.
_LEFT_OUT = ("compat", "core", "python", "tensorflow_estimator", "tools")


def parsed(source: bytes) -> Optional[ast.Module]:
    """The tree of a file, or None if it isn't Python 3."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            return None


class Names:
    """The names of one file: dotted, without `tensorflow.`."""

    def __init__(self, tree: ast.Module):
        self._nodes = list(ast.walk(tree))
        self._aliases: Dict[str, str] = {}
        for node in self._nodes:
            self._aliases.update(_bound(node))
        self._follow_assignments()

    def uses(self) -> Iterator[str]:
        """One name for each place that reads one."""
        inner = {id(node.value) for node in self._nodes if isinstance(node, ast.Attribute)}
        for node in self._nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found: List[Optional[str]] = list(_imported(node))
            else:
                found = [None if id(node) in inner else self._name(node)]
            for name in found:
                if name and name.split(".")[0] not in _LEFT_OUT:
                    yield name

    def _name(self, node: ast.AST) -> Optional[str]:
        if not isinstance(getattr(node, "ctx", None), ast.Load):
            return None
        parts: List[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._aliases:
            return None
        return ".".join(part for part in [self._aliases[node.id], *parts] if part)

    def _follow_assignments(self) -> None:
        """`layers = tf.contrib.layers` makes an alias if the name has no other meaning."""
        assigned: Dict[str, List[Optional[str]]] = {}
        for node in self._nodes:
            for name in _targets(node):
                value = self._name(node.value) if isinstance(node, ast.Assign) else None
                assigned.setdefault(name, []).append(value)
        for name, values in assigned.items():
            value = values[0] or ""
            if name not in self._aliases and len(values) == 1 and value.startswith("contrib."):
                self._aliases[name] = value


def _targets(node: ast.AST) -> Iterator[str]:
    """Names that an assignment to a single name, or a parameter, gives a value."""
    if isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        if isinstance(target, ast.Name):
            yield target.id


def _bound(node: ast.AST) -> Iterator[tuple]:
    """Local name and name in `tensorflow` of what an import statement binds."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root, _, rest = alias.name.partition(".")
            if root == "tensorflow":
                yield (alias.asname, rest) if alias.asname else ("tensorflow", "")
    elif isinstance(node, ast.ImportFrom):
        for alias, name in zip(node.names, _imported(node)):
            yield alias.asname or alias.name, name


def _imported(node: ast.AST) -> Iterator[str]:
    """Names in `tensorflow` that an import statement reads."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root, _, rest = alias.name.partition(".")
            if root == "tensorflow" and rest:
                yield rest
    elif isinstance(node, ast.ImportFrom) and not node.level:
        root, _, rest = (node.module or "").partition(".")
        if root == "tensorflow":
            for alias in node.names:
                yield ".".join(part for part in (rest, alias.name) if part and part != "*")
