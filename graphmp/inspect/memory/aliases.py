"""Tensors that share memory: for each tensor the one that allocated it.

Rules, the first match counts:

1. A read of a variable, and an output that is a reference, is the variable.
2. A pop of a Stack returns the pushed tensor; an element of a TensorArray or TensorList counts as
   all of it.
3. An op that passes a tensor on (`policy/traits.txt`, moves_nothing, except those that only read
   shapes) returns its input.
4. The Merge of a conditional returns the result of a branch, rather than a value that one passed
   through; that of a while loop returns the previous iteration's result, or the initial value if no
   iteration changes it.
5. The same applies to the op While: results that its body passes through are its inputs
   (`functions.py`).

The output of any other op is its own.
"""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Tuple

from graphmp.graph.structure.view import Port
from graphmp.inspect.sizes import Sizes
from graphmp.policy.dtypes import VARIANT
from graphmp.policy.op_sets import (
    MERGES,
    NEXT_ITERATIONS,
    POPS,
    PUSHES,
    SWITCHES,
    VARIABLE_OPS,
    WHILES,
)
from graphmp.policy.traits import FORGETS_VALUES, MOVES_NOTHING
from graphmp.rewrite.units import TypedGraph

HANDS_ON = MOVES_NOTHING - FORGETS_VALUES
_NOTHING: Mapping[Port, Port] = {}
_ELEMENTS = {
    "TensorArrayReadV3": 0,
    "TensorListGetItem": 0,
    "TensorListPopBack": 1,
}  # op: the output that is an element


class Aliases:
    """The allocating tensor of each tensor of a graph.

    Attributes:
        saved: the pushed tensors, by the tensor that created the Stack.
    """

    def __init__(self, graph: TypedGraph, sizes: Sizes, given: Mapping[Port, Port] = _NOTHING):
        """Find the tensors pushed onto each Stack; all else is computed on demand.

        Args:
            graph: the graph, or a function's.
            sizes: its sizes.
            given: tensors that equal others for reasons outside of the graph.
        """
        self._graph = graph
        self._sizes = sizes
        self._given = given
        self._makers: Dict[Port, Port] = {}
        self._array_gradients: Dict[Tuple[Port, bytes], Port] = {}
        self.saved: Dict[Port, Port] = {}
        for name in [name for name, node in graph.view.nodes.items() if node.op in PUSHES]:
            handle, element = graph.view.inputs(name)[:2]
            self.saved[self.maker(handle)] = element
        self._makers.clear()  # not all pushes were known

    def maker(self, port: Port) -> Port:
        """The tensor that allocated a tensor's memory."""
        path: Dict[Port, None] = {}
        while port not in self._makers:
            path[port] = None
            source = self._source(port)
            if source in path:
                source = self._entered(path)
            if source is None:
                self._makers[port] = port
            else:
                port = source
        self._makers.update(dict.fromkeys(path, self._makers[port]))
        return self._makers[port]

    def _source(self, port: Port) -> Optional[Port]:
        """The tensor that a tensor directly equals; None if its op allocates it."""
        op, inputs = self._graph.view.nodes[port.node].op, self._graph.view.inputs(port.node)
        if port in self._given:
            return self._given[port]
        if not inputs or op in VARIABLE_OPS:
            return None
        if op in POPS:
            return self.saved.get(self.maker(inputs[0]))
        if op in PUSHES:
            return inputs[1]
        if op in MERGES:
            return self._merged(port)
        if op == "IdentityN":
            return inputs[port.output]
        if op == "TensorArrayGradV3":
            return self._array_gradient(port)
        if (
            op in HANDS_ON
            or op in ("ReadVariableOp", "TensorListFromTensor")
            or _ELEMENTS.get(op) == port.output
            or self._is_reference(port)
        ):
            return inputs[0]
        return self._same_list(port)

    def _is_reference(self, port: Port) -> bool:
        signature = self._graph.signature(port.node)
        return signature is not None and signature.output(port.output).is_ref

    def _merged(self, port: Port) -> Optional[Port]:
        """The tensor of a Merge, by rule 4; its other output is a number of its own."""
        view = self._graph.view
        if port.output:
            return None
        inputs = view.inputs(port.node)
        back = [each for each in inputs if view.nodes[each.node].op in NEXT_ITERATIONS]
        return (
            back or [each for each in inputs if not self._passes_through(each)] or list(inputs)
        )[0]

    def _passes_through(self, port: Port) -> bool:
        """Whether a tensor is a Switch's input to a branch."""
        view = self._graph.view
        while view.nodes[port.node].op in HANDS_ON - MERGES - SWITCHES and view.inputs(port.node):
            port = view.inputs(port.node)[0]
        return view.nodes[port.node].op in SWITCHES

    def _entered(self, path: Dict[Port, None]) -> Optional[Port]:
        """The initial value of a loop that passes it on unchanged.

        `path` has returned to itself.
        """
        view = self._graph.view
        merges = [port.node for port in path if view.nodes[port.node].op in MERGES]
        entered = [
            each
            for name in merges
            for each in view.inputs(name)
            if view.nodes[each.node].op not in NEXT_ITERATIONS and each not in path
        ]
        return entered[0] if entered else None

    def _array_gradient(self, port: Port) -> Optional[Port]:
        """All TensorArrayGradV3 of one TensorArray and source return the same handle."""
        if port.output:
            return None
        array = self.maker(self._graph.view.inputs(port.node)[0])
        first = self._array_gradients.setdefault(
            (array, self._graph.view.nodes[port.node].attr["source"].s), port
        )
        return None if first == port else first

    def _same_list(self, port: Port) -> Optional[Port]:
        """The TensorList that an op or a While takes and returns."""
        if self._sizes.dtype(port) != VARIANT:
            return None
        inputs = self._graph.view.inputs(port.node)
        same = inputs[port.output if self._graph.view.nodes[port.node].op in WHILES else 0]
        return same if self._sizes.dtype(same) == VARIANT else None
