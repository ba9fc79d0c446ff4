"""One pass through gradient code: the degree of each value, given choices for what forms cycles."""

from __future__ import annotations

import collections
from typing import Deque, Dict, List, Mapping, NamedTuple, Sequence, Set, Tuple

from graphmp.graph.structure.view import Port
from graphmp.policy.homogeneity import Rule, rule
from graphmp.policy.policy import tensor_core_ops
from graphmp.scaling.degrees.code import Carriers, Degree


class Choices(NamedTuple):
    """Values that a pass can't compute.

    Attributes:
        guesses: the degrees that were tried for a loop variable; the last one counts.
        unscaled_loops: loop variables that hold unscaled values.
        apart: nodes that hold unscaled values by rule 6 of `homogeneity.py`.
    """

    guesses: Dict[str, List[int]]
    unscaled_loops: Set[str]
    apart: Set[str]


class Pass:
    """Degrees computed in topological order; those of loop variables are taken from choices.

    Attributes:
        of: the degree of each node.
        outputs: degrees of outputs that differ from their node's.
        multiplied: inputs (node, slot) and the power of the scale by which they must be multiplied.
        rescaled: nodes whose results must be multiplied by the scale.
        unclear: nodes where its rules 2 and 3 can't be applied.
    """

    def __init__(self, carriers: Carriers, choices: Choices):
        self._carriers = carriers
        self._choices = choices
        self._view = carriers.code.view
        self._allow = frozenset(tensor_core_ops())
        self.of: Dict[str, int] = {}
        self.outputs: Dict[Port, int] = {}
        self.multiplied: Dict[Tuple[str, int], int] = {}
        self.rescaled: List[str] = []
        self.unclear: List[str] = []
        self._place: Dict[str, int] = {}
        self._run()

    def _run(self) -> None:
        inputs, scaled = self._carriers.inputs, self._carriers.scaled
        waiting = {
            name: sum(port.node in scaled for port in carried.values())
            for name, carried in inputs.items()
        }
        left = collections.OrderedDict((name, None) for name in inputs)
        ready: Deque[str] = collections.deque(name for name in left if not waiting[name])
        while left:
            if not ready:
                ready.append(self._to_guess(left))
            name = ready.popleft()
            if name not in left:
                continue
            del left[name]
            self.of[name] = self._degree(name)
            self._place[name] = len(self._place)
            for reader in self._carriers.readers(name):
                if reader.node in scaled:
                    waiting[reader.node] -= 1
                    if not waiting[reader.node]:
                        ready.append(reader.node)

    def known(self, name: str) -> Dict[int, int]:
        """Degrees of the inputs of a node that have one."""
        found = {}
        for slot, port in self._carriers.inputs[name].items():
            if port in self._carriers.given:
                found[slot] = self._carriers.given[port]
            elif port.node in self.of:
                found[slot] = self.degree_of(port)
        return found

    def degree_of(self, port: Port) -> int:
        """The degree of an output; 0 if its node has none."""
        return self.outputs[port] if port in self.outputs else self.of.get(port.node, 0)

    def multiply(self, name: str, slot: int, power: int) -> None:
        """Let a node read an input multiplied by a power of the scale, if it can be multiplied."""
        port = self._view.inputs(name)[slot]
        if self._carriers.is_held(port) or not self._carriers.code.is_float(port):
            self.unclear.append(name)
        else:
            self.multiplied[name, slot] = self.multiplied.get((name, slot), 0) + power

    def _to_guess(self, left: Mapping[str, None]) -> str:
        """The loop variable to guess next in a cycle, preferably with a known initial value."""
        variables = [name for name in self._carriers.loop_variables if name in left]
        return next(
            (name for name in variables if self.known(name)),
            variables[0] if variables else next(iter(left)),
        )

    def _degree(self, name: str) -> int:
        op, known = self._view.nodes[name].op, self.known(name)
        if name in self._choices.apart:
            return self._unscaled(name, known)
        if self._carriers.is_loop_variable(name):
            return self._of_loop_variable(name, known)
        if op in self._carriers.code.calls:
            return self._of_call(name, known)
        law = rule(op)
        if law.name == "compared":
            return self._compared(name, known)
        if law.name == "unscaled":
            self._unscale(name, known)
            return 0
        if law.name == "each":
            return self._differing(
                name, [known.get(slot, 0) for slot in range(len(self._view.inputs(name)))]
            )
        return self._by_terms(name, law, known)

    def _of_loop_variable(self, name: str, known: Dict[int, int]) -> int:
        """The degree assumed for a loop variable in all iterations."""
        if name in self._choices.unscaled_loops:
            return 0
        tried = self._choices.guesses.get(name)
        return tried[-1] if tried else max(known.values(), default=1)

    def _by_terms(self, name: str, law: Rule, known: Dict[int, int]) -> int:
        slots = sorted(self._carriers.inputs[name]) if law.slots is None else law.slots
        terms = law.terms(slots)
        read = {slot: degree for slot, degree in known.items() if slot in slots}
        if not terms or (not any(read.values()) and any(known.values())):
            return self._unscaled(name, known)
        if self._view.nodes[name].op in self._allow:
            read = self._in_half(name, read, law.name == "product")
        degree = sum(term.power * self._one_degree(name, term.slots, read) for term in terms)
        if degree != int(degree):
            return self._unscaled(name, known)
        self._unscale(name, {slot: degree for slot, degree in known.items() if slot not in slots})
        if law.outputs is not None:
            self.outputs.update(
                (Port(name, c.output), 0)
                for c in self._view.consumers(name)
                if c.output not in law.outputs
            )
        return int(degree)

    def _in_half(self, name: str, known: Dict[int, int], is_product: bool) -> Dict[int, int]:
        """Degrees of the inputs of a half-precision matmul or convolution: 0 or 1.

        At most one factor of a product has 1.
        """
        read = {slot: min(max(degree, 0), 1) for slot, degree in known.items()}
        scaled = sorted(
            (slot for slot in read if read[slot]),
            key=lambda slot: self._place.get(self._carriers.inputs[name][slot].node, -1),
        )
        for slot in scaled[:-1] if is_product else ():
            read[slot] = 0
        for slot, degree in known.items():
            if read[slot] != degree:
                self.multiply(name, slot, read[slot] - degree)
        return read

    def _one_degree(self, name: str, slots: Sequence[int], known: Dict[int, int]) -> int:
        """The highest degree among inputs, to which the others are raised."""
        inputs, is_free = self._carriers.inputs[name], self._carriers.is_free
        carried = {slot: inputs[slot] for slot in slots if slot in inputs}
        found = [known[slot] for slot in carried if slot in known]
        if not found:
            return 0
        free = {slot for slot, port in carried.items() if slot not in known and is_free(port)}
        highest = max(found) if len(found) + len(free) == len(carried) else max(*found, 0)
        for slot in carried:
            degree = known.get(slot, highest if slot in free else 0)
            if degree != highest:
                self.multiply(name, slot, highest - degree)
        return highest

    def _compared(self, name: str, known: Dict[int, int]) -> int:
        slots = self._carriers.inputs[name]
        found = {
            known.get(slot, 0)
            for slot, port in slots.items()
            if slot in known or not self._carriers.is_free(port)
        }
        if len(found) > 1:
            self._unscale(name, known)
        return 0

    def _differing(self, name: str, found: Sequence[int]) -> int:
        """The highest degree among a node's outputs; the others are recorded."""
        highest = max(found, default=0)
        self.outputs.update(
            (Port(name, output), degree) for output, degree in enumerate(found) if degree != highest
        )
        return highest

    def _of_call(self, name: str, known: Dict[int, int]) -> int:
        given: List[Degree] = []
        for slot, port in enumerate(self._view.inputs(name)):
            unknown = None if self._carriers.is_free(port) else 0
            given.append(known.get(slot, unknown))
        found = self._carriers.code.called(name, given)
        if found is not None:
            return self._differing(name, [1 if degree is None else degree for degree in found])
        return self._unscaled(name, known)

    def _unscaled(self, name: str, known: Dict[int, int]) -> int:
        """Let a node read unscaled inputs and scale its results again.

        A list's contents are unscaled.
        """
        self._unscale(name, known)
        readers = self._carriers.readers(name)
        ports = {Port(name, reader.output) for reader in readers} or {Port(name, 0)}
        held = {port for port in ports if self._carriers.is_held(port)}
        if held == ports:
            return 0
        self.outputs.update((port, 0) for port in held)
        self.rescaled.append(name)
        return 1

    def _unscale(self, name: str, known: Dict[int, int]) -> None:
        for slot, degree in known.items():
            if degree:
                self.multiply(name, slot, -degree)
