"""What a bench runs; needs no TensorFlow, so that the command line can name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Tuple


@dataclass(frozen=True)
class Options:
    """Data and steps of a bench.

    Attributes:
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        batch_sizes: of dimensions that the graph leaves open, in rising order.
        steps: timed steps of a variant in each round.
        warmup: steps before, which don't count.
        rounds: how often each variant has its turn.
        seed: of made-up batches.
        memory_limit: bytes that a variant may take; 0 for what the machine has.
    """

    data: str = ""
    batch_sizes: Tuple[int, ...] = (32,)
    steps: int = 10
    warmup: int = 3
    rounds: int = 5
    seed: int = 0
    memory_limit: int = 0
