"""The stages of a conversion: told to whoever shows progress, and timed for the report."""

from __future__ import annotations

import contextlib
import time
from typing import Callable, Dict, Iterator


class Stages:
    """Times stages by name.

    Attributes:
        seconds: time of each stage that ended.
        progress: told the stage that begins, in words.
    """

    def __init__(self, progress: Callable[[str], None]):
        """Tells `progress` of each stage as it begins."""
        self.seconds: Dict[str, float] = {}
        self.progress = progress

    @contextlib.contextmanager
    def stage(self, name: str, text: str) -> Iterator[None]:
        """A stage with its name in the report and its name on the terminal."""
        self.progress(text)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def rounded(self) -> Dict[str, float]:
        """Seconds, as the report has them."""
        return {name: round(seconds, 3) for name, seconds in self.seconds.items()}
