"""Painting: the dtype of each unit by the op policy, before casts are placed.

Rules, the first match counts:

1. Pinned units are float32.
2. --force_compute: half, if the op supports it.
3. Range guard (`ranges.py`, `precision.py`): float32, and it counts as denied.
4. allow: half. Allow ops end every chain of the rules below. The last one of the forward pass is a
   sum if it gives one number, as a loss by a dot product: float32, and it counts as denied.
5. deny: float32. So is Softmax, LogSoftmax or Sigmoid behind the last allow op of the forward pass
   (it leads to a loss or an output), and nonlinear gradient code of a denied op. Ops on no list are
   float32.
6. infer, downstream of a denied unit through infer and clear units: float32. In `Exp -> Mul -> Add
   -> MatMul`, Mul and Add are float32, MatMul half. An op with bounded results ends the chain: in
   `Exp -> Tanh -> Mul -> MatMul`, Tanh is float32, Mul free. In gradient code so do the Sum of a
   Softmax, a mean weighted by probabilities, and the Exp of an Erf; also a Rsqrt of a variance and
   an epsilon that half precision holds.
7. infer: free between allow ops (`MatMul -> BiasAdd -> MatMul`), behind the end of a chain as
   behind an allow op, a bias behind one, and in gradient code behind one; else float32. A sum of up
   to eight gradients that leaves gradient code is a variable's: float32, and so is a sum in a loop.
8. clear: free next to an allow op, if it reads only a shape or only its shape is read, or if it
   fills with a constant; else float32. A Sum counts as clear if it is indifferent
   (`gradient_facts.py`).

Free units are decided by the minimum cut.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Dict, Iterable, List, NamedTuple, Set

from graphmp.config import Config
from graphmp.graph.shapes.shapes import recorded_size
from graphmp.policy.op_sets import RESULT
from graphmp.policy.policy import Policy
from graphmp.policy.reason import (
    ALLOW,
    CLEAR,
    DENY,
    DOWNSTREAM,
    GRADIENT,
    GROUP,
    INFER,
    LAST_ACTIVATION,
    LOSS,
    UNLISTED,
    Reason,
    user_rule,
)
from graphmp.policy.traits import (
    BOUNDED,
    BOUNDED_OFF_ZERO,
    FORGETS_VALUES,
    LAST_ACTIVATIONS,
    NONLINEAR_DENIED,
)
from graphmp.rewrite.painting.chain_ends import may_end, no_way_on
from graphmp.rewrite.painting.gradient_facts import GradientFacts
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.pins import unsupported
from graphmp.rewrite.range_guard.ranges import is_off_zero
from graphmp.rewrite.units import OTHER, TypedGraph, matched
from graphmp.tf_hooks.op_defs import OpDefs

HALF, FLOAT, FREE = "half", "float32", "free"
NUMBER = "gives one number, which leads to a loss or an output"


class Paint(NamedTuple):
    """The colour of a unit.

    Attributes:
        colour: HALF, FLOAT, or FREE for the cut to choose.
        reason: why.
        because: the unit that led to it; -1 if there is none.
    """

    colour: str
    reason: Reason
    because: int = -1


def paint(
    graph: TypedGraph,
    groups: Groups,
    pins: Dict[int, Reason],
    guards: Dict[int, Reason],
    config: Config,
    policy: Policy,
    op_defs: OpDefs,
) -> List[Paint]:
    """The colour of each unit; members of a group have the same."""
    painter = _Painter(graph, policy)
    painted = [painter.listed(number) for number in range(len(graph.units))]
    for number, reason in painter.tail().items():
        painted[number] = Paint(FLOAT, reason)
    for number, reason in guards.items():
        if painted[number].colour != FLOAT:
            painted[number] = Paint(FLOAT, reason)
    forced = _forced(graph, pins, config, op_defs)
    unlisted = {
        number
        for number, p in enumerate(painted)
        if p.reason.kind == UNLISTED and number not in guards
    }
    denied = (
        {number for number, p in enumerate(painted) if p.colour == FLOAT} - unlisted - forced.keys()
    )
    for number, reason in painter.nonlinear_gradients(denied).items():
        if painted[number].colour == FREE:
            painted[number] = Paint(FLOAT, reason)
            denied.add(number)
    for number, reason in pins.items():
        painted[number] = Paint(FLOAT, reason)
    for number, reason in forced.items():
        painted[number] = Paint(HALF, reason)
    _agree(graph, groups, painted)
    tame = painter.spread_denied(painted, denied - (pins.keys() - guards.keys()), groups)
    painter.keep_between(painted, tame, groups)
    _agree(graph, groups, painted)
    return painted


def _forced(
    graph: TypedGraph, pins: Dict[int, Reason], config: Config, op_defs: OpDefs
) -> Dict[int, Reason]:
    """Units that --force_compute makes half, and why."""
    forced = matched(graph, config.force_compute)
    found = {}
    for number, unit in enumerate(graph.units):
        pattern = forced.get(unit.node)
        if (
            pattern is not None
            and number not in pins
            and not unsupported(graph, number, op_defs, config.compute_dtype)
        ):
            found[number] = user_rule("force_compute", pattern)
    return found


def _agree(graph: TypedGraph, groups: Groups, painted: List[Paint]) -> None:
    """Give each group one colour: float32 if a member is, or its handle leaves.

    Else half if one is.
    """
    for members in groups.members:
        leaving = next((groups.leaving[m] for m in members if m in groups.leaving), None)
        colours = (FLOAT,) if leaving else (FLOAT, HALF)
        first = next(
            (m for colour in colours for m in members if painted[m].colour == colour), None
        )
        for member in members:
            if first is not None and painted[member].colour != painted[first].colour:
                node, why = graph.units[first].node, painted[first].reason
                reason = Reason(GROUP, "shares its dtype with %s, %s" % (node, why.text), node)
                painted[member] = Paint(painted[first].colour, reason, first)
            elif leaving is not None and first is None:
                painted[member] = Paint(FLOAT, leaving)


class _Painter:
    def __init__(self, graph: TypedGraph, policy: Policy):
        self._graph = graph
        self._policy = policy
        self._gradients = graph.gradients
        self._category = [
            policy.category(graph.node(number).op) for number in range(len(graph.units))
        ]
        self._facts = GradientFacts(graph)
        self._shapes_alone: Dict[int, bool] = {}
        for number, unit in enumerate(graph.units):
            if graph.node(number).op == "Cast" and unit.attribute == "DstT":
                self._category[number] = CLEAR  # an unpinned one comes from exact integers
            elif graph.node(number).op == "Sum" and self._facts.is_indifferent(unit.node):
                self._category[number] = CLEAR

    def listed(self, number: int) -> Paint:
        """By the op lists alone."""
        category, op = self._category[number], self._graph.node(number).op
        if category == ALLOW:
            return Paint(HALF, Reason(ALLOW, "%s is worth half precision" % op))
        if category == DENY:
            return Paint(FLOAT, Reason(DENY, "%s computes in float32" % op))
        if category in (INFER, CLEAR):
            return Paint(FREE, Reason(category))
        return Paint(FLOAT, Reason(UNLISTED, "%s is on no list" % op))

    def tail(self) -> Dict[int, Reason]:
        """Final activations, and matmuls of one number: those without a following allow op."""
        nodes, allow = self._graph.view.nodes, self._policy.allow
        activation = Reason(LAST_ACTIVATION, "%s leads to a loss or an output")
        found = dict.fromkeys(last_numbers(self._graph, allow), Reason(LOSS, "%s " + NUMBER))
        candidates = [
            name
            for name, node in nodes.items()
            if node.op in LAST_ACTIVATIONS and name not in self._gradients
        ]
        if candidates:
            ahead = ahead_of_allow(self._graph, allow)
            found.update((name, activation) for name in candidates if name not in ahead)
        return {
            unit: why._replace(words=why.words % nodes[name].op)
            for name, why in found.items()
            for unit in self._graph.units_of(name)
        }

    def nonlinear_gradients(self, denied: AbstractSet[int]) -> Dict[int, Reason]:
        """Infer units in nonlinear gradient code of a denied op."""
        graph = self._graph
        sources = {
            graph.units[n].node
            for n in denied
            if graph.node(n).op in NONLINEAR_DENIED | LAST_ACTIVATIONS
        }
        found = {}
        for number, unit in enumerate(graph.units):
            if self._category[number] == INFER and unit.node in self._gradients:
                forward = graph.differentiated(unit.node)
                if forward is not None and forward in sources:
                    found[number] = Reason(GRADIENT, forward, forward)
        return found

    def spread_denied(
        self, painted: List[Paint], denied: AbstractSet[int], groups: Groups
    ) -> Set[int]:
        """Apply rule 6, breadth first. Returns the units that ended a chain.

        `because` thus leads back to the source on a shortest chain.
        """
        tame = {number for number in denied if self._is_bounded(self._graph.units[number].node)}
        waiting = sorted(denied - tame)
        seen = set(waiting) | tame
        expanded: Set[int] = set()
        while waiting:
            following: List[int] = []
            for number in waiting:
                if groups.of[number] in expanded:
                    continue
                expanded.add(groups.of[number])
                for other in self._chain(number, groups):
                    if other in seen:
                        continue
                    seen.add(other)
                    (tame.add if self._graph.node(other).op in BOUNDED else following.append)(other)
                    if painted[other].colour == FREE:
                        if self._category[other] == INFER:
                            painted[other] = Paint(FLOAT, DOWNSTREAM, number)
                        else:
                            painted[other] = Paint(FREE, painted[other].reason, number)
            waiting = following
        return tame

    def _is_bounded(self, name: str) -> bool:
        off_zero = self._graph.view.nodes[name].op in BOUNDED_OFF_ZERO and is_off_zero(
            self._graph, name
        )
        return off_zero or self._facts.is_bounded(name)

    def _chain(self, number: int, groups: Groups) -> Iterable[int]:
        """Infer and clear units that read a unit, or a unit of its group."""
        for member in groups.members[groups.of[number]]:
            if self._graph.node(member).op in FORGETS_VALUES and member != number:
                continue
            for other in self._graph.downstream(member):
                if (
                    self._category[other] in (INFER, CLEAR)
                    and self._graph.node(other).op not in FORGETS_VALUES
                ):
                    yield other

    def keep_between(self, painted: List[Paint], tame: AbstractSet[int], groups: Groups) -> None:
        """Apply rules 7 and 8; `tame` are units that ended a chain of rule 6."""
        allowed = [number for number, p in enumerate(painted) if p.colour == HALF]
        behind = self._reach([*allowed, *sorted(tame)], painted, groups, self._graph.downstream)
        ahead = self._reach(allowed, painted, groups, self._graph.upstream)
        for number, p in enumerate(painted):
            if p.colour != FREE:
                continue
            if self._category[number] == CLEAR:
                if (
                    number not in behind
                    and number not in ahead
                    and not self._is_indifferent(number)
                    and not self._gives_shapes(number, groups)
                ):
                    reason = Reason(CLEAR, "no half precision on either side")
                    painted[number] = Paint(FLOAT, reason, p.because)
            elif number not in behind:
                reason = Reason(INFER, "no half precision leads to it")
                painted[number] = Paint(FLOAT, reason, p.because)
            elif number not in ahead and not may_end(self._graph, number):
                painted[number] = Paint(FLOAT, no_way_on(self._graph, number), p.because)

    def _is_indifferent(self, number: int) -> bool:
        """Whether a clear unit costs nothing in either dtype.

        It reads a shape, or fills by a constant.
        """
        name, op = self._graph.units[number].node, self._graph.node(number).op
        ports = [
            port
            for slot, port in enumerate(self._graph.view.inputs(name))
            if self._graph.reading(name, slot) == number
        ]
        of_constants = all(self._graph.view.nodes[port.node].op == "Const" for port in ports)
        return (
            of_constants if op == "Fill" else op in FORGETS_VALUES and not of_constants
        )  # a constant needs no second copy for its shape

    def _gives_shapes(self, number: int, groups: Groups) -> bool:
        """Whether only shapes are read of a group.

        For example of the Stack that keeps a tensor for the gradient of a concatenation.
        """
        group = groups.of[number]
        if group not in self._shapes_alone:
            nodes = [self._graph.units[member].node for member in groups.members[group]]
            readers = [
                consumer
                for node in nodes
                for consumer in self._graph.view.consumers(node)
                if self._graph.reader(consumer) != OTHER
            ]
            inside = set(nodes)
            read = [consumer.node for consumer in readers if consumer.node not in inside]
            self._shapes_alone[group] = bool(read) and all(
                self._graph.view.nodes[name].op in FORGETS_VALUES for name in read
            )
        return self._shapes_alone[group]

    def _reach(
        self,
        start: List[int],
        painted: List[Paint],
        groups: Groups,
        neighbours: Callable[[int], Iterable[int]],
    ) -> Set[int]:
        """Free units that `neighbours` leads to from `start` through free units.

        Groups count as one.
        """
        seen: Set[int] = set()
        waiting = list(start)
        while waiting:
            for other in neighbours(waiting.pop()):
                if other not in seen and painted[other].colour == FREE:
                    members = groups.members[groups.of[other]]
                    seen.update(members)
                    waiting.extend(members)
        return seen


def ahead_of_allow(graph: TypedGraph, allow: AbstractSet[str]) -> Set[str]:
    """Nodes of the forward pass that an allow op of the forward pass depends on."""
    nodes, gradients = graph.view.nodes, graph.gradients
    waiting = [name for name, node in nodes.items() if node.op in allow and name not in gradients]
    seen: Set[str] = set()
    while waiting:
        for port in graph.view.inputs(waiting.pop()):
            if port.node not in seen and port.node not in gradients:
                seen.add(port.node)
                waiting.append(port.node)
    return seen


def last_numbers(graph: TypedGraph, allow: AbstractSet[str]) -> List[str]:
    """Allow ops of the forward pass that give one number, and that no other one depends on.

    None in a function that takes no gradients: who reads its results isn't known.
    """
    nodes = graph.view.nodes
    found = [
        name
        for name, node in nodes.items()
        if node.op in allow and name not in graph.gradients and _gives_number(graph, name)
    ]
    is_function = any(node.op == RESULT for node in nodes.values())
    if not found or (is_function and not graph.gradients):
        return []
    ahead = ahead_of_allow(graph, allow)
    return [name for name in found if name not in ahead]


def _gives_number(graph: TypedGraph, name: str) -> bool:
    """Whether a result has one element, by its shape or by that of its reshaping."""
    nodes = graph.view.nodes
    readers = (each.node for each in graph.view.consumers(name))
    shaped = [name, *(each for each in readers if nodes[each].op in ("Reshape", "Squeeze"))]
    return any(recorded_size(nodes[each], 0) == 1 for each in shaped)
