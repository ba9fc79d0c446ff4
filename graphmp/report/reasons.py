"""Why a node changed: a table of rules over the node's name and what the engine noted, tried in order."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from graphmp.policy.policy import Policy

# Roles of nodes below graphmp/, by the part of the name that tells.
ROLES = (
    (r"^graphmp/loss_scale(_\d+)?/(scale|good_steps|skipped_steps)(/|$)", "loss scale state"),
    (r"^graphmp/loss_scale(_\d+)?/update/", "adapts the loss scale"),
    (r"^graphmp/loss_scale(_\d+)?/(scaled_loss|scaled_seed|rescaled)", "scale: what gradients start from is multiplied by the loss scale"),
    (r"^graphmp/loss_scale(_\d+)?/unscale", "unscale: gradients are divided by the loss scale in float32"),
    (r"^graphmp/loss_scale(_\d+)?/clip_by_global_norm", "clip: gradients are clipped by their global norm"),
    (r"^graphmp/loss_scale(_\d+)?/saver", "loss scale state: saved and restored with the model's variables"),
    (r"^graphmp/loss_scale(_\d+)?/(first_step|in_step)", "scale: a first step is taken unscaled and shows what scale fits"),
    (r"^graphmp/loss_scale(_\d+)?/(skip|apply_gradients)", "skip gate: the update runs only where the gradients are finite"),
    (r"^graphmp/loss_scale(_\d+)?/(IsFinite|Const|All|stack|all_finite|ReduceAll|values|Reshape|flat|first|finite)", "finite check, before any clip"),
    (r"^graphmp/loss_scale(_\d+)?/", "loss scale"),
    (r"^graphmp/moving_averages", "finite check: a moving average takes no value that is not finite"),
    (r"^graphmp/accumulators", "skip gate: a user's accumulator keeps its value on a skipped step"),
    (r"/graphmp/loss_scale(_\d+)?/", "gradient of the loss scale"),
    (r"_graphmp_(float16|bfloat16|float32|float64)(_\d+)?_grad/", "gradient of an inserted cast"),
    (r"_graphmp_(float16|bfloat16|float32|float64)(_\d+)?$", "cast where float32 and half precision meet"),
    (r"/cond(_\d+)?/|/Switch(_\d+)?$", "skip gate: reads through the gate"),
)  # fmt: skip
# What a rewired node reads now, by the name of its new input.
READS = (
    (r"graphmp/loss_scale(_\d+)?/clip_by_global_norm", "clip: reads the clipped gradient"),
    (r"graphmp/loss_scale(_\d+)?/unscale", "unscale: reads the unscaled gradient"),
    (r"graphmp/loss_scale(_\d+)?/(scaled_seed|rescaled)", "scale: starts from the scaled gradient"),
    (r"graphmp/loss_scale(_\d+)?/scaled_loss|/graphmp/loss_scale", "scale: reads the scaled loss"),
    (r"graphmp/loss_scale(_\d+)?/skip/.*selected", "skip gate: reads the gated value"),
    (r"graphmp/loss_scale(_\d+)?/skip/|Switch", "skip gate: reads through the gate"),
    (r"graphmp/loss_scale(_\d+)?/saver/", "loss scale state: saved with the model's variables"),
    (r"graphmp/(moving_averages|accumulators)", "skip gate: reads the gated value"),
    (r"_graphmp_", "reads a cast"),
)
BY_CATEGORY = {
    "allow": "allow: worth half precision",
    "infer": "infer: between half-precision ops",
    "clear": "clear: follows its input",
    "deny": "deny: computes in float32, its result is cast",
    "unlisted": "holds a half-precision value",
}


REST = {
    "attribute": "placement hint that TensorFlow's gradient code gives",
    "control": "waits for what it reads now",
    "meta graph": "list of what the graph holds",
    "node added": "made by TensorFlow's layers or gradients for the compute dtype",
    "node removed": "not needed by TensorFlow's layers or gradients for the compute dtype",
}


class Context(NamedTuple):
    """What the rules look at besides the change itself."""

    policy: Policy
    noted: Dict[str, str]
    op_of: Dict[str, str]


def reason(change: Any, context: Context) -> str:
    """The reason for one change of a diff; every change of a conversion has one."""
    for rule in RULES:
        found = rule(change, context)
        if found:
            return found
    return "reads a value that changed"


def _noted(change: Any, context: Context) -> Optional[str]:
    return context.noted.get(change.node)


def _role(change: Any, context: Context) -> Optional[str]:
    for pattern, role in ROLES:
        if re.search(pattern, change.node):
            return role
    return None


def _dtype(change: Any, context: Context) -> Optional[str]:
    return BY_CATEGORY[context.policy.category(context.op_of.get(change.node, ""))] if change.category == "dtype" else None


def _edges(change: Any, context: Context) -> Optional[str]:
    if change.part in ("attribute seed", "attribute seed2", "seed", "seed2"):
        return "TensorFlow numbers random ops by the ops before them"
    if change.category == "edge via cast":
        return "reads its input through a cast"
    if change.category == "rewired":
        return next((role for pattern, role in READS if re.search(pattern, change.after or "")), None)
    return None


def _rest(change: Any, context: Context) -> Optional[str]:
    return REST.get(change.category)


RULES: List[Callable[[Any, Context], Optional[str]]] = [_noted, _role, _dtype, _edges, _rest]
