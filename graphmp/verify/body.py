"""The proof of one body: the main graph, or a function's, before and after."""

from __future__ import annotations

import collections
from typing import Any, DefaultDict, Dict, FrozenSet, Iterator, Optional, Set

from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import RESULT
from graphmp.verify.dtypes.roundings import roundings
from graphmp.verify.execution.devices import device_faults, placement_faults
from graphmp.verify.execution.effects import effect_faults
from graphmp.verify.execution.ends import Ends
from graphmp.verify.execution.late import late_faults
from graphmp.verify.execution.lives import Lives
from graphmp.verify.execution.order import Order
from graphmp.verify.scales.checkpoints import Checkpoints
from graphmp.verify.scales.clips import Clips
from graphmp.verify.scales.scales import TEMPLATES, Scales
from graphmp.verify.scales.ways import Ways, hidden
from graphmp.verify.sides import Fault, Sides
from graphmp.verify.skips.flags import Flags
from graphmp.verify.skips.gates import Gates, written
from graphmp.verify.structure.attributes import strange_attributes
from graphmp.verify.structure.calls import BodyCalls
from graphmp.verify.structure.erase import Erasure
from graphmp.verify.structure.matcher import Matcher

_BY_PRODUCTS = frozenset(
    ("BroadcastGradientArgs", "Cast", "Const", "Identity", "Mul", "NoOp", "Reshape", "Shape", "Sum")
)


class BodyFindings:
    """The findings in one body.

    Attributes:
        sides: the body before and after.
        scales: its loss scales.
        clips: its clips.
        checkpoints: saves and restores of its scales.
        gates: the gates of its writes.
        erasure: the meaning of its added nodes.
        order: its control edges.
        ends: the nodes of the original that run together.
        ways: the paths of values.
        sources: the outputs that are divided by a dynamic scale, with that scale.
        called: the calls of functions with known bodies.
        calls: the functions that it calls, in pairs.
    """

    def __init__(self, sides: Sides, functions: Any):
        """`functions`: those of both graphs, from functions.py."""
        self.sides = sides
        self._matcher = Matcher(sides.after.view, sides.added, TEMPLATES)
        self._matcher.used |= sides.more_arguments
        self.called = BodyCalls(sides, self._matcher, functions)
        self.scales = Scales(sides, self._matcher, self.called)
        self.clips = Clips(sides, self._matcher)
        self.flags = Flags(sides, self._matcher, self.scales)
        self.gates = Gates(sides, self._matcher, self.flags)
        self.checkpoints = Checkpoints(sides, self._matcher, self.scales)
        self.erasure = Erasure(
            sides, self._matcher, self.scales, self.clips, self.gates, self.checkpoints, self.called
        )
        self.erasure.compare()
        self.gates.by_waiting()
        self.order = Order(
            sides, self._matcher, self.scales, self.gates, self.checkpoints, self.erasure
        )
        self.order.compare()
        Lives(sides, self.gates).compare()
        sides.faults += [*roundings(sides, self.erasure), *device_faults(sides)]
        sides.faults += placement_faults(sides)
        sides.faults += strange_attributes(sides, self.erasure.copies)
        sides.faults += late_faults(sides)
        sides.faults += effect_faults(self)
        self.ends = Ends(sides)
        self.ways = Ways(sides, self.scales.nodes)
        self.sources = self._sources()
        sides.faults += self.called.faults(self.scales)
        self.calls = self.erasure.calls
        self._matcher.used |= set(self._known_results())

    def _known_results(self) -> Iterator[str]:
        """Added results that are flags, or unchanged added arguments."""
        view = self.sides.after.view
        for name in sorted(self.sides.added):
            if view.nodes[name].op == RESULT:
                port = self.plain(view.inputs(name)[0])
                if port.node in self.sides.more_arguments or self.flags.of_result(port) is not None:
                    yield name

    def _sources(self) -> Dict[Port, FrozenSet[str]]:
        """Divisions by dynamic scales, including those inside calls."""
        found = {port: frozenset((scale,)) for port, scale in self.erasure.divisions().items()}
        for call in self.called:
            for place, scales in self.called.gradients(call).items():
                named = (
                    self.scales.named_at(scale, self.called.bound(call, function))
                    for function, scale in scales
                )
                found[hidden(Port(call.name, place))] = frozenset(
                    scale for scale in named if scale is not None
                )
        adapting = {port: scales & self.scales.adapting for port, scales in found.items()}
        return {port: scales for port, scales in adapting.items() if scales}

    def named(self, node: str, function: str, scale: str) -> Optional[str]:
        """The name in this body for a scale of a function that a node calls."""
        call = self.called.call(node)
        found = (
            [each for each in call.functions if each.name == function] if call is not None else []
        )
        return (
            self.scales.named_at(scale, self.called.bound(call, found[0]))
            if call is not None and found
            else scale
        )

    def plain(self, port: Port) -> Port:
        """The output behind copies."""
        return self._matcher.plain(port)

    def unexplained(self) -> Iterator[Fault]:
        """Added nodes that fit no template."""
        aside = self._aside()
        for name in sorted(self.sides.added - self._matcher.used - aside):
            found = self._matcher.match("idle", Port(name, 0))
            if found is None and not self._lives_on(name):
                yield Fault(name, "fits no template of what a conversion puts in")
        yield from self._groups()

    def _lives_on(self, name: str) -> bool:
        """Whether an added node stays alive behind a gated write, for nodes that wait for it."""
        found = self._matcher.match("alive", Port(name, 0)) or self._matcher.match(
            "applied", Port(name, 0)
        )
        writes = written(found) if found is not None else frozenset()
        return bool(writes) and writes <= self.gates.of.keys()

    def _groups(self) -> Iterator[Fault]:
        """Groups of inserted gradients that aren't those of the copies that wait for them.

        Nobody reads one of an op's gradients before all are there.
        """
        view = self.sides.after.view
        copied: DefaultDict[str, Set[str]] = collections.defaultdict(set)
        for name in self.sides.added:
            if view.nodes[name].op == "Identity" and self.sides.after.is_float(Port(name, 0)):
                for group in view.controls(name):
                    copied[group].add(view.inputs(name)[0].node)
        for group in sorted(copied.keys() & self.sides.added):
            members = set(view.controls(group)) if view.nodes[group].op == "NoOp" else set()
            missing, more = copied[group] - members, members - copied[group]
            if members & copied[group] and (missing or more & self.sides.added):
                yield Fault(group, "groups other gradients than those whose copies wait for it")

    def _aside(self) -> Set[str]:
        """Unread by-products of inserted gradients."""
        view = self.sides.after.view
        found: Set[str] = set()
        waiting = list(self.sides.added - self._matcher.used)
        while waiting:
            name = waiting.pop()
            is_one = self.erasure.step(name) is not None or view.nodes[name].op in _BY_PRODUCTS
            # An Identity of gradients waits for their group, one of a tf.cond for nothing.
            is_led = view.nodes[name].op == "Identity" and any(
                view.nodes[other].op != "NoOp" for other in view.controls(name)
            )
            if (
                name in found
                or not is_one
                or is_led
                or any(c.node not in found for c in view.consumers(name))
            ):
                continue
            found.add(name)
            waiting.extend(port.node for port in view.inputs(name) if port.node in self.sides.added)
        return found
