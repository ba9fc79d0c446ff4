"""The proof of one body: the main graph, or a function's, on both sides."""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.view import Port
from graphmp.hooks.bodies import as_graph
from graphmp.hooks.op_defs import OpDefs
from graphmp.once import once
from graphmp.verify.clips import Clips
from graphmp.verify.degrees import ONE, Degree, Degrees
from graphmp.verify.erase import Erasure
from graphmp.verify.flags import Flags
from graphmp.verify.gates import Gates
from graphmp.verify.matcher import Matcher
from graphmp.verify.order import Order
from graphmp.verify.scales import TEMPLATES, Scales
from graphmp.verify.sides import Fault, Side, Sides


class Body:
    """What was found in one body.

    Attributes:
        sides: the body before and after.
        scales: its loss scales.
        clips: its clips.
        gates: the gates of its writes.
        erasure: what its added nodes mean.
        calls: the functions that it calls, side by side.
    """

    def __init__(self, sides: Sides):
        self.sides = sides
        self._matcher = Matcher(sides.after.view, sides.added, TEMPLATES)
        self.scales = Scales(sides, self._matcher)
        self.clips = Clips(sides, self._matcher)
        self.gates = Gates(sides, self._matcher, Flags(sides, self._matcher, self.scales))
        self.erasure = Erasure(sides, self._matcher, self.scales, self.clips, self.gates)
        self.erasure.compare()
        self.gates.by_waiting()
        Order(sides, self._matcher, self.scales, self.gates, self.erasure).compare()
        sides.faults += self.erasure.roundings()
        self.calls = self.erasure.calls

    def unexplained(self) -> Iterator[Fault]:
        """Added nodes that fit no template."""
        for name in sorted(self.sides.added - self._matcher.used):
            found = self._matcher.match("idle", Port(name, 0))
            if found is None:
                yield Fault(name, "fits no template of what a conversion puts in")


class Functions:
    """The functions of two graphs, compared where they are called."""

    def __init__(self, original: tf.MetaGraphDef, converted: tf.MetaGraphDef):
        self._graphs = (original, converted)
        self._libraries = tuple({function.signature.name: function for function in graph.graph_def.library.function} for graph in self._graphs)
        self._bodies: Dict[Tuple[str, str], Optional[Body]] = {}
        self._known: Dict[Tuple[str, Tuple[Degree, ...]], Tuple[List[Degree], str]] = {}
        self.faults: List[Fault] = []

    def compare(self, calls: Set[Tuple[str, str]]) -> None:
        """Compares the functions of some calls, those that they call, and those of the same name, once each."""
        waiting = sorted({*calls, *((name, name) for name in self._libraries[0] if name in self._libraries[1])})
        while waiting:
            pair = waiting.pop()
            if pair in self._bodies or pair[0] not in self._libraries[0] or pair[1] not in self._libraries[1]:
                continue
            body = self._bodies[pair] = self._body(*pair)
            if body is None:
                self.faults.append(Fault(pair[1], "is a function that can't be compared: an op or an argument of it has no known type"))
                continue
            found = [*body.sides.faults, *body.unexplained()]
            self.faults += [Fault("%s/%s" % (pair[1], fault.node), fault.text) for fault in found]
            waiting += sorted(body.calls)

    def called(self, function: str, given: Tuple[Degree, ...]) -> Tuple[List[Degree], str]:
        """The degrees of what a function of the converted graph returns, by those of its arguments, and what is wrong in it."""
        key = (function, given)
        if key not in self._known:
            self._known[key] = ([None] * len(self._libraries[1][function].signature.output_arg), "")  # while it is looked at: it may call itself
            self._known[key] = self._degrees(function, given)
        return self._known[key]

    def _degrees(self, function: str, given: Tuple[Degree, ...]) -> Tuple[List[Degree], str]:
        body = next((body for (_, new), body in self._bodies.items() if new == function), None)
        results = len(self._libraries[1][function].signature.output_arg)
        if body is None:
            scaled = any(degree not in (None, ONE) for degree in given)
            return [ONE] * results, "hands scaled values to the function %s, whose body is not known" % function if scaled else ""
        degrees = Degrees(body.sides, body.erasure, body.scales.nodes, self.called, given)
        problem = next(("%s/%s %s" % (function, node, text) for node, text in degrees.problems.items()), "")
        return degrees.results(), problem

    def _body(self, before: str, after: str) -> Optional[Body]:
        sides = []
        for name, graph, library in zip((before, after), self._graphs, self._libraries):
            graph_def = as_graph(library[name], self._op_defs(graph))
            if graph_def is None:
                return None
            sides.append(Side(graph, graph_def))
        return Body(Sides(*sides))

    def _op_defs(self, graph: tf.MetaGraphDef) -> OpDefs:
        return self._both[0] if graph is self._graphs[0] else self._both[1]

    @once
    def _both(self) -> Tuple[OpDefs, OpDefs]:
        return OpDefs(self._graphs[0]), OpDefs(self._graphs[1])
