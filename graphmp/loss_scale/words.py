"""Why something is written in a skipped step, in the words of both engines' reports."""

from __future__ import annotations

COUNTS_SKIPPED = "it counts skipped steps"
COUNTS_ALL = "it counts steps, and gradients of a step that isn't counted are stale"
BY_OWN_VALUES = "it goes by whether its own values are finite"
WHEN_TAKEN = "gradients are checked when they are taken out of an accumulator"
ONLY_FINITE = "a moving average takes no value that is not finite"
BY_VALUE = (
    "the loss's flag, or what is written with it, doesn't come after it: it goes by whether all"
    " that is written with it is finite"
)
CHECKED = "the loss's flag depends on it"
SHARED = "the steps of several losses run it, and each may run alone: no flag is always there"
SHARED_BY_VALUE = (
    "the steps of several losses run it: it goes by whether all that is written with it is finite"
)
RACED = (
    "the step also reads its variable after other writes, in no order with this one, which a flag"
    " would delay"
)
BEGINS = "it begins a sum of gradients: it writes zeros, for the sum before was applied already"
MAY_BEGIN = (
    "it may begin a sum of gradients or add to it, and keeps what it held, which is applied again"
    " where the sum was to begin; begin it by a write of its own, in a branch of a tf.cond"
)
