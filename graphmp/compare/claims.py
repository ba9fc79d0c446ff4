"""Claims about a conversion: proved, failed, not proved, not applicable.

Those about the graphs need no report: variables, checkpoint names and inputs are compared, and all
else is proved by `graphmp.verify`. Those about the report tell whether it explains every change,
and whether the losses it names are float32.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.compare.changes import BodyPair
from graphmp.compare.model import Comparison
from graphmp.graph.io.messages import serialize
from graphmp.graph.io.stored import StoredMetaGraph
from graphmp.graph.state.variables import Variable, saved_names, variables
from graphmp.graph.structure.values import is_ones
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import FLOAT32, FLOAT64, INVALID, compute_dtype, dtype_text
from graphmp.policy.op_sets import PLACEHOLDERS
from graphmp.verify import FAILED, NOT_APPLICABLE, PROVED, Claim, Proof
from graphmp.wording import plural, some

OF_REPORT = ("explained", "report")  # the claims about a report
_OURS = SCOPE + "/"
_MOST_CHARACTERS = 160


def graph_claims(
    before: StoredMetaGraph, after: StoredMetaGraph, body: BodyPair, proof: Proof
) -> Tuple[Claim, ...]:
    """The claims about two graphs that need no report.

    Args:
        before: the original.
        after: the converted graph.
        body: the main graph in both.
        proof: the proof about the two.
    """
    return (
        _variables(before, after),
        _checkpoint(body),
        _inputs(body),
        _loss(body.after, _collected(after)),
        *proof.claims,
    )


def report_claims(diff: Comparison, report: Dict[str, Any]) -> Tuple[Claim, ...]:
    """The claims of a diff, with those about a report: explained changes, and losses in float32."""
    claims = [_explained(diff), _fresh(diff)]
    losses = _reported(report, diff.bodies[0].before) if diff.bodies else []
    claims.extend(
        _loss(diff.bodies[0].after, losses) if claim.name == "loss" and losses else claim
        for claim in diff.claims
    )
    return tuple(claims)


def _explained(diff: Comparison) -> Claim:
    missing = diff.unexplained
    if missing:
        return Claim(
            "explained",
            FAILED,
            "%s without a reason in the report" % plural(len(missing), "change"),
            tuple(sorted({c.path for c in missing})),
        )
    return Claim("explained", PROVED, "every change has a reason in the report")


def _fresh(diff: Comparison) -> Claim:
    if diff.stale:
        return Claim(
            "report",
            FAILED,
            "stale: %s that these graphs don't have, such as %s"
            % (plural(len(diff.stale), "change"), diff.stale[0][:_MOST_CHARACTERS]),
        )
    return Claim("report", PROVED, "every change that the report tells of is there")


def _variables(before: StoredMetaGraph, after: StoredMetaGraph) -> Claim:
    old, new = ({v.name: v for v in variables(graph.graph_def)} for graph in (before, after))
    if not old and not new:
        return Claim("variables", NOT_APPLICABLE, "the graph has no variables")
    wrong = [
        name for name, variable in old.items() if _declared(new.get(name)) != _declared(variable)
    ]
    extra = [name for name in new if name not in old and not name.startswith(_OURS)]
    floats = [v for v in old.values() if v.dtype == FLOAT32]
    kept = [v.name for v in floats if v.name in new and new[v.name].dtype == FLOAT32]
    text = "%d of %d float32" % (len(kept), len(floats))
    if wrong or extra:
        found = "%s changed, renamed or gone" % plural(len(wrong), "variable") if wrong else ""
        return Claim(
            "variables",
            FAILED,
            "; ".join(filter(None, (text, found, "%d new" % len(extra) if extra else ""))),
            tuple(sorted(wrong + extra)),
        )
    return Claim(
        "variables",
        PROVED,
        "%s; names, dtypes and shapes of all %d unchanged" % (text, len(old)),
        tuple(sorted(kept)),
    )


def _declared(variable: Optional[Variable]) -> Any:
    return variable and (variable.dtype, variable.shape)


def _checkpoint(body: BodyPair) -> Claim:
    old, new = (saved_names(view) for view in (body.before, body.after))
    if not old and not new:
        return Claim(
            "checkpoint",
            NOT_APPLICABLE,
            "the graph has no Saver: names in a checkpoint are those of the variables",
        )
    gone, come = old - new, {name for name in new - old if not name.startswith(_OURS)}
    if gone or come:
        return Claim(
            "checkpoint",
            FAILED,
            "%s gone, %d new" % (plural(len(gone), "name"), len(come)),
            tuple(sorted(gone | come)),
        )
    added = "; %d of the loss scale added" % len(new - old) if new - old else ""
    return Claim(
        "checkpoint", PROVED, "all %s of the Savers unchanged%s" % (plural(len(old), "name"), added)
    )


def _inputs(body: BodyPair) -> Claim:
    names = [name for name, node in body.before.nodes.items() if node.op in PLACEHOLDERS]
    if not names:
        return Claim("inputs", NOT_APPLICABLE, "the graph has no placeholders")
    wrong = [
        name
        for name in names
        if _fed(body.before, name) != _fed(body.after, body.renamed.get(name, name))
    ]
    if wrong:
        return Claim(
            "inputs",
            FAILED,
            "%d of %s changed or gone" % (len(wrong), plural(len(names), "placeholder")),
            tuple(sorted(wrong)),
        )
    return Claim(
        "inputs",
        PROVED,
        "%s unchanged in name, dtype and shape" % plural(len(names), "placeholder"),
    )


def _fed(view: GraphView, name: str) -> Any:
    node = view.nodes.get(name)
    return node and (
        node.op,
        node.attr["dtype"].type,
        serialize(node.attr["shape"]) if "shape" in node.attr else b"",
    )


def _collected(meta_graph: StoredMetaGraph) -> List[str]:
    return (
        list(meta_graph.collection_def[tf.GraphKeys.LOSSES].node_list.value)
        if tf.GraphKeys.LOSSES in meta_graph.collection_def
        else []
    )


def _reported(report: Dict[str, Any], view: GraphView) -> List[str]:
    """The losses named in a report, without consumers of given gradients (`grad_ys`)."""
    rows = [
        row
        for row in report.get("losses") or ()
        if all(
            seed not in view.nodes or is_ones(view, seed)
            for seed in (parse_input(text).node for text in row.get("seeds") or ())
        )
    ]
    return [name for row in rows for name in row.get("loss") or ()]


def _loss(view: GraphView, losses: Iterable[str]) -> Claim:
    nodes = [
        view.nodes[name]
        for name in sorted({parse_input(text).node for text in losses})
        if name in view.nodes
    ]
    dtypes = {node.name: compute_dtype(node) for node in nodes if compute_dtype(node) != INVALID}
    if not dtypes:
        return Claim(
            "loss", NOT_APPLICABLE, "neither the graph nor a report says which tensor is the loss"
        )
    wrong = [name for name, dtype in dtypes.items() if dtype not in (FLOAT32, FLOAT64)]
    if wrong:
        return Claim(
            "loss", FAILED, "%s is %s" % (wrong[0], dtype_text(dtypes[wrong[0]])), tuple(wrong)
        )
    return Claim("loss", PROVED, "float32: %s" % some(list(dtypes), 1), tuple(dtypes))
