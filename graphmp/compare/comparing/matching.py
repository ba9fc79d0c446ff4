"""Pairing the nodes of two graphs: by name, then by structure, one to one.

A node without a namesake is matched if exactly one such node on either side has its structure:

1. op, attributes, and all ancestors and descendants, up to the next matched nodes (a hash of either
   cone), and then, repeatedly,
2. op, attributes and inputs, if all of these are matched;
3. op, attributes and consumers, if all of these are matched;
4. op, attributes, and inputs and consumers, if some of these are matched and the others agree in op
   and attributes.

Nodes that merely look alike aren't paired: the position in the file doesn't matter, and nothing is
guessed. Dtypes don't count, and casts between floating-point dtypes are skipped, so that a renamed
node is found in a converted graph.
"""

from __future__ import annotations

import collections
from typing import (
    Any,
    Callable,
    Dict,
    Hashable,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Set,
    Tuple,
    Union,
)

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.io.messages import serialize
from graphmp.graph.structure.values import array
from graphmp.graph.structure.view import CONTROL, GraphView, Port
from graphmp.policy.dtypes import FLOATS
from graphmp.policy.op_sets import NEXT_ITERATIONS


class Pairing(NamedTuple):
    """The pairs of nodes of two graphs.

    Attributes:
        before: the original.
        after: the converted graph.
        renamed: original name to converted name, for nodes whose names differ.
        formerly: converted name to original name, for the same nodes.
    """

    before: GraphView
    after: GraphView
    renamed: Mapping[str, str]
    formerly: Mapping[str, str]

    def after_of(self, name: str) -> Optional[str]:
        """The converted name of an original node; None for a removed one."""
        return name if name in self.after.nodes else self.renamed.get(name)

    def before_of(self, name: str) -> Optional[str]:
        """The original name of a converted graph's node; None for an added one."""
        return name if name in self.before.nodes else self.formerly.get(name)


def pair(before: GraphView, after: GraphView) -> Pairing:
    """Pair the nodes of two graphs, in nearly linear time."""
    sides = (_MatchingSide(before, after), _MatchingSide(after, before))
    if sides[0].free and sides[1].free:
        _match_cones(sides)
        _match_neighbours(sides)
    renamed = {name: key for name, key in sides[0].matched.items() if name != key}
    return Pairing(
        before, after, renamed, {after_name: name for name, after_name in renamed.items()}
    )


class Edge(NamedTuple):
    """An edge to a neighbour: the node, the consumer's slot (or CONTROL), and the output."""

    node: str
    slot: int
    output: Any


class _MatchingSide:
    """One graph during matching.

    A matched node has its name in the converted graph on both sides.
    """

    def __init__(self, view: GraphView, other: GraphView):
        self.view = view
        self.free: Set[str] = {name for name in view.nodes if name not in other.nodes}
        self.matched: Dict[str, str] = {}
        self.looks = {name: _looks(view.nodes[name]) for name in self.free}
        self.inserted = {
            name
            for name in self.free
            if _is_float_cast(view.nodes[name]) and len(view.inputs(name)) == 1
        }

    def match(self, name: str, common: str) -> None:
        self.free.discard(name)
        self.inserted.discard(name)
        self.matched[name] = common

    def known(self, name: str) -> Optional[str]:
        """The common name of a matched node."""
        return None if name in self.free else self.matched.get(name, name)

    def inputs(self, name: str) -> List[Edge]:
        """Producers, with slot and output; casts are skipped."""
        data = [self._behind(port) for port in self.view.inputs(name)]
        controls = [
            Edge(node, CONTROL, CONTROL) for node in dict.fromkeys(self.view.controls(name))
        ]
        return [Edge(port.node, slot, port.output) for slot, port in enumerate(data)] + controls

    def consumers(self, name: str) -> List[Edge]:
        """Consumers, with slot and output; casts are skipped."""
        found: List[Edge] = []
        waiting: List[Tuple[str, Any]] = [(name, None)]
        while waiting:
            node, output = waiting.pop()
            found += [
                Edge(consumer, CONTROL, CONTROL) for consumer in self.view.control_consumers(node)
            ]
            for consumer, slot, read in self.view.consumers(node):
                through = read if output is None else output
                if consumer in self.inserted and consumer != name:
                    waiting.append((consumer, through))
                else:
                    found.append(Edge(consumer, slot, through))
        return found

    def _behind(self, port: Port) -> Port:
        seen: Set[str] = set()
        while port.node in self.inserted and port.node not in seen:
            seen.add(port.node)
            port = self.view.inputs(port.node)[0]
        return port


