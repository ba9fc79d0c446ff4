"""Recognising Python 2 code, by its syntax or by the error that it ends with."""

from __future__ import annotations

import importlib
import re
import tokenize
import warnings
from typing import Any, Optional

from graphmp.errors import GraphmpError

_CURE = "; Python 2 code: `2to3 -w %s` makes Python 3 of it (2to3 comes with Python up to 3.12)"
# Messages of Python 3's parser, for a Python without lib2to3.
_SYNTAX = re.compile(
    "Missing parentheses in call to '(print|exec)'|[Mm]ultiple exception types must be"
    " parenthesized|leading zeros in decimal|invalid token|inconsistent use of tabs"
)
_BUILTINS = "basestring|cmp|execfile|long|raw_input|reduce|reload|unichr|unicode|xrange"
_MODULES = (
    "__builtin__|cPickle|cStringIO|commands|ConfigParser|cookielib|copy_reg|HTMLParser|httplib"
    "|Queue|StringIO|thread|Tkinter|urllib2|urlparse"
)
_ENDINGS = re.compile(
    "name '(%s)' is not defined|No module named '(%s)'"
    "|'dict' object has no attribute '(has_key|iteritems|iterkeys|itervalues)'"
    "|cannot import name '(ifilter|imap|izip)'"
    "|unsupported operand type.* for >>: 'builtin_function_or_method'" % (_BUILTINS, _MODULES)
)


def syntax_error(error: BaseException) -> Optional[GraphmpError]:
    """GMP005 for a syntax error in a file of Python 2; None for any other error."""
    if not isinstance(error, SyntaxError) or not error.filename:
        return None
    cure = cure_of_syntax(error.filename, error)
    return refusal(error.filename, error, cure) if cure else None


def refusal(path: Any, error: SyntaxError, cure: str) -> GraphmpError:
    """GMP005 for a syntax error, naming the line."""
    text = "%s:%s: %s: %s%s"
    line = (error.text or "").strip()
    return GraphmpError("GMP005", text % (path, error.lineno or 1, error.msg, line, cure))


def cure_of_syntax(path: Any, error: SyntaxError) -> str:
    """The cure if a file that Python 3 can't parse is Python 2's; empty if it isn't."""
    try:
        found = _parses_as_python_2(path)
    except ImportError:
        found = _SYNTAX.search(error.msg) is not None
    return _CURE % path if found else ""


def hint(error: BaseException, path: Any) -> str:
    """The cure if an error at run time is one of Python 2 code; empty if it isn't."""
    return _CURE % path if _ENDINGS.search(str(error)) else ""


def _parses_as_python_2(path: Any) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lib2to3 is deprecated since Python 3.11, gone in 3.13
        driver = importlib.import_module("lib2to3.pgen2.driver")
        pygram = importlib.import_module("lib2to3.pygram")
        pytree = importlib.import_module("lib2to3.pytree")
    try:
        with tokenize.open(str(path)) as file:
            text = file.read()
        driver.Driver(pygram.python_grammar, convert=pytree.convert).parse_string(text + "\n")
    except Exception:  # lib2to3 raises several kinds
        return False
    return True
