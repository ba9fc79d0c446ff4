"""The functions of two graphs, compared where they are called."""

from __future__ import annotations

import functools
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from graphmp.graph.state.state import writing_functions
from graphmp.graph.structure.calls import functions_by_name
from graphmp.naming import in_body
from graphmp.tf_hooks.bodies import as_graph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.verify.body import BodyFindings
from graphmp.verify.dtypes.types import type_faults
from graphmp.verify.scales.degrees import ONE, Degree, Degrees
from graphmp.verify.sides import Fault, Side, Sides
from graphmp.verify.structure.attributes import HINTS, without_more
from graphmp.verify.structure.interface import Interface
from graphmp.verify.wellformed import broken

_NAMES = ("forward_function_name", "backward_function_name")


def interface_faults(before: Any, after: Any, body: BodyFindings) -> Iterator[Fault]:
    """Differences between two FunctionDefs, except for nodes and names of other functions."""
    name = after.signature.name
    for what in ("input_arg", "output_arg"):
        old, new = (
            [each.name for each in getattr(function.signature, what)]
            for function in (before, after)
        )
        if old != new[: len(old)]:
            yield Fault(
                name, "has other arguments or results than in the original, or in another order"
            )
    for place in range(len(before.signature.input_arg)):
        if _of_argument(before, place) != _of_argument(after, place):
            yield Fault(name, "says something else of argument %d than in the original" % place)
    if before.signature.is_stateful and not after.signature.is_stateful:
        yield Fault(name, "is said to have no state, and has in the original")
    ends = [list(function.signature.control_output) for function in (before, after)]
    if ends[0] != ends[1][: len(ends[0])]:
        yield Fault(name, "runs other nodes for their effects than in the original")
    run = set().union(*map(body.gates.waited_for, after.control_ret.values()))
    for node in sorted(set(before.control_ret.values()) - run):
        yield Fault(in_body(name, node), "does not run with its function, as in the original")
    for key in sorted({*before.attr, *after.attr}.difference(_NAMES)):
        given, found = (function.attr.get(key) for function in (before, after))
        if given is not None and found is not None and key == "_input_shapes":
            found = without_more(given, found)
        if given != found:
            yield Fault(name, "has another attribute %s than in the original" % key)


def _of_argument(function: Any, place: int) -> Tuple[Dict[str, bytes], Optional[int]]:
    """The attributes of an argument, and the number of the resource that it may share."""
    attributes = function.arg_attr[place].attr if place in function.arg_attr else {}
    shared = getattr(function, "resource_arg_unique_id", {})  # TensorFlow 1.15 has no such field
    return (
        {key: serialize(value) for key, value in attributes.items() if key not in HINTS},
        shared.get(place),
    )


def _related(function: Any, gradients: Mapping[str, str]) -> List[str]:
    """The functions related to a FunctionDef by a gradient, in either direction; empty if none."""
    named = [function.attr[key].s.decode() if key in function.attr else "" for key in _NAMES]
    return [gradients.get(function.signature.name, ""), *named]


