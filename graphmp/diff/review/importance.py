"""The changes in the order in which a reviewer reads them, those that say one thing together.

What the report doesn't explain comes first; then what changed in the model's own nodes: matmuls and convolutions, other dtypes by the bytes that
the nodes move; then casts, the loss scale, and the rest. What lies below `graphmp/`, casts, gates and initialisers are one group for each reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Optional, Tuple

from graphmp.diff import categories, kinds, roles
from graphmp.diff.patterns import Pattern, stem
from graphmp.graph.building import SCOPE
from graphmp.policy.policy import tensor_core_ops

if TYPE_CHECKING:
    from graphmp.diff.changes import Change
    from graphmp.diff.model import Diff

UNEXPLAINED = "unexplained"
OTHER_THAN_HALF = "neither dtype nor cast nor loss scale"
MATMULS = "matmuls and convolutions"
OTHER_DTYPES = "other dtypes"
CASTS = "casts"
LOSS_SCALE = "loss scale"
REST = "rest"
SECTIONS = (UNEXPLAINED, OTHER_THAN_HALF, MATMULS, OTHER_DTYPES, CASTS, LOSS_SCALE, REST)

_LOSS_SCALE_KINDS = (kinds.SCALE, kinds.UNSCALE, kinds.FINITE_CHECK, kinds.CLIP, kinds.SKIP_GATE, kinds.LOSS_SCALE_STATE)
_CAST_KINDS = (kinds.CAST_DOWN, kinds.CAST_UP)
_OF_THE_GRAPH = (categories.ATTRIBUTE, categories.CONTROL, categories.META_GRAPH)  # what has no effect on values
_INITIALISER = re.compile(r"/Initializer/|/initial_value$|/Assign$")
_FOLDED = (CASTS, LOSS_SCALE, REST)


class Group(NamedTuple):
    """Patterns that say one thing.

    Attributes:
        scope: what their nodes lie below, where that is graphmp's; empty for the model's own.
        patterns: the patterns.
    """

    scope: str
    patterns: Tuple[Pattern, ...]

    @property
    def changes(self) -> Tuple[Change, ...]:
        """All changes of its patterns."""
        return tuple(change for pattern in self.patterns for change in pattern.changes)


class Section(NamedTuple):
    """One of SECTIONS with its groups, the most important first."""

    name: str
    groups: Tuple[Group, ...]

    @property
    def count(self) -> int:
        """How many changes it has."""
        return sum(len(group.changes) for group in self.groups)


def sections(diff: Diff) -> Tuple[Section, ...]:
    """The sections of a diff, those without changes left out."""
    found: Dict[str, Dict[Tuple[str, ...], List[Pattern]]] = {name: {} for name in SECTIONS}
    worth = frozenset(tensor_core_ops())
    for number, pattern in enumerate(diff.patterns()):
        name = _section(pattern.changes[0], diff, _op(pattern.changes[0], diff) in worth)
        found[name].setdefault(_together(pattern, name) or (str(number),), []).append(pattern)
    return tuple(Section(name, _by_size(groups, diff)) for name, groups in found.items() if groups)


def _section(change: Change, diff: Diff, is_matmul: bool) -> str:
    if diff.has_report and not change.reason:
        return UNEXPLAINED
    kind = change.kind or _kind_by_name(change)
    if change.category == categories.VIA_CAST or kind in _CAST_KINDS:
        return CASTS
    if kind in _LOSS_SCALE_KINDS:
        return LOSS_SCALE
    if change.category == categories.DTYPE or (change.reason and change.category in (categories.OP, categories.CONSTANT)):
        return MATMULS if is_matmul else OTHER_DTYPES
    return REST if change.reason or change.category in _OF_THE_GRAPH else OTHER_THAN_HALF


def _kind_by_name(change: Change) -> str:
    """What a change is for by graphmp's names: of the node, or of what it reads now."""
    read = roles.reading(change.after or "") if change.category in (categories.REWIRED, categories.CONTROL) else None
    known = roles.role(change.node) or read
    return known.kind if known else ""


def _op(change: Change, diff: Diff) -> str:
    body = next((body for body in diff.bodies if body.name == change.body), None)
    node = body.after.nodes.get(change.node) if body else None
    return node.op if node is not None else ""


def _together(pattern: Pattern, section: str) -> Optional[Tuple[str, ...]]:
    """What patterns have in common that become one group; None for a pattern that stands alone."""
    change = pattern.changes[0]
    if section == UNEXPLAINED:
        return None
    scope = _scope(pattern)
    if scope:
        return (change.category, scope, stem(pattern.reason))
    if _INITIALISER.search(change.node):
        return (change.category, "initialisers")
    is_cast = section == CASTS and change.category == categories.ADDED
    return (change.category, "", stem(pattern.reason), (change.after or "") if is_cast else "") if section in _FOLDED else None


def _scope(pattern: Pattern) -> str:
    """`graphmp/loss_scale/` for a node below it, `graphmp/loss_scale*/` for one below each of several; empty for the model's own nodes."""
    parts = pattern.text.split("/")
    return "/".join(parts[:2]) + "/" if parts[0] == SCOPE and len(parts) > 2 else ""


def _by_size(groups: Dict[Tuple[str, ...], List[Pattern]], diff: Diff) -> Tuple[Group, ...]:
    """By the bytes that the nodes move, then in the order of the patterns; the model's own nodes ahead of graphmp's."""
    made = [Group(_scope(patterns[0]), tuple(patterns)) for patterns in groups.values()]
    return tuple(sorted(made, key=lambda group: (group.scope != "", -sum(_bytes(change, diff) for change in group.changes))))


def _bytes(change: Change, diff: Diff) -> int:
    return diff.work[change.path].bytes if change.path in diff.work else 0
