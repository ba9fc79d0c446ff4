"""Gradient code in a graph, by its name scopes: `tf.gradients` puts the gradient of node X below `SCOPE/X_grad/`."""

from __future__ import annotations

import re
from typing import AbstractSet, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from graphmp.graph.view import GraphView

_GRAD = re.compile(r"^(.+)_grad(?:ient_sum)?(_\d+)?$")  # some sums of several gradients have a scope of their own
_GRADIENTS = re.compile(r"^gradients(_\d+)?$")


def gradient_scopes(names: AbstractSet[str]) -> Set[str]:
    """Scopes whose `X_grad/` children name forward nodes, or that are called `gradients`, where forward names were dropped."""
    scopes = {_scope(name.split("/"), names) for name in names if "_grad" in name}
    return {scope for scope in scopes if scope is not None}


def gradient_code(names: AbstractSet[str], given: Iterable[str] = ()) -> Dict[str, Set[str]]:
    """The nodes of gradient code by scope: what lies below an `X_grad/` of it, and its own leaves (seeds, sums).

    Args:
        names: all nodes of the graph.
        given: scopes that hold gradient code whatever is in them; all of their nodes count.
    """
    given = [scope.strip("/") for scope in given]
    found: Dict[str, Set[str]] = {scope: set() for scope in given}
    scopes = gradient_scopes(names)
    for name in names:
        scope = next((scope for scope in given if name.startswith(scope + "/")), None)
        scope = _scope_of(name, scopes) if scope is None else scope
        if scope is not None:
            found.setdefault(scope, set()).add(name)
    return found


def gradient_nodes(names: AbstractSet[str], given: Iterable[str] = ()) -> Set[str]:
    """All nodes of gradient code."""
    return {name for nodes in gradient_code(names, given).values() for name in nodes}


def idle_nodes(view: GraphView, scopes: Iterable[AbstractSet[str]], control: bool = True) -> Set[str]:
    """Gradient code that leads nowhere, as gradients of constants do: a step runs it only where someone fetches it.

    Args:
        view: the graph.
        scopes: the nodes of each call of `tf.gradients`. One of which nothing leads anywhere is fetched, and runs.
        control: false for what leads nowhere by data: an optimizer gates its gradients, so that a step runs those too that nothing reads.
    """
    found: Set[str] = set()
    for nodes in scopes:
        needed = view.ancestors((name for name in view.nodes if name not in nodes), control) & nodes
        found |= nodes - needed if needed else set()
    return found


def differentiated(name: str, names: AbstractSet[str]) -> Optional[str]:
    """The forward node that a node of gradient code belongs to."""
    split = _split(name.split("/"), names)
    return split[1] if split else None


def _scope_of(name: str, scopes: AbstractSet[str]) -> Optional[str]:
    """The outermost scope whose gradient code a node belongs to; the root comes last."""
    parts = name.split("/")
    for end in [*range(1, len(parts)), 0]:
        if "/".join(parts[:end]) in scopes:
            inner = parts[end:-1]
            if any(_GRAD.match(part) for part in inner) or (end and not inner):
                return "/".join(parts[:end])
    return None


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
        if match:
            for start, forward in _forward_names(parts, last, match.group(1)):
                if forward in names:
                    return "/".join(parts[:start]), forward
    return None


def _forward_names(parts: List[str], last: int, node: str) -> Iterator[Tuple[int, str]]:
    """What the forward node may be called, with the length of the scope: as `X_grad` says, else below a scope that an import put in front of all."""
    starts = [*range(1, last + 1), 0]  # a scope has a name: `s/AddN_grad` is AddN's, though there may be an `s/AddN`
    for start in starts:
        yield start, "/".join(parts[start:last] + [node])
    for start in starts:
        for end in range(1, start):
            yield start, "/".join(parts[:end] + parts[start:last] + [node])
