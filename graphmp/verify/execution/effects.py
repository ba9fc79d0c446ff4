"""A node runs nothing that it doesn't run in the original: writes, random numbers, reads, prints.

It doesn't need a feed that it doesn't need there. Only groups of nodes may run the initialisers of
a loss scale's state.

A gated write runs what its flag depends on besides, and so do nodes behind it. A clipped gradient
runs what its norm is taken of. Gradients of a loss that was multiplied wait for that of its scale,
and so run the loss.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
from typing import Any, Container, Dict, Iterable, Iterator, List, Mapping

from graphmp.graph.structure.branches import Conditions
from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.view import GraphView
from graphmp.policy.op_sets import FED, NEXT_ITERATIONS, READS, VARIABLE_OPS
from graphmp.verify.sides import Fault
from graphmp.verify.skips.formulas import mentioned
from graphmp.verify.skips.gates import Gate

_EMPTY: Conditions = frozenset()
_NONE = VARIABLE_OPS | READS  # stateful ops that change nothing


class _Effects:
    """The effects of each node in both graphs, as sets of bits."""

    def __init__(self, body: Any):
        sides, gates, copies = body.sides, body.gates, body.erasure.copies
        self._sides = sides
        of_scales = {name for scale in body.scales.dynamic for name in scale.adapted}
        others = {name for name in sides.added if sides.after.state.is_write(name)}
        others -= {*of_scales, *copies}
        self.names: List[str] = [
            *(name for name in sides.before.view.nodes if self._has_effect(name)),
            *sorted(of_scales),
            *sorted(others),
        ]
        self._of_groups = (1 << len(self.names) - len(others)) - 1
        self._bits = {name: 1 << place for place, name in enumerate(self.names)}
        self.before = self._run_by(sides.before.view, {}, {})
        writes = {
            name: {name} if name in gates.of else body.order.stands_for(name)
            for name in {*gates.of, *sides.added}
        }
        known = {}
        for name, found in writes.items():
            bits = [self.before.get(copies.get(write, write), -1) for write in found]
            if -1 not in bits:
                known[name] = functools.reduce(operator.or_, bits)
        self.after = self._run_by(sides.after.view, known, body.clips.multiplied)
        self.scaled = self._of_scaled(body)

    def _of_scaled(self, body: Any) -> Dict[str, int]:
        """The effects behind what is multiplied by each loss scale."""
        found: Dict[str, int] = collections.defaultdict(int)
        for name in sorted(self._sides.added):
            step = body.erasure.step(name)
            if step is not None and step.power > 0:
                scaled = self._sides.after.view.inputs(name)[step.slot].node
                found[step.scale] |= self.before.get(scaled, 0)
        return found

    def _has_effect(self, name: str) -> bool:
        node = self._sides.before.view.nodes[name]
        return node.op not in _NONE and (
            node.op in FED
            or self._sides.before.is_stateful(name)
            or self._sides.before.state.is_write(name)
        )

    def _run_by(
        self, view: GraphView, known: Mapping[str, int], clipped: Container[str]
    ) -> Dict[str, int]:
        """The effects behind each node, in the same iteration of a loop.

        Not behind the norm of a clip, and of some nodes those that are known.
        """
        found: Dict[str, int] = collections.defaultdict(int)
        for name in whole_order(view):
            bits = self._bits.get(name, 0)
            inputs = view.inputs(name)[: 1 if name in clipped else None]
            for other in (*(port.node for port in inputs), *view.controls(name)):
                if view.nodes[other].op not in NEXT_ITERATIONS:
                    bits |= found[other]
            if view.nodes[name].op == "NoOp":
                bits &= self._of_groups
            found[name] = known.get(name, bits)
        return dict(found)

    def spelled(self, bits: int) -> str:
        """The first of some effects."""
        return next(name for place, name in enumerate(self.names) if bits >> place & 1)


def effect_faults(body: Any) -> Iterator[Fault]:
    """Nodes that run something with an effect that they do not run in the original.

    Those that die with a skipped step, as constants in a conditional do, may run what finds out.

    Args:
        body: the body, from body.py.
    """
    effects = _Effects(body)
    yield from _of_nodes(body, effects)
    yield from _of_gated_writes(body, effects)
    yield from _of_flags(body, effects)
    yield from _of_clips(body, effects)


def _of_nodes(body: Any, effects: _Effects) -> Iterator[Fault]:
    """Nodes of the original, other than gated writes."""
    sides = body.sides
    code = gradient_nodes(sides.before.view)
    scaled = functools.reduce(operator.or_, effects.scaled.values(), 0)
    conditions = (sides.before.conditions, sides.after.conditions)
    flags = _behind_flags(body, effects, itertools.chain(*body.gates.of.values()))
    for name, bits in effects.after.items():
        more = bits & ~effects.before.get(name, bits) & ~(scaled if name in code else 0)
        if conditions[1].get(name, _EMPTY) - conditions[0].get(name, _EMPTY):
            more &= ~flags
        if more:
            yield Fault(name, "runs %s, which it does not in the original" % effects.spelled(more))


def _of_gated_writes(body: Any, effects: _Effects) -> Iterator[Fault]:
    """Writes whose values or control inputs run more."""
    for name, found in body.gates.of.items():
        own = effects.before.get(body.erasure.copies.get(name, name), -1)
        for scale in frozenset().union(*(mentioned(gate.flag) for gate in found)):
            own |= effects.scaled.get(scale, 0)
        # A write without inputs that could be dead has its predicate as its value.
        runs = [
            effects.after[gate.value.node] & ~own for gate in found if gate.value != gate.predicate
        ]
        own |= _behind_flags(body, effects, found)
        view = body.sides.after.view
        others = (*(port.node for port in view.inputs(name)), *view.controls(name))
        runs += [effects.after[each] & ~own for each in others]
        for more in filter(None, runs):
            yield Fault(name, "runs %s, which it does not in the original" % effects.spelled(more))


def _of_flags(body: Any, effects: _Effects) -> Iterator[Fault]:
    """Flags that run what no write of their step does."""
    for scale in body.scales.dynamic:
        together = functools.reduce(
            operator.or_,
            (
                effects.before.get(body.erasure.copies.get(name, name), 0)
                for name, found in body.gates.of.items()
                if any(scale.name in mentioned(gate.flag) for gate in found)
            ),
            0,
        )
        more = effects.after[scale.finite.node] & ~together
        if more and together:
            yield Fault(
                scale.finite.node,
                "runs %s, and no write of its step does in the original" % effects.spelled(more),
            )


def _of_clips(body: Any, effects: _Effects) -> Iterator[Fault]:
    """Factors of clips that run more than the gradients of which the norm is taken."""
    for factor, clip in sorted(body.clips.by_factor.items()):
        own = functools.reduce(operator.or_, (effects.after[port.node] for port in clip.of), 0)
        more = effects.after[factor.node] & ~own
        if more:
            text = "runs %s, and no gradient that it clips does"
            yield Fault(factor.node, text % effects.spelled(more))


def _behind_flags(body: Any, effects: _Effects, gates: Iterable[Gate]) -> int:
    """The effects of finding out whether a step is skipped, and of adapting its scales."""
    names = {gate.predicate.node for gate in gates}
    flags = frozenset().union(*(mentioned(gate.flag) for gate in gates))
    for scale in body.scales.dynamic:
        if scale.name in flags:
            names |= scale.adapted
    return functools.reduce(operator.or_, (effects.after[name] for name in names), 0)
