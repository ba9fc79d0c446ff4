"""A comparison with the summary of its review and its graph's work, for all forms of a diff."""

from __future__ import annotations

from typing import Dict, Optional

from graphmp.compare.model import Comparison
from graphmp.compare.review.summary import Summary, summarise
from graphmp.compare.review.work import Work, work
from graphmp.graph.state.state import State
from graphmp.once import once
from graphmp.tf_hooks.op_definitions import op_definitions


class Reviewed(Comparison):
    """A comparison and the facts of its review, each computed on first use."""

    @once
    def summary(self) -> Optional[Summary]:
        """The summary of a review; None if the graphs aren't known."""
        return summarise(self, self.work, self._state.is_write) if self.graphs else None

    @once
    def work(self) -> Dict[str, Work]:
        """The bytes that ops of the converted graph's training steps move, by path; or empty."""
        return work(self.bodies, self._state) if self.graphs else {}

    @once
    def _state(self) -> State:
        """The writes of the converted graph."""
        assert self.graphs is not None
        return State(self.graphs[1], self.bodies[0].after, op_definitions(self.graphs[1]))
