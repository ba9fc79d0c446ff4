"""The changes in the order of a review, grouped by meaning.

Unexplained changes come first; then changes of the model's own nodes: matmuls and convolutions,
other dtypes by the bytes that the nodes move; then casts, the loss scale, and the rest. Nodes below
`graphmp/`, casts, gates, initialisers and nodes that move no bytes are one group for each reason,
and so are the changes of the same nodes.
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from graphmp.compare import categories, kinds, roles
from graphmp.compare.changes import BodyPair, Change
from graphmp.compare.patterns import ChangePattern, stem
from graphmp.compare.review.reviewed import Reviewed
from graphmp.naming import SCOPE
from graphmp.policy.policy import tensor_core_ops

UNEXPLAINED = "unexplained"
OTHER_THAN_HALF = "neither dtype nor cast nor loss scale"
MATMULS = "matmuls and convolutions"
OTHER_DTYPES = "other dtypes"
CASTS = "casts"
LOSS_SCALE = "loss scale"
REST = "rest"
SECTIONS = (UNEXPLAINED, OTHER_THAN_HALF, MATMULS, OTHER_DTYPES, CASTS, LOSS_SCALE, REST)

_LOSS_SCALE_KINDS = (
    kinds.SCALE,
    kinds.UNSCALE,
    kinds.FINITE_CHECK,
    kinds.CLIP,
    kinds.SKIP_GATE,
    kinds.LOSS_SCALE_STATE,
)
_CAST_KINDS = (kinds.CAST_DOWN, kinds.CAST_UP)
_OF_THE_GRAPH = (
    categories.ATTRIBUTE,
    categories.CONTROL,
    categories.META_GRAPH,
)  # no effect on values
_WITH_DTYPE = (categories.OP, categories.CONSTANT)
_INITIALISER = re.compile(r"/Initializer/|/initial_value$|/Assign$")
_FOLDED = (CASTS, LOSS_SCALE, REST)


class PatternGroup(NamedTuple):
    """Patterns with one meaning."""

    patterns: Tuple[ChangePattern, ...]

    @property
    def changes(self) -> Tuple[Change, ...]:
        """All changes of its patterns."""
        return tuple(change for pattern in self.patterns for change in pattern.changes)

    @property
    def scope(self) -> str:
        """graphmp's scope of its nodes, `*` for several; empty for the model's own."""
        scopes = [_scope(pattern.text) for pattern in self.patterns]
        return (
            scopes[0]
            if len(set(scopes)) == 1
            else stem(scopes[0][:-1]).rstrip("*") + "*/"
            if scopes[0]
            else ""
        )

    @property
    def reason(self) -> str:
        """The common reason, else its kind."""
        reasons = {pattern.reason for pattern in self.patterns}
        return (self.patterns[0].reason if len(reasons) == 1 else "") or kind_of(
            self.patterns[0].changes[0]
        )


class Section(NamedTuple):
    """One of SECTIONS with its groups, the most important first."""

    name: str
    groups: Tuple[PatternGroup, ...]

    @property
    def size(self) -> int:
        """The number of its changes."""
        return sum(len(group.changes) for group in self.groups)


def sections(diff: Reviewed) -> Tuple[Section, ...]:
    """The sections of a diff, without empty ones."""
    found: Dict[str, Dict[Tuple[str, ...], List[ChangePattern]]] = {name: {} for name in SECTIONS}
    worth, bodies = frozenset(tensor_core_ops()), {body.name: body for body in diff.bodies}
    for number, pattern in enumerate(diff.patterns()):
        name = _section(pattern.changes[0], diff, _op(pattern.changes[0], bodies) in worth)
        found[name].setdefault(_together(pattern, name, diff) or (str(number),), []).append(pattern)
    return tuple(
        Section(name, _ordered(name, groups, diff)) for name, groups in found.items() if groups
    )


def _section(change: Change, diff: Reviewed, is_matmul: bool) -> str:
    if diff.has_report and not change.reason:
        return UNEXPLAINED
    kind = kind_of(change)
    if change.category == categories.VIA_CAST or kind in _CAST_KINDS:
        return CASTS
    if kind in _LOSS_SCALE_KINDS:
        return LOSS_SCALE
    is_half = change.path in diff.work and diff.work[change.path].is_half
    if change.category == categories.DTYPE or (
        change.category in _WITH_DTYPE and (change.reason or is_half)
    ):
        return MATMULS if is_matmul else OTHER_DTYPES
    return REST if change.reason or change.category in _OF_THE_GRAPH else OTHER_THAN_HALF


def kind_of(change: Change) -> str:
    """The kind of a change's reason; without a report by graphmp's names of nodes and inputs."""
    read = (
        roles.reading(change.after or "")
        if change.category in (categories.REWIRED, categories.CONTROL)
        else None
    )
    known = roles.role(change.node) or read
    return change.kind or (known.kind if known else "")


def _op(change: Change, bodies: Mapping[str, BodyPair]) -> str:
    node = bodies[change.body].after.nodes.get(change.node) if change.body in bodies else None
    return str(node.op) if node is not None else ""


def _together(pattern: ChangePattern, section: str, diff: Reviewed) -> Optional[Tuple[str, ...]]:
    """The key of patterns that form a group; None for a single pattern."""
    change = pattern.changes[0]
    if section == UNEXPLAINED:
        return None
    scope = _scope(pattern.text)
    if scope:
        return (change.category, stem(scope[:-1]).rstrip("*"), kind_of(change))
    if _INITIALISER.search(change.node):
        return (change.category, "initialisers")
    if section in (MATMULS, OTHER_DTYPES):
        hands_on = (
            diff.work and change.path not in diff.work and change.category == categories.DTYPE
        )
        return (
            (change.part, pattern.before, pattern.after, stem(pattern.reason))
            if hands_on
            else (pattern.text, str(len(pattern.changes)))
        )
    is_cast = section == CASTS and change.category == categories.ADDED
    return (
        (change.category, "", stem(pattern.reason), pattern.after if is_cast else "")
        if section in _FOLDED
        else None
    )


def _scope(path: str) -> str:
    """`graphmp/loss_scale/` for a node below it, `graphmp/loss_scale*/` for several; else empty."""
    parts = path.split("/")
    return "/".join(parts[:2]) + "/" if parts[0] == SCOPE and len(parts) > 2 else ""


def _ordered(
    section: str, groups: Dict[Tuple[str, ...], List[ChangePattern]], diff: Reviewed
) -> Tuple[PatternGroup, ...]:
    """The loss scale's in the order of its path; others by the bytes that the nodes move.

    Equal ones are in the order of the patterns.
    """
    made = [PatternGroup(tuple(patterns)) for patterns in groups.values()]
    if section == LOSS_SCALE:
        return tuple(
            sorted(
                made,
                key=lambda group: (
                    _LOSS_SCALE_KINDS.index(kind_of(group.patterns[0].changes[0])),
                    group.scope == "",
                ),
            )
        )
    return tuple(
        sorted(made, key=lambda group: -sum(_bytes(change, diff) for change in group.changes))
    )


def _bytes(change: Change, diff: Reviewed) -> int:
    return diff.work[change.path].bytes if change.path in diff.work else 0
