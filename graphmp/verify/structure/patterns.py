"""Patterns of nodes that a conversion may insert, in the syntax of `scales/templates.txt`.

    current = Maximum(read(scale, INITIAL), MIN)

    Op(a, b)           a node of that op with these inputs, its first output; Op(a)[1] is its second
    Op(a, after=[b])   one that also waits for b; a node of any other pattern waits for nothing
    Op(a, after=[*b])  one that waits for any number of nodes, as a list; after others, for those
                       and any number more
    Op(a, after=...)   one with any control inputs
    Op(a, like=write)  one with the attributes of the node in that hole; checked by the caller
    Op(a, key="text")  one with that attribute; key=NAME reads it off; all other attributes that are
                       no types have their default
    Op(*name)          any number of inputs, as a list
    Op(*name, a)       the same, and a last one
    name               a hole: any output, the same at each occurrence of the name; if a template
                       has that name, an output that matches it
    name @ pattern     a hole for a match of a pattern
    NAME               a constant scalar, the same number at each occurrence; its value is read off
    1, [0], "a", nan   a constant of that value
    zeros              a constant of any shape, all of it +0
    template(a, b)     another template, with patterns for its parameters; its other holes are the
                       caller's, except those with @

Indented lines continue a definition. If a name has several definitions, one must match.
"""

from __future__ import annotations

import ast
import math
import pathlib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

LIKE = "like"  # an attribute of a pattern with any value


class Hole(NamedTuple):
    """Any output, or a match of the template or parameter of that name."""

    name: str


class Rest(NamedTuple):
    """A hole for a list."""

    name: str


class Named(NamedTuple):
    """A hole for a match of a pattern."""

    name: str
    pattern: Any


class Value(NamedTuple):
    """A constant."""

    value: Any


ZEROS = "zeros"
_CONSTANTS = {"nan": Value(math.nan), ZEROS: Value(ZEROS)}


class NodePattern(NamedTuple):
    """A node. `rest`: the hole for its inputs before the listed ones; empty if all are listed."""

    op: str
    inputs: Tuple[Any, ...]
    rest: str
    output: int
    after: Optional[Tuple[Any, ...]]
    attributes: Mapping[str, Any]


class TemplateUse(NamedTuple):
    """Another template."""

    template: str
    arguments: Tuple[Any, ...]


class Template(NamedTuple):
    """One definition. `own`: holes that aren't shared."""

    parameters: Tuple[str, ...]
    pattern: Any
    own: Tuple[str, ...]


Templates = Dict[str, List[Template]]


def read_templates(path: pathlib.Path) -> Templates:
    """The templates of a file by name."""
    found: Templates = {}
    for line in _definitions(path.read_text(encoding="utf-8")):
        head, _, body = line.partition(" = ")
        made = ast.parse(head.strip(), mode="eval").body
        name = made.func if isinstance(made, ast.Call) else made
        parameters = (
            [each.id for each in made.args if isinstance(each, ast.Name)]
            if isinstance(made, ast.Call)
            else []
        )
        pattern = _pattern(ast.parse(body.strip(), mode="eval").body)
        assert isinstance(name, ast.Name)
        found.setdefault(name.id, []).append(
            Template(tuple(parameters), pattern, tuple(_own(pattern)))
        )
    return found


def _definitions(text: str) -> List[str]:
    found: List[str] = []
    for line in text.splitlines():
        line = line.split(" # ")[0].rstrip()
        if line.startswith(" "):
            found[-1] += line
        elif line and not line.startswith("#"):
            found.append(line)
    return found


def _pattern(tree: Any) -> Any:
    if isinstance(tree, ast.Starred):
        return Rest(_pattern(tree.value).name)
    if isinstance(tree, ast.Name):
        return _CONSTANTS.get(tree.id) or Hole(tree.id)
    if isinstance(tree, ast.BinOp):
        assert isinstance(tree.left, ast.Name) and isinstance(tree.op, ast.MatMult)
        return Named(tree.left.id, _pattern(tree.right))
    if isinstance(tree, ast.Subscript):
        index: Any = tree.slice
        if type(index).__name__ == "Index":  # Python wraps it before 3.9
            index = index.value
        return _pattern(tree.value)._replace(output=ast.literal_eval(index))
    if isinstance(tree, ast.Call):
        return _node(tree)
    return Value(ast.literal_eval(tree))


def _node(tree: ast.Call) -> Any:
    assert isinstance(tree.func, ast.Name)
    if tree.func.id[0].islower():
        return TemplateUse(tree.func.id, tuple(map(_pattern, tree.args)))
    rest = tree.args[0].value.id if tree.args and isinstance(tree.args[0], ast.Starred) else ""  # type: ignore[attr-defined]
    after: Optional[Tuple[Any, ...]] = ()
    attributes: Dict[str, Any] = {}
    for keyword in tree.keywords:
        if keyword.arg == "after":
            listed = getattr(keyword.value, "elts", None)
            after = None if listed is None else tuple(map(_pattern, listed))
        elif keyword.arg == "like":
            attributes[LIKE] = True
        else:
            value = keyword.value
            attributes[str(keyword.arg)] = (
                Hole(value.id) if isinstance(value, ast.Name) else ast.literal_eval(value)
            )
    return NodePattern(
        tree.func.id, tuple(map(_pattern, tree.args[bool(rest) :])), rest, 0, after, attributes
    )


def _own(pattern: Any) -> Iterator[str]:
    if isinstance(pattern, Named):
        yield pattern.name
        yield from _own(pattern.pattern)
    elif isinstance(pattern, TemplateUse):
        for each in pattern.arguments:
            yield from _own(each)
    elif isinstance(pattern, NodePattern):
        for each in (*pattern.inputs, *(pattern.after or ())):
            yield from _own(each)
