"""Why nodes that could be in half precision stayed float32: by the rewrite's painter, or by the policy for a recipe's graph."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Tuple

from graphmp.compare import kinds
from graphmp.graph.state.variables import variables
from graphmp.graph.structure.view import parse_input
from graphmp.naming import SCOPE
from graphmp.policy.dtypes import FLOAT32, INVALID, compute_dtype
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.policy.policy import Policy
from graphmp.report.reasons import Reason, kept

_BY_POLICY = {
    "deny": "deny: %s computes in float32",
    "unlisted": "unlisted: %s is on no list",
    "allow": "outside: %s is made outside the build function, or is fed by what does not come through its arguments",
    "infer": "infer: nothing in half precision leads to this %s",
    "clear": "clear: nothing in half precision leads to this %s",
}


def float32_nodes(converted: Any, record: Dict[str, Any], policy: Policy) -> List[Dict[str, Any]]:
    """Which nodes of the model compute in float32, a row a reason: the body, the kind of reason, the reason, and the nodes.

    Args:
        converted: the converted MetaGraphDef.
        record: what the engine noted; the rewrite's has reasons, under `float32`.
        policy: the op lists.
    """
    losses = {parse_input(name).node for row in record["losses"] for name in row["loss"]}
    stored = {
        v.name
        for v in variables(converted.graph_def)
        if v.dtype == FLOAT32 and not v.name.startswith(SCOPE + "/")
    }
    noted = record["float32"] if "float32" in record else _by_policy(converted, policy)
    reasons = {(body, node): text for body, node, text in noted}
    reasons.update(
        {("", name): "variable: stored in float32, cast where it is read" for name in stored}
    )
    rows: Dict[Tuple[str, Reason], List[str]] = {}
    for (body, node), text in reasons.items():
        rows.setdefault(
            (body, _reason(text, not body and node in losses, not body and node in stored)), []
        ).append(node)
    return [
        {"body": body, "kind": why.kind, "reason": why.text, "nodes": sorted(nodes)}
        for (body, why), nodes in sorted(rows.items())
    ]


def _reason(text: str, is_loss: bool, is_variable: bool) -> Reason:
    if is_loss:
        return Reason(kinds.LOSS_KEPT, "loss: computed in float32 (%s)" % text)
    return Reason(kinds.VARIABLE_KEPT, text) if is_variable else kept(text)


def _by_policy(converted: Any, policy: Policy) -> Iterator[Tuple[str, str, str]]:
    for node in converted.graph_def.node:
        if node.name.startswith(SCOPE + "/"):
            continue
        dtype = compute_dtype(node) or (
            node.attr["dtype"].type if "dtype" in node.attr else INVALID
        )
        if node.op not in VARIABLE_OPS and dtype == FLOAT32:
            yield "", node.name, _BY_POLICY[policy.category(node.op)] % node.op
