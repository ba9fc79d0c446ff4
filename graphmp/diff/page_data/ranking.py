"""The patterns of a page in the order in which they matter: of changes, and of what stayed float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Tuple

from graphmp.diff.changes import Change
from graphmp.diff.patterns import Pattern, patterns

if TYPE_CHECKING:
    from graphmp.diff.model import Diff

STAYED = ""  # the category of a pattern of nodes that stayed float32


def numbered(diff: Diff) -> Tuple[List[Pattern], List[int], List[int]]:
    """All patterns, those that matter first; for each change the number of its pattern, and for each node that stayed float32."""
    kept = [Change(kept.node, STAYED, None, None, kept.reason, "", kept.body, kept.kind) for kept in diff.kept]
    found = [*diff.patterns(), *patterns(kept)]
    number = {id(change): index for index, pattern in enumerate(found) for change in pattern.changes}
    return found, [number[id(change)] for change in diff.changes], [number[id(change)] for change in kept]
