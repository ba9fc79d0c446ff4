"""Which nodes of a graph are zero, whatever is fed."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List

from graphmp.graph.structure.values import all_equal
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import ARRAY_READS, EMPTY_LISTS, PLACEHOLDERS


class Zeros:
    """Answers which nodes are zero, each once. A loop variable counts as not zero."""

    def __init__(self, view: GraphView, carries: Callable[[Port], bool], known: Iterable[str] = ()):
        """Prepare the answers.

        Args:
            view: the graph.
            carries: whether an output holds floating-point numbers, or a list of them.
            known: nodes that are zero.
        """
        self._view, self._carries = view, carries
        self._zeros: Dict[str, bool] = dict.fromkeys(known, True)

    def has(self, name: str) -> bool:
        """Whether a node is zero, or a TensorArray or TensorList of zeros."""
        waiting = [] if name in self._zeros else [name]
        while waiting:
            at = waiting[-1]
            ways = self._ways(at)
            if at not in self._zeros:
                self._zeros[at] = False  # a loop ends here
                waiting += [each for way in ways for each in way if each not in self._zeros]
            else:
                self._zeros[at] = any(all(self._zeros[each] for each in way) for way in ways)
                waiting.pop()
        return self._zeros[name]

    def _ways(self, name: str) -> List[List[str]]:
        """The sets of inputs each of which makes a node zero if all in it are.

        What is homogeneous of a positive degree makes zeros of zeros.
        """
        node, inputs = self._view.nodes[name], self._view.inputs(name)
        law = rule(node.op)
        floats = [slot for slot, port in enumerate(inputs) if self._carries(port)]
        if node.op in EMPTY_LISTS | {"ZerosLike"}:
            return [[]]
        if node.op == "Const":
            return [[]] if all_equal(node, 0) else []
        if node.op.startswith("TensorArray"):
            return [] if node.op in ARRAY_READS else [[]]
        if law.outputs is not None or not floats or node.op in PLACEHOLDERS:
            return []
        terms = law.terms(floats if law.slots is None else law.slots)
        return [[inputs[slot].node for slot in term.slots] for term in terms if term.power > 0]
