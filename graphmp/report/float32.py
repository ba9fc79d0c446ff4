"""Why nodes that could be in half precision stayed float32.

The reasons are those of the rewrite's painter, or follow from the policy for a recipe's graph.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

from graphmp.compare import kinds
from graphmp.graph.state.variables import variables
from graphmp.graph.structure.view import parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import FLOAT32, INVALID, compute_dtype
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.policy.reason import (
    ALLOW,
    CLEAR,
    DENY,
    INFER,
    LOSS,
    OUTSIDE,
    UNLISTED,
    VARIABLE,
    Reason,
)
from graphmp.report.reasons import Stated, kept
from graphmp.report.record import Kept, Record

_OUTSIDE = (
    "%s is made outside the build function, or is fed by what does not come through its arguments"
)
_BY_POLICY = {
    DENY: (DENY, "%s computes in float32"),
    UNLISTED: (UNLISTED, "%s is on no list"),
    ALLOW: (OUTSIDE, _OUTSIDE),
    INFER: (INFER, "nothing in half precision leads to this %s"),
    CLEAR: (CLEAR, "nothing in half precision leads to this %s"),
}
_STORED = Reason(VARIABLE, "stored in float32, cast where it is read")


def float32_nodes(converted: Any, record: Record, policy: Policy) -> List[Dict[str, Any]]:
    """The model's nodes that compute in float32.

    Args:
        converted: the converted MetaGraphDef.
        record: the engine's record.
        policy: the op lists.

    Returns:
        One row for each reason: the body, the kind of reason, the reason, and the nodes.
    """
    losses = {parse_input(name).node for row in record.losses for name in row["loss"]}
    stored = {
        v.name
        for v in variables(converted.graph_def)
        if v.dtype == FLOAT32 and not v.name.startswith(SCOPE + "/")
    }
    noted = record.float32 if record.float32 is not None else _by_policy(converted, policy)
    reasons = {(body, node): why for body, node, why in noted}
    reasons.update((("", name), _STORED) for name in stored)
    rows: Dict[Tuple[str, Stated], List[str]] = {}
    for (body, node), why in reasons.items():
        stated = _stated(why, not body and node in losses, not body and node in stored)
        rows.setdefault((body, stated), []).append(node)
    return [
        {"body": body, "kind": stated.kind, "reason": stated.text, "nodes": sorted(nodes)}
        for (body, stated), nodes in sorted(rows.items())
    ]


def _stated(why: Reason, is_loss: bool, is_variable: bool) -> Stated:
    if is_loss and why.kind != LOSS:
        return Stated(kinds.LOSS_KEPT, "loss: computed in float32 (%s)" % why.text)
    return Stated(kinds.VARIABLE_KEPT, why.text) if is_variable else kept(why)


def _by_policy(converted: Any, policy: Policy) -> Iterator[Kept]:
    for node in converted.graph_def.node:
        if node.name.startswith(SCOPE + "/"):
            continue
        dtype = compute_dtype(node) or (
            node.attr["dtype"].type if "dtype" in node.attr else INVALID
        )
        if node.op not in VARIABLE_OPS and dtype == FLOAT32:
            kind, words = _BY_POLICY[policy.category(node.op)]
            yield Kept("", node.name, Reason(kind, words % node.op))
