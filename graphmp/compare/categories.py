"""The categories of changes."""

from __future__ import annotations

OP = "op"
DTYPE = "dtype"
CONSTANT = "constant value"
ATTRIBUTE = "attribute"
REWIRED = "rewired"
VIA_CAST = "edge via cast"
CONTROL = "control"
DEVICE = "device"
ADDED = "node added"
REMOVED = "node removed"
RENAMED = "node renamed"
FUNCTION = "function"
META_GRAPH = "meta graph"

# In the order of display: possible faults first, then normal parts of a conversion.
CATEGORIES = (
    REMOVED,
    OP,
    REWIRED,
    CONSTANT,
    ATTRIBUTE,
    CONTROL,
    DEVICE,
    FUNCTION,
    META_GRAPH,
    RENAMED,
    DTYPE,
    VIA_CAST,
    ADDED,
)
