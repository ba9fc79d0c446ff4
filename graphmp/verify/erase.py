"""The converted graph with all that was put in taken for what it means must be the original, edge for edge.

`same` says whether an output of the converted graph holds what one of the original does, up to rounding, a loss scale and a clip. It is, where

1. it is that output itself: nodes keep their names;
2. it is a cast, between floating-point types, or a copy of such an output;
3. it is such an output times or divided by a loss scale, or times the factor of a clip;
4. it is made by a copy of the original's node: same op, attributes and inputs, but for what half precision changes;
5. at a write, it is the value that this takes behind a gate.
"""

from __future__ import annotations

from typing import Dict, Iterator, NamedTuple, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.control_flow import MERGES
from graphmp.graph.dtypes import FLOAT32, FLOATS, HALF
from graphmp.graph.view import Port
from graphmp.verify import attributes
from graphmp.verify.checkpoints import Checkpoints
from graphmp.verify.clips import Clips
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher, same_op
from graphmp.verify.scales import Scales
from graphmp.verify.sides import Fault, Sides, attribute

_COPIES = frozenset(("Identity", "RefIdentity", "Snapshot"))


class Step(NamedTuple):
    """A multiplication or division by a loss scale.

    Attributes:
        slot: which input is the value.
        scale: which loss scale.
        power: 1 or -1.
    """

    slot: int
    scale: str
    power: int


