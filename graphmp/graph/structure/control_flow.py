"""The ops that loops and conditionals of TensorFlow 1 are made of, those on references and XLA's included."""

from __future__ import annotations

ENTERS = frozenset(("Enter", "RefEnter"))
EXITS = frozenset(("Exit", "RefExit"))
SWITCHES = frozenset(("RefSwitch", "Switch"))
MERGES = frozenset(("Merge", "RefMerge", "_XlaMerge"))
NEXT_ITERATIONS = frozenset(
    ("NextIteration", "RefNextIteration")
)  # the one kind of op that closes a cycle
