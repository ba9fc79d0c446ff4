"""Where half precision is wrong under any policy.

1. Between a variable and its initial value, or the value in a checkpoint.
2. In a loss that is differentiated, and in the product of a scale with the initial gradients.
3. Between a division by a scale, or a clip, and a write.
4. Between a variable's value and a write, if the value is used element by element and either the
   write is to that variable or only variables and constants are used: slots, powers of decay,
   averages, counts. Of counts and constants alone, by any op: rates that fall with the steps.
5. In arithmetic on counts and constants alone, also where a model reads it: weights that grow with
   the steps; in the count of a loop and in what it is compared with. No half precision leads there.
   What rounds nothing, such as a minimum, is wrong if its value is cast up again.

3 and 4 end at the model: at a matmul or convolution, its consumers, gradient code, and
multiplications or divisions by a scale; 4 also at the exit of a loop. An average of what a matmul
gives reads a matmul, and is looked at all the same.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    Set,
)

from graphmp.graph.shapes.shapes import recorded_dimensions
from graphmp.graph.state.carried import ROUNDS, Carried
from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.graph.structure.gradient_names import differentiated
from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.values import is_one
from graphmp.graph.structure.view import GraphView, Port
from graphmp.once import once
from graphmp.policy.dtypes import FLOAT32, FLOATS, INT32, INT64
from graphmp.policy.op_sets import (
    ENTERS,
    INEQUALITIES,
    MERGES,
    READS,
    RESTORES,
    SAVES,
    VARIABLE_OPS,
)
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.traits import KEEPS_VALUES
from graphmp.verify.sides import Fault, Sides
from graphmp.verify.skips.gates import Gate
from graphmp.verify.structure.erase import Erasure

_OF_TERMS = frozenset(("Add", "AddN", "AddV2", "Cast", "Identity", "Mul", "Sub"))
_REDUCTIONS = frozenset(("L2Loss", "Mean", "Prod", "Sum"))
_MOVES = KEEPS_VALUES | {"Cast"}


class Precision:
    """Looks for wrong half precision in one body."""

    def __init__(
        self,
        sides: Sides,
        erasure: Erasure,
        clipped: Iterable[str],
        gates: Mapping[str, Sequence[Gate]],
    ):
        """`clipped`: the nodes that multiply by the factor of a clip.

        `gates`: those of each write.
        """
        self._sides, self._erasure, self._clipped, self._gates = sides, erasure, clipped, gates
        self._before, self._after = sides.before.view, sides.after.view
        self._half = set(sides.became_half)

    def faults(self) -> Iterator[Fault]:
        """All faults."""
        if self._half:
            yield from self._stored()
            yield from self._losses()
            yield from self._unscaled()
            yield from self._of_state()
            yield from self._found(self._of_counts(), "and made of counts and constants alone")

    def _found(self, names: AbstractSet[str], text: str) -> Iterator[Fault]:
        yield from (
            Fault(name, "is half precision, " + text) for name in sorted(names & self._half)
        )

    def _stored(self) -> Iterator[Fault]:
        view, state = self._before, self._sides.before.state
        restores, saves = (
            [name for name, node in view.nodes.items() if node.op in ops]
            for ops in (RESTORES, SAVES)
        )
        ends = {
            *saves,
            *state.initializers,
            *(view.descendants(restores, control=False) & set(state.writes)),
        }
        stored = self._after.ancestors(ends & self._after.nodes.keys(), control=False)
        yield from self._found(stored, "on the way of a variable's first value, or of a checkpoint")

    def _losses(self) -> Iterator[Fault]:
        starts = {
            name
            for name, step in self._erasure.steps.items()
            if step is not None and step.power > 0
        }
        yield from self._found(starts, "and multiplies by a loss scale")
        known = self._gradients & self._after.nodes.keys()
        seeds = starts or {name for name in known if is_one(self._after, name)}
        losses = {loss for name in seeds for loss in self._differentiated(name)}
        yield from self._found(losses, "and a loss")
        terms = self._terms(losses & self._after.nodes.keys())
        yield from self._found(terms - self._gradients - losses, "and a term of a loss")

    def _terms(self, losses: Set[str]) -> Set[str]:
        """The terms of losses: sums over all elements, and values made of these alone."""
        view = self._after
        adding = view.traced(
            losses, lambda name: name in losses or view.nodes[name].op in _OF_TERMS
        )
        read = {port.node for name in adding for port in view.inputs(name)}
        sums = {
            name for name in read if view.nodes[name].op in _REDUCTIONS and not self._has_rank(name)
        }
        scalars = sums | {name for name in read if view.nodes[name].op == "Const"}
        for name in whole_order(view):
            if name in adding and all(port.node in scalars for port in view.inputs(name)):
                scalars.add(name)
        return scalars & (adding | sums)

    def _has_rank(self, name: str) -> bool:
        """Whether a node's result is known to be no scalar: a score for each example, say."""
        node = self._before.nodes.get(name)
        return node is not None and bool(recorded_dimensions(node, 0, -1))

    def _differentiated(self, name: str) -> Iterator[str]:
        """Losses whose gradients start from an initial one, which may be scaled.

        A gradient given by a program has no loss.
        """
        step = self._erasure.steps.get(name)
        start = name if step is None else self._after.inputs(name)[step.slot].node
        if is_one(self._after, start):
            readers = self._after.followed(
                [name], lambda reader: reader == name or reader in self._sides.added
            )
            for reader in {
                consumer.node for node in readers for consumer in self._after.consumers(node)
            } & self._gradients:
                loss = differentiated(reader, self._before.nodes.keys())
                yield from [loss] if loss is not None else ()

    def _unscaled(self) -> Iterator[Fault]:
        starts = {*self._clipped, *(port.node for port in self._erasure.divisions())}
        taken = self._between(starts, self._carried.is_outside)
        yield from self._found(taken, "between a division by a loss scale, or a clip, and a write")

    def _of_state(self) -> Iterator[Fault]:
        taken = self._between(self._counted, self._carried.by_element) | self._carried.nodes()
        yield from self._found(taken, "between a variable's value and a write that takes it")

    def _of_counts(self) -> Set[str]:
        """Nodes made of counts and constants alone that round, or hand on what is rounded."""
        return {
            name
            for name in self._counted
            if self._before.nodes[name].op in ROUNDS | INEQUALITIES or self._is_cast_up(name)
        }

    def _is_cast_up(self, name: str) -> bool:
        """Whether an inserted cast makes float32 of a node's value."""
        readers = (each.node for each in self._after.consumers(name))
        return any(
            each in self._sides.added
            and self._after.nodes[each].op == "Cast"
            and self._after.nodes[each].attr["DstT"].type == FLOAT32
            for each in readers
        )

    @once
    def _counted(self) -> Set[str]:
        return _made_of_counts(self._sides)

    def _between(self, starts: AbstractSet[str], through: Callable[[str], bool]) -> Set[str]:
        """The nodes on data paths between some nodes and writes, where `through` holds.

        Not through a model and what reads one, or a write.
        """
        return self._carried.between(starts, self._sides.after.state.writes, through, self._stops)

    @once
    def _carried(self) -> Carried:
        steps = (name for name, step in self._erasure.steps.items() if step is not None)
        models = frozenset((*steps, *self._products))
        return Carried(self._after, self._sides.after.state, self._gradients, models, self._taken)

    def _taken(self, name: str) -> Iterable[str]:
        """The inputs of a write and of its gates."""
        gates = [gate.value for gate in self._gates.get(name, ())]
        return [port.node for port in (*self._after.inputs(name), *gates)]

    @once
    def _gradients(self) -> AbstractSet[str]:
        """Gradient code."""
        return gradient_nodes(self._before)

    @once
    def _products(self) -> Sequence[str]:
        """Matmuls and convolutions."""
        nodes = self._after.nodes
        return [name for name, node in nodes.items() if node.op in tensor_core_ops()]

    @once
    def _stops(self) -> AbstractSet[str]:
        """Where carried values end, and consumers of matmuls and convolutions.

        Consumers count also behind nodes that only move values.
        """
        moved = self._moved(self._products)
        return self._carried.ends | frozenset(
            consumer.node for name in moved for consumer in self._after.consumers(name)
        )

    def _moved(self, names: Sequence[str]) -> Set[str]:
        """Nodes and those that pass on their values."""
        starts = set(names)
        return self._after.followed(
            names, lambda name: name in starts or self._after.nodes[name].op in _MOVES
        )


