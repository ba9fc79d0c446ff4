"""Steps that apply sums of gradients, kept in variables since earlier runs.

What such a step reads was finite when it was added up, and the scale was adapted then. A flag of
its own, by the sums alone, skips it as a whole if a sum is not finite. It is a step's flag if

1. what it looks at comes of variables;
2. an update kernel that dies without it reads a gradient that it looks at;
3. what it looks at leads to writes that go by it;
4. all kernels that take what it looks at, or run whenever a write of the step does, go by it, and
   it looks at their gradients.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Set

from graphmp.graph.structure.values import array
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import OVERWRITES, SWITCHES, UPDATE_PREFIXES, VARIABLE_OPS
from graphmp.verify.sides import Fault, attribute
from graphmp.verify.skips.formulas import Flag, by_value


class SumSteps:
    """The steps of one body that go by sums of gradients alone.

    Attributes:
        writes: the writes that go by such a flag, by what it looks at.
    """

    def __init__(self, body: Any, flags: Dict[str, Flag], gradient: Callable[[str], int]):
        """Find the flags of such steps among those of all writes.

        Args:
            body: the body, from body.py.
            flags: the flag of each write that has one.
            gradient: returns the slot of an update kernel's gradient.
        """
        self._body, self._gradient, self._view = body, gradient, body.sides.after.view
        self.writes: Dict[FrozenSet[Port], List[str]] = {}
        for name, flag in flags.items():
            if by_value(flag):
                self.writes.setdefault(by_value(flag), []).append(name)
        taken = self._taken_out()
        self.writes = {
            looked: names
            for looked, names in self.writes.items()
            if any(self._takes(name, looked) for name in names)
            and all(map(self._is_kept, looked))
            and not any(port.node in taken for port in looked)
        }

    def _is_kept(self, port: Port) -> bool:
        """Whether a value comes of a variable; a fed gradient is of this run."""
        behind = self._view.ancestors([port.node], control=False)
        return any(self._view.nodes[name].op in VARIABLE_OPS for name in behind)

    def _taken_out(self) -> Set[str]:
        """Gradients out of accumulators: their step adapts the scale, and its flag says so."""
        nodes = [name for name, node in self._view.nodes.items() if "Accumulator" in node.op]
        outputs = self._body.sides.after.outputs
        return set(nodes) | self._reached(
            {Port(name, slot) for name in nodes for slot in range(outputs(name))}
        )

    def step(self, flag: Flag) -> FrozenSet[str]:
        """A name for the step that a flag decides on; empty if it is no such flag."""
        looked = by_value(flag)
        found = self.writes.get(looked)
        return frozenset(("sums of %s" % min(found),) if found else ())

    def empties(self, name: str, steps: FrozenSet[str]) -> bool:
        """Whether a write sets a sum of some steps to zero: else it would stay infinite."""
        view, sides = self._body.sides.before.view, self._body.sides
        if name not in view.nodes or view.nodes[name].op not in OVERWRITES:
            return False
        of = [looked for looked, names in self.writes.items() if "sums of %s" % min(names) in steps]
        summed = sides.after.view.ancestors(
            {port.node for looked in of for port in looked}, control=False
        )
        return (
            len(of) == len(steps)
            and self._is_zero(view.inputs(name)[1])
            and bool(sides.after.state.written(name) & summed)
        )

    def _is_zero(self, port: Port) -> bool:
        node = self._body.sides.before.view.nodes[port.node]
        value = array(attribute(node, "value").tensor) if node.op == "Const" else None
        return node.op == "ZerosLike" or (value is not None and not value.any())

    def _is_kernel(self, name: str) -> bool:
        return self._view.nodes[name].op.startswith(UPDATE_PREFIXES) and self._gradient(name) >= 0

    def _takes(self, name: str, looked: FrozenSet[Port]) -> bool:
        """Whether a write is an update kernel that dies, with a gradient that a flag looks at."""
        if not self._is_kernel(name):
            return False
        switch = self._view.inputs(name)[self._gradient(name)].node
        return (
            switch in self._body.sides.added
            and self._view.nodes[switch].op in SWITCHES
            and self._body.plain(self._view.inputs(switch)[0]) in looked
        )

    def faults(
        self, writes: List[str], flags: Dict[str, Flag], beside: Callable[[str, str], bool]
    ) -> Iterator[Fault]:
        """Kernels of such a step that go by another flag or none, and flags that look at more.

        Args:
            writes: all writes of the model.
            flags: the flag of each write that has one.
            beside: whether one write is run whenever another is, and isn't ahead of it.
        """
        for looked, names in self.writes.items():
            for port in sorted(looked):
                if not self._reached({port}) & set(names):
                    yield Fault(port.node, "decides on whether a step is skipped, and is not in it")
            taking = self._reached(looked)
            for name in writes:
                is_kernel = self._is_kernel(name)
                if name in names:
                    if is_kernel and not self._takes(name, looked):
                        yield Fault(name, "waits for a flag that does not look at its gradient")
                elif (name in taking and (is_kernel or name not in flags)) or (
                    is_kernel and any(beside(name, other) for other in names)
                ):
                    yield Fault(name, "does not go by the flag of the step that it belongs to")

    def _reached(self, ports: Any) -> Set[str]:
        found: Set[str] = self._body.ways.reached(ports, frozenset())
        return found
