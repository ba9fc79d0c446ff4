"""Why something is written in a skipped step, in the words of both engines' reports."""

from __future__ import annotations

COUNTS_SKIPPED = "it counts skipped steps"
COUNTS_ALL = "it counts steps, and gradients of a step that isn't counted are stale"
BY_OWN_VALUES = "it goes by whether its own values are finite"
WHEN_TAKEN = "gradients are checked when they are taken out of an accumulator"
ONLY_FINITE = "a moving average takes no value that is not finite"
