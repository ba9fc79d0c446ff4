"""GraphView: the nodes of a graph by name, with edges as (node, output index), not strings."""

from __future__ import annotations

import collections
import functools
import sys
from types import MappingProxyType
from typing import (
    Any,
    Callable,
    Container,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Set,
    Tuple,
    Union,
)

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from graphmp.graph.io.stored import StoredGraphDef, StoredMetaGraph, StoredNodes, not_unique
from graphmp.graph.structure.walk import reached
from graphmp.once import once

CONTROL = -1
_MOST_DIGITS = (
    10  # of an output's index, 32 bits: Python refuses to parse a number of thousands of digits
)


class Port(NamedTuple):
    """Output `output` of node `node`; the output CONTROL means "after this node has run"."""

    node: str
    output: int

    def __str__(self) -> str:
        """The shortest form used in NodeDefs: `x`, `x:1` or `^x`."""
        if self.output == CONTROL:
            return "^" + self.node
        return self.node if self.output == 0 else "%s:%s" % (self.node, self.output)


class Consumer(NamedTuple):
    """Data input `slot` of node `node`, which reads output `output` of the node asked about."""

    node: str
    slot: int
    output: int


def parse_input(text: str) -> Port:
    """The port named by an input string of a NodeDef.

    `x` and `x:0` are the same, `^x` is a control input.
    """
    if text.startswith("^"):
        return Port(text[1:], CONTROL)
    name, colon, index = text.rpartition(":")
    return (
        Port(name, int(index))
        if colon and index.isdecimal() and len(index) <= _MOST_DIGITS
        else Port(text, 0)
    )


class GraphView:
    """Queries on a GraphDef in constant time.

    A view neither changes the GraphDef nor follows its changes.

    Every node named by an input is in `nodes`. Function bodies are not looked into.

    Attributes:
        graph_def: the graph itself.
        nodes: its nodes by name, in the order of the graph.
        facts: what is known of the graph (`once.remembered`), shared by the views of its forms.
    """

    def __init__(
        self,
        graph_def: Union[tf.GraphDef, StoredGraphDef],
        parse: Callable[[str], Port] = parse_input,
    ):
        """Read all edges once.

        Args:
            graph_def: the graph. The nodes of a stored graph are parsed at each access.
            parse: reads an input string; functions use another syntax than graphs.

        Raises:
            GraphmpError: GMP008 if two nodes share a name, or an input names a missing node.
        """
        self.graph_def = graph_def
        self.nodes = nodes_by_name(graph_def)
        self.facts: Dict[str, Any] = {}
        self._inputs: Dict[str, Tuple[Port, ...]] = {}
        self._controls: Dict[str, Tuple[str, ...]] = {}
        ports = _Ports(self.nodes, parse)
        for name, node in self.nodes.items():
            try:
                edges = [ports[text] for text in node.input]
            except KeyError as missing:
                raise GraphmpError(
                    "GMP008",
                    "node %s has the input %s, but the graph has no node of that name"
                    % (name, missing.args[0]),
                ) from None
            data = self._inputs[name] = tuple([port for port in edges if port[1] != CONTROL])
            if len(data) < len(edges):
                self._controls[name] = tuple([port[0] for port in edges if port[1] == CONTROL])

    def over(self, graph_def: Union[tf.GraphDef, StoredGraphDef]) -> GraphView:
        """A view of the same graph in another form: parsed, stored, or a copy.

        Its nodes are in the same order. Edges and facts are shared: a form may be changed only
        after the facts that it is asked for were found.
        """
        nodes: Mapping[str, tf.NodeDef] = (
            graph_def.nodes
            if isinstance(graph_def, StoredGraphDef)
            else MappingProxyType(dict(zip(self.nodes, graph_def.node)))
        )
        other = GraphView.__new__(GraphView)
        other.__dict__.update(
            self.__dict__,
            graph_def=graph_def,
            nodes=nodes,
            _data_consumers=self._data_consumers,
            _control_consumers=self._control_consumers,
        )
        return other

    def serialized(self, name: str) -> bytes:
        """A node's binary form, the same bytes for the same node."""
        return (
            self.nodes.serialized(name)
            if isinstance(self.nodes, StoredNodes)
            else serialize(self.nodes[name])
        )

    def inputs(self, name: str) -> Tuple[Port, ...]:
        """The data inputs of a node, by slot."""
        return self._inputs[name]

    def controls(self, name: str) -> Tuple[str, ...]:
        """The nodes that a node waits for by its control inputs."""
        return self._controls.get(name, ())

    def consumers(self, name: str) -> Tuple[Consumer, ...]:
        """The data inputs that read any output of a node."""
        return self._data_consumers.get(name, ())

    def control_consumers(self, name: str) -> Tuple[str, ...]:
        """The nodes with a control input from a node."""
        return self._control_consumers.get(name, ())

    def ancestors(self, names: Iterable[str], control: bool = True) -> Set[str]:
        """The given nodes and all that they depend on; control edges count if `control` is true."""
        inputs, controls = self._inputs, self._controls if control else {}
        found = set(names)
        waiting = list(found)
        while waiting:  # as `reached`, in half the time
            name = waiting.pop()
            for port in inputs[name]:
                before = port[0]
                if before not in found:
                    found.add(before)
                    waiting.append(before)
            for before in controls.get(name, ()):
                if before not in found:
                    found.add(before)
                    waiting.append(before)
        return found

    def descendants(self, names: Iterable[str], control: bool = True) -> Set[str]:
        """The given nodes and all that depend on them; control edges count if `control` is true."""
        data, controls = self._data_consumers, self._control_consumers if control else {}
        found = set(names)
        waiting = list(found)
        while waiting:  # as `reached`, in half the time
            name = waiting.pop()
            for consumer in data.get(name, ()):
                after = consumer[0]
                if after not in found:
                    found.add(after)
                    waiting.append(after)
            for after in controls.get(name, ()):
                if after not in found:
                    found.add(after)
                    waiting.append(after)
        return found

    def handed_on(
        self, start: Port, onwards: Callable[[Consumer], Iterable[int]]
    ) -> Iterator[Consumer]:
        """The consumers of an output, and of those of their outputs that `onwards` names.

        `onwards` names outputs that are the same memory or value.
        """
        seen: Set[Port] = set()
        waiting = [start]
        while waiting:
            port = waiting.pop()
            if port in seen:
                continue
            seen.add(port)
            for consumer in self.consumers(port.node):
                if consumer.output == port.output:
                    yield consumer
                    waiting.extend(Port(consumer.node, output) for output in onwards(consumer))

    def traced(self, starts: Iterable[str], through: Callable[[str], bool]) -> Set[str]:
        """The given nodes and the producers of their data, via nodes for which `through` holds."""
        return reached(starts, lambda name: [port.node for port in self._inputs[name]], through)

    def behind(self, port: Port, ops: Container[str]) -> Port:
        """The output behind nodes of some ops, each of which passes on its first input.

        The given output itself if its node has no such op.
        """
        while self.nodes[port.node].op in ops and self._inputs[port.node]:
            port = self._inputs[port.node][0]
        return port

    def followed(self, starts: Iterable[str], through: Callable[[str], bool]) -> Set[str]:
        """The given nodes and the consumers of their data, via nodes for which `through` holds."""
        return reached(
            starts, lambda name: [consumer.node for consumer in self.consumers(name)], through
        )

    def in_graph_order(self, names: Iterable[str]) -> List[str]:
        """Those of the names that are nodes, in the order of the graph."""
        places = self._places
        return sorted([name for name in names if name in places], key=places.__getitem__)

    @once
    def _places(self) -> Dict[str, int]:
        return {name: place for place, name in enumerate(self.nodes)}

    @once
    def _data_consumers(self) -> Dict[str, Tuple[Consumer, ...]]:
        consumers: Dict[str, List[Consumer]] = collections.defaultdict(list)
        made = functools.partial(tuple.__new__, Consumer)  # half the time of Consumer(...)
        for name, ports in self._inputs.items():
            for slot, (node, output) in enumerate(ports):
                consumers[node].append(made((name, slot, output)))
        return {node: tuple(found) for node, found in consumers.items()}

    @once
    def _control_consumers(self) -> Dict[str, Tuple[str, ...]]:
        consumers: Dict[str, List[str]] = collections.defaultdict(list)
        for name, nodes in self._controls.items():
            for node in nodes:
                consumers[node].append(name)
        return {node: tuple(found) for node, found in consumers.items()}