def _made_of_counts(sides: Sides) -> Set[str]:
    """Nodes of the original made of counts and constants alone: a rate that falls with the steps.

    Counts are in variables, or are variables of loops that nothing else changes.
    """
    order = whole_order(sides.before.view)
    loops = {name for name in order if _is_loop_variable(sides.before.view, name)}
    while True:  # until no loop variable depends on anything else
        found = _counted(sides, order, loops)
        wrong = {name for name in loops if not _reads_counts(sides.before.view, name, found)}
        if not wrong:
            return {name for name, is_counted in found.items() if is_counted}
        loops -= wrong


def _counted(
    sides: Sides, order: Sequence[str], loops: AbstractSet[str]
) -> Dict[str, Optional[bool]]:
    """Whether each node is a count, or made of some; None if it is made of constants alone.

    `loops`: the variables of loops that are taken for counts.
    """
    view = sides.before.view
    found: Dict[str, Optional[bool]] = {}
    for name in order:
        node, ports = view.nodes[name], view.inputs(name)
        if name in loops:
            found[name] = sides.before.dtype(Port(name, 0)) in (*FLOATS, INT32, INT64)
        elif node.op in VARIABLE_OPS or (
            node.op in READS and view.nodes[ports[0].node].op in VARIABLE_OPS
        ):
            found[name] = sides.before.dtype(Port(name, 0)) in (INT32, INT64)
        elif node.op == "Const":
            found[name] = None
        elif not ports or (sides.before.is_stateful(name) and node.op not in READS):
            found[name] = False
        else:
            behind = {found.get(port.node, False) for port in ports}
            found[name] = False if False in behind else True if True in behind else None
    return found


def _is_loop_variable(view: GraphView, name: str) -> bool:
    return view.nodes[name].op in MERGES and any(
        view.nodes[port.node].op in ENTERS for port in view.inputs(name)
    )


def _reads_counts(view: GraphView, name: str, found: Mapping[str, Optional[bool]]) -> bool:
    """Whether all inputs of a node are counts or constants."""
    return all(found[port.node] is not False for port in view.inputs(name))
