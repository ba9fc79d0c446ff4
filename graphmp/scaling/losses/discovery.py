"""Gradient code found by what it computes, because its names don't tell.

Names were changed, or the call wasn't named by TensorFlow.

1. Gradients start from ones, or else from fed or constant values. Their dependants are multiples of
   them: no constant is added, and no two are multiplied (`policy/homogeneity.txt`). Ones of the
   forward pass lead to such a product or sum, or only to part of what true seeds lead to, singly or
   together.
2. In a graph with matmuls and convolutions, gradient code contains a matmul or convolution that
   shares an input, a weight or an activation, with one of the forward pass. The two contract
   different dimensions of it: `x @ w` is differentiated by `g @ w^T`. Without any, gradient code
   multiplies by a function of the variable that it is written to; in a graph with matmuls, written
   by an update kernel.
3. It ends behind the last op that needs the forward pass: scaling, clipping and averaging of
   gradients don't belong to it.
4. Nodes computed only for it belong to it: factors and shapes.
"""

from __future__ import annotations

import heapq
import itertools
from typing import (
    AbstractSet,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.values import all_equal
from graphmp.graph.structure.view import GraphView, Port
from graphmp.graph.structure.walk import reached
from graphmp.once import once
from graphmp.policy.homogeneity import rule
from graphmp.policy.op_sets import (
    ADDS_OF_MANY,
    CALLS,
    ENTERS,
    MERGES,
    NEXT_ITERATIONS,
    SUMS,
    SWITCHES,
    VARIABLE_OPS,
)
from graphmp.policy.policy import tensor_core_ops
from graphmp.policy.traits import KEEPS_VALUES
from graphmp.scaling.degrees.zeros import Zeros
from graphmp.scaling.losses.backward import Backward, differentiated_nodes

_MOST_SOURCES = 100
_LAST = KEEPS_VALUES - {"Enter", "ExpandDims", "Merge", "Switch"} | {"BiasAddGrad", "Sum"}
_TRANSPOSES = (("transpose_a", "transpose_b"), ("adj_x", "adj_y"))
_FACTORS = {
    "product": None,
    "quotient": 0,
    "solution": 1,
}  # the input that gradients arrive at; for a product any, but only one


class Discovered(NamedTuple):
    """One call of `tf.gradients`.

    Attributes:
        nodes: its code, seeds included.
        seeds: its start.
        forward: the forward nodes of its nodes, where they exist.
    """

    nodes: AbstractSet[str]
    seeds: Tuple[Port, ...]
    forward: Mapping[str, str]


class Floats(NamedTuple):
    """Questions about outputs.

    Whether one holds floating-point numbers, and which op types call functions.
    """

    carries: Callable[[Port], bool]
    functions: AbstractSet[str]


def discover(
    view: GraphView,
    floats: Floats,
    targets: Mapping[Port, AbstractSet[str]],
    unread: Iterable[str],
    gradients: Iterable[Port],
) -> List[Discovered]:
    """Find the gradient code that computes some values.

    Args:
        view: the graph.
        floats: answers questions about its outputs.
        targets: values that writes take, and the variables that are written.
        unread: other nodes that may return gradients: nothing reads them.
        gradients: those that must be gradients: they may start from the user's own `grad_ys`.
    """
    return _Discovery(view, floats, targets, unread, gradients).calls()


class _Discovery:
    def __init__(
        self,
        view: GraphView,
        floats: Floats,
        targets: Mapping[Port, AbstractSet[str]],
        unread: Iterable[str],
        gradients: Iterable[Port],
    ):
        self._view, self._floats = view, floats
        self._zeros = Zeros(view, floats.carries)
        self._written = {port.node: variables for port, variables in targets.items()}
        self._gradients = {port.node for port in gradients}
        self._allow = frozenset(tensor_core_ops()) | floats.functions | CALLS
        self._needed = view.ancestors({*(port.node for port in targets), *unread}, control=False)
        self._all = in_order(view, view.nodes.keys())
        self._multiplies = any(view.nodes[name].op in self._allow for name in self._needed)
        self._place = {name: number for number, name in enumerate(self._all)}
        self._order = [name for name in self._all if name in self._needed]

    def calls(self) -> List[Discovered]:
        self._chosen: List[Port] = []
        self._inner: Set[Port] = set()
        self._alone: Dict[Port, Set[str]] = {}
        region = self._add(self._leading(filter(self._is_ones, self._order)), set())
        left = self._gradients - self._view.descendants(region, control=False)
        if left:
            self._add_given(
                self._leading(
                    itertools.islice(filter(self._is_source, self._order), _MOST_SOURCES)
                ),
                left,
            )
        regions = {seed: self._alone[seed] for seed in self._chosen}
        for seed in self._inner:
            regions[seed] = regions[seed].difference(
                *(self._alone[other] for other in self._chosen if other not in self._inner)
            )
        return [self._call(seeds) for seeds in _overlapping(self._chosen, regions)]

    def _leading(self, names: Iterable[str]) -> Dict[Port, Set[str]]:
        """Nodes that depend on outputs."""
        return {Port(name, 0): self._linear([Port(name, 0)]) for name in names}

    def _add(self, regions: Dict[Port, Set[str]], region: Set[str]) -> Set[str]:
        """Choose seeds, those with the most descendants first; return all their descendants."""
        self._alone.update(
            (seed, nodes) for seed, nodes in regions.items() if self._goes_back(seed, nodes)
        )
        candidates = regions.keys() & self._alone.keys()
        parts = {
            seed
            for seed in candidates
            if self._is_part(seed, {other: regions[other] for other in candidates})
        }
        for seed in sorted(
            candidates,
            key=lambda seed: (
                seed in parts,
                self._is_weight(seed, regions[seed]),
                -len(regions[seed]),
                seed,
            ),
        ):
            with_seed = (
                self._linear([*self._chosen, seed]) if not regions[seed] <= region else region
            )
            if region < with_seed:
                self._chosen, region = [*self._chosen, seed], with_seed
            elif not regions[seed] <= region and self._is_inner(seed, regions[seed] - region):
                self._chosen, region = [*self._chosen, seed], region | regions[seed]
                self._inner.add(seed)
        return region

    def _is_part(self, seed: Port, regions: Mapping[Port, AbstractSet[str]]) -> bool:
        """Whether all descendants of ones also descend from other seeds with more descendants.

        Such ones multiply gradients of several calls.
        """
        others = [
            nodes
            for other, nodes in regions.items()
            if other != seed and not nodes <= regions[seed]
        ]
        return len(others) > 1 and regions[seed] <= set().union(*others)

    def _is_weight(self, seed: Port, region: AbstractSet[str]) -> bool:
        """Whether some consumers of ones return no multiple of them.

        For example a sum of weights and an epsilon: a seed only has gradients among its
        descendants.
        """
        readers = (consumer.node for consumer in self._view.consumers(seed.node))
        return any(
            name in self._needed and name not in region and self._floats.carries(Port(name, 0))
            for name in readers
        )

    def _add_given(self, regions: Dict[Port, Set[str]], left: Set[str]) -> None:
        """Choose the user's own values as seeds of the remaining gradients, most frequent first."""
        for seed, nodes in sorted(
            regions.items(), key=lambda item: (-len(item[1] & left), -len(item[1]), item[0])
        ):
            if nodes & left and self._goes_back(seed, nodes):
                self._alone[seed] = nodes
                self._chosen, left = [*self._chosen, seed], left - nodes

    def _is_inner(self, seed: Port, own: AbstractSet[str]) -> bool:
        """Whether one call's gradient code is differentiated by another's.

        Their common nodes multiply values of both.
        """
        return self._goes_back(seed, own) and own.isdisjoint(
            self._view.descendants({seed.node for seed in self._chosen}, control=False)
        )

    def _call(self, seeds: Sequence[Port]) -> Discovered:
        region = self._linear(seeds, self._place.keys())
        others = [
            other for other in self._chosen if other not in self._inner and other not in seeds
        ]
        outside: Set[str] = set().union(
            *(self._linear([other], self._place.keys()) for other in others)
        )
        if self._inner.issuperset(seeds):
            region -= outside
        starts = self._allow if self._multiply(region) else VARIABLE_OPS
        ahead = [
            name for name in self._all if self._view.nodes[name].op in starts and name not in region
        ]
        forward = self._view.followed(ahead, lambda name: name not in region)
        counts = region & self._needed | self._idle(region)
        leading = self._view.ancestors(forward, control=False) - region - outside
        last = [
            name
            for name in counts
            if self._needs_forward(name, region, forward) or self._multiplies_as(name, leading)
        ]
        nodes = self._to_its_end(self._view.traced(last, region.__contains__), counts, region) | {
            seed.node for seed in seeds
        }
        whole = nodes | self._for_it_alone(nodes, seeds)
        return Discovered(
            whole,
            tuple(seeds),
            differentiated_nodes(
                Backward(
                    self._view,
                    self._all,
                    whole,
                    nodes,
                    seeds,
                    outside - nodes,
                    self._floats.carries,
                )
            ),
        )

    def _to_its_end(
        self, nodes: Set[str], counts: AbstractSet[str], region: AbstractSet[str]
    ) -> Set[str]:
        """Gradient code with its final nodes that don't read the forward pass.

        Sums, copies, loop sums.
        """
        known = 0
        while len(nodes) > known:
            known = len(nodes)
            for name in (name for name in self._all if name in counts and name not in nodes):
                if self._may_end(name, nodes, region):
                    nodes |= self._view.traced([name], region.__contains__)
            for merge, again in self._from_zeros.items():
                if again in counts and self._adds_up(merge, again, nodes):
                    nodes |= self._view.traced([again], region.__contains__)
        return nodes

    def _adds_up(self, merge: str, again: str, nodes: AbstractSet[str]) -> bool:
        """Whether a loop variable is only a sum of gradients over its iterations."""

        def adds(name: str) -> bool:
            op = self._view.nodes[name].op
            return name not in nodes and op in NEXT_ITERATIONS | SUMS | {"Identity"}

        seen = reached(
            [again], lambda name: [port.node for port in self._values(name)] if adds(name) else []
        )
        terms = {name for name in seen if not adds(name)}
        before = {
            name
            for name in terms
            if self._view.nodes[name].op in SWITCHES and self._view.inputs(name)[0].node == merge
        }
        return len(before) == 1 and before < terms and terms <= nodes | before

    def _may_end(self, name: str, nodes: AbstractSet[str], region: AbstractSet[str]) -> bool:
        """Whether a node without forward inputs belongs to gradient code.

        An unread copy is the user's.
        """
        op = self._view.nodes[name].op
        fetched = (
            op == "Identity" and not self._view.consumers(name) and not self._view.controls(name)
        )
        values = {
            port.node
            for port in self._values(name)
            if port.node in nodes or not self._is_zero(port)
        }
        of_branch = op in MERGES and len(values) < len(
            self._view.inputs(name)
        )  # a gradient if a branch is taken, else zeros
        if fetched or not (op in _LAST | ADDS_OF_MANY or op.endswith("Grad") or of_branch):
            return False
        return bool(nodes & values) and values <= (region if op in ADDS_OF_MANY else nodes)

    def _idle(self, region: AbstractSet[str]) -> Set[str]:
        """The nodes of a region without consumers."""
        outside = {
            name
            for name in region
            if any(consumer.node not in region for consumer in self._view.consumers(name))
        }
        return set(region) - self._view.ancestors(outside, control=False)

    def _for_it_alone(self, nodes: AbstractSet[str], seeds: Sequence[Port]) -> Set[str]:
        """Nodes that only gradient code reads, up to matmuls and nodes computed from constants."""
        found: Set[str] = set()
        waiting = [
            port.node
            for name in nodes - {seed.node for seed in seeds}
            for port in self._view.inputs(name)
        ]
        while waiting:
            name = waiting.pop()
            op = self._view.nodes[name].op
            if (
                name in nodes
                or name in found
                or op in self._allow
                or not (self._view.inputs(name) or op == "Const")
            ):
                continue
            if all(
                consumer.node in nodes or consumer.node in found
                for consumer in self._view.consumers(name)
            ):
                found.add(name)
                waiting += [port.node for port in self._view.inputs(name)]
        return found

    def _needs_forward(
        self, name: str, region: AbstractSet[str], forward: AbstractSet[str]
    ) -> bool:
        op = self._view.nodes[name].op
        law = rule(op)
        by_slot = law.slots is not None and law.name == "linear"
        return (
            op in self._allow
            or by_slot
            or any(port.node in forward and port.node not in region for port in self._values(name))
        )

    def _multiplies_as(self, name: str, leading: AbstractSet[str]) -> bool:
        """Whether a node multiplies by the same factor as a forward op of its type.

        For example 1 / sqrt(variance).
        """
        op = self._view.nodes[name].op
        readers = (
            consumer.node
            for port in self._values(name)
            if port.node in leading
            for consumer in self._view.consumers(port.node)
        )
        return rule(op).name in _FACTORS and any(
            reader in leading and self._view.nodes[reader].op == op for reader in readers
        )

    def _is_source(self, name: str) -> bool:
        """Whether a node may be the user's own `grad_ys`."""
        return (
            not self._carried(name)
            and self._floats.carries(Port(name, 0))
            and self._view.nodes[name].op not in VARIABLE_OPS
        )

    def _is_ones(self, name: str) -> bool:
        node = self._view.nodes[name]
        if not self._floats.carries(Port(name, 0)) or not self._view.consumers(name):
            return False
        if node.op == "Fill":
            return all_equal(self._view.nodes[self._view.inputs(name)[1].node], 1)
        fills = all(
            self._view.nodes[consumer.node].op == "Fill" for consumer in self._view.consumers(name)
        )
        return node.op == "OnesLike" or (not fills and all_equal(node, 1))

    def _linear(self, seeds: Sequence[Port], among: Optional[AbstractSet[str]] = None) -> Set[str]:
        """Nodes that are multiples of the seeds, among those that writes need or else `among`.

        A loop variable with an initial value of zeros is one if its next value is.
        """
        among = self._needed if among is None else among
        assumed = self._assumed(seeds, among) if self._from_zeros else {}
        while True:
            found = self._multiples(seeds, among, assumed)
            led_to = (
                self._view.followed(
                    [c.node for seed in seeds for c in self._view.consumers(seed.node)],
                    found.__contains__,
                )
                if assumed
                else found
            )
            wrong = [name for name, again in assumed.items() if again not in led_to]
            if not wrong:
                return found
            for name in wrong:
                del assumed[name]

    @once
    def _from_zeros(self) -> Dict[str, str]:
        """Loop variables with an initial value of zeros, each with its next value."""
        found = {}
        for name in (name for name, node in self._view.nodes.items() if node.op in MERGES):
            ports = self._view.inputs(name)
            again = [
                port.node for port in ports if self._view.nodes[port.node].op in NEXT_ITERATIONS
            ]
            if len(again) == 1 and all(
                self._is_zero(port) for port in ports if port.node not in again
            ):
                found[name] = again[0]
        return found

    def _assumed(self, seeds: Sequence[Port], among: AbstractSet[str]) -> Dict[str, str]:
        """The loop variables that may be multiples of seeds: those that depend on them."""
        after = self._view.descendants({seed.node for seed in seeds}, control=False)
        return {
            name: again
            for name, again in self._from_zeros.items()
            if name in after and name in among
        }

    def _multiples(
        self, seeds: Sequence[Port], among: AbstractSet[str], assumed: Iterable[str]
    ) -> Set[str]:
        """Nodes that are multiples of the seeds, if `assumed` are.

        Readers of multiples are looked at in topological order, each once.
        """
        starts, found = set(seeds), set(assumed)
        waiting: List[int] = []
        for name in {*(seed.node for seed in seeds), *found}:
            waiting += self._readers(name, among)
        heapq.heapify(waiting)
        last = -1
        while waiting:
            place = heapq.heappop(waiting)
            if place <= last:
                continue
            last, name = place, self._all[place]
            scaled = {
                slot
                for slot, port in enumerate(self._view.inputs(name))
                if port in starts or (port.node in found and self._floats.carries(port))
            }
            if scaled and self._is_linear(name, scaled):
                found.add(name)
                for each in self._readers(name, among):
                    heapq.heappush(waiting, each)
        return found

    def _readers(self, name: str, among: AbstractSet[str]) -> List[int]:
        """The places of the readers of a node that are among others."""
        readers = (consumer.node for consumer in self._view.consumers(name))
        return [self._place[reader] for reader in readers if reader in among]

    def _is_linear(self, name: str, scaled: AbstractSet[int]) -> bool:
        op = self._view.nodes[name].op
        law = rule(op)
        if op in self._floats.functions or op in CALLS or op in MERGES:
            return True
        if law.name in _FACTORS:
            own = sorted(self._carried(name)) if law.slots is None else law.slots
            place = _FACTORS[law.name]
            return len(scaled) == 1 and scaled <= set(
                own if place is None else own[place : place + 1]
            )
        if law.name not in ("linear", "reduce", "each"):
            return False
        carried = self._carried(name)
        about = (
            carried
            if law.slots is None
            else {slot: carried[slot] for slot in law.slots if slot in carried}
        )
        return law.name == "each" or (
            scaled <= set(about)
            and all(slot in scaled or self._is_zero(port) for slot, port in about.items())
        )

    def _is_zero(self, port: Port) -> bool:
        return self._zeros.has(port.node)

    def _carried(self, name: str) -> Dict[int, Port]:
        return {
            slot: port
            for slot, port in enumerate(self._view.inputs(name))
            if self._floats.carries(port)
        }

    def _values(self, name: str) -> Iterator[Port]:
        return iter(self._carried(name).values())

    def _goes_back(self, seed: Port, region: AbstractSet[str]) -> bool:
        """Whether a matmul or convolution has an input in common with one outside of the nodes.

        The other isn't a descendant of it, and contracts other dimensions: so does a gradient.
        """
        if not self._multiplies:
            return self._comes_back(region)
        for name in (name for name in region if self._view.nodes[name].op in self._allow):
            given = {
                slot: self._source(port)
                for slot, port in self._carried(name).items()
                if port != seed and port.node not in region
            }
            shared = {
                (slot, other)
                for slot, port in given.items()
                for other in self._multiplied.get(port, ())
                if other[0] not in region
            }
            after = self._view.descendants([name], control=False) if shared else set()
            before = [
                self._crossing(name, slot, *other)
                for slot, other in shared
                if other[0] not in after
            ]
            if any(before) or (None in before and len(before) == len(shared)):
                return True
        return (
            not self._multiply(region)
            and not region.isdisjoint(self._gradients)
            and self._comes_back(region)
        )

    @once
    def _multiplied(self) -> Dict[Port, List[Tuple[str, int]]]:
        """The matmuls and convolutions that take each value, with the slot."""
        found: Dict[Port, List[Tuple[str, int]]] = {}
        for name, node in self._view.nodes.items():
            for slot, port in self._carried(name).items() if node.op in self._allow else ():
                found.setdefault(self._source(port), []).append((name, slot))
        return found

    def _multiply(self, region: AbstractSet[str]) -> bool:
        return any(self._view.nodes[name].op in self._allow for name in region)

    def _comes_back(self, region: AbstractSet[str]) -> bool:
        """Whether nodes multiply by a function of a variable, and are written to that variable."""
        written = set().union(*(self._written[name] for name in region if name in self._written))
        made = self._view.descendants(written, control=False) - region if written else set()
        return any(
            port.node in made
            for name in region
            if rule(self._view.nodes[name].op).name == "product"
            for port in self._values(name)
        )

    def _crossing(self, name: str, slot: int, other: str, there: int) -> Optional[bool]:
        """Whether two matmuls contract different dimensions of a common operand.

        None for other ops.
        """
        one, two = (self._contracted(*each) for each in ((name, slot), (other, there)))
        return None if one is None or two is None else one != two

    def _contracted(self, name: str, slot: int) -> Optional[bool]:
        """The dimension of a matmul's operand, of the last two, that is contracted.

        None for other ops.
        """
        node = self._view.nodes[name]
        transposes = next((pair for pair in _TRANSPOSES if pair[0] in node.attr), None)
        return None if transposes is None else (slot == 0) ^ node.attr[transposes[slot]].b

    def _source(self, port: Port) -> Port:
        while self._view.nodes[port.node].op in KEEPS_VALUES | ENTERS and self._carried(port.node):
            port = self._view.inputs(port.node)[0]
        return port


def _overlapping(seeds: Sequence[Port], regions: Dict[Port, Set[str]]) -> Iterator[List[Port]]:
    """Groups of seeds with common descendants."""
    if not seeds:
        return
    pairs = [(place, place) for place in range(len(seeds))]
    first: Dict[str, int] = {}  # the first seed that leads to a node
    for place, seed in enumerate(seeds):
        pairs += {(first.setdefault(name, place), place) for name in regions[seed]}
    ends = np.array(pairs, int).T
    count, group = connected_components(
        coo_matrix((np.ones(len(pairs)), ends), (len(seeds), len(seeds)))
    )
    for number in range(count):
        yield [seed for place, seed in enumerate(seeds) if group[place] == number]
