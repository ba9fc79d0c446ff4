"""The proof of one body: the main graph, or a function's, on both sides."""

from __future__ import annotations

from typing import Iterator

from graphmp.graph.view import Port
from graphmp.verify.checkpoints import Checkpoints
from graphmp.verify.clips import Clips
from graphmp.verify.erase import Erasure
from graphmp.verify.flags import Flags
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher
from graphmp.verify.order import Order
from graphmp.verify.scales import TEMPLATES, Scales
from graphmp.verify.sides import Fault, Sides


class Body:
    """What was found in one body.

    Attributes:
        sides: the body before and after.
        scales: its loss scales.
        clips: its clips.
        checkpoints: what keeps its scales.
        gates: the gates of its writes.
        erasure: what its added nodes mean.
        calls: the functions that it calls, side by side.
    """

    def __init__(self, sides: Sides):
        self.sides = sides
        self._matcher = Matcher(sides.after.view, sides.added, TEMPLATES)
        self.scales = Scales(sides, self._matcher)
        self.clips = Clips(sides, self._matcher)
        self.gates = Gates(sides, self._matcher, Flags(sides, self._matcher, self.scales))
        self.checkpoints = Checkpoints(sides, self._matcher, self.scales)
        self.erasure = Erasure(sides, self._matcher, self.scales, self.clips, self.gates, self.checkpoints)
        self.erasure.compare()
        self.gates.by_waiting()
        Order(sides, self._matcher, self.scales, self.gates, self.checkpoints, self.erasure).compare()
        sides.faults += self.erasure.roundings()
        self.calls = self.erasure.calls

    def unexplained(self) -> Iterator[Fault]:
        """Added nodes that fit no template."""
        for name in sorted(self.sides.added - self._matcher.used):
            found = self._matcher.match("idle", Port(name, 0))
            if found is None:
                yield Fault(name, "fits no template of what a conversion puts in")
