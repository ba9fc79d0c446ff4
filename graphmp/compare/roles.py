"""Roles of inserted nodes: a table over their names, which are part of the interface."""

from __future__ import annotations

import functools
import re
from typing import Callable, NamedTuple, Optional, Tuple

from graphmp.compare import kinds
from graphmp.naming import SCOPE


class Role(NamedTuple):
    """The kind of reason why a node was inserted, and in words."""

    kind: str
    text: str


# The scope of one loss's scale: anywhere in a name, as in its nodes' gradients, and at the start.
_IN_SCALE = r"graphmp/loss_scale(_\d+)?/"
_SCALE = "^" + _IN_SCALE

_ROLES = (
    (
        _SCALE + r"(scale|good_steps|skipped|skipped_steps)(/|$)",
        kinds.LOSS_SCALE_STATE,
        "loss scale state",
    ),
    (_SCALE + r"update/", kinds.LOSS_SCALE_STATE, "adapts the loss scale"),
    (
        _SCALE + r"(scaled_loss|scaled_seed|rescaled)",
        kinds.SCALE,
        "scale: what gradients start from is multiplied by the loss scale",
    ),
    (
        _SCALE + r"unscale",
        kinds.UNSCALE,
        "unscale: gradients are divided by the loss scale in float32",
    ),
    (
        _SCALE + r"clip_by_global_norm",
        kinds.CLIP,
        "clip: gradients are clipped by their global norm",
    ),
    (
        _SCALE + r"saver",
        kinds.LOSS_SCALE_STATE,
        "loss scale state: saved and restored with the model's variables",
    ),
    (
        _SCALE + r"(first_step|in_step)",
        kinds.SCALE,
        "scale: a first step is taken unscaled and shows what scale fits",
    ),
    (
        _SCALE + r"(skip|apply_gradients)",
        kinds.SKIP_GATE,
        "skip gate: the update runs only where the gradients are finite",
    ),
    (
        _SCALE
        + r"(IsFinite|Const|[aA]ll|AddN|stack|ReduceAll|Sum|values|small|Reshape|flat|first|"
        + r"finite)",
        kinds.FINITE_CHECK,
        "finite check, before any clip",
    ),
    (_SCALE, kinds.LOSS_SCALE_STATE, "loss scale"),
    (
        r"^graphmp/moving_averages",
        kinds.FINITE_CHECK,
        "finite check: a moving average takes no value that is not finite",
    ),
    (
        r"^graphmp/histograms",
        kinds.FINITE_CHECK,
        "finite check: a histogram takes 0 for what is not finite",
    ),
    (
        r"^graphmp/accumulators",
        kinds.SKIP_GATE,
        "skip gate: a user's accumulator keeps its value on a skipped step",
    ),
    ("/" + _IN_SCALE, kinds.SCALE, "gradient of the loss scale"),
    (r"_graphmp_(float16|bfloat16)(_\d+)?_grad/", kinds.CAST_UP, "gradient of an inserted cast"),
    (r"_graphmp_(float32|float64)(_\d+)?_grad/", kinds.CAST_DOWN, "gradient of an inserted cast"),
    (
        r"_graphmp_(float16|bfloat16)(_\d+)?$",
        kinds.CAST_DOWN,
        "cast where float32 and half precision meet",
    ),
    (
        r"_graphmp_(float32|float64)(_\d+)?$",
        kinds.CAST_UP,
        "cast where float32 and half precision meet",
    ),
)
# The new producer of a rewired input, by its name.
_READS = (
    (_IN_SCALE + r"clip_by_global_norm", kinds.CLIP, "clip: reads the clipped gradient"),
    (_IN_SCALE + r"unscale", kinds.UNSCALE, "unscale: reads the unscaled gradient"),
    (_IN_SCALE + r"(scaled_seed|rescaled)", kinds.SCALE, "scale: starts from the scaled gradient"),
    (_IN_SCALE + r"scaled_loss|/graphmp/loss_scale", kinds.SCALE, "scale: reads the scaled loss"),
    (_IN_SCALE + r"skip/.*selected", kinds.SKIP_GATE, "skip gate: reads the gated value"),
    (_IN_SCALE + r"skip/", kinds.SKIP_GATE, "skip gate: reads through the gate"),
    (
        _IN_SCALE + r"saver/",
        kinds.LOSS_SCALE_STATE,
        "loss scale state: saved with the model's variables",
    ),
    (r"graphmp/histograms", kinds.FINITE_CHECK, "finite check: reads 0 for what is not finite"),
    (
        r"graphmp/(moving_averages|accumulators)",
        kinds.SKIP_GATE,
        "skip gate: reads the gated value",
    ),
)

SCALED = re.compile("(^|/)" + _IN_SCALE + r"(scaled_loss|scaled_seed|rescaled)")
INITIALISER = re.compile(_SCALE + r"(scale|good_steps|skipped_steps)/Assign$")
UNSCALE = re.compile(_SCALE + r"unscale")
CLIP = re.compile(_SCALE + r"clip_by_global_norm")
SELECTED = re.compile(_SCALE + r"skip/.*/selected$")  # a Merge of a value and of a neutral one
ALL_FINITE = re.compile(_SCALE + r"all_finite$")


def role(name: str) -> Optional[Role]:
    """The role of a node, by its name; None for a node of the model."""
    return _first(_ROLES, name)


def reading(name: str) -> Optional[Role]:
    """Why a consumer now reads a node, by the node's name."""
    return _first(_READS, name)


@functools.lru_cache(maxsize=None)
def _compiled(table: tuple) -> Tuple[Tuple[Callable[[str], object], Role], ...]:
    return tuple((re.compile(pattern).search, Role(kind, text)) for pattern, kind, text in table)


def _first(table: tuple, name: str) -> Optional[Role]:
    """The first role whose pattern a name has; every pattern contains graphmp's name."""
    if SCOPE not in name:
        return None
    return next((role for search, role in _compiled(table) if search(name)), None)
