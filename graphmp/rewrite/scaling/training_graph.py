"""A graph as loss scaling looks at it: nodes, state, dtypes, loops and gradient code, each read once."""

from __future__ import annotations

from typing import Dict, List, Optional, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.branches import Conditions, conditions
from graphmp.graph.devices import Places
from graphmp.graph.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, RESOURCE, VARIANT
from graphmp.graph.frames import loop_depths
from graphmp.graph.gradient_code import gradient_code
from graphmp.graph.state import State
from graphmp.graph.view import GraphView, Port
from graphmp.once import once
from graphmp.rewrite.op_defs import OpDefs, PortType, Signature
from graphmp.rewrite.scaling.allreduce import AllReduces

FLOATS = frozenset((BFLOAT16, FLOAT16, FLOAT32, FLOAT64))


class TrainingGraph:
    """The main graph of a MetaGraphDef.

    Attributes:
        meta_graph: the graph with its collections.
        view: its nodes and edges.
        places: the devices of its nodes.
        state: its variables and what writes them.
        op_defs: definitions of its ops.
        reduces: its all-reduces.
        joined: nodes that hand gradients to all-reduces which belong to gradient code, those included; none without --allreduce_half.
        code: nodes of gradient code by scope.
        gradients: all nodes of gradient code.
        functions: names of the functions in its library.
    """

    def __init__(self, meta_graph: tf.MetaGraphDef, config: Config, op_defs: OpDefs):
        """Reads the graph; `config` may name gradient scopes."""
        self.meta_graph = meta_graph
        self.op_defs = op_defs
        self.view = GraphView(meta_graph.graph_def)
        self.places = Places(self.view)
        self.state = State(meta_graph, self.view, op_defs.get)
        self._depths = loop_depths(self.view)
        self._signatures: Dict[str, Optional[Signature]] = {}
        self.code: Dict[str, Set[str]] = gradient_code(self.view.nodes.keys(), config.gradient_scope)
        self.reduces = AllReduces(self.view, self.state.writes, self.is_float)
        joined = self.reduces.joined(self.code) if config.allreduce_half else {}
        self.joined: Set[str] = {name for nodes in joined.values() for name in nodes}
        for scope, nodes in joined.items():
            self.code[scope] |= nodes | self.reduces.ends(nodes)
        self.gradients: Set[str] = {name for nodes in self.code.values() for name in nodes}
        self.functions = frozenset(function.signature.name for function in meta_graph.graph_def.library.function)

    @once
    def conditions(self) -> Dict[str, Conditions]:
        """The nodes that run only where a conditional goes their way, with the sides that they are on."""
        return conditions(self.view)

    def dtype(self, port: Port) -> int:
        """The dtype of an output, as a number of the DataType enum; 0 where its op is unknown."""
        return self._type(port).dtype

    def _signature(self, name: str) -> Optional[Signature]:
        if name not in self._signatures:
            self._signatures[name] = self.op_defs.signature(self.view.nodes[name])
        return self._signatures[name]

    def is_float(self, port: Port) -> bool:
        """Whether an output holds real floating point numbers."""
        return self.dtype(port) in FLOATS

    def is_list(self, port: Port) -> bool:
        """Whether an output holds a TensorList."""
        return self.dtype(port) == VARIANT

    def looped(self, name: str) -> bool:
        """Whether a node lies in a while loop."""
        return self._depths.get(name, 0) > 0

    def outputs(self, name: str) -> List[Port]:
        """The outputs of a node; those that are read where its op is unknown."""
        signature = self._signature(name)
        if signature is None:
            return self.read_ports(name)
        return [Port(name, output) for output in range(len(signature.outputs))]

    def slot_named(self, name: str, *arguments: str) -> int:
        """The first data input of a node that its op definition calls by one of the names; -1 where it has none."""
        definition = self.op_defs.get(self.view.nodes[name].op)
        names = [argument.name for argument in definition.input_arg] if definition is not None else []
        return next((slot for slot, argument in enumerate(names) if argument in arguments), -1)

    def values_written(self, name: str) -> List[int]:
        """The data inputs of a write that are values: neither references nor handles."""
        signature, inputs = self._signature(name), self.view.inputs(name)
        types = signature.inputs if signature is not None else [self._type(port) for port in inputs]
        return [slot for slot, port in enumerate(types) if not port.is_ref and port.dtype != RESOURCE]

    def floats_written(self, name: str) -> List[int]:
        """Those of them that hold floating point numbers."""
        return [slot for slot in self.values_written(name) if self.is_float(self.view.inputs(name)[slot])]

    def _type(self, port: Port) -> PortType:
        signature = self._signature(port.node)
        return signature.outputs[port.output] if signature is not None and 0 <= port.output < len(signature.outputs) else PortType(0)

    def read_ports(self, name: str) -> List[Port]:
        """Outputs of a node that someone reads as data, in order."""
        return sorted({Port(name, consumer.output) for consumer in self.view.consumers(name)})
