"""A variant's turn in a round of several: a few steps, timed by both clocks."""

from __future__ import annotations

import statistics
import time
from typing import Callable, List, Tuple

from graphmp.process_memory import collector_paused

WARM_UP = 3  # steps of each variant that don't count
_LEAST, _TURN = 3, 0.25  # steps, and seconds, of a turn


def turn(step: Callable[[], None]) -> Tuple[float, float]:
    """Wall-clock seconds (median) and processor seconds (mean) of a step."""
    wall: List[float] = []
    with collector_paused():
        start = time.process_time()
        while len(wall) < _LEAST or sum(wall) < _TURN:
            began = time.perf_counter()
            step()
            wall.append(time.perf_counter() - began)
        processor = (time.process_time() - start) / len(wall)
    return statistics.median(wall), processor
