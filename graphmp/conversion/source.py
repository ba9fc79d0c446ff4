"""The SOURCE of a conversion, and the Python source of a build function."""

from __future__ import annotations

import ast
import io
import os
import pathlib
import re
import tokenize
from typing import List, NamedTuple, Tuple

from graphmp.conversion import python_2
from graphmp.conversion.quiet import quiet_stderr
from graphmp.errors import GraphmpError
from graphmp.files.reading import TEXT_LIMIT, read_beginning, read_bytes

GRAPH_FILES = (".meta", ".pb", ".pbtxt")
PYTHON_FILES = "a file that is named .py or begins with `#!` and a python, and any with --python"
LEGACY_IMPORTS = ("auto", "on", "off", "strict")
DEFAULT_FUNCTION = "build_training_model"
_BEGINNING = 256  # bytes
_PYTHON = re.compile(rb"#![^\n]*python")


class Source(NamedTuple):
    """A Python file and the qualified name of its build function, empty without one."""

    path: pathlib.Path
    function: str

    def __str__(self) -> str:
        return (
            str(self.path)
            if self.function in ("", DEFAULT_FUNCTION)
            else "%s:%s" % (self.path, self.function)
        )


def names_a_graph(text: str, python: bool = False) -> bool:
    """Whether a SOURCE is a graph file or a SavedModel, not a Python file, by its name or content.

    A Python file is named .py or begins with `#!` and a python; a graph is every other existing
    file, which may turn out to be none when it is read.

    Args:
        text: the SOURCE.
        python: whether it is a Python file whatever it looks like.
    """
    if python:
        return False
    if os.path.isdir(text) or text.endswith(GRAPH_FILES):
        return True
    return os.path.lexists(text) and not _is_python(text)


def _is_python(path: str) -> bool:
    """Whether a file is run: it is named .py, or begins with `#!` and a python.

    Raises:
        GraphmpError: GMP003 if it can't be read.
    """
    if path.lower().endswith(".py"):
        return True
    return bool(_PYTHON.match(read_beginning(path, _BEGINNING)))


def parse_source(text: str, needs_function: bool = True, python: bool = False) -> Source:
    """Split `model.py` or `model.py:build_fn`.

    Args:
        text: the SOURCE.
        needs_function: whether a file without the default function is refused.
        python: whether a file is run whatever it looks like.

    Raises:
        GraphmpError: GMP003 if the file doesn't exist, GMP005 for a syntax error, GMP006 if it has
            no such function, GMP008 if it isn't a Python file.
    """
    path, function = pathlib.Path(text), DEFAULT_FUNCTION
    if not os.path.exists(text) and ":" in text:
        name, function = text.rsplit(":", 1)
        path = pathlib.Path(name)
        needs_function = True
    if os.path.isfile(path) and not python and not _is_python(str(path)):
        raise GraphmpError(
            "GMP008", "%s: found no Python file; accepted is %s" % (path, PYTHON_FILES)
        )
    if not os.path.isfile(path):
        raise GraphmpError(
            "GMP003",
            "%s: no such file; give a Python file (model.py or model.py:FUNCTION) or a graph"
            % path,
        )
    functions, bound = names_in(read_tree(path))
    if function in functions + bound:
        return Source(path, function)
    if not needs_function:
        return Source(path, "")
    found = ", ".join(functions[:8]) or "none"
    raise GraphmpError(
        "GMP006",
        "%s: no build function %s; functions found: %s; name yours as %s:FUNCTION"
        % (path, function, found, path),
    )


def read_tree(path: pathlib.Path) -> ast.Module:
    """Parse a Python file for the running Python.

    Raises:
        GraphmpError: GMP003 if it can't be read, GMP005 for a syntax error, naming the line.
    """
    try:
        data = read_bytes(path, TEXT_LIMIT)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = io.TextIOWrapper(io.BytesIO(data), encoding, line_buffering=True).read()
        return _parsed(text, path)
    except SyntaxError as error:
        cure = python_2.cure_of_syntax(path, error)
        raise python_2.refusal(path, error, cure) from None
    except (ValueError, LookupError, RecursionError, MemoryError) as error:
        raise GraphmpError(
            "GMP003",
            "%s: cannot be read as Python: %s" % (path, str(error) or "it is nested too deeply"),
        ) from None


def _parsed(text: str, path: pathlib.Path) -> ast.Module:
    with quiet_stderr():  # Python 3.7 writes there about deep nesting
        try:
            return ast.parse(text, str(path))
        except MemoryError:
            pass
    raise RecursionError


def names_in(tree: ast.Module) -> Tuple[List[str], List[str]]:
    """Qualified names that a module body defines (functions), imports or assigns, in order."""
    functions: List[str] = []
    bound: List[str] = []
    _collect(tree, "", functions, bound)
    return functions, bound


def decorate(tree: ast.Module, function: str, decorator: str) -> ast.Module:
    """Decorate a function by name where the module body defines, imports or assigns it.

    Line numbers don't change.
    """
    return ast.fix_missing_locations(_Decorating(function, decorator).visit(tree))


class _Decorating(ast.NodeTransformer):
    def __init__(self, function: str, decorator: str):
        self._function = function
        self._decorator = decorator
        self._classes: List[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._classes.append(node.name)
        self.generic_visit(node)
        self._classes.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if ".".join(self._classes + [node.name]) == self._function:
            node.decorator_list.insert(
                0, ast.copy_location(ast.Name(self._decorator, ast.Load()), node)
            )
        return node  # definitions inside a function don't count

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> object:
        return self._followed(node, self._function in _bound_names(node))

    def visit_Assign(self, node: ast.Assign) -> object:
        return self._followed(node, self._function in _bound_names(node))

    def _followed(self, node: ast.stmt, binds: bool) -> object:
        if not binds or self._classes:
            return node
        call = ast.Call(
            ast.Name(self._decorator, ast.Load()), [ast.Name(self._function, ast.Load())], []
        )
        again = ast.Assign([ast.Name(self._function, ast.Store())], call)
        for part in ast.walk(again):
            ast.copy_location(part, node)
        return [node, again]


def _bound_names(node: ast.AST) -> List[str]:
    if isinstance(node, ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def _collect(node: ast.AST, prefix: str, functions: List[str], bound: List[str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            functions.append(prefix + child.name)
        elif isinstance(child, ast.ClassDef):
            _collect(child, "%s%s." % (prefix, child.name), functions, bound)
        elif isinstance(child, (ast.ImportFrom, ast.Assign)):
            bound.extend(_bound_names(child) if not prefix else [])
        elif isinstance(child, (ast.stmt, ast.excepthandler)) and not isinstance(
            child, ast.AsyncFunctionDef
        ):
            _collect(child, prefix, functions, bound)
