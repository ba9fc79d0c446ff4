"""Calls of functions in gradient code: degrees of their results.

The scale is followed through the functions' bodies.

1. A call returns the degrees of its body's results, if nothing inside needs to be multiplied or
   divided: the scale isn't available there.
2. The branches of an If or a Case must return the same degrees; the body of a While must return the
   degrees of its inputs.
3. The gradient of a function is linear in the gradients that it reads, and reads nothing else that
   is scaled.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import BRANCHES, functions_by_name
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.dtypes import COMPLEX, FLOATS, VARIANT
from graphmp.policy.op_sets import ARGUMENT, CALLS, CHOICES, RESULT, WHILES
from graphmp.scaling.degrees.code import Degree, ScaledCode
from graphmp.scaling.degrees.homogeneity import Analysis
from graphmp.tf_hooks.bodies import as_graph
from graphmp.tf_hooks.op_defs import OpDefs

Results = Optional[Tuple[Degree, ...]]


class CalledFunctions:
    """The functions of a library, and how they transform degrees."""

    def __init__(self, library: tf.GraphDef, op_defs: OpDefs):
        """`library`: a graph with functions; bodies are read on demand."""
        self._functions = functions_by_name(library)
        self._custom = frozenset(row.function_name for row in library.library.gradient)
        self._op_defs = op_defs
        self._bodies: Dict[str, Optional[GraphView]] = {}
        self._found: Dict[Tuple[str, Tuple[Degree, ...]], Results] = {}

    def results(self, node: Any, given: Sequence[Degree]) -> Results:
        """Degrees of a node's results, given those of its inputs.

        None if a function isn't homogeneous.
        """
        if node.op in self._functions:
            return self._of(node.op, given)
        if node.op in WHILES:
            return self._of_loop(node.attr["cond"].func.name, node.attr["body"].func.name, given)
        if node.op in CHOICES:
            names = (
                [f.name for f in node.attr["branches"].list.func] if "branches" in node.attr else []
            )
            names = names or [node.attr[branch].func.name for branch in BRANCHES]
            found = [self._of(name, given[1:]) for name in names]
            return (
                None
                if any(each is None for each in found)
                else _joined([each for each in found if each is not None])
            )
        if node.op == "SymbolicGradient":
            return self._of_gradient(node, given)
        return self._of(node.attr["f"].func.name, given)

    def _of(self, name: str, given: Sequence[Degree]) -> Results:
        key = (name, tuple(given))
        if key not in self._found:
            self._found[key] = None  # a function that calls itself
            self._found[key] = self._followed(name, given)
        return self._found[key]

    def _followed(self, name: str, given: Sequence[Degree]) -> Results:
        view = self._body(name)
        if view is None:
            return None
        arguments = [Port(name, 0) for name, node in view.nodes.items() if node.op == ARGUMENT]
        results = [view.inputs(name)[0] for name, node in view.nodes.items() if node.op == RESULT]
        code = self._code(view, frozenset(arguments))
        carried = {
            port: degree
            for port, degree in zip(arguments, given)
            if code.is_float(port) or code.is_list(port)
        }
        analysis = Analysis(code, carried)
        found = analysis.degrees
        if found.multiply or found.rescale or found.unclear or found.float32:
            return None
        return tuple(
            carried[port]
            if port in carried
            else None
            if analysis.is_zero(port.node)
            else found.at(port)
            for port in results
        )

    def _code(self, view: GraphView, arguments: AbstractSet[Port]) -> ScaledCode:
        """A whole body, as code that starts from its arguments."""
        types = {name: self._op_defs.signature(node) for name, node in view.nodes.items()}

        def dtype(port: Port) -> int:
            if port in arguments:
                return int(view.nodes[port.node].attr["T"].type)
            signature = types[port.node]
            outputs = signature.outputs if signature is not None else ()
            return outputs[port.output].dtype if port.output < len(outputs) else 0

        def is_list(port: Port) -> bool:
            return dtype(port) == VARIANT or dtype(port) in COMPLEX

        def called(name: str, given: Sequence[Degree]) -> Results:
            return self.results(view.nodes[name], given)

        calls = CALLS | self._functions.keys()
        return ScaledCode(
            view,
            view.nodes.keys(),
            arguments,
            lambda port: dtype(port) in FLOATS,
            is_list,
            calls,
            lambda _: True,
            called,
        )

    def _body(self, name: str) -> Optional[GraphView]:
        if name not in self._bodies:
            function = self._functions.get(name)
            graph = None if function is None else as_graph(function, self._op_defs)
            self._bodies[name] = None if graph is None else GraphView(graph)
        return self._bodies[name]

    def _of_loop(self, condition: str, body: str, given: Sequence[Degree]) -> Results:
        """Check that a loop returns the degrees of its inputs.

        Zeros get the degrees that the body returns for them.
        """
        state: Tuple[Degree, ...] = tuple(given)
        for _ in range(len(state) + 1):
            found = self._of(body, state)
            joined = None if found is None else _joined([state, found])
            if joined is None or joined == state:
                break
            state = joined
        return joined if joined is not None and self._of(condition, joined) is not None else None

    def _of_gradient(self, node: Any, given: Sequence[Degree]) -> Results:
        count = len(node.attr["Tout"].list.type)
        name = node.attr["f"].func.name
        read: List[Degree] = [degree for degree in given[count:] if degree is not None]
        if name in self._custom or any(given[:count]) or len(set(read)) > 1:
            return None
        return (read[0] if read else None,) * count


def _joined(found: Sequence[Sequence[Degree]]) -> Results:
    """The common degree of two alternatives; zeros have any."""
    result: List[Degree] = []
    for degrees in zip(*found):
        known = {degree for degree in degrees if degree is not None}
        if len(known) > 1:
            return None
        result.append(known.pop() if known else None)
    return tuple(result)