class Erasure:
    """Compares the two sides.

    Attributes:
        steps: the added nodes that multiply or divide by a loss scale.
        copies: the added nodes that compute what one of the original does, with that.
        used: added nodes that have been explained.
        calls: pairs of functions that nodes of the two sides call.
    """

    def __init__(self, sides: Sides, matcher: Matcher, scales: Scales, clips: Clips, gates: Gates, checkpoints: Checkpoints):
        self._sides, self._matcher, self._scales, self._clips, self._gates = sides, matcher, scales, clips, gates
        self._checkpoints = checkpoints
        self._before, self._after = sides.before.view, sides.after.view
        self._known: Dict[Tuple[Port, Port], bool] = {}
        self.copies: Dict[str, str] = {}
        self.steps: Dict[str, Optional[Step]] = {}
        self.used = matcher.used
        self.calls: Set[Tuple[str, str]] = set()

    def compare(self) -> None:
        """Notes every node of the original that the converted graph computes otherwise."""
        for name in self._before.nodes:
            if name in self._after.nodes:
                self._compare(name)

    def _compare(self, name: str) -> None:
        before, after = self._before.nodes[name], self._after.nodes[name]
        if after.op == "Identity" and before.op != "Identity":
            if not self.same(self._after.inputs(name)[0], Port(name, 0), moved=True):
                self._sides.fault(name, "does not give what it does in the original, where it is a %s" % before.op)
            return
        if before.op == "SaveV2":
            self._checkpoints.compare_saves(name, self.same)
            return
        text = attributes.changed(before, after, self._sides.are_calls(before, after))
        if text is not None:
            self._sides.fault(name, text)
        self.calls.update(attributes.functions(before, after))
        self._inputs(name)

    def _inputs(self, name: str) -> None:
        old, new = self._before.inputs(name), self._after.inputs(name)
        if len(old) != len(new):
            self._sides.fault(name, "has %d inputs, in the original %d" % (len(new), len(old)))
            return
        for slot, (wanted, port) in enumerate(zip(old, new)):
            if not self.same(self._gates.behind(name, slot, port), wanted):
                self._sides.fault(name, "reads %s in place %d, in the original %s" % (port, slot, wanted))

    def same(self, port: Port, wanted: Port, moved: bool = False) -> bool:
        """Whether an output of the converted graph holds what one of the original does.

        Args:
            port: the one.
            wanted: the other.
            moved: whether the node of that name only gives back what another one computes.
        """
        if port == wanted and not moved:
            return True
        key = (port, wanted)
        if key not in self._known:
            self._known[key] = False  # what leads back to itself is no proof
            self._known[key] = self._same(port, wanted)
        return self._known[key]

    def _same(self, port: Port, wanted: Port) -> bool:
        original = self._before.nodes[wanted.node]
        if port.node in self._sides.added:
            inner = self._through(port)
            if inner is not None:
                if self.same(inner, wanted):
                    self.used.add(port.node)
                    return True
            elif self._is_copy(port, wanted):
                return True
        if original.op in _COPIES and wanted.output == 0:  # the original looks through its own copies
            return self.same(port, self._before.inputs(wanted.node)[0]) and self._waits_for_the_same(port, wanted.node)
        return False

    def _through(self, port: Port) -> Optional[Port]:
        """The input of an added node that its output is, up to rounding, scale and clip; None where it is no such node."""
        node, inputs = self._after.nodes[port.node], self._after.inputs(port.node)
        if port.output:
            return None
        if node.op in _COPIES:
            return inputs[0]
        if node.op == "Cast":
            both = node.attr["SrcT"].type in FLOATS and node.attr["DstT"].type in FLOATS and not attribute(node, "Truncate").b
            return inputs[0] if both else None
        if same_op(node.op) in MERGES:
            return self._gates.alive(port)
        step = self.step(port.node)
        if step is not None:
            return inputs[step.slot]
        return self._clips.clipped(port)

    def step(self, name: str) -> Optional[Step]:
        """The multiplication or division by a loss scale that a node is; None where it is none."""
        if name not in self.steps:
            self.steps[name] = self._step(name)
        return self.steps[name]

    def _step(self, name: str) -> Optional[Step]:
        node, inputs = self._after.nodes[name], self._after.inputs(name)
        if name not in self._sides.added or name in self._matcher.kept or node.op not in ("Mul", "RealDiv"):
            return None
        scale = self._scales.at(inputs[1])
        if scale is not None:
            return Step(0, scale, 1 if node.op == "Mul" else -1)
        return None

    def _is_copy(self, port: Port, wanted: Port) -> bool:
        """Whether an added node computes what one of the original does."""
        before, after = self._before.nodes[wanted.node], self._after.nodes[port.node]
        if port.output != wanted.output or (before.op != after.op and not self._sides.are_calls(before, after)):
            return False
        if attributes.changed(self._placed_like(before, after), after, self._sides.are_calls(before, after)) is not None or self._keeps_state(
            wanted.node
        ):
            return False
        old, new = self._before.inputs(wanted.node), self._after.inputs(port.node)
        if len(old) != len(new) or not all(self.same(self._gates.behind(port.node, slot, n), o) for slot, (n, o) in enumerate(zip(new, old))):
            return False
        self.used.add(port.node)
        self.calls.update(attributes.functions(before, after))
        self.copies[port.node] = wanted.node
        return True

    def _keeps_state(self, name: str) -> bool:
        """Whether two nodes of its kind would not give the same: random numbers, queues. One that stands in for another is no second one."""
        moved = self._after.nodes[name].op == "Identity" if name in self._after.nodes else True
        return self._sides.before.is_stateful(name) and not moved

    def _placed_like(self, before: tf.NodeDef, after: tf.NodeDef) -> tf.NodeDef:
        """The original's node on the device of a copy: constants and casts go where they are read."""
        placed = tf.NodeDef()
        placed.CopyFrom(before)
        placed.device = after.device
        return placed

    def _waits_for_the_same(self, port: Port, name: str) -> bool:
        """Whether what stands for a copy of the original's waits for what that waits for."""
        controls = set(self._before.controls(name))
        while controls and port.node in self._sides.added:
            controls -= set(self._after.controls(port.node))
            inner = self._through(port)
            if inner is None:
                break
            port = inner
        return not controls

    def divisions(self) -> Dict[Port, str]:
        """The outputs that are divided by a loss scale, with that."""
        return {Port(name, 0): step.scale for name, step in self.steps.items() if step is not None and step.power < 0}

    def is_unscaled(self, name: str) -> bool:
        """Whether a node is a copy of what has been divided by a scale, itself or by way of added nodes."""
        if self._after.nodes[name].op not in _COPIES:
            return False
        waiting = [port for port in self._after.inputs(name) if port.node in self._sides.added]
        while waiting:
            port = waiting.pop()
            step = self.step(port.node)
            if step is not None and step.power < 0:
                return True
            inner = self._through(port)
            if inner is not None and inner.node in self._sides.added:
                waiting.append(inner)
        return False

    def roundings(self) -> Iterator[Fault]:
        """Casts from half precision of what another cast took there: nothing between computes in it."""
        for name in sorted(self._sides.added):
            if self._casts(name, FLOAT32):
                port = self._after.inputs(name)[0]
                while port.node in self._sides.added and not self._casts(port.node, *HALF):
                    inner = self._through(port)
                    if inner is None:
                        break
                    port = inner
                if port.node in self._sides.added and self._casts(port.node, *HALF):
                    yield Fault(name, "gives back what %s has rounded, and nothing between them computes in half precision" % port.node)

    def _casts(self, name: str, *dtypes: int) -> bool:
        node = self._after.nodes[name]
        return node.op == "Cast" and attribute(node, "DstT").type in dtypes and attribute(node, "SrcT").type in FLOATS
