"""Functions that train inside: their bodies as graphs, scaled like the main graph, and back.

1. An argument that passes a variable of the main graph is that variable here, through every level
   of calls.
2. A function runs as a whole: a node that waits for its results, its control outputs and all other
   final nodes represents the caller. A function without control outputs runs each of its writes
   (1.15.5, 2.21).
3. Any gated write adapts the scale (`arithmetic.py`), so that a body needs no additional control
   outputs or results.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from graphmp.graph.state.state import definitions, variable_behind, variable_keys, writes_itself
from graphmp.graph.structure.calls import called, functions_by_name, functions_named, with_called
from graphmp.graph.structure.gradient_names import gradient_scopes
from graphmp.graph.structure.gradient_record import RecordedCall, valid
from graphmp.graph.structure.view import GraphView, parse_input
from graphmp.policy.dtypes import RESOURCE
from graphmp.policy.op_sets import ARGUMENT, CHOICES, RESULT, UPDATE_PREFIXES, VARIABLE_OPS, WHILES
from graphmp.tf_hooks.bodies import as_graph, write_back
from graphmp.tf_hooks.op_defs import OpDefs

_HANDLE, RUNS = "VarHandleOp", "graphmp_runs"


class _Use(NamedTuple):
    """The uses of a function.

    Attributes:
        calls: the main graph's calls that lead to it, directly or indirectly.
        once: those that lead through no loop.
        compiled: the calls and functions by which XLA compiles it.
        sources: the sources of each argument: variables and other nodes of the main graph, or nodes
            of a caller.
    """

    calls: Set[str]
    once: Set[str]
    compiled: Set[str]
    sources: List[Set[str]]


class OpenBody:
    """The body of a function, open for changes.

    Attributes:
        name: of the function.
        calls: the main graph's calls that lead to it.
        once: those that lead through no loop.
        compiled: whether XLA compiles it.
        meta_graph: the body as a graph, with the main graph's collections of variables that contain
            its arguments.
    """

    def __init__(
        self,
        function: Any,
        graph_def: tf.GraphDef,
        meta_graph: tf.MetaGraphDef,
        view: GraphView,
        use: _Use,
        op_defs: OpDefs,
    ):
        """Open the body.

        Args:
            function: the FunctionDef.
            graph_def: its body, from `as_graph`.
            meta_graph: the main graph.
            view: its nodes.
            use: the function's uses.
            op_defs: definitions of all ops.
        """
        self.name, self.calls, self.once = function.signature.name, use.calls, use.once
        self.compiled = bool(use.compiled)
        self._function, self._op_defs = function, op_defs
        named = zip(function.signature.input_arg, use.sources)
        self._variables = {
            a.name: found
            for a, found in named
            if a.type == RESOURCE and found and all(_is_variable(view, n) for n in found)
        }
        for node in graph_def.node:
            if node.name in self._variables:
                node.op = _HANDLE
        ends = _ends(graph_def)
        graph_def.node.add(name=RUNS, op="NoOp").input.extend(
            "^" + name for name in [*self._control_outputs(), *ends]
        )
        graph_def.library.function.extend(
            _reached(graph_def, meta_graph.graph_def.library.function)
        )
        self.meta_graph = tf.MetaGraphDef(graph_def=graph_def)
        for key in variable_keys(meta_graph):
            self._collect(key, list(definitions(meta_graph, key)))

    def _control_outputs(self) -> List[str]:
        return [self._function.control_ret[name] for name in sorted(self._function.control_ret)]

    def _collect(self, key: str, collected: List[Any]) -> None:
        names = {parse_input(definition.variable_name).node for definition in collected}
        own = [
            type(collected[0])(variable_name=argument)
            for argument, found in self._variables.items()
            if found & names
        ]
        self.meta_graph.collection_def[key].bytes_list.value.extend(
            serialize(definition) for definition in own
        )

    @property
    def results(self) -> Set[str]:
        """The nodes that represent its results."""
        return {node.name for node in self.meta_graph.graph_def.node if node.op == RESULT}

    def take(self, name: str, dtype: int) -> None:
        """Add an argument."""
        self._function.signature.input_arg.add(name=name, type=dtype)
        self.meta_graph.graph_def.node.add(name=name, op=ARGUMENT).attr["T"].type = dtype

    def outside(self, variables: AbstractSet[str]) -> Set[str]:
        """The variables of the main graph behind some of the body's."""
        return {name for variable in variables for name in self._variables.get(variable, ())}

    def close(self) -> None:
        """Write the changed body back into its function."""
        graph_def = tf.GraphDef()
        for node in self.meta_graph.graph_def.node:
            if node.name == RUNS:
                for name, text in zip(sorted(self._function.control_ret), node.input):
                    self._function.control_ret[name] = parse_input(text).node
                continue
            copy = graph_def.node.add()
            copy.CopyFrom(node)
            if node.name in self._variables:
                copy.op = ARGUMENT
        write_back(graph_def, self._function, self._op_defs)


