"""How often the loss scale is multiplied into each value of gradient code, and where that would change its meaning.

Gradient code is linear in the gradients that it starts from, so that the scale comes out of it as a factor: its degree is 1.
Custom gradients need not be. Rules, by the op (`policy/homogeneity.txt`):

1. A product adds degrees, a quotient subtracts them; roots and squares halve and double them.
2. What is added, compared or chosen from must have one degree: lower ones are multiplied up to the highest. Zeros have any.
   `Minimum(g, 1)`, a clip  ->  `Minimum(S g, S)`
3. An op that nobody knows reads unscaled gradients, and what it returns is scaled again.
   `PyFunc(g)`  ->  `S PyFunc(S g / S)`
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Callable, Deque, Dict, Iterator, List, NamedTuple, Set, Tuple

from graphmp.graph.control_flow import MERGES
from graphmp.graph.values import all_equal
from graphmp.graph.view import Consumer, GraphView, Port
from graphmp.policy.traits import homogeneity

_CARRIES_ZEROS = frozenset(
    ("BroadcastTo", "Cast", "Enter", "ExpandDims", "Identity", "RefEnter", "Reshape", "Squeeze", "Switch", "Tile", "Transpose")
)
_READS_AN_ARRAY = frozenset(("TensorArrayConcatV3", "TensorArrayGatherV3", "TensorArrayReadV3"))


class Code(NamedTuple):
    """Gradient code to follow the scale through.

    Attributes:
        view: the graph.
        nodes: the gradient code.
        seeds: where it starts; their degree is 1.
        is_float: whether an output holds floating point numbers.
        is_list: whether an output holds a TensorList, which may be of such numbers.
        calls: op types that call functions, which are gradient code of their own and linear.
        looped: whether a node lies in a while loop.
    """

    view: GraphView
    nodes: AbstractSet[str]
    seeds: AbstractSet[Port]
    is_float: Callable[[Port], bool]
    is_list: Callable[[Port], bool]
    calls: AbstractSet[str]
    looped: Callable[[str], bool]


class Degrees(NamedTuple):
    """What the scale does to gradient code.

    Attributes:
        of: the degree of each node that depends on a seed.
        multiply: inputs (node, slot) and the power of the scale that they are to be multiplied by.
        rescale: nodes whose results are to be multiplied by the scale.
        unclear: nodes inside loops, and readers of lists, where rules 2 and 3 can't be applied.
    """

    of: Dict[str, int]
    multiply: Dict[Tuple[str, int], int]
    rescale: List[str]
    unclear: List[str]


def degrees(code: Code) -> Degrees:
    """Follows the scale from the seeds through gradient code."""
    return _Analysis(code).run()


class _Analysis:
    def __init__(self, code: Code):
        self._code = code
        self._view = code.view
        self._zeros: Dict[str, bool] = {}
        self._result = Degrees({}, {}, [], [])
        self._scaled = self._dependent()

    def run(self) -> Degrees:
        """Degrees in an order in which inputs come first; a loop's Merge takes what is known of it."""
        waiting = {name: sum(port.node in self._scaled for port in self._floats(name).values()) for name in self._scaled}
        left = collections.OrderedDict((name, None) for name in self._view.nodes if name in self._scaled)
        ready: Deque[str] = collections.deque(name for name in left if not waiting[name])
        while left:
            if not ready:
                ready.append(next((name for name in left if self._view.nodes[name].op in MERGES), next(iter(left))))
            name = ready.popleft()
            if name not in left:
                continue
            del left[name]
            self._result.of[name] = self._degree(name)
            for reader in self._readers(name):
                if reader.node in self._scaled:
                    waiting[reader.node] -= 1
                    if not waiting[reader.node]:
                        ready.append(reader.node)
        for name in self._scaled:
            self._check_loop(name)
        return self._result

    def _dependent(self) -> Set[str]:
        """Nodes that depend on a seed through floating point numbers."""
        waiting = [reader.node for port in self._code.seeds for reader in self._readers(port.node) if reader.output == port.output]
        found: Set[str] = set()
        while waiting:
            name = waiting.pop()
            if name not in found and self._rule(name) != "none":
                found.add(name)
                waiting.extend(reader.node for reader in self._readers(name))
        return found

    def _readers(self, name: str) -> Iterator[Consumer]:
        for consumer in self._view.consumers(name):
            if consumer.node in self._code.nodes and self._carries(Port(name, consumer.output)):
                yield consumer

    def _carries(self, port: Port) -> bool:
        return self._code.is_float(port) or self._code.is_list(port)

    def _floats(self, name: str) -> Dict[int, Port]:
        return {slot: port for slot, port in enumerate(self._view.inputs(name)) if self._carries(port)}

    def _known(self, name: str) -> Dict[int, int]:
        """Degrees of the inputs of a node that have one: a seed's is 1."""
        found = {}
        for slot, port in self._floats(name).items():
            if port in self._code.seeds:
                found[slot] = 1
            elif port.node in self._result.of:
                found[slot] = self._result.of[port.node]
        return found

    def _rule(self, name: str) -> str:
        op = self._view.nodes[name].op
        return "passes" if op in self._code.calls else homogeneity(op)

    def _degree(self, name: str) -> int:
        rule, known = self._rule(name), self._known(name)
        if not known:
            return 1  # a loop's Merge, presumed: checked in the end
        highest = max(known.values())
        if rule == "product":
            return sum(known.values())
        if rule == "quotient":
            return known.get(0, 0) - known.get(1, 0)
        if rule == "inverse":
            return -highest
        if rule in ("root", "inverse_root") and highest % 2 == 0:
            return highest // (2 if rule == "root" else -2)
        if rule in ("passes", "reduce", "sum", "square"):
            return self._equal(name, known, rule != "passes") * (2 if rule == "square" else 1)
        return self._unscaled(name, known)

    def _equal(self, name: str, known: Dict[int, int], all_inputs: bool) -> int:
        """The highest degree of the inputs, to which the others are lifted."""
        highest = max(known.values())
        for slot, port in self._floats(name).items():
            free = not all_inputs or port.node in self._scaled or self._is_zero(port.node) or self._code.is_list(port)
            degree = known.get(slot, highest if free else 0)
            if degree != highest:
                self._multiply(name, slot, highest - degree)
        return highest

    def _unscaled(self, name: str, known: Dict[int, int]) -> int:
        for slot, degree in known.items():
            if degree:
                self._multiply(name, slot, -degree)
        if self._code.looped(name):
            return max(known.values())
        self._result.rescale.append(name)
        return 1

    def _multiply(self, name: str, slot: int, power: int) -> None:
        if self._code.looped(name) or not self._code.is_float(self._view.inputs(name)[slot]):
            self._result.unclear.append(name)
        else:
            self._result.multiply[name, slot] = power

    def _check_loop(self, name: str) -> None:
        """A Merge that was presumed to have a degree must get just that from its loop."""
        looped = self._view.nodes[name].op in MERGES and self._code.looped(name)
        if looped and any(degree != self._result.of[name] for degree in self._known(name).values()):
            self._result.unclear.append(name)

    def _is_zero(self, name: str) -> bool:
        """Whether a node gives zeros, or the flow of a TensorArray: they have any degree."""
        if name not in self._zeros:
            self._zeros[name] = False  # a loop ends here
            self._zeros[name] = self._all_zero(name)
        return self._zeros[name]

    def _all_zero(self, name: str) -> bool:
        node, inputs = self._view.nodes[name], self._view.inputs(name)
        if node.op == "Const":
            return all_equal(node, 0)
        if node.op == "Fill":
            return self._is_zero(inputs[1].node)
        if node.op in _CARRIES_ZEROS:
            return self._is_zero(inputs[0].node)
        if node.op in ("AddN", "Merge", "Pack"):
            return all(self._is_zero(port.node) for port in inputs)
        return node.op == "ZerosLike" or (node.op.startswith("TensorArray") and node.op not in _READS_AN_ARRAY)
