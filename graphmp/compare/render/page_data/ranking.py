"""The patterns of a page in order of importance: of changes, and of nodes that stayed float32."""

from __future__ import annotations

from typing import Iterator, List, NamedTuple, Sequence, Tuple

from graphmp.compare import kinds
from graphmp.compare.changes import Change
from graphmp.compare.patterns import ChangePattern, patterns
from graphmp.compare.review import importance
from graphmp.compare.review.reviewed import Reviewed
from graphmp.policy.policy import tensor_core_ops

STAYED = ""  # the category of a pattern of nodes that stayed float32
_FIRST = (importance.UNEXPLAINED, importance.OTHER_THAN_HALF)
_OF_THE_MODEL = (importance.MATMULS, importance.OTHER_DTYPES)


class Ranked(NamedTuple):
    """Patterns in order.

    Attributes:
        patterns: the most important first.
        of_change: the index of each change's pattern.
        of_kept: the index of the pattern of each node that stayed float32.
    """

    patterns: Sequence[ChangePattern]
    of_change: List[int]
    of_kept: List[int]


def ranked(diff: Reviewed) -> Ranked:
    """All patterns, the most important first.

    Unexplained changes, matmuls that stayed float32, changes in the model, other nodes that stayed,
    casts, the loss scale, the rest.
    """
    kept = [
        Change(kept.node, STAYED, None, None, kept.reason, "", kept.body, kept.kind)
        for kept in diff.kept
    ]
    matmuls, others = _stayed(kept, diff)
    sections = importance.sections(diff)
    found = [*_of(sections, _FIRST), *matmuls, *_of(sections, _OF_THE_MODEL), *others]
    found += _of(
        sections, [name for name in importance.SECTIONS if name not in _FIRST + _OF_THE_MODEL]
    )
    number = {
        id(change): index for index, pattern in enumerate(found) for change in pattern.changes
    }
    return Ranked(
        found,
        [number[id(change)] for change in diff.changes],
        [number[id(change)] for change in kept],
    )


def _of(sections: Sequence[importance.Section], names: Sequence[str]) -> Iterator[ChangePattern]:
    """The patterns of some sections."""
    return (
        pattern
        for section in sections
        if section.name in names
        for group in section.groups
        for pattern in group.patterns
    )


def _stayed(
    kept: Sequence[Change], diff: Reviewed
) -> Tuple[List[ChangePattern], List[ChangePattern]]:
    """The patterns of nodes that stayed float32, by the bytes that they move, else by kind.

    Matmuls and convolutions are separate.
    """
    worth, work = frozenset(tensor_core_ops()), diff.work
    order = {kind: index for index, kind in enumerate(kinds.STAYED)}

    def rank(pattern: ChangePattern) -> Tuple[int, int, int]:
        moved = sum(work[change.path].bytes for change in pattern.changes if change.path in work)
        return -moved, order.get(pattern.kind, len(order)), -len(pattern.changes)

    def is_matmul(pattern: ChangePattern) -> bool:
        return pattern.changes[0].path in work and work[pattern.changes[0].path].op in worth

    found = sorted(patterns(kept), key=rank)
    return [pattern for pattern in found if is_matmul(pattern)], [
        pattern for pattern in found if not is_matmul(pattern)
    ]
