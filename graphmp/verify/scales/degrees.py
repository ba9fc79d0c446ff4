"""The power of each loss scale in every value of a converted graph, from that graph alone.

A value that is multiplied by a scale has degree 1 in it. The effect of an op on degrees is listed
in `policy/homogeneity.txt` by input and output; an unlisted op, a write, a print or a predicate
must read degree 0. Zeros have any degree.
"""

from __future__ import annotations

import collections
from typing import (
    AbstractSet,
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    List,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.values import all_equal
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import COMPLEX, FLOATS, HALF, VARIANT
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import (
    ARRAY_READS,
    ARRAY_WRITES,
    ARRAYS,
    CALLS,
    CHOICES,
    EMPTY_LISTS,
    GRADIENT_ARRAYS,
    PLACEHOLDERS,
    POPS,
    PUSHES,
    RESULT,
    STACKS,
    WHILES,
)
from graphmp.verify.sides import Sides, attribute
from graphmp.verify.structure.erase import Erasure

Called = Callable[[str, Tuple[Any, ...]], Tuple[List[Any], str]]
Named = Callable[[str, str, str], Optional[str]]
_NO_SCALE = "1.0"
Degree = Optional[Tuple[Tuple[str, float], ...]]  # None: any
ONE: Degree = ()
_MOST_CHANGES = 50  # updates of one node's degree; a loop variable without a degree keeps changing
_CARRY = frozenset((*FLOATS, *COMPLEX, VARIANT))
_ZEROS = EMPTY_LISTS | {"ZerosLike"}
# Ops that put values into a container, and the slot of the value; ops that take them out. Slot 0
# holds the container's handle.
_PUTS = {**dict.fromkeys(PUSHES, 1), **ARRAY_WRITES}
_TAKES = POPS | ARRAY_READS
_FLOWS = ARRAYS | ARRAY_WRITES.keys()  # their result is a flow, which holds nothing


class Degrees:
    """Follows all scales through a converted body."""

    def __init__(
        self,
        sides: Sides,
        erasure: Erasure,
        apart: AbstractSet[str],
        called: Called,
        named: Named,
        given: Sequence[Degree] = (),
    ):
        """Follow them until nothing changes.

        Args:
            sides: the body.
            erasure: knows which nodes multiply or divide by a scale.
            apart: nodes that store and adapt the scales; their results are free of them.
            called: returns the degrees of a function's results, given those of its arguments, and
                faults.
            named: returns the name of a scale in the body, given a call, a function that it calls
                and the scale's name there; None if it has none.
            given: the degrees of the body's own arguments.
        """
        self._sides, self._erasure, self._view, self._apart, self._called = (
            sides,
            erasure,
            sides.after.view,
            apart,
            called,
        )
        self._named = named
        self._given = dict(zip(sides.after.arguments, given))
        self.of: Dict[Port, Degree] = {}
        self._held: Dict[Tuple[str, ...], Degree] = {}
        self._takers: Dict[Tuple[str, ...], Dict[str, None]] = collections.defaultdict(dict)
        self._ruled: Dict[Tuple[Any, ...], List[Degree]] = {}
        self.problems: Dict[str, str] = {}
        self._run()

    def at(self, port: Port) -> Degree:
        """The degree of an output."""
        return self.of.get(port)

    def _run(self) -> None:
        nodes = self._view.nodes
        waiting: Deque[str] = collections.deque(
            dict.fromkeys([*whole_order(self._view), *nodes])
        )  # nodes of a cycle have no order
        queued = set(waiting)
        changes: Dict[str, int] = collections.defaultdict(int)
        while waiting:
            name = waiting.popleft()
            queued.discard(name)
            readers = self._update(name)
            changes[name] += bool(readers)
            if changes[name] > _MOST_CHANGES:
                self.problems[name] = "has another degree of a loss scale in each iteration"
                continue
            for reader in readers:
                if reader not in queued:
                    queued.add(reader)
                    waiting.append(reader)

    def _update(self, name: str) -> List[str]:
        """Compute a node; return the nodes that read a change."""
        self.problems.pop(name, None)
        found = self._outputs(name)
        outputs: Set[int] = set()  # that have changed
        for output, degree in enumerate(found):
            port = Port(name, output)
            self._look_at(port, degree)
            if degree is not None and self.of.get(port) != degree:
                self.of[port] = degree
                outputs.add(output)
        changed = [c.node for c in self._view.consumers(name) if c.output in outputs]
        slot = _PUTS.get(self._view.nodes[name].op)
        return changed if slot is None else [*changed, *self._put(name, self._in(name)[slot])]

    def _look_at(self, port: Port, degree: Degree) -> None:
        """Report a power without room in half precision, and a division of what isn't scaled."""
        total = sum(power for _, power in degree or ())
        step = self._erasure.steps.get(port.node)
        if self._sides.after.dtype(port) in HALF and total not in (0, 1):
            self.problems[port.node] = "is half precision, and %s" % _spelled(degree)
        elif step is not None and step.power < 0 and total < 0:
            self.problems[port.node] = "divides by a loss scale, and its value is free of it"

    def _put(self, name: str, degree: Degree) -> Iterable[str]:
        """Put a value into a container.

        Return the nodes that read values out of it, if they change.
        """
        container = self._container(name)
        known = self._held.get(container)
        if degree is None or known == degree:
            return ()
        if known is not None:
            self.problems[name] = "puts values of another degree of the loss scale where others are"
        self._held[container] = degree
        return self._takers[container]

    def _container(self, name: str) -> Tuple[str, ...]:
        """The node that creates the container of a handle; gradients have their own, by source."""
        sources = []
        while self._view.inputs(name):
            name = self._view.inputs(name)[0].node
            if self._view.nodes[name].op in STACKS:
                break
            if self._view.nodes[name].op in GRADIENT_ARRAYS:
                sources.append(attribute(self._view.nodes[name], "source").s.decode())
            elif self._view.nodes[name].op in ARRAYS:
                break
        return (name, *sources)

    def _in(self, name: str) -> List[Degree]:
        return [
            self.of.get(port) if self._carries(port) else ONE for port in self._view.inputs(name)
        ]

    def _carries(self, port: Port) -> bool:
        return self._sides.after.dtype(port) in _CARRY

    def _outputs(self, name: str) -> List[Degree]:
        node, count = self._view.nodes[name], self._sides.after.outputs(name)
        if name in self._apart:
            return [ONE] * count
        if name in self._given:
            return [self._given[name]]
        known = self._in(name)
        step = self._erasure.step(name)
        if step is not None:
            degree = known[step.slot]
            return [
                None
                if degree is None
                else _product([(degree, 1.0), (((step.scale, 1.0),), float(step.power))])
            ]
        if node.op == "Const":
            return [None if all_equal(node, 0) else ONE]
        if node.op in PLACEHOLDERS and known and known[0] is None:
            return [ONE]  # its zeros are a default
        if node.op in _FLOWS or node.op in _ZEROS:
            return [None] * count
        if node.op in _TAKES:
            container = self._container(name)
            self._takers[container][name] = None
            return [self._held.get(container), *[ONE] * (count - 1)]
        if node.op in CALLS or node.op in self._sides.after.library:
            found = self._of_call(name, known, count)
            return found + [ONE] * (count - len(found))  # none of a missing function
        return self._by_rule(name, known, count)

    def _of_call(self, name: str, known: Sequence[Degree], count: int) -> List[Degree]:
        """Degrees of the results of the functions that a node calls.

        For a while loop their fixed point.
        """
        node = self._view.nodes[name]
        functions = [
            function for function in functions_named(node) if function in self._sides.after.library
        ]
        if node.op in WHILES:
            return self._of_loop(name, known, attribute(node, "body").func.name)
        if node.op == "SymbolicGradient":
            return self._of_gradient(name, known, count)
        arguments = known[1:] if node.op in CHOICES else known
        found = [self._results(name, function, arguments) for function in functions]
        return [self._joined(name, sides) for sides in zip(*found)] if found else [ONE] * count

    def _of_gradient(self, name: str, known: Sequence[Degree], count: int) -> List[Degree]:
        """Degrees of a function's gradient, which is linear in the gradients that it gets.

        Their inputs follow the function's arguments, with one for each result.
        """
        if any(degree not in (None, ONE) for degree in known[:count]):
            self.problems[name] = (
                "takes the gradient of a function at values that are multiplied by a loss scale"
            )
        return [self._joined(name, known[count:])] * count

    def _of_loop(self, name: str, known: Sequence[Degree], body: str) -> List[Degree]:
        degrees = list(known)
        while True:
            found = [
                self._joined(name, sides)
                for sides in zip(degrees, self._results(name, body, degrees))
            ]
            if found == degrees or name in self.problems:
                return found
            degrees = found

    def _results(self, name: str, function: str, arguments: Sequence[Degree]) -> List[Degree]:
        results, problem = self._called(function, tuple(arguments))
        if problem:
            self.problems[name] = problem
        return [self._as_here(name, function, degree) for degree in results]

    def _as_here(self, name: str, function: str, degree: Degree) -> Degree:
        """The degree of a call's result, by the names of scales in the body.

        A function that gets 1 as a scale doesn't scale.
        """
        powers = [(self._named(name, function, scale), power) for scale, power in degree or ()]
        if any(scale is None for scale, _ in powers):
            self.problems[name] = "calls %s, and hands it no loss scale" % function
        return (
            None
            if degree is None
            else _product(
                [
                    (((str(scale), power),), 1.0)
                    for scale, power in powers
                    if scale not in (None, _NO_SCALE)
                ]
            )
        )

    def _joined(self, name: str, degrees: Sequence[Degree]) -> Degree:
        return self._one_of(name, degrees, "gives values of different degrees of the loss scale")

    def _one_of(self, name: str, degrees: Iterable[Degree], problem: str) -> Degree:
        """The common degree of those that have one; the first, and a fault, if they differ."""
        found = list(dict.fromkeys(degree for degree in degrees if degree is not None))
        if len(found) > 1:
            self.problems[name] = problem
        return found[0] if found else None

    def results(self) -> List[Degree]:
        """The degrees of the body's results."""
        return [self._in(name)[0] for name, node in self._view.nodes.items() if node.op == RESULT]

    def _by_rule(self, name: str, known: Sequence[Degree], count: int) -> List[Degree]:
        """The degrees of the outputs by the op's rule; computed once for equal inputs."""
        carried = [slot for slot, port in enumerate(self._view.inputs(name)) if self._carries(port)]
        key = (self._view.nodes[name].op, count, tuple(known), tuple(carried))
        if key in self._ruled:
            return self._ruled[key]
        found = self._ruled_anew(name, known, count, carried)
        if name not in self.problems:  # which tell of the node's own inputs
            self._ruled[key] = found
        return found

    def _ruled_anew(
        self, name: str, known: Sequence[Degree], count: int, carried: Sequence[int]
    ) -> List[Degree]:
        law = rule(self._view.nodes[name].op)
        ports = self._view.inputs(name)
        if law.name == "each":
            return list(known)
        if law.name == "none":
            return [ONE] * count
        if law.name == "compared":
            self._one_of(
                name,
                (known[slot] for slot in carried),
                "compares values of different degrees of the loss scale",
            )
            return [ONE] * count
        slots = [slot for slot in carried if law.slots is None or slot in law.slots]
        terms = law.terms(slots)
        for slot in carried:
            if (not terms or slot not in slots) and known[slot] not in (None, ONE):
                self.problems[name] = "reads %s, which is %s" % (ports[slot], _spelled(known[slot]))
        if not terms or not slots:
            return [ONE] * count
        degree = self._of_terms(
            name,
            (([known[slot] for slot in term.slots if slot in slots], term.power) for term in terms),
        )
        return [
            degree if law.outputs is None or output in law.outputs else ONE
            for output in range(count)
        ]

    def _of_terms(self, name: str, terms: Iterable[Tuple[List[Degree], float]]) -> Degree:
        """The degree of a product of terms, each of inputs that must agree, and its power."""
        fault = "adds up or chooses between values of different degrees of the loss scale"
        parts = [(self._one_of(name, degrees, fault), power) for degrees, power in terms]
        if any(degree is None and power > 0 for degree, power in parts):
            return None
        return _product([(part or ONE, power) for part, power in parts])


def _product(parts: Sequence[Tuple[Any, float]]) -> Degree:
    powers: Dict[str, float] = collections.defaultdict(float)
    for degree, power in parts:
        for scale, number in degree:
            powers[scale] += number * power
    return tuple(sorted((scale, number) for scale, number in powers.items() if number))


def _spelled(degree: Degree) -> str:
    return "multiplied by " + " and ".join(
        "%s^%g" % (scale, number) for scale, number in degree or ()
    )
