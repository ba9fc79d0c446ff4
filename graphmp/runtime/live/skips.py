"""Which training runs of a live graph are skipped, and why: the flags of its loss scales, fetched along with each of them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from graphmp.graph.live import ancestors
from graphmp.numerics.overflow import Overflow, Watch


class Skipped(NamedTuple):
    """A step that a dynamic loss scale skipped.

    Attributes:
        step: which training run, from 1.
        loss: the loss's name.
        in_a_row: how many steps of this loss were skipped up to this one.
        overflow: the first op that wasn't finite; None where nobody looked, or it can't be seen.
    """

    step: int
    loss: str
    in_a_row: int
    overflow: Optional[Overflow]


class _Looked(NamedTuple):
    """What is fetched beside a training run: flags of some losses, by number, and the ranges of all tensors."""

    numbers: List[int]
    watch: Optional[Watch]
    fetches: List[Any]


class Skips:
    """The skipped steps of one conversion of a graph."""

    def __init__(self, losses: List[str], flags: List[Any], originals: Mapping[str, str], debug: bool):
        """Nothing is added to the graph yet.

        Args:
            losses: names of the losses that have a flag.
            flags: for each the tensor that says whether its gradients are finite.
            originals: for the name of a clone the original's.
            debug: whether to look at all tensors in every training run.
        """
        self._losses = losses
        self._flags = flags
        self._originals = originals
        self._debug = debug
        self._looked: Dict[Tuple[Any, ...], _Looked] = {}
        self._in_a_row = [0] * len(losses)

    def fetches(self, ops: Tuple[Any, ...]) -> List[Any]:
        """What to fetch beside ops that train."""
        if ops not in self._looked:
            behind = ancestors(ops)
            numbers = [number for number, flag in enumerate(self._flags) if flag.op in behind]
            flags = [self._flags[number] for number in numbers]
            watch = Watch([flag.op for flag in flags], self._originals) if self._debug and flags else None
            self._looked[ops] = _Looked(numbers, watch, flags + (watch.fetches if watch else []))
        return self._looked[ops].fetches

    def seen(self, ops: Tuple[Any, ...], values: Sequence[Any], step: int) -> List[Skipped]:
        """The steps that a run skipped, of what it gave for `fetches`."""
        numbers, watch, _ = self._looked[ops]
        found = []
        for number, finite in zip(numbers, values):
            self._in_a_row[number] = 0 if finite else self._in_a_row[number] + 1
            if not finite:
                overflow = watch.first((values[-3], values[-2], values[-1])) if watch else None
                found.append(Skipped(step, self._losses[number], self._in_a_row[number], overflow))
        return found
