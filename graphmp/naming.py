"""Names: of the nodes that a conversion puts in, and of nodes inside functions."""

from __future__ import annotations

import re

SCOPE = "graphmp"
CLONES = "clones"  # below SCOPE: a session's converted copies of the model's nodes
_OWN = re.compile(r"(^|/)%s/(?!%s(_\d+)?/)" % (SCOPE, CLONES))


def is_own(name: str) -> bool:
    """Whether a node is one that a conversion puts in, rather than the model's or a copy of that."""
    return bool(_OWN.search(name))


def in_body(body: str, node: str) -> str:
    """How a node is named: `x`, and `library/f/x` inside a function f."""
    return "library/%s/%s" % (body, node) if body else node
