"""Options of a bench. This module needs no TensorFlow, so that the command line can name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

SECONDS = 90.0  # with the interpreter's start and the slack of the last round, a default run ends within two minutes


@dataclass(frozen=True)
class Options:
    """Data and steps of a bench.

    Attributes:
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        batch_sizes: of dimensions that the graph leaves open, in rising order.
        steps: timed steps of a variant in each round; 0 for what fits `seconds`.
        warmup: steps before, which don't count; 0 for at most 3.
        rounds: how often each variant has its turn; 0 for what fits `seconds`.
        seed: of made-up batches.
        memory_limit: bytes that a variant may take; 0 for what the machine has.
        seconds: that the command is to take; what `steps` and `rounds` say is done whatever it takes.
    """

    data: str = ""
    batch_sizes: Tuple[int, ...] = (32,)
    steps: int = 0
    warmup: int = 0
    rounds: int = 0
    seed: int = 0
    memory_limit: int = 0
    seconds: float = SECONDS

    @property
    def fits_the_time(self) -> bool:
        """Whether the time decides how much is timed."""
        return not (self.steps and self.rounds)