_Sides = Tuple[_MatchingSide, _MatchingSide]


def _match_cones(sides: _Sides) -> None:
    """Apply rule 1. Hashes number tuples, the same for both sides, so that equal ones are exact."""
    numbers: Dict[Hashable, int] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    cones = []
    for side in sides:
        leading, reading = _folded(side, side.inputs, number), _folded(side, side.consumers, number)
        both = sorted(
            name
            for name in leading.keys() & reading.keys() - side.inserted
            if side.inputs(name) or side.consumers(name)
        )
        cones.append(_by_key((name, number((leading[name], reading[name]))) for name in both))
    for key, old in cones[0].items():
        new = cones[1].get(key, [])
        if len(old) == len(new) == 1:
            sides[0].match(old[0], new[0])
            sides[1].match(new[0], new[0])


def _folded(
    side: _MatchingSide, edges_of: Callable[[str], List[Edge]], number: Callable[[Hashable], int]
) -> Dict[str, int]:
    """The cone number of each free node in one direction.

    None for nodes on cycles outside loops.
    """
    edges = {name: edges_of(name) for name in side.free}
    missing = {
        name: sum(_comes_first(side, name, edge.node) for edge in edges[name]) for name in side.free
    }
    readers: Dict[str, List[str]] = collections.defaultdict(list)
    for name in edges:
        for edge in edges[name]:
            if _comes_first(side, name, edge.node):
                readers[edge.node].append(name)
    result: Dict[str, int] = {}
    waiting = [name for name, count in missing.items() if not count]
    while waiting:
        name = waiting.pop()
        known = (
            (_word_of(side, name, edge.node, result), edge.slot, edge.output)
            for edge in edges[name]
        )
        result[name] = number((side.looks[name], tuple(sorted(known, key=repr))))
        for reader in readers.pop(name, ()):
            missing[reader] -= 1
            if not missing[reader]:
                waiting.append(reader)
    return result


def _word_of(
    side: _MatchingSide, name: str, other: str, folded: Mapping[str, int]
) -> Union[str, int, None]:
    """A neighbour's common name or number.

    None beyond a cut edge, even if the neighbour has one.
    """
    if other not in side.free:
        return side.known(other)
    return folded[other] if _comes_first(side, name, other) else None


def _comes_first(side: _MatchingSide, name: str, other: str) -> bool:
    """Whether a free neighbour must be folded first; an edge that closes a loop is cut."""
    return (
        other in side.free
        and not {side.view.nodes[name].op, side.view.nodes[other].op} & NEXT_ITERATIONS
    )


def _match_neighbours(sides: _Sides) -> None:
    """Apply rules 2 to 4: each match makes more known of its neighbours."""
    indices = (_Index(sides[0]), _Index(sides[1]))
    waiting = collections.deque(list(indices[0].nodes))
    while True:
        while waiting:
            waiting.extend(_match(indices, waiting.popleft()))
        for index in indices:
            index.look_again()
        for key in indices[0].looked_at:
            waiting.extend(_match(indices, key))
        if not waiting and not any(index.touched for index in indices):
            return


def _match(indices: Tuple[_Index, _Index], key: Hashable) -> List[Hashable]:
    """Match the two nodes with a key that is unique on each side. Returns newly known keys."""
    found = [list(index.nodes.get(key, ())) for index in indices]
    if [len(names) for names in found] != [1, 1]:
        return []
    return [key for index, (name,) in zip(indices, found) for key in index.match(name, found[1][0])]


