"""Gradient code by names: `tf.gradients` puts the gradient of node X below `SCOPE/X_grad/`."""

from __future__ import annotations

import re
from typing import (
    AbstractSet,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

_GRAD = re.compile(
    r"^(.+)_grad(?:ient_sum)?(_\d+)?$"
)  # some sums of several gradients have a scope of their own
_GRADIENTS = re.compile(r"^gradients(_\d+)?$")
_SUM = re.compile(r"^AddN(_\d+)?$")  # its dense inputs of IndexedSlices are below its name


class NameClaim(NamedTuple):
    """A claim by name: the node is in gradient code of `scope`, below the gradient of `forward`."""

    scope: str
    forward: str


def claims(names: AbstractSet[str]) -> Dict[str, NameClaim]:
    """The claims of each name; most nodes of gradient code have one, other nodes none."""
    split = ((name, _split(name.split("/"), names)) for name in names if "_grad" in name)
    return {name: NameClaim(*found) for name, found in split if found}


def gradient_scopes(names: AbstractSet[str]) -> Set[str]:
    """Scopes whose `X_grad/` children name forward nodes.

    Also scopes called `gradients`, if the names of forward nodes were removed.
    """
    return _scopes(names, claims(names))


def proposed(
    names: AbstractSet[str],
    made: Mapping[str, NameClaim],
    given: Iterable[str] = (),
    without: AbstractSet[str] = frozenset(),
) -> Dict[str, Set[str]]:
    """Candidates for gradient code by scope: nodes below an `X_grad/`, and the scope's own leaves.

    What is below such a leaf that adds gradients up is its input, made dense.

    Args:
        names: all nodes of the graph.
        made: their claims.
        given: scopes that hold gradient code by definition; all of their nodes count.
        without: nodes that are not gradient code, whatever their names.
    """
    given = [scope.strip("/") for scope in given]
    found: Dict[str, Set[str]] = {scope: set() for scope in given}
    scopes = _scopes(names, made, without)
    for name in names:
        scope = next((scope for scope in given if name.startswith(scope + "/")), None)
        scope = _scope_of(name, scopes, names) if scope is None and name not in without else scope
        if scope is not None:
            found.setdefault(scope, set()).add(name)
    return found


def _scopes(
    names: AbstractSet[str], made: Mapping[str, NameClaim], without: AbstractSet[str] = frozenset()
) -> Set[str]:
    scopes = {claim.scope for name, claim in made.items() if name not in without}
    unnamed = {
        _default_scope(name.split("/"))
        for name in names
        if "_grad" in name and name not in made and name not in without
    }
    return scopes | {scope for scope in unnamed if scope is not None}


def differentiated(
    name: str, names: AbstractSet[str], by_structure: Optional[Mapping[str, str]] = None
) -> Optional[str]:
    """The forward node that a node of gradient code belongs to.

    Args:
        name: the node of gradient code.
        names: all nodes of the graph.
        by_structure: the forward nodes of gradient code whose names don't tell.
    """
    if by_structure and name in by_structure:
        return by_structure[name]
    split = _split(name.split("/"), names)
    return split[1] if split else None


def _scope_of(name: str, scopes: AbstractSet[str], names: AbstractSet[str]) -> Optional[str]:
    """The outermost scope whose gradient code contains a node; the root comes last."""
    parts = name.split("/")
    for end in [*range(1, len(parts)), 0]:
        if "/".join(parts[:end]) in scopes:
            inner = parts[end:-1]
            is_summed = bool(inner and _SUM.match(inner[0])) and "/".join(parts[: end + 1]) in names
            if any(_GRAD.match(part) for part in inner) or (end and (not inner or is_summed)):
                return "/".join(parts[:end])
    return None


def _default_scope(parts: List[str]) -> Optional[str]:
    if any(_GRAD.match(part) for part in parts[:-1]):
        for index, part in enumerate(parts[:-1]):
            if _GRADIENTS.match(part):
                return "/".join(parts[: index + 1])
    return None


def _split(parts: List[str], names: AbstractSet[str]) -> Optional[Tuple[str, str]]:
    """(scope, forward node) such that scope/node_grad/ contains the name.

    The shortest scope with the innermost `_grad`.
    """
    for last in range(len(parts) - 2, -1, -1):
        match = _GRAD.match(parts[last])
        if match:
            for start, forward in _forward_names(parts, last, match.group(1)):
                if forward in names:
                    return "/".join(parts[:start]), forward
    return None


def _forward_names(parts: List[str], last: int, node: str) -> Iterator[Tuple[int, str]]:
    """Possible names of the forward node, with the length of the scope.

    The name in `X_grad`, or that name below an import scope.
    """
    starts = [
        *range(1, last + 1),
        0,
    ]  # a scope has a name: `s/AddN_grad` belongs to AddN, though there may be an `s/AddN`
    for start in starts:
        yield start, "/".join(parts[start:last] + [node])
    for start in starts:
        for end in range(1, start):
            yield start, "/".join(parts[:end] + parts[start:last] + [node])
