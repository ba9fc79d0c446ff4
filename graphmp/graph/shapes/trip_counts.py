"""The iterations of while loops: of a counter that is incremented from one number to another.

`while_loop(lambda i, ...: i < 200, ...)`, and tf.nn.dynamic_rnn over a known number of steps; the
loop of the backward pass has as many iterations as the loop whose count it counts down. Any other
loop counts as 32 iterations.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, Mapping, Optional, Tuple

from graphmp.graph.shapes.shapes import UNKNOWN_DIMENSION
from graphmp.graph.shapes.symbolic_shapes import SymbolicShapes
from graphmp.graph.structure.frames import Frames, frames
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import ADDS, INEQUALITIES

Counts = Mapping[
    Tuple[str, ...], int
]  # iterations of each frame, by its name and the names of its outer frames


def trip_counts(view: GraphView) -> Counts:
    """The iterations of each loop that are known from the graph."""
    inside = frames(view)
    return _Counter(view, inside).counts if inside else {}


def trips(inside: Frames, counts: Counts, name: str) -> int:
    """How often a node runs in a step: the product of the iterations of its loops."""
    frame = inside.get(name, ())
    total = 1
    for depth in range(1, len(frame) + 1):
        total *= counts.get(frame[:depth], UNKNOWN_DIMENSION)
    return total


class _Counter:
    def __init__(self, view: GraphView, inside: Frames):
        self._view = view
        self._inside = inside
        self._shapes = SymbolicShapes(view)
        self.counts: Dict[Tuple[str, ...], int] = {}
        conditions = [
            name for name, node in view.nodes.items() if node.op == "LoopCond" and name in inside
        ]
        backward = []
        for name in conditions:
            bounds = [
                bound
                for bound in (
                    self._iterations(port) for port in self._conjuncts(view.inputs(name)[0])
                )
                if bound is not None
            ]
            if bounds:
                self.counts[inside[name]] = max(1, min(bounds))
            else:
                backward.append(name)
        for name in backward:
            forward = self._counted_down(view.inputs(name)[0])
            if forward in self.counts:
                self.counts[inside[name]] = self.counts[forward]

    def _conjuncts(self, port: Port) -> Iterator[Port]:
        waiting = [port]
        while waiting:
            port = waiting.pop()
            if self._view.nodes[port.node].op == "LogicalAnd":
                waiting.extend(self._view.inputs(port.node))
            else:
                yield port

    def _iterations(self, port: Port) -> Optional[int]:
        """Iterations for which `counter < bound` holds."""
        op, inputs = self._view.nodes[port.node].op, self._view.inputs(port.node)
        if op not in INEQUALITIES:
            return None
        counter, bound = inputs if op.startswith("Less") else reversed(inputs)
        last, first = self._number(bound), self._start(counter, ADDS)
        if last is None or first is None:
            return None
        start = self._number(first)
        return None if start is None else last - start + (op.endswith("Equal"))

    def _counted_down(self, port: Port) -> Tuple[str, ...]:
        """The frame whose iterations a loop counts down, `count >= 1`; () for another condition."""
        view = self._view
        if view.nodes[port.node].op != "GreaterEqual":
            return ()
        start = self._start(view.inputs(port.node)[0], {"Sub"})
        left = None if start is None else view.behind(start, ["Identity"]).node
        return self._inside.get(left, ()) if left and view.nodes[left].op == "Exit" else ()

    def _start(self, counter: Port, steps: AbstractSet[str]) -> Optional[Port]:
        """The initial value of a loop variable that changes by one each time.

        None for other tensors.
        """
        merge = self._behind(counter)
        if self._view.nodes[merge].op != "Merge":
            return None
        entered: List[Port] = []
        for port in self._view.inputs(merge):
            node = self._view.nodes[port.node]
            if node.op == "Enter":
                entered += self._view.inputs(port.node)
            elif node.op != "NextIteration" or not self._steps(
                self._view.inputs(port.node)[0], merge, steps
            ):
                return None
        return entered[0] if len(entered) == 1 else None

    def _steps(self, port: Port, merge: str, steps: AbstractSet[str]) -> bool:
        """Whether a tensor is the loop variable plus one."""
        port = self._view.behind(port, ["Identity"])
        inputs = self._view.inputs(port.node)
        return (
            self._view.nodes[port.node].op in steps
            and self._behind(inputs[0]) == merge
            and self._number(inputs[1]) == 1
        )

    def _behind(self, port: Port) -> str:
        """The producer behind identities and switches."""
        return self._view.behind(port, ("Identity", "Switch")).node

    def _number(self, port: Port) -> Optional[int]:
        held = self._shapes.held(port)
        number = held[0] if held is not None and len(held) == 1 else None
        return number if isinstance(number, int) else None