class _Index:
    """The free nodes of one side by known facts.

    Attributes:
        nodes: names by key. Rules 2 and 3 have a key once all inputs or all consumers are matched.
        looked_at: the latest keys of rule 4.
        touched: free neighbours of nodes matched since then.
    """

    def __init__(self, side: _MatchingSide):
        self._side = side
        self._edges = {
            name: (side.inputs(name), side.consumers(name))
            for name in sorted(side.free - side.inserted)
        }
        self._unknown = {
            name: [sum(edge.node in side.free for edge in edges) for edges in both]
            for name, both in self._edges.items()
        }
        self._keys: Dict[str, List[Hashable]] = collections.defaultdict(list)
        self.nodes: Dict[Hashable, Dict[str, None]] = collections.defaultdict(dict)
        self.looked_at: List[Hashable] = []
        self.touched: Dict[str, None] = dict.fromkeys(self._edges)
        for name in self._edges:
            self._add(name, self._certain(name))

    def match(self, name: str, common: str) -> List[Hashable]:
        """Match a node; return its neighbours' new keys."""
        for key in self._keys.pop(name, ()):
            del self.nodes[key][name]
        self._side.match(name, common)
        fresh: List[Hashable] = []
        for which, edges in enumerate(self._edges.pop(name)):
            for edge in edges:
                if edge.node in self._edges:
                    self.touched[edge.node] = None
                    self._unknown[edge.node][1 - which] -= 1
                    if not self._unknown[edge.node][1 - which]:
                        fresh += self._add(edge.node, self._certain(edge.node))
        return fresh

    def look_again(self) -> None:
        """Apply rule 4 to the touched nodes."""
        touched, self.touched = self.touched, {}
        self.looked_at = [
            key
            for name in touched
            if name in self._edges
            for key in self._add(name, self._partly(name))
        ]

    def _add(self, name: str, keys: Iterable[Hashable]) -> List[Hashable]:
        fresh = [key for key in keys if name not in self.nodes[key]]
        for key in fresh:
            self.nodes[key][name] = None
        self._keys[name] += fresh
        return fresh

    def _certain(self, name: str) -> Iterator[Hashable]:
        """Matched inputs and consumers together, and each alone."""
        looks, unknown = self._side.looks[name], self._unknown[name]
        around = [
            frozenset((self._side.known(edge.node), edge.slot, edge.output) for edge in edges)
            for edges in self._edges[name]
        ]
        whole = [bool(edges) and not count for edges, count in zip(around, unknown)]
        if all(whole):
            yield ("both", looks, around[0], around[1])
        for which, is_whole in enumerate(whole):
            if is_whole:
                yield (which, looks, around[which])

    def _partly(self, name: str) -> Iterator[Hashable]:
        """Inputs and consumers, if some are matched; the others by op and attributes."""
        side = self._side
        if any(edge.node not in side.free for edges in self._edges[name] for edge in edges):
            around = [
                collections.Counter(
                    (self._word(edge.node), edge.slot, edge.output) for edge in edges
                )
                for edges in self._edges[name]
            ]
            yield ("partly", side.looks[name], *(frozenset(counts.items()) for counts in around))

    def _word(self, name: str) -> Hashable:
        known = self._side.known(name)
        return self._side.looks[name] if known is None else known


def _by_key(rows: Iterable[Tuple[str, int]]) -> Dict[int, List[str]]:
    result: Dict[int, List[str]] = {}
    for name, key in rows:
        result.setdefault(key, []).append(name)
    return result


def _is_float_cast(node: tf.NodeDef) -> bool:
    return node.op == "Cast" and all(
        name in node.attr and node.attr[name].type in FLOATS for name in ("SrcT", "DstT")
    )


def _looks(node: tf.NodeDef) -> Hashable:
    """A node's op and attributes, without dtypes (except for Cast) and other internal attributes.

    A variable's buffer name, and TensorFlow's own notes, don't count.
    """
    return (
        node.op,
        tuple(
            sorted(
                (name, _value(value))
                for name, value in node.attr.items()
                if _matters(node, name, value)
            )
        ),
    )


def _matters(node: tf.NodeDef, name: str, value: tf.AttrValue) -> bool:
    is_dtype = value.HasField("type") or len(value.list.type) > 0
    return (
        not name.startswith("_") and name != "shared_name" and (node.op == "Cast" or not is_dtype)
    )


def _value(value: tf.AttrValue) -> bytes:
    """The bytes of a value; those of a floating-point tensor as float16."""
    if value.HasField("tensor") and value.tensor.dtype in FLOATS:
        return _rounded(value.tensor)
    return serialize(value)


def _rounded(tensor: Any) -> bytes:
    value = array(tensor)
    if value is None:
        return serialize(tensor)
    with np.errstate(all="ignore"):
        return str(value.shape).encode("ascii") + value.astype(np.float16).tobytes()
