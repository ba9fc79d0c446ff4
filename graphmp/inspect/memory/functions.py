"""Called functions as graphs of their own, and results of calls that are their inputs."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.calls import functions_by_name
from graphmp.graph.structure.view import Port
from graphmp.inspect.memory.aliases import Aliases
from graphmp.inspect.sizes import ShapeSource, Sizes
from graphmp.policy.dtypes import VARIANT
from graphmp.policy.op_sets import ARGUMENT, RESULT, WHILES
from graphmp.rewrite.units import TypedGraph
from graphmp.tf_hooks import bodies
from graphmp.tf_hooks.op_defs import OpDefs


class FunctionBody(NamedTuple):
    """A function's graph, its sizes, and its arguments and results as tensors of that graph."""

    graph: TypedGraph
    sizes: Sizes
    arguments: List[Port]
    results: List[Port]

    def looped(self) -> Dict[Port, Port]:
        """For a while loop's body, the changing arguments, with the previous iteration's results.

        Without lists.
        """
        aliases = Aliases(self.graph, self.sizes)
        pairs = zip(self.arguments, self.results)
        return {
            port: result
            for port, result in pairs
            if self.sizes.dtype(port) != VARIANT
            and self.graph.view.nodes[aliases.maker(result).node].op != ARGUMENT
        }

    def unchanged(self) -> List[int]:
        """Indices of the arguments that are unchanged results."""
        aliases = Aliases(self.graph, self.sizes)
        return [
            number
            for number, pair in enumerate(zip(self.arguments, self.results))
            if aliases.maker(pair[1]) == pair[0]
        ]


class Library:
    """The functions of a graph."""

    def __init__(self, meta_graph: tf.MetaGraphDef, op_defs: OpDefs):
        """Reads no function yet."""
        self._functions = functions_by_name(meta_graph.graph_def)
        self._op_defs = op_defs

    def body(
        self, name: str, arguments: Sequence[Optional[Sequence[int]]], unknown: int
    ) -> Optional[FunctionBody]:
        """A function by its name and its arguments' dimensions.

        None if it can't be read or is missing.
        """
        function = self._functions.get(name)
        graph_def = bodies.as_graph(function, self._op_defs) if function is not None else None
        if function is None or graph_def is None:
            return None
        graph = TypedGraph(graph_def, self._op_defs)
        ports = [Port(argument.name, 0) for argument in function.signature.input_arg]
        results = [graph.view.inputs(node.name)[0] for node in graph_def.node if node.op == RESULT]
        return FunctionBody(
            graph,
            Sizes(graph, ShapeSource(graph_def, unknown), dict(zip(ports, arguments))),
            ports,
            results,
        )

    def passed_through(self, graph: TypedGraph, sizes: Sizes) -> Dict[Port, Port]:
        """Results of a graph's while loops that are their inputs."""
        found = {}
        for name, node in graph.view.nodes.items():
            if node.op in WHILES:
                inputs = graph.view.inputs(name)
                body = self.body(
                    node.attr["body"].func.name,
                    [sizes.dimensions(port) for port in inputs],
                    sizes.unknown,
                )
                found.update(
                    {
                        Port(name, number): inputs[number]
                        for number in (body.unchanged() if body is not None else ())
                    }
                )
        return found