def training_functions(graph_def: tf.GraphDef, recorded: Sequence[RecordedCall] = ()) -> Set[str]:
    """Functions that write state themselves and take gradients or have update kernels.

    Gradients are known by name or from recorded calls.
    """
    library = {function.signature.name for function in graph_def.library.function}
    return {
        function.signature.name
        for function in graph_def.library.function
        if writes_itself(function, library) and _trains(function, recorded)
    }


def taking_functions(graph_def: tf.GraphDef, recorded: Sequence[RecordedCall]) -> Set[str]:
    """Functions in which recorded calls take gradients."""
    return {
        function.signature.name
        for function in graph_def.library.function
        if valid(recorded, function.node_def, in_function=True)
    }


def _trains(function: Any, recorded: Sequence[RecordedCall]) -> bool:
    nodes = function.node_def
    if any(node.op.startswith(UPDATE_PREFIXES) for node in nodes) or gradient_scopes(
        {node.name for node in nodes}
    ):
        return True
    return bool(valid(recorded, nodes, in_function=True))


def opened(
    functions: Iterable[Any], meta_graph: tf.MetaGraphDef, view: GraphView, op_defs: OpDefs
) -> Iterator[OpenBody]:
    """The bodies of functions without unknown ops."""
    uses = _uses(meta_graph.graph_def, view)
    for function in functions:
        graph_def = as_graph(function, op_defs)
        if graph_def is not None:
            yield OpenBody(
                function, graph_def, meta_graph, view, uses[function.signature.name], op_defs
            )


def _is_variable(view: GraphView, name: str) -> bool:
    return name in view.nodes and view.nodes[name].op in VARIABLE_OPS


def _uses(graph_def: tf.GraphDef, view: GraphView) -> Dict[str, _Use]:
    """The uses of each function of the library."""
    functions = functions_by_name(graph_def)
    calls = {
        name: [node for node in function.node_def if called(node, functions)]
        for name, function in functions.items()
    }
    found = {
        name: _Use(
            set(), set(), _compiled(name, function), [set() for _ in function.signature.input_arg]
        )
        for name, function in functions.items()
    }
    arguments = {
        name: dict(zip([a.name for a in f.signature.input_arg], found[name].sources))
        for name, f in functions.items()
    }
    waiting: List[Tuple[str, Any]] = [
        ("", node) for node in graph_def.node if called(node, functions)
    ]
    while waiting:
        caller, node = waiting.pop()
        inputs = [text for text in node.input if not text.startswith("^")][
            1 if node.op in CHOICES else 0 :
        ]
        for name in called(node, functions):
            learned = _learned(found[name].calls, found[caller].calls if caller else {node.name})
            learned |= _learned(
                found[name].compiled,
                _compiled(node.name, node) | (found[caller].compiled if caller else set()),
            )
            if node.op not in WHILES:
                learned |= _learned(found[name].once, found[caller].once if caller else {node.name})
            for text, known in zip(inputs, found[name].sources):
                source = (
                    arguments[caller].get(text, {"%s:%s" % (caller, text)})
                    if caller
                    else {variable_behind(view, parse_input(text).node) or parse_input(text).node}
                )
                learned |= _learned(known, source)
            waiting.extend((name, call) for call in calls[name] if learned)
    return found


def _learned(known: Set[str], more: AbstractSet[str]) -> bool:
    """Add facts. Returns whether any is new."""
    size = len(known)
    known |= more
    return len(known) > size


def _compiled(name: str, node: Any) -> Set[str]:
    """The name of a call or function that XLA must compile; else empty."""
    return (
        {name}
        if any(key in node.attr and node.attr[key].b for key in ("_XlaCompile", "_XlaMustCompile"))
        else set()
    )


def _ends(graph_def: tf.GraphDef) -> List[str]:
    """Final nodes: results, and writes that nothing waits for."""
    read = {parse_input(text).node for node in graph_def.node for text in node.input}
    return [
        node.name
        for node in graph_def.node
        if node.name not in read and node.op not in (ARGUMENT, _HANDLE)
    ]


def _reached(graph_def: tf.GraphDef, library: Iterable[Any]) -> List[Any]:
    """The functions of a library that a body calls, directly or indirectly."""
    functions = {function.signature.name: function for function in library}
    named = (name for node in graph_def.node for name in functions_named(node))
    found = with_called(functions, named)
    return [function for name, function in functions.items() if name in found]
