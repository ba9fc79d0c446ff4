"""Values as terms of sums: what is zero where they are, and what they are added to.

Structure alone decides: sums, products with anything, quotients, selections, copies and shapes.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, Dict, Iterator, Set, Tuple

from graphmp.graph.structure.view import Consumer, GraphView, Port
from graphmp.policy.op_sets import IDENTITIES, MERGES, READS, SELECTS, SUMS, SWITCHES

# By the op: whether all of some inputs must be zero for its results to be, or any; and which.
_Rule = Tuple[Callable[[Iterator[bool]], bool], slice]
_FIRST = IDENTITIES | SWITCHES | {"Cast", "CheckNumerics", "ClipByValue", "Div"}
_FIRST |= {"ExpandDims", "IdentityN", "Maximum", "Minimum", "Neg", "RealDiv", "Reshape", "Slice"}
_FIRST |= {"Squeeze", "StridedSlice", "Transpose", "UnsortedSegmentSum"}
_RULES: Dict[str, _Rule] = {
    **{op: (all, slice(1)) for op in _FIRST},
    **{op: (all, slice(None)) for op in SUMS | MERGES | {"Pack", "Sub"}},
    **{op: (all, slice(1, None)) for op in SELECTS | {"Concat", "Split"}},
    "ConcatV2": (all, slice(-1)),
    "Mul": (any, slice(None)),
    "SplitV": (all, slice(1)),
}
_NO_RULE: _Rule = (any, slice(0))
_OF_MANY = frozenset(("Mean", "Sum"))  # of what a variable keeps: a gradient in each row


def vanishing(view: GraphView, starts: AbstractSet[Port]) -> Callable[[Port], bool]:
    """A test of whether an output is zero where some outputs are."""
    found: Set[str] = set()

    def is_zero(port: Port) -> bool:
        return port in starts or port.node in found

    waiting = [c.node for p in starts for c in view.consumers(p.node) if c.output == p.output]
    while waiting:
        name = waiting.pop()
        decides, slots = _RULES.get(view.nodes[name].op, _NO_RULE)
        if name not in found and decides(map(is_zero, view.inputs(name)[slots])):
            found.add(name)
            waiting.extend(consumer.node for consumer in view.consumers(name))
    return is_zero


def takers(view: GraphView, variable: str) -> Set[str]:
    """The nodes that take a variable's value, or a sum of which it is a term, or a multiple."""
    passed, found, waiting = {variable}, set(), [variable]
    while waiting:
        name = waiting.pop()
        is_read = name == variable or view.nodes[name].op in READS
        for consumer in view.consumers(name):
            found.add(consumer.node)
            if consumer.node not in passed and _hands_on(view, consumer, is_read):
                passed.add(consumer.node)
                waiting.append(consumer.node)
    return found


def _hands_on(view: GraphView, consumer: Consumer, is_read: bool) -> bool:
    """Whether a consumer of a term gives a sum or a multiple of it."""
    op: Any = view.nodes[consumer.node].op
    if op in READS or (is_read and op in _OF_MANY):
        return consumer.slot == 0
    slots = _RULES.get(op, _NO_RULE)[1]
    return consumer.slot in range(len(view.inputs(consumer.node)))[slots]


def adds_to_itself(view: GraphView, port: Port, variables: AbstractSet[str]) -> bool:
    """Whether a value is the sum of what a variable holds and something else."""
    port = view.behind(port, IDENTITIES)
    return view.nodes[port.node].op in SUMS and any(
        view.behind(term, READS).node in variables for term in view.inputs(port.node)
    )
