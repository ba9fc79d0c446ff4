"""Reasons: why a node has its dtype, was inserted or was changed.

The text of a reason, which users see, begins with its kind.
"""

from __future__ import annotations

from typing import NamedTuple

# Why a node has its dtype.
ALLOW = "allow"
CLEAR = "clear"
DENY = "deny"
FETCHED = "fetched"
FLOW = "flow"
GRADIENT = "gradient of a denied op"
GROUP = "group"
HANDLE = "handle"
INFER = "infer"
LAST_ACTIVATION = "last activation"
LOOK_UP = "look-up"
LOSS = "loss"
LOSS_SCALE = "loss scale"
MAGNIFIED = "magnified"
MEASURED = "measured"
NO_KERNEL = "no kernel"
OUTSIDE = "outside"
OWN_CAST = "own cast"
RANGE_GUARD = "range guard"
READS_RESOURCE = "resource"
STATISTICS = "statistics"
SUM = "sum of a variable's gradients"
UNLISTED = "unlisted"
UNTYPED = "no type of its own"
UPDATE = "update math"
USER_RULE = "user rule"
VARIABLE = "variable"

# Why a node was inserted or changed.
CAST_DOWN = "cast down"
CAST_UP = "cast up"
FINITE_CHECK = "finite check"
LOSS_SCALE_STATE = "loss scale state"
REWRITTEN = "rewritten inside"
SCALE = "scale"
SECOND_CONSTANT = "constant in half precision for the ops that read it so"
SECOND_ENTER = "loop invariant, cast before the loop"
SHAPES = "recorded shapes (_output_shapes)"
SKIP_GATE = "skip gate"
UNSCALE = "unscale"


class Reason(NamedTuple):
    """A reason.

    Attributes:
        kind: one of the constants of this module; empty for a reason of no kind.
        words: the rest of the text; empty where the kind says all.
        node: the node that led to it; empty where there is none.
    """

    kind: str
    words: str = ""
    node: str = ""

    @property
    def text(self) -> str:
        """The reason in the words shown to users."""
        return ": ".join(filter(None, (self.kind, self.words)))


class Done(NamedTuple):
    """A change to a node: its path, the change in a word, and the reason."""

    node: str
    did: str
    why: Reason


DOWNSTREAM = Reason(INFER, "downstream of what computes in float32")
DROPPED_SHAPES = Reason(SHAPES, "dropped, for a TensorFlow of another version may refuse them")


def user_rule(flag: str, value: str) -> Reason:
    """The reason of a node that a flag names."""
    return Reason(USER_RULE, "--%s=%s" % (flag, value))
