"""Calls of functions in a converted body: inputs for added arguments, and the meaning of results.

1. An added argument is a loss scale, a handle of one of its variables, or a flag; each call must
   bind it to such a value.
2. A loop passes the first two on unchanged. Its flag starts as true and is the conjunction over all
   iterations.
3. Gradients that a function divides by a scale are results of its call; a flag of the call tells
   whether those are finite that pass through values it checks.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from graphmp.graph.structure.calls import functions_named
from graphmp.graph.structure.view import Port
from graphmp.policy.dtypes import BOOL
from graphmp.policy.op_sets import CHOICES, PLAIN_CALLS, WHILES
from graphmp.verify.scales.ways import hidden
from graphmp.verify.sides import Fault, Sides
from graphmp.verify.structure import attributes
from graphmp.verify.structure.interface import Interface
from graphmp.verify.structure.matcher import Matcher


class Call(NamedTuple):
    """One call.

    Attributes:
        name: the node.
        functions: the functions it calls; for a loop condition and body.
        first: the index of the input for the first argument.
        loops: whether it is a loop.
    """

    name: str
    functions: Tuple[Interface, ...]
    first: int
    loops: bool

    @property
    def giving(self) -> Sequence[Interface]:
        """The functions whose results it returns."""
        return self.functions[-1:] if self.loops else self.functions


class BodyCalls:
    """The calls of one body."""

    def __init__(self, sides: Sides, matcher: Matcher, functions: Any):
        """`functions`: those of both graphs, from functions.py."""
        self._sides, self._matcher, self._functions, self._view = (
            sides,
            matcher,
            functions,
            sides.after.view,
        )
        self._known: Dict[str, Optional[Call]] = {}
        self._gradients: Dict[str, Dict[int, Tuple[Tuple[Interface, str], ...]]] = {}
        self._said: Dict[Port, Optional[FrozenSet[Port]]] = {}

    def __iter__(self) -> Iterator[Call]:
        """The calls of known functions."""
        for name in self._view.nodes:
            call = self.call(name)
            if call is not None:
                yield call

    def is_call(self, name: str) -> bool:
        """Whether a node calls known functions."""
        return self.call(name) is not None

    def call(self, name: str) -> Optional[Call]:
        """The call of a node; None for other nodes, and if a function can't be compared."""
        if name not in self._known:
            self._known[name] = self._call(name)
        return self._known[name]

    def _call(self, name: str) -> Optional[Call]:
        node = self._view.nodes[name]
        if (
            node.op not in WHILES | CHOICES | PLAIN_CALLS
            and node.op not in self._sides.after.library
        ):
            return None
        before = self._sides.before.view.nodes.get(name, node)
        pairs = [
            pair
            for pair in attributes.functions(before, node)
            if pair[1] in self._sides.after.library
        ]
        if node.op in WHILES:
            pairs.sort(key=lambda pair: pair[1] == node.attr["body"].func.name)
        found = [self._functions.interface(pair) for pair in pairs]
        if not found or None in found:
            return None
        return Call(name, tuple(found), int(node.op in CHOICES), node.op in WHILES)

    def more(self, name: str) -> int:
        """The number of a node's additional inputs for added arguments."""
        call = self.call(name)
        return 0 if call is None else max(len(function.more) for function in call.functions)

    def bound(self, call: Call, function: Interface) -> Dict[str, Port]:
        """The inputs of a call for its function's added arguments."""
        inputs = self._view.inputs(call.name)
        return {
            name: inputs[call.first + place]
            for place, name in function.more.items()
            if call.first + place < len(inputs)
        }

    def gradients(self, call: Call) -> Dict[int, List[Tuple[Interface, str]]]:
        """A call's results that depend on divisions by loss scales, with the functions' scales."""
        found: Dict[int, List[Tuple[Interface, str]]] = {}
        for function in call.giving:
            given = dict(function.gradients)
            while call.loops:  # results of one iteration are inputs of the next
                more = (
                    function.reached([Port(function.arguments[place], 0) for place in given])
                    - given.keys()
                )
                if not more:
                    break
                given.update(dict.fromkeys(more, frozenset().union(*given.values())))
            for place, scales in given.items():
                found.setdefault(place, []).extend((function, scale) for scale in sorted(scales))
        return found

    def said_finite(self, port: Port) -> Optional[FrozenSet[Port]]:
        """The gradients inside a call that one of its results checks; None if it is no flag."""
        if port not in self._said:
            self._said[port] = self._checked(port)
        return self._said[port]

    def _checked(self, port: Port) -> Optional[FrozenSet[Port]]:
        call = self.call(port.node)
        if call is None or not all(port.output in function.flags for function in call.giving):
            return None
        if call.loops and not self._holds_throughout(call, port.output):
            return None
        past: Set[int] = set()
        for function in call.giving:
            found = function.unchecked(port.output, frozenset())
            while call.loops and function.unchecked(port.output, found) - found:
                found |= function.unchecked(port.output, found)
            past |= found
        return frozenset(
            hidden(Port(port.node, place)) for place in self.gradients(call).keys() - past
        )

    def _holds_throughout(self, call: Call, place: int) -> bool:
        """Whether the flag of a loop starts as true, and remains false once it is."""
        start = self._view.inputs(call.name)[place]
        if (
            not call.giving[0].hands_on(place)
            or self._matcher.scalar(self._matcher.plain(start)) != 1.0
        ):
            return False
        self._matcher.used.add(self._matcher.plain(start).node)
        return True

    def faults(self, scales: Any) -> Iterator[Fault]:
        """Faults in the inputs of calls for added arguments, and in values passed on by loops.

        `scales`: the body's.
        """
        for call in self:
            for function in call.functions:
                yield from self._misfits(call, function)
                for name, port in self.bound(call, function).items():
                    if not self._fits(function.dtype(name), port, scales):
                        yield Fault(
                            call.name,
                            "hands %s to the argument %s of %s, which is no such loss scale,"
                            " variable or flag" % (port, name, function.name),
                        )
        yield from self._used_otherwise()

    def _fits(self, dtype: int, port: Port, scales: Any) -> bool:
        if dtype == BOOL:
            return self._matcher.scalar(self._matcher.plain(port)) == 1.0
        return (
            scales.at(port) if self._sides.after.is_float(port) else scales.handles.name(port)
        ) is not None

    def _misfits(self, call: Call, function: Interface) -> Iterator[Fault]:
        if function.more and len(function.arguments) + call.first != len(
            self._view.inputs(call.name)
        ):
            yield Fault(
                call.name,
                "hands %d arguments to %s"
                % (len(self._view.inputs(call.name)) - call.first, function.name),
            )
        elif call.loops and function is call.functions[-1]:
            for place, name in function.more.items():
                if place >= function.results or not function.hands_on(place):
                    yield Fault(call.name, "is a loop that does not hand on %s" % name)

    def _used_otherwise(self) -> Iterator[Fault]:
        """Functions with added arguments and uses other than calls, which don't bind them."""
        for name, node in self._view.nodes.items() if self._sides.after.library else ():
            if not self.is_call(name):
                for function in functions_named(node):
                    if function in self._sides.after.library and self._functions.is_extended(
                        function
                    ):
                        yield Fault(
                            name, "uses the function %s, which takes a loss scale" % function
                        )
