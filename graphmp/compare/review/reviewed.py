"""A comparison with the summary of its review and its graph's work, for all forms of a diff."""

from __future__ import annotations

from typing import Dict, List, Optional

from graphmp.compare.changes import BodyPair
from graphmp.compare.model import Comparison
from graphmp.compare.review.summary import Summary, summarise
from graphmp.compare.review.work import Work, work
from graphmp.graph.state.state import State
from graphmp.graph.structure.functions import unused_functions
from graphmp.once import once
from graphmp.tf_hooks.op_definitions import op_definitions


class Reviewed(Comparison):
    """A comparison and the facts of its review, each computed on first use."""

    @once
    def summary(self) -> Optional[Summary]:
        """The summary of a review; None if the graphs aren't known."""
        if not self.graphs:
            return None
        return summarise(self, self._running, self.work, self._state.is_write)

    @once
    def work(self) -> Dict[str, Work]:
        """The bytes that ops of the converted graph's training steps move, by path; or empty."""
        return work(self._running, self._state) if self.graphs else {}

    @once
    def _running(self) -> List[BodyPair]:
        """The bodies without functions that nothing uses."""
        assert self.graphs is not None
        unused = unused_functions(self.graphs[1].graph_def)
        return [body for body in self.bodies if body.name not in unused]

    @once
    def _state(self) -> State:
        """The writes of the converted graph."""
        assert self.graphs is not None
        return State(self.graphs[1], self.bodies[0].after, op_definitions(self.graphs[1]))
