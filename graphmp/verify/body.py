"""The proof of one body: the main graph, or a function's, on both sides."""

from __future__ import annotations

from typing import Iterator, Set

from graphmp.graph.view import Port
from graphmp.verify.checkpoints import Checkpoints
from graphmp.verify.clips import Clips
from graphmp.verify.erase import Erasure
from graphmp.verify.flags import Flags
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher
from graphmp.verify.order import Order
from graphmp.verify.roundings import roundings
from graphmp.verify.scales import TEMPLATES, Scales
from graphmp.verify.sides import Fault, Sides

_BY_PRODUCTS = frozenset(("BroadcastGradientArgs", "Const", "Identity", "Mul", "NoOp", "Reshape", "Shape", "Sum"))


class Body:
    """What was found in one body.

    Attributes:
        sides: the body before and after.
        scales: its loss scales.
        clips: its clips.
        checkpoints: what keeps its scales.
        gates: the gates of its writes.
        erasure: what its added nodes mean.
        order: who waits for whom.
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
        self.order = Order(sides, self._matcher, self.scales, self.gates, self.checkpoints, self.erasure)
        self.order.compare()
        sides.faults += roundings(sides, self.erasure)
        self.calls = self.erasure.calls

    def unexplained(self) -> Iterator[Fault]:
        """Added nodes that fit no template."""
        aside = self._aside()
        for name in sorted(self.sides.added - self._matcher.used - aside):
            found = self._matcher.match("idle", Port(name, 0))
            if found is None:
                yield Fault(name, "fits no template of what a conversion puts in")

    def _aside(self) -> Set[str]:
        """By-products of gradients that were put in: they compute something, and nobody reads it."""
        view = self.sides.after.view
        found: Set[str] = set()
        waiting = list(self.sides.added - self._matcher.used)
        while waiting:
            name = waiting.pop()
            is_one = self.erasure.step(name) is not None or view.nodes[name].op in _BY_PRODUCTS
            # An Identity of gradients waits for their group, that of a tf.cond for nothing.
            is_led = view.nodes[name].op == "Identity" and any(view.nodes[other].op != "NoOp" for other in view.controls(name))
            if name in found or not is_one or is_led or any(c.node not in found for c in view.consumers(name)):
                continue
            found.add(name)
            waiting.extend(port.node for port in view.inputs(name) if port.node in self.sides.added)
        return found
