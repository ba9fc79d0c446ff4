"""Names of a graph that was built anew: TensorFlow numbers and names some nodes differently there.

It counts otherwise, `gradients/AddN_3`, and names the recipe's casts otherwise. Such nodes get the
names of their counterparts in the original, found through their consumers. That is a guess, which
need not be right: the proof compares nodes with equal names in every respect. Renamed are sums and
zeros of gradient code with numbered names, and nodes whose names the original doesn't have. They
aren't named by any collection, signature or Saver, and aren't variables or fed nodes.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List, Mapping, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import GraphView, Port, parse_input
from graphmp.policy.op_sets import PLACEHOLDERS, SWITCHES, VARIABLE_OPS
from graphmp.verify.sides import fetched
from graphmp.verify.structure import savers

_COUNTED = re.compile(
    r"(.*/)?gradients(_\d+)?/(AddN|zeros_like)(_\d+)?"
)  # ops of gradient code with such names
_COUNTED_OPS = frozenset(("AddN", "ZerosLike"))
# One read may stand for several of the original's: it keeps its name.
_OUTSIDE = VARIABLE_OPS | PLACEHOLDERS | {"ReadVariableOp"}
_BEHIND = SWITCHES | {"Cast", "Identity"}


def aligned(
    original: tf.MetaGraphDef, converted: tf.MetaGraphDef
) -> Tuple[tf.MetaGraphDef, Callable[[str], str]]:
    """A converted graph with its counterparts' names, and a function that returns old names."""
    view = GraphView(original.graph_def)
    ordered = savers.in_order(view, converted)
    of_writes = savers.names_of_writes(view, GraphView(ordered.graph_def))
    ordered = _renamed(ordered, of_writes)
    names = _Counterparts(original, ordered).names()
    had = {new: old for old, new in of_writes.items()}
    had.update((new, had.get(old, old)) for old, new in names.items())
    return _renamed(ordered, names), lambda name: had.get(name, name)


def _renamed(meta_graph: tf.MetaGraphDef, names: Mapping[str, str]) -> tf.MetaGraphDef:
    """A graph with other names of nodes; itself if there are none."""
    if not names:
        return meta_graph
    renamed = tf.MetaGraphDef()
    renamed.CopyFrom(meta_graph)
    for node in renamed.graph_def.node:
        node.name = names.get(node.name, node.name)
        for place, text in enumerate(node.input):
            name = parse_input(text).node
            if name in names:
                node.input[place] = text.replace(name, names[name], 1)
    return renamed


def _of_saver(meta_graph: tf.MetaGraphDef) -> Set[str]:
    saver = meta_graph.saver_def
    return {
        parse_input(name).node
        for name in (saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name)
        if name
    }


class _Counterparts:
    """Finds the nodes that need other names."""

    def __init__(self, original: tf.MetaGraphDef, converted: tf.MetaGraphDef):
        self._before, self._after = GraphView(original.graph_def), GraphView(converted.graph_def)
        self._kept = (
            fetched(original) | fetched(converted) | _of_saver(original) | _of_saver(converted)
        )
        self._found: Dict[str, str] = {}
        self._taken: Set[str] = set()

    def names(self) -> Dict[str, str]:
        """New names by old names."""
        self._by_readers()
        self._by_what_they_read()
        self._by_what_they_are_gradients_of()
        moved = {name: new for name, new in self._found.items() if name != new}
        for name in (
            self._after.nodes
        ):  # another node got its name, or it is a numbered one without a counterpart
            if (
                name in self._before.nodes
                and name not in self._found
                and (name in self._taken or self._is_counted(self._after, name))
            ):
                moved[name] = name + savers.APART
        return moved

    def _find(self, name: str, wanted: str) -> bool:
        """Record a counterpart, unless either has one."""
        if name in self._found or wanted in self._taken or not self._may_be(name, wanted):
            return False
        self._found[name] = wanted
        self._taken.add(wanted)
        return True

    def _by_readers(self) -> None:
        """Find nodes whose consumers have counterparts."""
        waiting = [
            (name, name)
            for name in self._after.nodes
            if name in self._before.nodes and not self._is_counted(self._after, name)
        ]
        while waiting:
            name, meant = waiting.pop()
            waiting += [pair for pair in self._pairs(name, meant) if self._find(*pair)]

    def _by_what_they_read(self) -> None:
        """Find nodes without known consumers."""
        meant: Dict[Tuple[str, Tuple[Port, ...]], List[str]] = {}
        for name, node in self._before.nodes.items():
            if name not in self._taken and self._is_counted(self._before, name):
                meant.setdefault((node.op, self._before.inputs(name)), []).append(name)
        for name, node in self._after.nodes.items():
            if name not in self._found and self._is_counted(self._after, name):
                reads = tuple(
                    Port(self._found.get(port.node, port.node), port.output)
                    for port in map(self._behind, self._after.inputs(name))
                )
                same = meant.get((node.op, reads))
                if same:
                    self._find(name, same.pop(0))

    def _by_what_they_are_gradients_of(self) -> None:
        """Find nodes that gradient code named after nodes with different names."""
        grads = {
            name + "_grad": wanted + "_grad"
            for name, wanted in self._found.items()
            if name != wanted
        }
        for name in self._after.nodes if grads else ():
            parts = name.split("/")
            for end in (place + 1 for place, part in enumerate(parts) if part.endswith("_grad")):
                for start in range(end):
                    wanted = grads.get("/".join(parts[start:end]))
                    if wanted is not None:
                        self._find(name, "/".join([*parts[:start], wanted, *parts[end:]]))

    def _is_counted(self, view: GraphView, name: str) -> bool:
        return (
            view.nodes[name].op in _COUNTED_OPS
            and name not in self._kept
            and _COUNTED.fullmatch(name) is not None
        )

    def _may_be(self, name: str, wanted: str) -> bool:
        if (
            wanted not in self._before.nodes
            or self._after.nodes[name].op != self._before.nodes[wanted].op
        ):
            return False
        counted = self._is_counted(self._after, name) and self._is_counted(self._before, wanted)
        strange = (
            name not in self._before.nodes
            and wanted not in self._after.nodes
            and not {name, wanted} & self._kept
        )
        return counted or (strange and self._before.nodes[wanted].op not in _OUTSIDE)

    def _pairs(self, name: str, meant: str) -> Iterator[Tuple[str, str]]:
        """Pairs of inputs of a node and of its counterpart."""
        new = [self._behind(port).node for port in self._after.inputs(name)]
        old = [port.node for port in self._before.inputs(meant)]
        if (
            self._after.nodes[name].op == "AddN"
        ):  # in any order: nodes with meaningful names are found by name
            both = set(old) & set(new)
            old, new = (
                [each for each in side if each not in both or self._is_counted(self._after, each)]
                for side in (old, new)
            )
        for one, other in zip(new, old):
            yield one, other if self._after.nodes[one].op == "Identity" else self._copied(other)

    def _behind(self, port: Port) -> Port:
        """The output behind added casts, copies and Switches."""
        while port.node not in self._before.nodes and self._after.nodes[port.node].op in _BEHIND:
            port = self._after.inputs(port.node)[0]
        return port

    def _copied(self, name: str) -> str:
        """The source of a copy that has no name in the converted graph."""
        while name not in self._after.nodes and self._before.nodes[name].op == "Identity":
            name = self._before.inputs(name)[0].node
        return name
