"""The path of each loss scale as the stages of a drawing: title, text, shape, and linked rows.

The stages follow from the converted graph; the model's own losses, gradients and updates are those
in the report.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

from graphmp.compare.render.page_data.strings import Strings
from graphmp.compare.render.page_data.tree import Tree
from graphmp.compare.review.flow import Flow
from graphmp.compare.review.reviewed import Reviewed
from graphmp.wording import plural, some

# Of the model; multiplied by the scale; added by graphmp; missing.
PLAIN, SCALED, OURS, ABSENT = "plain", "scaled", "ours", "absent"

Stage = Tuple[str, str, str, Sequence[str]]  # its title, text, shape, and nodes or scopes by name


def flow_rows(diff: Reviewed, tree: Tree, strings: Strings) -> List[List[Any]]:
    """The stages of each loss: [title, text, shape, rows], with texts as indices."""
    return [
        [
            [
                strings[title],
                strings[text],
                shape,
                [row for row in map(tree.of_scope, nodes) if row >= 0],
            ]
            for title, text, shape, nodes in stages
        ]
        for stages in flow_stages(diff)
    ]


def flow_stages(diff: Reviewed) -> List[List[Stage]]:
    """The stages of each loss scale of the converted graph."""
    if diff.summary is None:
        return []
    reported = {row.get("scale"): row for row in (diff.report or {}).get("losses") or ()}
    return [list(_stages(flow, reported.get(flow.scale) or {})) for flow in diff.summary.flows]


def _stages(flow: Flow, loss: Dict[str, Any]) -> Iterator[Stage]:
    losses = loss.get("loss") or [source.partition(":")[0] for source, _ in flow.enters]
    yield "loss", some(losses, 1) or "none", PLAIN, losses
    yield "\u00d7 scale", _scale(flow), OURS, [product for _, product in flow.enters] + [flow.scale]
    scope = loss.get("gradient_scope") or ""
    yield (
        "gradient code",
        scope or "scaled gradients",
        SCALED,
        [scope] if scope else loss.get("gradients") or [],
    )
    unscale = (
        "\u00f7 unscale",
        plural(flow.unscales, "division"),
        OURS if flow.unscales else ABSENT,
        loss.get("unscale") or [],
    )
    own = loss.get("user_clips") or []
    is_scaled = bool(own) and not flow.clip and own[0].get("after_unscale") is False
    yield from ([_clip(flow, loss), unscale] if is_scaled else [unscale])
    yield (
        "finite check",
        _last(flow.check) if flow.check else "none",
        OURS if flow.check else ABSENT,
        [flow.check] if flow.check else [],
    )
    if not is_scaled:
        yield _clip(flow, loss)
    yield (
        "gate",
        plural(flow.gates, "write") if flow.gates else "none",
        OURS if flow.gates else ABSENT,
        loss.get("gated") or [],
    )
    updates = loss.get("updates") or []
    yield "update", plural(len(updates), "variable") if updates else "variables", PLAIN, updates


def _clip(flow: Flow, loss: Dict[str, Any]) -> Stage:
    """graphmp's clip, else the model's own, if the report names any."""
    if flow.clip:
        return "clip", _last(flow.clip), OURS, [flow.clip]
    own = [row.get("node") or "" for row in loss.get("user_clips") or []]
    if own:
        return "clip", "the model's own", PLAIN, own
    return "clip", "none" if "user_clips" in loss else "none by graphmp", ABSENT, []


def _scale(flow: Flow) -> str:
    """`dynamic from 32,768`, `fixed 128`; a scale that is a tensor has no number."""
    if flow.initial is None:
        return "dynamic" if flow.is_dynamic else "a tensor"
    return ("dynamic from %s" if flow.is_dynamic else "fixed %s") % format(flow.initial, ",.7g")


def _last(name: str) -> str:
    return name.rpartition("/")[2]
