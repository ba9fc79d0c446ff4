"""Names of inserted nodes, and of nodes inside functions."""

from __future__ import annotations

import re
from typing import Iterable, Iterator, Tuple

SCOPE = "graphmp"
LIBRARY = "library"  # prefix of the paths of functions
CLONES = "clones"  # below SCOPE: a session's converted copies of the model's nodes
# The names that `sibling_name` makes, of an inserted cast, constant or entrance of a loop.
SIBLING = re.compile(r"^(.+)_graphmp_(float16|bfloat16|float32)(?:_\d+)?$")
_CLONE = re.compile(r"(^|/)%s/%s(_\d+)?/" % (SCOPE, CLONES))
_CLONES = re.compile(r"%s/%s(_\d+)?/" % (SCOPE, CLONES))
_BELOW = re.compile(r"(^|/)%s/" % SCOPE)
_OWN = re.compile(r"(^|/)%s/(?!%s(_\d+)?/)" % (SCOPE, CLONES))


def is_own(name: str) -> bool:
    """Whether a conversion inserted a node; copies of the model's nodes don't count."""
    return bool(_OWN.search(name))


def is_clone(name: str) -> bool:
    """Whether a node is a session's copy of one of the model's nodes."""
    return bool(_CLONE.search(name))


def of_originals(text: str) -> str:
    """A text with the names of a session's copies replaced by those of the model's nodes."""
    return _CLONES.sub("", text)


def is_below_scope(name: str) -> bool:
    """Whether a node is below the scope of what conversions insert, copies included."""
    return bool(_BELOW.search(name))


def of_function(name: str) -> str:
    """The path of a function f: `library/f`."""
    return "%s/%s" % (LIBRARY, name)


def function_of(path: str) -> str:
    """The function of a path `library/f`; any other path itself."""
    return path[len(of_function("")) :] if path.startswith(of_function("")) else path


def in_body(body: str, node: str) -> str:
    """The path of a node: `x`, and `library/f/x` inside a function f."""
    return "%s/%s" % (of_function(body), node) if body else node


def places(path: str, bodies: Iterable[str]) -> Iterator[Tuple[str, str]]:
    """The bodies that a path may lead into, each with the node's name there.

    "" is the main graph.
    """
    for body in bodies:
        start = in_body(body, "")
        if path.startswith(start):
            yield body, path[len(start) :]
