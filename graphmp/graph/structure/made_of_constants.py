"""Values that are made of constants and shapes alone: the same in each run on batches of a size."""

from __future__ import annotations

from typing import Any, Callable, Hashable, List, Optional, Sequence, Set, Tuple

from graphmp.graph.state.state_kinds import kind
from graphmp.policy.op_sets import MERGES, PLACEHOLDERS, SHAPE_OPS, SWITCHES

_CONSTANT = SHAPE_OPS | {"Const", "OnesLike", "ZerosLike"}  # of a shape, which may be known
_CHANGING = PLACEHOLDERS | SWITCHES | MERGES

Look = Callable[[Any], Optional[Tuple[str, Sequence[Hashable]]]]


def made_of_constants(start: Hashable, look: Look) -> bool:
    """Whether a value is.

    Args:
        start: an output.
        look: returns the op's type and the inputs behind an output; None if they are unknown.
    """
    waiting: List[Hashable] = [start]
    seen: Set[Hashable] = set()
    while waiting:
        place = waiting.pop()
        op_type, inputs = look(place) or ("", ())
        if op_type in _CONSTANT or place in seen:
            continue
        if not inputs or op_type in _CHANGING or kind(op_type) == "random":
            return False
        seen.add(place)
        waiting.extend(inputs)
    return True
