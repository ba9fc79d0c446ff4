"""Why nodes that could be in half precision stayed float32: by the rewrite's painter, or by the policy for a recipe's graph."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Set, Tuple

from graphmp.diff import kinds
from graphmp.graph.building import SCOPE
from graphmp.graph.dtypes import FLOAT32, INVALID, compute_dtype
from graphmp.graph.variables import VARIABLE_OPS
from graphmp.graph.view import parse_input
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
    noted = record["float32"] if "float32" in record else _by_policy(converted, policy)
    rows: Dict[Tuple[str, Reason], List[str]] = {}
    for body, node, text in noted:
        rows.setdefault((body, _with_losses(body, node, text, losses)), []).append(node)
    return [{"body": body, "kind": why.kind, "reason": why.text, "nodes": sorted(nodes)} for (body, why), nodes in sorted(rows.items())]


def _with_losses(body: str, node: str, text: str, losses: Set[str]) -> Reason:
    is_loss = not body and node in losses
    return Reason(kinds.LOSS_KEPT, "loss: computed in float32 (%s)" % text) if is_loss else kept(text)


def _by_policy(converted: Any, policy: Policy) -> Iterator[Tuple[str, str, str]]:
    for node in converted.graph_def.node:
        if node.name.startswith(SCOPE + "/"):
            continue
        if node.op in VARIABLE_OPS and node.attr["dtype"].type == FLOAT32:
            yield "", node.name, "variable: stored in float32, cast on read"
        elif compute_dtype(node) == FLOAT32 or (compute_dtype(node) == INVALID and "dtype" in node.attr and node.attr["dtype"].type == FLOAT32):
            yield "", node.name, _BY_POLICY[policy.category(node.op)] % node.op
