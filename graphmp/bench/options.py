"""Options of a bench, without TensorFlow, for use by the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple

WALL, PROCESSOR = CLOCKS = "wall", "processor"  # that of all threads of the process
SECONDS = 90.0  # with start-up and the last round, a default run ends within two minutes


@dataclass(frozen=True)
class BenchOptions:
    """Data and steps of a bench.

    Attributes:
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        batch_sizes: of dimensions that the graph leaves open, in ascending order.
        steps: timed steps of a variant in each round; 0 to fit `seconds`.
        warmup: steps before, which don't count; 0 for at most 3.
        rounds: the number of turns of each variant; 0 to fit `seconds`.
        seed: of made-up batches.
        memory_limit: bytes for a variant; 0 for the machine's memory.
        seconds: for the whole command; given `steps` and `rounds` are done in any case.
        clock: of steps: WALL or PROCESSOR.
    """

    data: str = ""
    batch_sizes: Tuple[int, ...] = (32,)
    steps: int = 0
    warmup: int = 0
    rounds: int = 0
    seed: int = 0
    memory_limit: int = 0
    seconds: float = SECONDS
    clock: str = WALL

    @property
    def fits_the_time(self) -> bool:
        """Whether the time determines the number of steps."""
        return not (self.steps and self.rounds)
