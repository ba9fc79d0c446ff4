"""Divisions of a converted graph by its loss scales, taken from the proof, not from names."""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.policy.half_kernels import DEVICES
from graphmp.policy.op_sets import ENTERS
from graphmp.verify.body import BodyFindings
from graphmp.verify.functions import compared
from graphmp.verify.sides import Side, Sides
from graphmp.verify.structure.erase import Step

_HAND_ON = ENTERS | {"Cast", "Identity"}


class Dynamic(NamedTuple):
    """A dynamic loss scale.

    Attributes:
        variables: its variables: scale, good steps, skipped steps.
        checked: the outputs that its flag checks.
        interval: the number of good steps until it grows.
        floor: its minimum.
    """

    variables: Tuple[str, str, str]
    checked: FrozenSet[Port]
    interval: int
    floor: float


class Place(NamedTuple):
    """Input `slot` of `node` is multiplied or divided by the loss scale `scale`."""

    node: str
    slot: int
    scale: str


class GradientSource(NamedTuple):
    """A gradient that may be infinite.

    Attributes:
        node: the division of it, or else its producer.
        port: the infinite output.
        reader: the only affected input; None for all consumers.
    """

    node: str
    port: Port
    reader: Optional[Tuple[str, int]]


class FoundScales(NamedTuple):
    """The loss scales of a converted graph.

    Attributes:
        after: the converted graph.
        dynamic: the scales with state.
        multiplied: multiplications by a scale, with its variable's name, or a number as text.
        divided: divisions by a scale.
        numbers: the constants that are scales.
        copies: added constants that replace constants of the original.
        clips: the nodes that clip their first input, a gradient.
        begun: writes that write zeros in a skipped step, where sums of gradients begin.
        is_inside: whether functions or loops have dynamic scales, for the steps in them.
    """

    after: Side
    dynamic: List[Dynamic]
    multiplied: List[Place]
    divided: List[Place]
    numbers: List[str]
    copies: Dict[str, str]
    clips: List[str]
    begun: AbstractSet[str] = frozenset()
    is_inside: bool = False

    def of(self, other: tf.MetaGraphDef) -> FoundScales:
        """The same for a graph with the same nodes, of other types."""
        return self._replace(after=Side(other, other.graph_def))

    def sources(self, scale: Dynamic) -> List[GradientSource]:
        """The origins of infinities.

        Values divided by a scale, and values that a flag checks besides.

        The latter are fed, or taken out of accumulators.
        """
        view = self.after.view
        divided = [place for place in self.divided if place.scale == scale.variables[0]]
        behind = view.descendants([place.node for place in divided], control=False)
        found = [
            GradientSource(
                place.node, view.inputs(place.node)[place.slot], (place.node, place.slot)
            )
            for place in divided
        ]
        return found + [
            GradientSource(port.node, port, None)
            for port in sorted(scale.checked)
            if port.node not in behind
        ]


def find_scales(original: tf.MetaGraphDef, converted: tf.MetaGraphDef) -> FoundScales:
    """Find the scales of a converted graph, outside of functions."""
    body, functions = compared(
        Sides(Side(original, original.graph_def), Side(converted, converted.graph_def)), DEVICES
    )
    dynamic = [
        Dynamic(
            scale.state.variables,
            scale.checked,
            int(scale.parameters["loss_scale_growth_interval"]),
            scale.parameters["loss_scale_min"],
        )
        for scale in body.scales.dynamic
        if not body.sides.after.frames.get(
            scale.finite.node
        )  # in loops they have handles, which can't be read from outside
    ]
    seen = [(name, step) for name, step in body.erasure.steps.items() if step is not None]
    by_name = {name: (name, step) for name, step in seen + list(_by_variables(body, dynamic))}
    multiplied, divided = (
        [
            Place(name, step.slot, step.scale)
            for name, step in sorted(by_name.values())
            if step.power == power
        ]
        for power in (1, -1)
    )
    numbers = {
        _source(body.sides.after, Port(place.node, 0), 1 - place.slot)
        for place in [*multiplied, *divided]
    }
    view = body.sides.after.view
    constants = sorted(name for name in numbers if view.nodes[name].op == "Const")
    copies = {
        name: old for name, old in body.erasure.copies.items() if view.nodes[name].op == "Const"
    }
    return FoundScales(
        body.sides.after,
        dynamic,
        multiplied,
        divided,
        constants,
        copies,
        sorted(body.clips.multiplied),
        frozenset(body.gates.zeros),
        len(body.scales.dynamic) > len(dynamic)
        or any(each.scales.dynamic for each in functions.bodies.values()),
    )


def _source(side: Side, port: Port, slot: int) -> str:
    """The producer of an input, behind copies, casts and entries into loops."""
    return side.view.behind(side.view.inputs(port.node)[slot], _HAND_ON).node


def _by_variables(body: BodyFindings, dynamic: List[Dynamic]) -> Iterator[Tuple[str, Step]]:
    """Added nodes that multiply or divide by the variable of a scale, anywhere.

    Not those by a number, which may have any purpose.
    """
    variables = {scale.variables[0] for scale in dynamic}
    for name in sorted(body.sides.added):
        step = body.erasure.step(name)
        if step is not None and step.scale in variables:
            yield name, step