def view_of(graph: StoredMetaGraph) -> GraphView:
    """The view of the main graph of a stored graph, the same each time."""
    if graph.view is None:
        graph.view = GraphView(graph.graph_def)
    found: GraphView = graph.view
    return found


def keep_view(graph: StoredMetaGraph, view: GraphView) -> None:
    """Take a view of the parsed graph as that of the stored one."""
    graph.view = view.over(graph.graph_def)


class _Ports(Dict[str, Port]):
    """The port of each input string, parsed once.

    Tensors have many consumers; fewer objects also make Python's garbage collection faster.
    """

    def __init__(self, nodes: Mapping[str, tf.NodeDef], parse: Callable[[str], Port]):
        super().__init__()
        self._names = {name: name for name in nodes}
        self._parse = parse

    def __missing__(self, text: str) -> Port:
        if text in self._names and ":" not in text:  # a first output, in any syntax
            self[text] = port = Port(self._names[text], 0)
            return port
        port = self._parse(text)
        if port.node not in self._names:
            raise KeyError(text)
        self[text] = port = Port(
            self._names[port.node], port.output
        )  # one string for a name, however often it is read
        return port


def nodes_by_name(graph_def: Union[tf.GraphDef, StoredGraphDef]) -> Mapping[str, tf.NodeDef]:
    """The nodes of a graph, in its order.

    Raises:
        GraphmpError: GMP008 if two nodes share a name.
    """
    if isinstance(graph_def, StoredGraphDef):
        return graph_def.nodes
    nodes: Dict[str, tf.NodeDef] = {}
    for node in graph_def.node:
        name = sys.intern(node.name)  # one string in all graphs: look-ups find it by identity
        if nodes.setdefault(name, node) is not node:
            raise not_unique(name)
    return MappingProxyType(nodes)
