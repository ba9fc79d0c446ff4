"""Stand-ins for parts of `tf.contrib` that nothing serves, until a script uses them.

Names are often imported, or put into a table of choices, and never used. These get a stand-in that
raises GMP018 at its use. An error comes at once where a script is prepared for it: in a `try` that
handles it, in `hasattr` and `getattr`, and with `--legacy_imports=strict` everywhere.
"""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import linecache
import types
from typing import Any, FrozenSet, Iterator, List, Optional

from graphmp.legacy import missing

_IMPORTED = frozenset(("IMPORT_FROM", "IMPORT_NAME"))
_READ = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_CAUGHT = frozenset(
    ("AttributeError", "BaseException", "Exception", "ImportError", "ModuleNotFoundError")
)
_IMPORTS = "<frozen importlib"
_USES = (
    *("add", "bool", "call", "contains", "enter", "float", "floordiv", "format", "getitem"),
    *("index", "instancecheck", "int", "iter", "len", "matmul", "mod", "mro_entries", "mul", "neg"),
    *("next", "pow", "radd", "rmul", "rsub", "rtruediv", "setitem", "str", "sub", "subclasscheck"),
    "truediv",
)


class Settings:
    """Whether every missing name raises at once (`strict`), for the whole process."""

    strict = False


class StandIn:
    """A name that nothing serves; being called, subclassed, compared or read raises GMP018."""

    def __init__(self, symbol: str, needs: Optional[str] = None):
        vars(self).update(_symbol=symbol, _needs=needs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise missing.attribute(self._symbol, self._needs)

    def __setattr__(self, name: str, value: Any) -> None:
        raise missing.attribute(self._symbol, self._needs)

    def __repr__(self) -> str:
        return "<tf.contrib.%s, which nothing serves>" % self._symbol


class StandInModule(types.ModuleType):
    """A module below `tf.contrib` that nothing serves."""

    def __init__(self, name: str, symbol: str):
        super().__init__(name)
        self.__path__: List[str] = []
        self._symbol = symbol

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        return attribute(self._symbol + "." + name)


def _raise(self: StandIn, *_: Any, **__: Any) -> Any:
    raise missing.attribute(self._symbol, self._needs)


for _use in _USES:
    setattr(StandIn, "__%s__" % _use, _raise)


def attribute(symbol: str, needs: Optional[str] = None) -> StandIn:
    """The stand-in for an attribute that is being read, by the code above this call.

    Raises:
        GraphmpError: GMP018, for a read in a function, where the name is used, or one for whose
            failure the script is prepared.
    """
    frame = missing.users_frame()
    if Settings.strict or not _unused_so_far(frame) or _prepared(frame):
        raise missing.attribute(symbol, needs)
    return StandIn(symbol, needs)


def module(name: str, symbol: str, requested: str) -> StandInModule:
    """The stand-in for a module that is being imported.

    Raises:
        GraphmpError: GMP018 for `requested`, the module of the whole import statement, if the
            script is prepared for the import to fail.
    """
    if Settings.strict or _prepared(missing.users_frame()):
        raise missing.module(requested)
    return StandInModule(name, symbol)


def _unused_so_far(frame: types.FrameType) -> bool:
    """Whether a frame imports a name, or reads it by syntax in the body of a module or class."""
    code = frame.f_code
    operation = dis.opname[code.co_code[frame.f_lasti]]
    in_function = code.co_flags & inspect.CO_OPTIMIZED
    return operation in _IMPORTED or (operation in _READ and not in_function)


def _prepared(frame: Optional[types.FrameType]) -> bool:
    """Whether the line of a frame, or of one that is importing it, is in a `try` for its failure.

    Of the frames outside of the innermost only those of modules count, and the one that imports
    the outermost: a function around all may handle any error, and mean none.
    """
    while frame is not None:
        if frame.f_lineno in _guarded(frame.f_code.co_filename):
            return True
        if frame.f_code.co_name != "<module>":
            return False
        frame = _importer(frame)
    return False


def _importer(frame: types.FrameType) -> Optional[types.FrameType]:
    """The frame of the import statement that runs a module's body; None for the main program."""
    outer = frame.f_back
    inside = False
    while outer is not None and outer.f_code.co_filename.startswith(_IMPORTS):
        outer, inside = outer.f_back, True
    return outer if inside else None


@functools.lru_cache(maxsize=None)
def _guarded(path: str) -> FrozenSet[int]:
    """The lines of a file that are in a `try` which handles a missing import or attribute."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except SyntaxError:
        return frozenset()
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any(map(_catches, node.handlers))
        for line in range(node.body[0].lineno, _last_line(node.body) + 1)
    )


def _last_line(body: List[ast.stmt]) -> int:
    return max(getattr(node, "lineno", 0) for statement in body for node in ast.walk(statement))


def _catches(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or bool(_CAUGHT & set(_names(handler.type)))


def _names(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Name, ast.Attribute)):
            yield inner.id if isinstance(inner, ast.Name) else inner.attr
