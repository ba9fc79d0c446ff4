"""Options of tuning, without TensorFlow, for use by the command line."""

from __future__ import annotations

from dataclasses import dataclass

from graphmp.bench.options import WALL

SECONDS = 75.0  # with start-up and conversions, a default run ends within two minutes


@dataclass(frozen=True)
class TuneOptions:
    """Data and time of a tuning.

    Attributes:
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        batch_size: of dimensions that the graph leaves open.
        seed: of made-up batches.
        seconds: for measuring.
        clock: by which whole steps are compared.
    """

    data: str = ""
    batch_size: int = 8
    seed: int = 0
    seconds: float = SECONDS
    clock: str = WALL
