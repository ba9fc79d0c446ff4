"""Running a file as `python file.py ARGS` does, with one of its functions decorated."""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import sys
from types import ModuleType
from typing import Any, Callable, Dict, List

from graphmp.conversion.source import Source, decorate, read_tree

DECORATOR = "__graphmp_decorate__"


def prepare_main(source: Source, arguments: List[str]) -> ModuleType:
    """Make the module `__main__` that `python file.py ARGS` would run.

    Sets its `__file__`, and `sys.argv` and `sys.path`.
    """
    path = str(source.path)
    sys.argv = [path] + arguments
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    module = ModuleType("__main__")
    shown = (
        path if sys.version_info < (3, 9) else os.path.abspath(path)
    )  # absolute since Python 3.9
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(module).update(
        __file__=shown,
        __builtins__=builtins,
        __cached__=None,
        __package__=None,
        __spec__=None,
        __loader__=loader,
    )
    sys.modules["__main__"] = module
    return module


def run_main(module: ModuleType, source: Source, decorator: Callable[[Any], Any]) -> Dict[str, Any]:
    """Run the file as `module`; the named build function, if any, is decorated as it is defined.

    Raises:
        GraphmpError: GMP005 for a syntax error. Errors of the file pass through, SystemExit
            included.
    """
    tree = read_tree(source.path)
    if source.function:
        tree = decorate(tree, source.function, DECORATOR)
    vars(module)[DECORATOR] = decorator
    exec(compile(tree, vars(module)["__file__"], "exec", dont_inherit=True), vars(module))
    return vars(module)


def look_up(namespace: Dict[str, Any], qualified: str) -> Any:
    """The function of a qualified name; None if the file didn't define it."""
    first, *rest = qualified.split(".")
    found = namespace.get(first)
    for name in rest:
        found = getattr(found, name, None)
    return found
