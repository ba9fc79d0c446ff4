"""The erased converted graph must equal the original, edge for edge.

Erasing replaces all that was inserted by what it means. `same` tells whether an output of the
converted graph has the value of one of the original, up to rounding, a loss scale and a clip. It
has if

1. it is that output itself: nodes keep their names;
2. it is a cast between floating-point types, or a copy, of such an output;
3. it is such an output times or divided by a loss scale, or times the factor of a clip;
4. it is computed by a copy of the original's node: same op, attributes and inputs, except for
   changes by half precision;
5. at a write, it is the value behind a gate.
"""

from __future__ import annotations

from typing import Dict, Iterator, NamedTuple, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port, parse_input
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import ADDS, IDENTITIES, MERGES, PLACEHOLDERS
from graphmp.verify.scales.checkpoints import Checkpoints
from graphmp.verify.scales.clips import Clips
from graphmp.verify.scales.scales import Scales
from graphmp.verify.sides import Sides, fetched, keeps_names
from graphmp.verify.skips.gates import Gates
from graphmp.verify.structure import attributes
from graphmp.verify.structure.calls import BodyCalls
from graphmp.verify.structure.matcher import Matcher, same_op
from graphmp.wording import with_article

_COPIES = IDENTITIES | {"Snapshot"}
_COMMUTE = ADDS | {"Mul"}


class Step(NamedTuple):
    """A multiplication or division by a loss scale.

    Attributes:
        slot: the input slot of the value.
        scale: the loss scale.
        power: 1 or -1.
    """

    slot: int
    scale: str
    power: int


