"""The colour of a node, by the kind of reason of its most important change."""

from __future__ import annotations

from typing import Dict

from graphmp.compare import categories, kinds
from graphmp.compare.changes import Change
from graphmp.compare.review.reviewed import Reviewed
from graphmp.naming import in_body

UNEXPLAINED = "unexplained"
UNCHANGED = "#ffffff"
OTHER = "#cccccc"  # for kinds of other versions' reports

# No two alike: Model Explorer adds up the nodes of a layer by colour.
CATEGORY = {
    categories.REMOVED: "#f8b4b4",
    categories.OP: "#f5c08a",
    categories.REWIRED: "#f5a3c7",
    categories.CONSTANT: "#e8c547",
    categories.ATTRIBUTE: "#d9c89e",
    categories.CONTROL: "#c9b3f0",
    categories.DEVICE: "#b8c0cc",
    categories.FUNCTION: "#9fd8d8",
    categories.META_GRAPH: "#d0d0d0",
    categories.RENAMED: "#cfe2a5",
    categories.DTYPE: "#a6d8a8",
    categories.VIA_CAST: "#a9cdf5",
    categories.ADDED: "#b9e3f7",
    UNEXPLAINED: "#ff5252",
}

KIND = {
    kinds.USER_RULE: "#f06ee8",
    kinds.ALLOW: "#4caf50",
    kinds.INFER: "#81c784",
    kinds.CLEAR: "#b2dfb4",
    kinds.GROUP: "#7cb69d",
    kinds.CAST_DOWN: "#64b5f6",
    kinds.CAST_UP: "#f2a65a",
    kinds.SCALE: "#b39ddb",
    kinds.UNSCALE: "#a58be0",
    kinds.FINITE_CHECK: "#bfa9eb",
    kinds.CLIP: "#c58fd6",
    kinds.SKIP_GATE: "#9f8cd0",
    kinds.LOSS_SCALE_STATE: "#d7c8f2",
    kinds.REPAIR: "#d4dd5a",
    kinds.LAYERS: "#4db6ac",
    kinds.BOOKKEEPING: "#b0bec5",
    kinds.DENY_KEPT: "#ef9a9a",
    kinds.RANGE_GUARD: "#f28b82",
    kinds.VARIABLE_KEPT: "#ffcc80",
    kinds.LOSS_KEPT: "#ffab91",
    kinds.PINNED: "#c7b8b2",
    kinds.NO_GAIN: "#e0e0e0",
    kinds.MEASURED: "#d0d8e0",
    kinds.UNLISTED: "#d7ccc8",
}

_NOT_OF_NODES = (categories.FUNCTION, categories.META_GRAPH)


def leading(diff: Reviewed) -> Dict[str, Change]:
    """The most important change of each node, by `Change.path`.

    It is an unexplained one, or the first in the order of categories.
    """
    changes: Dict[str, Change] = {}
    for change in diff.unexplained + diff.changes:
        if change.category not in _NOT_OF_NODES:
            changes.setdefault(change.path, change)
    return changes


def reasons(diff: Reviewed) -> Dict[str, str]:
    """Why each node changed or stayed float32, in a word, by its path.

    A key of KIND, or of CATEGORY if there is no reason.
    """
    words = {in_body(kept.body, kept.node): kept.kind for kept in diff.kept}
    for path, change in leading(diff).items():
        words[path] = (
            UNEXPLAINED if diff.has_report and not change.reason else change.kind or change.category
        )
    return words


def of(word: str) -> str:
    """The colour of a key of KIND or CATEGORY."""
    return KIND.get(word) or CATEGORY.get(word, OTHER)
