"""The functions of two graphs, compared where they are called."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.hooks.bodies import as_graph
from graphmp.hooks.op_defs import OpDefs
from graphmp.verify.body import Body
from graphmp.verify.degrees import ONE, Degree, Degrees
from graphmp.verify.sides import Fault, Side, Sides
from graphmp.verify.types import type_faults
from graphmp.verify.wellformed import broken

_NAMES = ("forward_function_name", "backward_function_name")


def interface_faults(before: Any, after: Any, body: Body) -> Iterator[Fault]:
    """What differs between two FunctionDefs besides their nodes and what they name other functions."""
    name = after.signature.name
    for what in ("input_arg", "output_arg"):
        if [each.name for each in getattr(before.signature, what)] != [each.name for each in getattr(after.signature, what)]:
            yield Fault(name, "has other arguments or results than in the original, or in another order")
    run = {body.gates.waited_for(node) for node in after.control_ret.values()}
    for node in sorted(set(before.control_ret.values()) - run):
        yield Fault("library/%s/%s" % (name, node), "does not run with its function, as in the original")
    for key in sorted({*before.attr, *after.attr}.difference(_NAMES)):
        if (key in before.attr, before.attr.get(key)) != (key in after.attr, after.attr.get(key)):
            yield Fault(name, "has another attribute %s than in the original" % key)


def _is_longer(before: Any, after: Any) -> bool:
    return len(after.input_arg) > len(before.input_arg) or len(after.output_arg) > len(before.output_arg)


def _related(function: Any, gradients: Mapping[str, str]) -> List[str]:
    """The functions that a FunctionDef names as its gradient, or that it is the gradient of; empty names where it names none."""
    named = [function.attr[key].s.decode() if key in function.attr else "" for key in _NAMES]
    return [gradients.get(function.signature.name, ""), *named]


class Functions:
    """The function bodies of an original and a converted graph.

    Attributes:
        faults: what is wrong with bodies that are compared.
        type_faults: what is wrong with the types in them.
        are_extended: whether one takes or returns more than in the original.
    """

    def __init__(self, original: tf.MetaGraphDef, converted: tf.MetaGraphDef, devices: Sequence[str]):
        self._graphs, self._devices = (original, converted), devices
        self._op_defs = (OpDefs(original), OpDefs(converted))
        self._libraries = tuple({function.signature.name: function for function in graph.graph_def.library.function} for graph in self._graphs)
        self._bodies: Dict[Tuple[str, str], Optional[Body]] = {}
        self._known: Dict[Tuple[str, Tuple[Degree, ...]], Tuple[List[Degree], str]] = {}
        self.faults: List[Fault] = []
        self.type_faults: List[Fault] = []
        self.are_extended = False

    def compare(self, calls: Set[Tuple[str, str]]) -> None:
        """Compares the functions of some calls, those that they call, and those of the same name, once each."""
        before, after = self._libraries
        waiting = sorted({*calls, *((name, name) for name in before if name in after)})
        gradients = [{each.function_name: each.gradient_func for each in graph.graph_def.library.gradient} for graph in self._graphs]
        while waiting:
            pair = waiting.pop()
            if pair not in self._bodies and (pair[0] in before or pair[1] in after):
                self._bodies[pair] = body = self._body(*pair)
                if body is not None:
                    functions = (before[pair[0]], after[pair[1]])
                    self.are_extended |= _is_longer(*(function.signature for function in functions))
                    self.faults += interface_faults(*functions, body)
                    self._look_at(pair[1], body)
                    waiting += sorted(body.calls)
                    waiting += zip(*map(_related, functions, gradients))

    def _look_at(self, name: str, body: Body) -> None:
        inside = "library/%s/%%s" % name
        self.faults += [Fault(inside % node, text) for node, text in (*body.sides.faults, *body.unexplained())]
        self.type_faults += [Fault(inside % node, text) for node, text in type_faults(body.sides, self._devices)]

    def _body(self, before: str, after: str) -> Optional[Body]:
        """The bodies of two functions side by side; None where they can't be compared."""
        sides = []
        for name, graph, op_defs, library in zip((before, after), self._graphs, self._op_defs, self._libraries):
            graph_def = as_graph(library[name], op_defs) if name in library else None
            if graph_def is None:
                why = "an op or an argument of it has no known type" if name in library else "it has no body"
                self.faults.append(Fault(name, "is a function that can't be compared: %s" % why))
                return None
            sides.append(Side(graph, graph_def))
        faults = [Fault("library/%s/%s" % (name, fault.node), fault.text) for name, side in zip((before, after), sides) for fault in broken(side)]
        self.faults += faults
        return None if faults else Body(Sides(*sides))

    def called(self, function: str, given: Tuple[Degree, ...]) -> Tuple[List[Degree], str]:
        """The degrees of what a function of the converted graph returns, by those of its arguments, and what is wrong in it."""
        key = (function, given)
        if key not in self._known:
            self._known[key] = ([None] * self._results(function), "")  # while it is looked at: it may call itself
            self._known[key] = self._degrees(function, given)
        return self._known[key]

    def _results(self, function: str) -> int:
        return len(self._libraries[1][function].signature.output_arg)

    def _degrees(self, function: str, given: Tuple[Degree, ...]) -> Tuple[List[Degree], str]:
        body = next((body for (_, new), body in self._bodies.items() if new == function), None)
        if body is None:
            scaled = any(degree not in (None, ONE) for degree in given)
            text = "hands scaled values to the function %s, whose body is not known" % function if scaled else ""
            return [ONE] * self._results(function), text
        degrees = Degrees(body.sides, body.erasure, body.scales.nodes, self.called, given)
        problem = next(("library/%s/%s %s" % (function, node, text) for node, text in degrees.problems.items()), "")
        return degrees.results(), problem
