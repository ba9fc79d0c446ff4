"""Proofs of what a conversion must not change.

Those of the graphs need no report: variables, checkpoint names and inputs are compared, and loss scales followed (`graphmp.diff.proofs.scaled`).
Those of the report say whether it explains every change, and that the losses it names are float32.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.diff.changes import FAILED, NOT_CHECKED, PASSED, Body, Check
from graphmp.diff.model import Diff
from graphmp.diff.proofs.scaled import scaling_checks
from graphmp.diff.values import dtype_text, plural
from graphmp.graph.building import SCOPE
from graphmp.graph.dtypes import FLOAT32, FLOAT64, INVALID, compute_dtype
from graphmp.graph.messages import serialize
from graphmp.graph.variables import Variable, saved_names, variables
from graphmp.graph.view import GraphView, parse_input

_OURS = SCOPE + "/"
_MOST_CHARACTERS = 160


def graph_checks(before: tf.MetaGraphDef, after: tf.MetaGraphDef, body: Body) -> Tuple[Check, ...]:
    """The proofs that two graphs alone admit.

    Args:
        before: the original.
        after: the converted graph.
        body: the main graph on both sides.
    """
    losses = _loss(body.after, _scaled_losses(body.after) or _collected(after))
    return (_variables(before, after), _checkpoint(body), _inputs(body), losses, *scaling_checks(after, body.after))


def report_checks(diff: Diff, report: Dict[str, Any]) -> Tuple[Check, ...]:
    """The proofs of a diff, with those that a report adds: explained changes first, and the losses that it names."""
    checks = [_explained(diff), _fresh(diff)]
    losses = _reported(report, diff.bodies[0].before) if diff.bodies else []
    checks.extend(_loss(diff.bodies[0].after, losses) if check.name == "loss" and losses else check for check in diff.checks)
    return tuple(checks)


def _explained(diff: Diff) -> Check:
    missing = diff.unexplained
    if missing:
        return Check(
            "explained", FAILED, "%s without a reason in the report" % plural(len(missing), "change"), tuple(sorted({c.path for c in missing}))
        )
    return Check("explained", PASSED, "every change has a reason in the report")


def _fresh(diff: Diff) -> Check:
    if diff.stale:
        return Check(
            "report",
            FAILED,
            "stale: %s that these graphs don't have, such as %s" % (plural(len(diff.stale), "change"), diff.stale[0][:_MOST_CHARACTERS]),
        )
    return Check("report", PASSED, "every change that the report tells of is there")


def _variables(before: tf.MetaGraphDef, after: tf.MetaGraphDef) -> Check:
    old, new = ({v.name: v for v in variables(graph.graph_def)} for graph in (before, after))
    if not old and not new:
        return Check("variables", NOT_CHECKED, "the graph has no variables")
    wrong = [name for name, variable in old.items() if _declared(new.get(name)) != _declared(variable)]
    extra = [name for name in new if name not in old and not name.startswith(_OURS)]
    floats = [v for v in old.values() if v.dtype == FLOAT32]
    kept = [v.name for v in floats if v.name in new and new[v.name].dtype == FLOAT32]
    text = "%d of %d float32" % (len(kept), len(floats))
    if wrong or extra:
        found = "%s changed, renamed or gone" % plural(len(wrong), "variable") if wrong else ""
        return Check(
            "variables", FAILED, "; ".join(filter(None, (text, found, "%d new" % len(extra) if extra else ""))), tuple(sorted(wrong + extra))
        )
    return Check("variables", PASSED, "%s; names, dtypes and shapes of all %d unchanged" % (text, len(old)), tuple(sorted(kept)))


def _declared(variable: Optional[Variable]) -> Any:
    return variable and (variable.dtype, variable.shape)


def _checkpoint(body: Body) -> Check:
    old, new = (saved_names(view) for view in (body.before, body.after))
    if not old and not new:
        return Check("checkpoint", NOT_CHECKED, "the graph has no Saver: names in a checkpoint are those of the variables")
    gone, come = old - new, {name for name in new - old if not name.startswith(_OURS)}
    if gone or come:
        return Check("checkpoint", FAILED, "%s gone, %d new" % (plural(len(gone), "name"), len(come)), tuple(sorted(gone | come)))
    added = "; %d of the loss scale added" % len(new - old) if new - old else ""
    return Check("checkpoint", PASSED, "all %s of the Savers unchanged%s" % (plural(len(old), "name"), added))


def _inputs(body: Body) -> Check:
    names = [name for name, node in body.before.nodes.items() if node.op in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")]
    if not names:
        return Check("inputs", NOT_CHECKED, "the graph has no placeholders")
    wrong = [name for name in names if _fed(body.before, name) != _fed(body.after, body.renamed.get(name, name))]
    if wrong:
        return Check("inputs", FAILED, "%d of %s changed or gone" % (len(wrong), plural(len(names), "placeholder")), tuple(sorted(wrong)))
    return Check("inputs", PASSED, "%s unchanged in name, dtype and shape" % plural(len(names), "placeholder"))


def _fed(view: GraphView, name: str) -> Any:
    node = view.nodes.get(name)
    return node and (node.op, node.attr["dtype"].type, serialize(node.attr["shape"]) if "shape" in node.attr else b"")


def _scaled_losses(view: GraphView) -> List[str]:
    """What is multiplied by a loss scale: a loss, where it is no seed of gradient code."""
    scaled = [name for name in view.nodes if re.search(r"^graphmp/loss_scale(_\d+)?/scaled_loss$", name)]
    return [str(view.inputs(name)[0]) for name in scaled if view.inputs(name)]


def _collected(meta_graph: tf.MetaGraphDef) -> List[str]:
    return list(meta_graph.collection_def[tf.GraphKeys.LOSSES].node_list.value) if tf.GraphKeys.LOSSES in meta_graph.collection_def else []


def _reported(report: Dict[str, Any], view: GraphView) -> List[str]:
    """The losses that a report names. What a given gradient (`grad_ys`) is handed to is no loss."""
    rows = [row for row in report.get("losses") or () if all(_is_ones(view, parse_input(seed).node) for seed in row.get("seeds") or ())]
    return [name for row in rows for name in row.get("loss") or ()]


def _is_ones(view: GraphView, seed: str) -> bool:
    return seed not in view.nodes or view.nodes[seed].op in ("Const", "Fill", "OnesLike")


def _loss(view: GraphView, losses: Iterable[str]) -> Check:
    nodes = [view.nodes[name] for name in sorted({parse_input(text).node for text in losses}) if name in view.nodes]
    dtypes = {node.name: compute_dtype(node) for node in nodes if compute_dtype(node) != INVALID}
    if not dtypes:
        return Check("loss", NOT_CHECKED, "neither the graph nor a report says which tensor is the loss")
    wrong = [name for name, dtype in dtypes.items() if dtype not in (FLOAT32, FLOAT64)]
    if wrong:
        return Check("loss", FAILED, "%s is %s" % (wrong[0], dtype_text(dtypes[wrong[0]])), tuple(wrong))
    rest = " and %d more" % (len(dtypes) - 1) if len(dtypes) > 1 else ""
    return Check("loss", PASSED, "float32: %s%s" % (next(iter(dtypes)), rest), tuple(dtypes))
