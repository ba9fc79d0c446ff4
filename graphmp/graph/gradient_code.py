"""Gradient code in a graph. Calls on record (`gradient_record.py`) are taken as they are; elsewhere names propose, structure decides.

What lies in the scope of a call on record, and isn't the call's, is none. Else, below `SCOPE/X_grad/` is the gradient of X unless

1. X has no inputs: a variable, say, whose gradient a user clips below its name;
2. it takes gradients of nothing that comes behind X, but of what X itself is made of: gradients run backwards.
   `clip_by_norm(d_kernel, 1, name="loss_grad")`   works on the gradient of a matmul, which the loss depends on
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterable, List, NamedTuple, Sequence, Set

from graphmp.graph import gradient_names
from graphmp.graph.building import is_own
from graphmp.graph.gradient_names import Claim
from graphmp.graph.gradient_record import Recorded
from graphmp.graph.order import in_order
from graphmp.graph.values import all_equal
from graphmp.graph.view import GraphView


def gradient_code(view: GraphView, given: Iterable[str] = (), recorded: Sequence[Recorded] = ()) -> Dict[str, Set[str]]:
    """The nodes of gradient code by name scope: what lies below an `X_grad/` of it, and its own leaves (seeds, sums); none of a conversion's own.

    Args:
        view: the graph.
        given: scopes that hold gradient code whatever is in them; all of their nodes count.
        recorded: calls of the graph that are on record, those of given scopes too.
    """
    found = {call.scope: set(call.nodes) for call in recorded}
    known = {name for call in recorded for name in [*call.nodes, *call.forward]}
    apart = known.union(filter(is_own, view.nodes))
    claims = {name: claim for name, claim in gradient_names.claims(view.nodes.keys()).items() if name not in apart and claim.scope not in found}
    given = [scope for scope in given if scope.strip("/") not in found]
    stored = gradient_names.proposed(view.nodes.keys(), claims, given, _refuted(view, claims, known) | apart)
    return {**{scope: nodes for scope, nodes in stored.items() if scope not in found}, **found}


def gradient_nodes(view: GraphView, given: Iterable[str] = ()) -> Set[str]:
    """All nodes of gradient code."""
    return {name for nodes in gradient_code(view, given).values() for name in nodes}


def idle_nodes(view: GraphView, scopes: Iterable[AbstractSet[str]], control: bool = True) -> Set[str]:
    """Gradient code that leads nowhere, as gradients of constants do: a step runs it only where someone fetches it.

    Args:
        view: the graph.
        scopes: the nodes of each call of `tf.gradients`. One of which nothing leads anywhere is fetched, and runs.
        control: false for what leads nowhere by data: an optimizer gates its gradients, so that a step runs those too that nothing reads.
    """
    found: Set[str] = set()
    for nodes in scopes:
        needed = view.ancestors((name for name in view.nodes if name not in nodes), control) & nodes
        found |= nodes - needed if needed else set()
    return found


def _refuted(view: GraphView, claims: Dict[str, Claim], recorded: AbstractSet[str]) -> Set[str]:
    """Nodes below an `X_grad/` that is no gradient of X. Beside calls on record all are asked, else none whose scope TensorFlow named."""
    groups: Dict[Claim, List[str]] = {}
    for name, claim in claims.items():
        if recorded or not gradient_names.is_default(claim.scope):
            groups.setdefault(claim, []).append(name)
    if not groups:
        return set()
    found = {claim for claim in groups if not view.inputs(claim.forward)}
    asked = _Direction(view, claims, recorded)
    found |= {claim for claim, nodes in groups.items() if claim not in found and asked.is_forward(claim, nodes)}
    return {name for claim in found for name in groups[claim]}


class _Place(NamedTuple):
    """Where the gradients that a group of nodes takes come from.

    Attributes:
        behind: whether some come from behind the node that the group is the gradient of, or are seeds.
        ahead: whether some come from that node itself, or from what it is made of.
    """

    behind: bool
    ahead: bool


class _Direction:
    """Says which way gradients run through nodes."""

    def __init__(self, view: GraphView, claims: Dict[str, Claim], recorded: AbstractSet[str]):
        self._view, self._claims, self._recorded = view, claims, recorded
        self._order = {name: place for place, name in enumerate(in_order(view, view.nodes.keys()))}
        self._after = view.descendants({*claims, *recorded}, control=False)

    def is_forward(self, claim: Claim, nodes: List[str]) -> bool:
        """Whether the nodes take gradients only of what `claim.forward` is made of."""
        place = self._taken(claim, nodes)
        return place.ahead and not place.behind

    def _taken(self, claim: Claim, nodes: List[str]) -> _Place:
        own, here = set(nodes), self._order.get(claim.forward, -1)
        behind = ahead = False
        seen: Set[str] = set()
        waiting = [port.node for name in nodes for port in self._view.inputs(name)]
        while waiting and not behind:
            name = waiting.pop()
            if name in seen or name in own:
                continue
            seen.add(name)
            if self._is_seed(name, claim.scope):
                behind = True
            elif name in self._claims:
                comes_behind = self._order.get(self._claims[name].forward, -1) > here
                behind, ahead = behind or comes_behind, ahead or not comes_behind
            elif name in self._recorded:
                ahead = True  # of a call that is complete
            elif name in self._after:
                waiting += [port.node for port in self._view.inputs(name)]
        return _Place(behind, ahead)

    def _is_seed(self, name: str, scope: str) -> bool:
        parent, _, leaf = name.rpartition("/")
        if parent != scope:
            return False
        node = self._view.nodes[name]
        value = self._view.nodes[self._view.inputs(name)[1].node] if node.op == "Fill" else node
        return leaf.startswith("grad_ys") or node.op == "OnesLike" or all_equal(value, 1)
