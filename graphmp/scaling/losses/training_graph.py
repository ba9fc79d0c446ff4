"""A graph for loss scaling: nodes, state, dtypes, loops and gradient code, each read once."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.shapes.shapes import inferred_shapes
from graphmp.graph.state.devices import Places
from graphmp.graph.state.state import State
from graphmp.graph.state.transfers import Transfers
from graphmp.graph.structure.branches import Conditions, conditions, sides
from graphmp.graph.structure.frames import frames, outputs_frame, parallel_iterations
from graphmp.graph.structure.gradient_code import find
from graphmp.graph.structure.gradient_names import differentiated
from graphmp.graph.structure.gradient_record import RecordedCall, valid
from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.view import GraphView, Port
from graphmp.once import once
from graphmp.policy.dtypes import COMPLEX, FLOATS, RESOURCE, VARIANT
from graphmp.policy.op_sets import (
    ARRAY_READS,
    ENTERS,
    EXITS,
    IDENTITIES,
    MERGES,
    RESULT,
    SWITCHES,
    UPDATE_PREFIXES,
)
from graphmp.scaling.degrees.called import CalledFunctions, Results
from graphmp.scaling.degrees.code import Degree
from graphmp.scaling.losses.allreduce import AllReduces
from graphmp.scaling.losses.discovery.searched import Floats
from graphmp.scaling.losses.discovery.seeds import Discovered, discover
from graphmp.scaling.losses.inside import OpenBody, opened
from graphmp.scaling.losses.queued import PutIn, behind_queues
from graphmp.scaling.losses.returned import calls_of, taking
from graphmp.tf_hooks.op_defs import UNKNOWN, OpDefs, PortType, Signature

_HANDS_ON = ENTERS | EXITS | MERGES | SWITCHES | IDENTITIES


class TrainingGraph:
    """The main graph of a MetaGraphDef.

    Attributes:
        meta_graph: the graph with its collections.
        view: its nodes and edges.
        places: the devices of its nodes.
        state: its variables and their writes.
        op_defs: definitions of its ops.
        reduces: its all-reduces.
        joined: nodes that pass gradients to all-reduces which belong to gradient code, and these;
            empty without --allreduce_half.
        recorded: its recorded calls of `tf.gradients`, by scope.
        code: nodes of gradient code by scope.
        assumed: nodes of `code` that count by name alone, with the forward node that it names.
        gradients: all nodes of gradient code.
        functions: names of the functions in its library.
        calls: the effect of the scale on these functions.
        discovered: scopes of `code` that were found by structure, not by name.
        returning: calls whose functions take gradients that reach updates here, and those functions
            (`returned.py`).
        forward: the forward nodes of nodes of discovered scopes.
    """

    def __init__(
        self,
        meta_graph: tf.MetaGraphDef,
        config: Config,
        op_defs: OpDefs,
        recorded: Sequence[RecordedCall] = (),
        ends: AbstractSet[str] = frozenset(),
        inside: Sequence[RecordedCall] = (),
        view: Optional[GraphView] = None,
    ):
        """Analyse the graph.

        Args:
            meta_graph: the graph.
            config: may name gradient scopes.
            op_defs: definitions of its ops.
            recorded: the recorded calls of `tf.gradients`.
            ends: the results of a function's body that count as writes; none by default.
            inside: recorded calls of `tf.gradients`, those inside functions included.
            view: a view of the same graph, if there is one.
        """
        self.meta_graph = meta_graph
        self.op_defs = op_defs
        self.view = (
            GraphView(meta_graph.graph_def) if view is None else view.over(meta_graph.graph_def)
        )
        self.places = Places(self.view)
        self.state = State(meta_graph, self.view, op_defs.get, ends)
        for fact in (conditions, whole_order):  # before an insertion changes nodes
            fact(self.view)
        self._frames = frames(self.view)
        self._signatures: Dict[str, Optional[Signature]] = {}
        self.functions = frozenset(
            function.signature.name for function in meta_graph.graph_def.library.function
        )
        self.recorded = {call.scope: call for call in recorded}
        self.code, self.assumed = find(self.view, config.gradient_scope, recorded)
        self.reduces = AllReduces(self.view, self.state.writes, self.is_float)
        joined = self.reduces.joined(self.code) if config.allreduce_half else {}
        self.joined: Set[str] = {name for nodes in joined.values() for name in nodes}
        for scope, nodes in joined.items():
            self.code[scope] |= nodes | self.reduces.ends(nodes)
        self.gradients: Set[str] = {name for nodes in self.code.values() for name in nodes}
        self.returning = (
            {}
            if ends or config.names_gradients or not self.functions
            else self._returning(config, inside)
        )
        self.gradients |= self.returning.keys()
        self.calls = CalledFunctions(meta_graph.graph_def, op_defs)
        self.discovered = {
            "unnamed gradients %d" % number: found for number, found in enumerate(self._discover())
        }
        self.code.update((scope, set(found.nodes)) for scope, found in self.discovered.items())
        self.gradients.update(name for found in self.discovered.values() for name in found.nodes)
        self.forward: Dict[str, str] = {
            name: own for found in self.discovered.values() for name, own in found.forward.items()
        }

    def _returning(self, config: Config, inside: Sequence[RecordedCall]) -> Dict[str, Set[str]]:
        graph_def = self.meta_graph.graph_def
        named = taking(graph_def, self.state.writing_functions)
        called = calls_of(graph_def, self.functions - self.state.writing_functions)
        calls = {
            name: found
            for name, found in called.items()
            if name not in self.gradients and self._comes_to_updates(name)
        }
        asked = {function for found in calls.values() if not found & named for function in found}
        bodies = opened(
            [f for f in graph_def.library.function if f.signature.name in asked],
            self.meta_graph,
            self.view,
            self.op_defs,
        )
        taken = named | {
            body.name for body in bodies if _takes_gradients(body, config, self.op_defs, inside)
        }
        return {name: found & taken for name, found in calls.items() if found & taken}

    def _comes_to_updates(self, name: str) -> bool:
        """Whether a training write depends on a node by data, not through gradient code."""
        trainable = self.state.collected(tf.GraphKeys.TRAINABLE_VARIABLES)
        after = self.view.followed(
            [c.node for c in self.view.consumers(name)], lambda node: node not in self.gradients
        )
        writes = [node for node in after if self.state.is_write(node)]
        return any(
            self.view.nodes[node].op.startswith(UPDATE_PREFIXES)
            or self.state.written(node) & (trainable or frozenset())
            for node in writes
        )

    def _discover(self) -> List[Discovered]:
        """Gradient code of updates without named gradient code, and of unread, fetched values."""
        named = self.view.descendants(self.gradients, control=False)
        targets = {name: self._taken(name) for name in self.state.writes if name not in named}
        taken = {
            name: port for name, port in targets.items() if port is not None and self.carries(port)
        }
        queues = PutIn(self.view, self.transfers, self.is_float)
        ports = {
            name: [each for each in queues.ahead_of(port) or [port] if each.node not in named]
            for name, port in taken.items()
        }
        gradients = [
            port
            for name, given in ports.items()
            for port in given
            if self.view.nodes[name].op.startswith(UPDATE_PREFIXES)
        ]
        if not gradients and self.code:
            return []
        unread = [
            name
            for name in self.view.nodes
            if name not in named and not self.view.consumers(name) and self.is_float(Port(name, 0))
        ]
        written: Dict[Port, Set[str]] = {}
        for name, given in ports.items():
            for port in given:
                written.setdefault(port, set()).update(self.state.written(name))
        return discover(self.view, Floats(self.carries, self.functions), written, unread, gradients)

    def differentiated(self, name: str) -> Optional[str]:
        """The forward node that a node of gradient code belongs to."""
        return differentiated(name, self.view.nodes.keys(), self.forward)

    def _taken(self, name: str) -> Optional[Port]:
        """The values that a write takes, or a function returns."""
        if self.view.nodes[name].op == RESULT:
            return self.view.inputs(name)[0]
        slot = self.slot_named(name, "grad", "delta", "gradient", "gradient_values")
        ports = self.view.inputs(name)
        return (
            ports[slot]
            if slot >= 0
            else next((port for port in ports[1:] if self.is_float(port)), None)
        )

    def carries(self, port: Port) -> bool:
        """Whether an output holds floating-point numbers, or a list of them."""
        return self.is_float(port) or self.is_list(port)

    @once
    def conditions(self) -> Dict[str, Conditions]:
        """The nodes that run only in some branches, with the sides that they require."""
        return conditions(self.view)

    @once
    def _shapes(self) -> Dict[str, Sequence[Any]]:
        return inferred_shapes(self.meta_graph.graph_def)

    def shape(self, port: Port) -> Optional[List[int]]:
        """The dimensions of an output, as inferred by TensorFlow; None if unknown."""
        shapes = self._shapes.get(port.node, ())
        known = port.output < len(shapes) and not shapes[port.output].unknown_rank
        return [dim.size for dim in shapes[port.output].dim] if known else None

    def dtype(self, port: Port) -> int:
        """The dtype of an output, as a number of the DataType enum; 0 if its op is unknown."""
        return self._type(port).dtype

    def _signature(self, name: str) -> Optional[Signature]:
        if name not in self._signatures:
            self._signatures[name] = self.op_defs.signature(self.view.nodes[name])
        return self._signatures[name]

    def is_float(self, port: Port) -> bool:
        """Whether an output holds real floating-point numbers."""
        return self.dtype(port) in FLOATS

    def is_list(self, port: Port) -> bool:
        """Whether an output can't be multiplied by a float: a TensorList, or complex numbers."""
        return self.dtype(port) == VARIANT or self.dtype(port) in COMPLEX

    def looped(self, name: str) -> bool:
        """Whether a node is in a while loop."""
        return bool(self.loops(name))

    def loops(self, name: str) -> Tuple[str, ...]:
        """The frames of the while loops that contain the outputs of a node, outermost first."""
        return outputs_frame(self.view, name)

    def handed_on(self, name: str) -> str:
        """The producer of a node's first input, behind loops and copies."""
        return self.view.behind(self.view.inputs(name)[0], _HANDS_ON).node

    @once
    def transfers(self) -> Transfers:
        """Values that go on without an edge."""
        return Transfers(self.view)

    @once
    def queued(self) -> AbstractSet[str]:
        """The nodes behind gradients that come out of a queue or a staging area."""
        return behind_queues(self.view, self.transfers, self.gradients)

    def is_flow(self, name: str) -> bool:
        """Whether a node passes on the flow of a TensorArray, which isn't a value."""
        if self.view.nodes[name].op in _HANDS_ON:
            name = self.handed_on(name)
        return (
            self.view.nodes[name].op.startswith("TensorArray")
            and self.view.nodes[name].op not in ARRAY_READS
        )

    def sides(self, port: Port) -> Conditions:
        """The sides of predicates that an output requires, within the iterations of its loop."""
        around = self.loops(port.node)
        own = sides(self.view, self.conditions, port)
        return (
            own - self.conditions.get(self.loop_conditions[around], frozenset()) if around else own
        )

    def sides_of_loop(self, loops: Tuple[str, ...]) -> Conditions:
        """The sides that a while loop requires, within the iterations of its outer loop."""
        own = self.conditions.get(self.loop_conditions[loops], frozenset())
        return (
            own - self.conditions.get(self.loop_conditions[loops[:-1]], frozenset())
            if loops[:-1]
            else own
        )

    @once
    def loop_conditions(self) -> Dict[Tuple[str, ...], str]:
        """The LoopCond of each while loop, by its frames."""
        return {
            self.loops(name): name
            for name, node in self.view.nodes.items()
            if node.op == "LoopCond"
        }

    @once
    def parallel_iterations(self) -> Dict[str, int]:
        """The number of parallel iterations of each frame."""
        return {
            inside[-1]: parallel_iterations(self.view.nodes[name])
            for name, inside in self._frames.items()
            if self.view.nodes[name].op in ENTERS
        }

    def outputs(self, name: str) -> List[Port]:
        """The outputs of a node; only those that are read if its op is unknown."""
        signature = self._signature(name)
        if signature is None:
            return self.read_ports(name)
        return [Port(name, output) for output in range(len(signature.outputs))]

    def called(self, name: str, given: Sequence[Degree]) -> Results:
        """Degrees of the results of a function call, given those of its inputs."""
        return self.calls.results(self.view.nodes[name], given)

    def slot_named(self, name: str, *arguments: str) -> int:
        """The first data input of a node that has one of the names in its op definition.

        -1 if none.
        """
        return self.op_defs.slot_named(self.view.nodes[name].op, *arguments)

    def sizes_of_gradients(self, updates: Iterable[str]) -> Dict[Port, int]:
        """The numbers of elements of what update kernels take as whole variables' gradients."""
        found = {}
        for name in updates:
            slot, size = self.slot_named(name, "grad", "delta"), self.size_written(name)
            if slot >= 0 and size is not None:
                found[self.view.inputs(name)[slot]] = size
        return found

    def size_written(self, name: str) -> Optional[int]:
        """The number of elements of the variables that a write changes whole; None if not known."""
        if self.slot_named(name, "indices", "begin") >= 0:
            return None
        sizes = {self._size(variable) for variable in self.state.written(name)}
        return sizes.pop() if len(sizes) == 1 else None

    def _size(self, variable: str) -> Optional[int]:
        attributes = self.view.nodes[variable].attr
        shape = tf.TensorShape(attributes["shape"].shape if "shape" in attributes else None)
        size = shape.num_elements()
        return None if size is None else int(size)

    def values_written(self, name: str) -> List[int]:
        """The data inputs of a write that are values: neither references nor handles."""
        signature, inputs = self._signature(name), self.view.inputs(name)
        types = signature.inputs if signature is not None else [self._type(port) for port in inputs]
        return [
            slot for slot, port in enumerate(types) if not port.is_ref and port.dtype != RESOURCE
        ]

    def floats_written(self, name: str) -> List[int]:
        """The data inputs of a write that are floating-point values."""
        return [
            slot
            for slot in self.values_written(name)
            if self.is_float(self.view.inputs(name)[slot])
        ]

    def _type(self, port: Port) -> PortType:
        signature = self._signature(port.node)
        return signature.output(port.output) if signature is not None else UNKNOWN

    def read_ports(self, name: str) -> List[Port]:
        """Outputs of a node that are read as data, in order."""
        return sorted({Port(name, consumer.output) for consumer in self.view.consumers(name)})


def _takes_gradients(
    body: OpenBody, config: Config, op_defs: OpDefs, recorded: Sequence[RecordedCall]
) -> bool:
    """Whether a function takes gradients without a telling name."""
    calls = valid(recorded, body.meta_graph.graph_def.node, in_function=True)
    return bool(
        calls or TrainingGraph(body.meta_graph, config, op_defs, calls, body.results).discovered
    )
