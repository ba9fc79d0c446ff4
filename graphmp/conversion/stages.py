"""The stages of a conversion, reported for progress and timed for the report."""

from __future__ import annotations

import contextlib
import time
from typing import Callable, Dict, Iterator


class Stages:
    """Times stages by name.

    Attributes:
        seconds: time of each finished stage.
        progress: receives each stage as it begins, in words.
    """

    def __init__(self, progress: Callable[[str], None]):
        """`progress` receives each stage as it begins."""
        self.seconds: Dict[str, float] = {}
        self.progress = progress

    @contextlib.contextmanager
    def stage(self, name: str, text: str) -> Iterator[None]:
        """A stage, with its names in the report and on the terminal."""
        self.progress(text)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def rounded(self) -> Dict[str, float]:
        """Seconds, rounded for the report."""
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}
