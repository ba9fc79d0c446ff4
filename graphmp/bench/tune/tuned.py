"""The result of a tuning."""

from __future__ import annotations

from typing import Any, Dict, Optional

from graphmp.timings import Ratio, Rounds, speedup
from graphmp.tuning.costs import FLOAT32, REGIONS, Costs


class Tuned:
    """The result of a tuning, whenever it ends.

    Attributes:
        costs: those that were written; None if it ended before there were any.
        rounds: seconds of whole steps in turns, by FLOAT32, BYTES, TUNED.
        of_regions: of other turns, by FLOAT32 and REGIONS; empty if no region was decided.
        is_float32: whether the conversion by times, TUNED, leaves all in float32.
        interrupted: whether it ended early, by Ctrl-C.
        note: why regions weren't decided, if they were to be and something failed.
        batches: what is to be said of the batches; may be empty.
        report: the report's section of the conversion by costs; empty if there was none.
    """

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self.costs: Optional[Costs] = None
        self.rounds: Dict[str, Rounds] = {}
        self.of_regions: Dict[str, Rounds] = {}
        self.is_float32 = False
        self.interrupted = False
        self.note = ""
        self.batches = ""
        self.report: Dict[str, Any] = {}

    @property
    def kept(self) -> str:
        """FLOAT32, BYTES, TUNED, or REGIONS of one of these; empty if nothing was compared."""
        if self.costs is None:
            return ""
        return REGIONS if self.costs.float32_nodes else self.costs.faster

    def speedup(self, name: str) -> Optional[Ratio]:
        """The speed-up of BYTES, TUNED or REGIONS against float32; None if it wasn't timed."""
        rounds = self.of_regions if name == REGIONS else self.rounds
        return speedup(rounds[FLOAT32], rounds[name]) if {FLOAT32, name} <= set(rounds) else None
