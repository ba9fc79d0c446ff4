"""The kinds of reasons in a report, for changes and for float32 nodes.

Renderers filter and colour by them.
"""

from __future__ import annotations

CAST_DOWN = "cast down"
CAST_UP = "cast up"
ALLOW = "allow"
INFER = "infer"
CLEAR = "clear"
GROUP = "group"
USER_RULE = "user rule"
SCALE = "scale"
UNSCALE = "unscale"
FINITE_CHECK = "finite check"
CLIP = "clip"
SKIP_GATE = "skip gate"
LOSS_SCALE_STATE = "loss scale state"
REPAIR = "repair"
BOOKKEEPING = "bookkeeping"
LAYERS = "layers"

DENY_KEPT = "deny kept"
RANGE_GUARD = "range guard"
VARIABLE_KEPT = "variable kept"
LOSS_KEPT = "loss kept"
PINNED = "pinned"
NO_GAIN = "no gain"
MEASURED = "measured"
UNLISTED = "unlisted"

# Why something changed, in the order of display.
CHANGED = (
    ALLOW,
    INFER,
    CLEAR,
    GROUP,
    CAST_DOWN,
    CAST_UP,
    SCALE,
    UNSCALE,
    FINITE_CHECK,
    CLIP,
    SKIP_GATE,
    LOSS_SCALE_STATE,
    REPAIR,
    LAYERS,
    BOOKKEEPING,
)

# Why something stayed float32.
STAYED = (DENY_KEPT, RANGE_GUARD, VARIABLE_KEPT, LOSS_KEPT, UNLISTED, PINNED, NO_GAIN, MEASURED)

KINDS = (USER_RULE,) + CHANGED + STAYED