class Erasure:
    """Compares the two graphs.

    Attributes:
        steps: the added nodes that multiply or divide by a loss scale.
        copies: the added nodes that copy a node of the original, with that.
        used: added nodes that have been explained.
        calls: pairs of functions that nodes of the two graphs call.
    """

    def __init__(
        self,
        sides: Sides,
        matcher: Matcher,
        scales: Scales,
        clips: Clips,
        gates: Gates,
        checkpoints: Checkpoints,
        called: BodyCalls,
    ):
        self._sides, self._matcher, self._scales, self._clips, self._gates = (
            sides,
            matcher,
            scales,
            clips,
            gates,
        )
        self._checkpoints, self._called = checkpoints, called
        self._before, self._after = sides.before.view, sides.after.view
        self._known: Dict[Tuple[Port, Port], bool] = {}
        self.copies: Dict[str, str] = {}
        self.steps: Dict[str, Optional[Step]] = {}
        self.used = matcher.used
        self.calls: Set[Tuple[str, str]] = set()

    def compare(self) -> None:
        """Report every node of the original that the converted graph computes differently."""
        for name in self._before.nodes:
            if name in self._after.nodes:
                self._compare(name)
        for name in self._sides.gone():
            if not self._is_replaced(name):
                self._sides.fault(name, "is gone")

    def _is_replaced(self, name: str) -> bool:
        """Whether a missing node is an unfetched sum, copy or read of a variable with a substitute.

        A substitute for a read waits for the same nodes, and what waits for the read's consumers
        waits for it.
        """
        return (
            not keeps_names(self._sides.after.meta_graph)
            and self._before.nodes[name].op in ("AddN", "Identity", "ReadVariableOp")
            and name not in fetched(self._sides.before.meta_graph)
            and self.is_found(name)
        )

    def _compare(self, name: str) -> None:
        before, after = self._before.nodes[name], self._after.nodes[name]
        if self._sides.is_moved(name):
            if not self.same(self._after.inputs(name)[0], Port(name, 0), moved=True):
                self._sides.fault(
                    name,
                    "does not give what it does in the original, where it is %s"
                    % with_article(before.op),
                )
            return
        if before.op == "SaveV2":
            self._checkpoints.compare_saves(name, self.same)
            return
        if self._sides.may_call(before):
            self.calls.update(attributes.functions(before, after))
        if before == after:
            return
        text = attributes.changed(
            before, after, self._sides.are_calls(before, after), bool(self._called.more(name))
        )
        if text is not None:
            self._sides.fault(name, text)
        if not before.op == after.op == "AddN":
            self._inputs(name)
        elif not self._is_sum(self._after.inputs(name), name):
            self._sides.fault(name, "does not add up what it does in the original")

    def _inputs(self, name: str) -> None:
        old, new = self._before.inputs(name), self._after.inputs(name)
        new = new[
            : len(new) - self._called.more(name)
        ]  # inputs for added arguments are checked in calls.py
        if len(old) != len(new):
            self._sides.fault(name, "has %d inputs, in the original %d" % (len(new), len(old)))
            return
        given = [self._gates.behind(name, slot, port) for slot, port in enumerate(new)]
        wrong = [
            slot
            for slot, (wanted, port) in enumerate(zip(old, given))
            if not self.same(port, wanted)
        ]
        commutes = (
            self._before.nodes[name].op in _COMMUTE
            and self._sides.before.is_float(Port(name, 0))
            and all(map(self.same, reversed(given), old))
        )
        for slot in wrong if not commutes else ():
            self._sides.fault(
                name, "reads %s in place %d, in the original %s" % (new[slot], slot, old[slot])
            )

    def same(self, port: Port, wanted: Port, moved: bool = False) -> bool:
        """Whether an output of the converted graph has the value of one of the original.

        Args:
            port: the one.
            wanted: the other.
            moved: whether the node of that name only returns the result of another one.
        """
        if port == wanted and not moved:
            return True
        key = (port, wanted)
        if key not in self._known:
            self._known[key] = False  # a cycle is no proof
            self._known[key] = self._same(port, wanted)
        return self._known[key]

    def _same(self, port: Port, wanted: Port) -> bool:
        original = self._before.nodes[wanted.node]
        if port.node in self._sides.added:
            inner = None if self._reads_later(port.node) else self.through(port)
            if inner is not None:
                if self.same(inner, wanted):
                    self.used.add(port.node)
                    return True
            elif self._is_copy(port, wanted):
                return True
        if original.op == "AddN" and wanted.node not in self._after.nodes:
            return self._is_sum((port,), wanted.node)
        if (
            original.op in _COPIES and wanted.output == 0
        ):  # the original's own copies are skipped too
            return self.same(
                port, self._before.inputs(wanted.node)[0]
            ) and self._waits_for_the_same(port, wanted.node)
        return False

    def _reads_later(self, name: str) -> bool:
        """Whether an added node reads a reference variable, and waits for something before."""
        return bool(self._after.controls(name)) and any(
            map(self._sides.after.is_reference, self._after.inputs(name))
        )

    def through(self, port: Port) -> Optional[Port]:
        """The input that an added node returns, up to rounding, scale and clip.

        None for other nodes.
        """
        node, inputs = self._after.nodes[port.node], self._after.inputs(port.node)
        if port.output:
            return None
        if node.op in _COPIES:
            return inputs[0]
        if node.op == "Cast":
            return inputs[0] if self._sides.is_cast(port.node) else None
        if same_op(node.op) in MERGES:
            return self._gates.alive(port)
        step = self.step(port.node)
        if step is not None:
            return inputs[step.slot]
        return self._of_its_shape(port) if node.op == "Reshape" else self._clips.clipped(port)

    def _of_its_shape(self, port: Port) -> Optional[Port]:
        """The gradient of a loss's elements, reshaped to the loss after the multiplication."""
        found = self._matcher.match("of_its_shape", port)
        step = self.step(found["x"].node) if found is not None else None
        if found is None or step is None or self._scales.at(found["scale"]) != step.scale:
            return None
        start = self._after.nodes[self._after.inputs(found["x"].node)[0].node]
        shape = self._after.nodes[parse_input(start.input[0]).node] if start.op == "Fill" else start
        of = self._after.inputs(shape.name)[0] if shape.op == "Shape" else None
        while of is not None and of != found["loss"]:
            inner = self.step(of.node)
            of = (
                self._after.inputs(of.node)[inner.slot]
                if inner is not None and inner.scale == step.scale
                else None
            )
        if of is None:
            return None
        self._matcher.keep(found)
        return Port(*found["x"])

    def step(self, name: str) -> Optional[Step]:
        """The multiplication or division by a loss scale in a node; None if it is neither."""
        if name not in self.steps:
            self.steps[name] = self._step(name)
        return self.steps[name]

    def _step(self, name: str) -> Optional[Step]:
        node, inputs = self._after.nodes[name], self._after.inputs(name)
        if (
            name not in self._sides.added
            or name in self._matcher.kept
            or node.op not in ("Mul", "RealDiv")
        ):
            return None
        scale = self._scales.at(inputs[1])
        if scale is not None:
            return Step(0, scale, 1 if node.op == "Mul" else -1)
        return None

    def _is_copy(self, port: Port, wanted: Port) -> bool:
        """Whether an added node computes the same as a node of the original."""
        before, after = self._before.nodes[wanted.node], self._after.nodes[port.node]
        are_calls = self._sides.are_calls(before, after)
        if (
            port.output != wanted.output
            or not (before.op == after.op or are_calls)
            or self._keeps_state(wanted.node, port.node)
        ):
            return False
        if attributes.changed(self._placed_like(before, after), after, are_calls) is not None:
            return False
        old, new = self._before.inputs(wanted.node), self._after.inputs(port.node)
        if len(old) != len(new) or not all(
            self.same(self._gates.behind(port.node, slot, n), o)
            for slot, (n, o) in enumerate(zip(new, old))
        ):
            return False
        self.used.add(port.node)
        self.calls.update(attributes.functions(before, after))
        self.copies[port.node] = wanted.node
        return True

    def _is_sum(self, ports: Sequence[Port], wanted: str) -> bool:
        """Whether outputs add up to the value of an original sum, in any order and grouping."""
        terms = [term for port in ports for term in self._terms(port)]
        left = list(self._terms_before(wanted))
        if len(terms) != len(left):
            return False
        for term in terms:
            found = next((place for place, each in enumerate(left) if self.same(term, each)), None)
            if found is None:
                return False
            left.pop(found)
        return True

    def _terms(self, port: Port) -> Iterator[Port]:
        """The terms of an output of the converted graph, through added sums.

        Itself if it is no such sum.
        """
        inner = port
        passed = []
        while inner.node in self._sides.added and self._after.nodes[inner.node].op != "AddN":
            passed.append(inner.node)
            behind = self.through(inner)
            if behind is None:
                break
            inner = behind
        if inner.node not in self._sides.added or self._after.nodes[inner.node].op != "AddN":
            yield port
            return
        self.used.update([*passed, inner.node])
        for each in self._after.inputs(inner.node):
            yield from self._terms(each)

    def _terms_before(self, name: str) -> Iterator[Port]:
        """The terms of a sum of the original, through sums missing in the converted graph."""
        for port in self._before.inputs(name):
            if self._before.nodes[port.node].op == "AddN" and port.node not in self._after.nodes:
                yield from self._terms_before(port.node)
            else:
                yield port

    def _keeps_state(self, name: str, copy: str) -> bool:
        """Whether two nodes of a kind do more than one: random numbers, queues, writes, feeds.

        One that replaces another is no second one: what the other has become passes it on.
        """
        before = self._sides.before
        is_fed = self._before.nodes[name].op in PLACEHOLDERS
        if not (is_fed or before.is_stateful(name) or before.state.is_write(name)):
            return False
        if name not in self._after.nodes:
            return is_fed
        if self._after.nodes[name].op != "Identity":
            return True
        port: Optional[Port] = self._after.inputs(name)[0]
        while port is not None and port.node in self._sides.added and port.node != copy:
            port = self.through(port)
        return port is None or port.node != copy

    def _placed_like(self, before: tf.NodeDef, after: tf.NodeDef) -> tf.NodeDef:
        """The original's node on the device of a copy.

        Constants and casts are placed at their consumers.
        """
        placed = tf.NodeDef()
        placed.CopyFrom(before)
        placed.device = after.device
        return placed

    def _waits_for_the_same(self, port: Port, name: str) -> bool:
        """Whether the substitute for a node waits for the same nodes."""
        controls = set(self._before.controls(name))
        while controls and port.node in self._sides.added:
            controls -= set(self._after.controls(port.node))
            inner = self.through(port)
            if inner is None:
                break
            port = inner
        return not controls

    def divisions(self) -> Dict[Port, str]:
        """The outputs that are divided by a loss scale, with that."""
        return {
            Port(name, 0): step.scale
            for name, step in self.steps.items()
            if step is not None and step.power < 0
        }

    def products(self) -> Dict[Port, str]:
        """The outputs that are multiplied by a loss scale, such as scaled seeds, with that."""
        return {
            Port(name, 0): step.scale
            for name, step in self.steps.items()
            if step is not None and step.power > 0
        }

    def is_unscaled(self, name: str) -> bool:
        """Whether a node copies a value divided by a scale, directly or through added nodes."""
        if self._after.nodes[name].op not in _COPIES:
            return False

        def is_division(port: Port) -> bool:
            step = self.step(port.node)
            return step is not None and step.power < 0

        def inside(port: Port) -> Iterator[Port]:
            inner = None if is_division(port) else self.through(port)
            if inner is not None:
                yield inner

        found = reached(
            self._after.inputs(name), inside, lambda port: port.node in self._sides.added
        )
        return any(map(is_division, found))

    def is_found(self, name: str) -> bool:
        """Whether an output of the converted graph has the value of a node of the original."""
        return any(wanted.node == name and same for (_, wanted), same in self._known.items())