class Functions:
    """The function bodies of an original and a converted graph.

    Attributes:
        bodies: the compared bodies, by the name of the converted function.
        faults: faults of compared bodies.
        type_faults: faults of the types in them.
    """

    def __init__(
        self, original: tf.MetaGraphDef, converted: tf.MetaGraphDef, devices: Sequence[str]
    ):
        self._graphs, self._devices = (original, converted), devices
        self._op_defs = (OpDefs(original), OpDefs(converted))
        self._libraries = tuple(functions_by_name(graph.graph_def) for graph in self._graphs)
        self._without_main = tuple(map(_library, self._graphs))
        self._writing = tuple(map(_writing, self._graphs))
        self._bodies: Dict[Tuple[str, str], Optional[BodyFindings]] = {}
        self._interfaces: Dict[Tuple[str, str], Optional[Interface]] = {}
        self._known: Dict[Tuple[str, Tuple[Degree, ...]], Tuple[List[Degree], str]] = {}
        self.bodies: Dict[str, BodyFindings] = {}
        self.faults: List[Fault] = []
        self.type_faults: List[Fault] = []

    def compare(self, calls: Set[Tuple[str, str]]) -> None:
        """Compare the functions of calls, their callees, and those of the same name, once."""
        before, after = self._libraries
        waiting = sorted({*calls, *((name, name) for name in before if name in after)})
        gradients = [
            {each.function_name: each.gradient_func for each in graph.graph_def.library.gradient}
            for graph in self._graphs
        ]
        seen = set()
        while waiting:
            pair = waiting.pop()
            if pair not in seen and (pair[0] in before or pair[1] in after):
                seen.add(pair)
                body = self._body(pair)
                if body is not None:
                    functions = (before[pair[0]], after[pair[1]])
                    self.faults += interface_faults(*functions, body)
                    self._look_at(pair, body)
                    waiting += sorted(body.calls)
                    waiting += zip(*map(_related, functions, gradients))

    def compare_degrees(self) -> None:
        """Check functions without calls from the main graph.

        Nothing in their interface is scaled.
        """
        for name, body in sorted(self.bodies.items()):
            self._look_at_degrees(name, body)

    def interface(self, pair: Tuple[str, str]) -> Optional[Interface]:
        """The interface of a function of the converted graph.

        None if it can't be compared or recurses.
        """
        if pair not in self._interfaces:
            self._interfaces[pair] = None
            body = self._body(pair)
            self._interfaces[pair] = None if body is None else Interface(pair[1], body)
        return self._interfaces[pair]

    def is_extended(self, name: str) -> bool:
        """Whether a function of the converted graph has more arguments than the original's."""
        before, after = (
            [argument.name for argument in library[name].signature.input_arg]
            if name in library
            else []
            for library in self._libraries
        )
        return len(after) > len(before)

    def _look_at(self, pair: Tuple[str, str], body: BodyFindings) -> None:
        interface = self.interface(pair)
        if interface is not None and interface.unsaid():
            self.faults.append(
                Fault(pair[1], "returns gradients that it takes, and no flag that looks at them")
            )
        self.faults += [
            Fault(in_body(pair[1], node), text)
            for node, text in (*body.sides.faults, *body.unexplained())
        ]
        self.type_faults += [
            Fault(in_body(pair[1], node), text)
            for node, text in type_faults(body.sides, self._devices)
        ]

    def _look_at_degrees(self, name: str, body: BodyFindings) -> None:
        if any(function == name for function, _ in self._known):
            return
        results, problem = self.called(name, (ONE,) * len(body.sides.after.arguments))
        if problem or any(degree not in (None, ONE) for degree in results):
            self.faults.append(
                Fault(name, problem or "gives values that are multiplied by a loss scale")
            )

    def _body(self, pair: Tuple[str, str]) -> Optional[BodyFindings]:
        """The bodies of two functions; None if they can't be compared."""
        if pair not in self._bodies:
            self._bodies[pair] = None  # while it is examined: it may call itself
            self._bodies[pair] = body = self._compared(pair)
            if body is not None:
                self.bodies[pair[1]] = body
        return self._bodies[pair]

    def _compared(self, pair: Tuple[str, str]) -> Optional[BodyFindings]:
        sides = []
        for name, graph, op_defs, library, writing in zip(
            pair, self._without_main, self._op_defs, self._libraries, self._writing
        ):
            graph_def = as_graph(library[name], op_defs) if name in library else None
            if graph_def is None:
                why = (
                    "an op or an argument of it has no known type"
                    if name in library
                    else "it has no body"
                )
                self.faults.append(Fault(name, "is a function that can't be compared: %s" % why))
                return None
            sides.append(Side(graph, graph_def, op_defs, name, None, writing, library))
        faults = [
            Fault(in_body(name, fault.node), fault.text)
            for name, side in zip(pair, sides)
            for fault in broken(side)
        ]
        self.faults += faults
        return None if faults else BodyFindings(Sides(*sides), self)

    def called(self, function: str, given: Tuple[Degree, ...]) -> Tuple[List[Degree], str]:
        """The degrees of a converted function's results, by those of its arguments, and faults."""
        key = (function, given)
        if function not in self._libraries[1]:
            return [], "calls the function %r, which the graph lacks" % function
        if key not in self._known:
            self._known[key] = (
                [None] * self._results(function),
                "",
            )  # while it is examined: it may call itself
            self._known[key] = self._degrees(function, given)
        return self._known[key]

    def _results(self, function: str) -> int:
        return len(self._libraries[1][function].signature.output_arg)

    def _degrees(self, function: str, given: Tuple[Degree, ...]) -> Tuple[List[Degree], str]:
        body = self.bodies.get(function)
        if body is None:
            scaled = any(degree not in (None, ONE) for degree in given)
            text = (
                "hands scaled values to the function %s, whose body is not known" % function
                if scaled
                else ""
            )
            return [ONE] * self._results(function), text
        degrees = Degrees(
            body.sides, body.erasure, body.scales.nodes, self.called, body.named, given
        )
        problem = next(
            ("%s %s" % (in_body(function, node), text) for node, text in degrees.problems.items()),
            "",
        )
        return degrees.results(), problem


def compared(sides: Sides, devices: Sequence[str]) -> Tuple[BodyFindings, Functions]:
    """Two main graphs and their functions, compared."""
    functions = Functions(sides.before.meta_graph, sides.after.meta_graph, devices)
    body = BodyFindings(sides, functions)
    functions.compare(body.calls)
    return body, functions


def _library(graph: tf.MetaGraphDef) -> tf.MetaGraphDef:
    """A graph with only its functions."""
    found = tf.MetaGraphDef()
    found.graph_def.library.CopyFrom(graph.graph_def.library)
    return found


def _writing(meta_graph: tf.MetaGraphDef) -> Callable[[], AbstractSet[str]]:
    """A function that finds the functions that change state, once for all bodies."""
    return functools.lru_cache(maxsize=None)(
        functools.partial(writing_functions, meta_graph.graph_def)
    )
