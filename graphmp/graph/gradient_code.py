"""Gradient code in a graph, by its name scopes: `tf.gradients` puts the gradient of node X below `SCOPE/X_grad/`."""

from __future__ import annotations

import re
from typing import AbstractSet, Iterable, List, Optional, Set, Tuple

_GRAD = re.compile(r"^(.+)_grad(_\d+)?$")
_GRADIENTS = re.compile(r"^gradients(_\d+)?$")


def gradient_scopes(names: AbstractSet[str]) -> Set[str]:
    """Scopes whose `X_grad/` children name forward nodes, or that are called `gradients`, where forward names were dropped."""
    scopes = {_scope(name.split("/"), names) for name in names if "_grad" in name}
    return {scope for scope in scopes if scope is not None}


def gradient_nodes(names: AbstractSet[str]) -> Set[str]:
    """The nodes of gradient code: what lies below an `X_grad/` of a gradient scope, and the scope's own leaves (seeds, sums)."""
    scopes = gradient_scopes(names)
    return {name for name in names if _in_scope(name, scopes)}


def differentiated(name: str, names: AbstractSet[str]) -> Optional[str]:
    """The forward node that a node of gradient code belongs to."""
    parts = name.split("/")
    split = _split(parts, names)
    return split[1] if split else None


def _in_scope(name: str, scopes: Iterable[str]) -> bool:
    parts = name.split("/")
    for end in range(len(parts)):
        if "/".join(parts[:end]) in scopes:
            inner = parts[end:-1]
            if any(_GRAD.match(part) for part in inner) or (end and not inner):
                return True
    return False


def _scope(parts: List[str], names: AbstractSet[str]) -> Optional[str]:
    split = _split(parts, names)
    if split:
        return split[0]
    if any(_GRAD.match(part) for part in parts[:-1]):
        for index, part in enumerate(parts[:-1]):
            if _GRADIENTS.match(part):
                return "/".join(parts[: index + 1])
    return None


def _split(parts: List[str], names: AbstractSet[str]) -> Optional[Tuple[str, str]]:
    """(scope, forward node) such that scope/node_grad/ holds the name; the shortest scope with the innermost `_grad`."""
    for last in range(len(parts) - 2, -1, -1):
        match = _GRAD.match(parts[last])
        if not match:
            continue
        for start in [*range(1, last + 1), 0]:  # a scope has a name: `s/AddN_grad` is AddN's, though there may be an `s/AddN`
            forward = "/".join(parts[start:last] + [match.group(1)])
            if forward in names:
                return "/".join(parts[:start]), forward
    return None
