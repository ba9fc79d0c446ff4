"""Gradient code in a graph: from recorded calls, or else by names that structure confirms.

Recorded calls (`gradient_record.py`) are used exactly: other nodes in the scope of a recorded call
are not gradient code. Elsewhere, nodes below `SCOPE/X_grad/` are the gradient of X unless

1. X has no inputs, such as a variable whose gradient a user clips below its name;
2. they take gradients only from inputs of X, and from nothing computed from X: gradients run
   backwards. `clip_by_norm(d_kernel, 1, name="loss_grad")` works on the gradient of a matmul, which
   the loss depends on. In a loop everything is computed from everything.

If neither the nodes take gradients nor other nodes of their call take any from them, structure
can't decide. They count if there are only names to go by, and are listed (`assumed`).
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure import gradient_names
from graphmp.graph.structure.frames import frames
from graphmp.graph.structure.gradient_names import NameClaim
from graphmp.graph.structure.gradient_record import RecordedCall
from graphmp.graph.structure.order import whole_order
from graphmp.graph.structure.values import all_equal
from graphmp.graph.structure.view import GraphView
from graphmp.graph.structure.walk import reached
from graphmp.naming import is_own
from graphmp.once import remembered


class GradientCode(NamedTuple):
    """Gradient code, and the uncertain part of it.

    Attributes:
        scopes: its nodes by name scope.
        assumed: nodes that count by name only, with the forward node that the name refers to.
    """

    scopes: Dict[str, Set[str]]
    assumed: Dict[str, str]


def gradient_code(
    view: GraphView, given: Sequence[str] = (), recorded: Sequence[RecordedCall] = ()
) -> Dict[str, Set[str]]:
    """The nodes of gradient code by name scope, from `find`."""
    return find(view, given, recorded).scopes


def find(
    view: GraphView, given: Sequence[str] = (), recorded: Sequence[RecordedCall] = ()
) -> GradientCode:
    """Gradient code: nodes below an `X_grad/` of a scope, and the scope's own seeds and sums.

    Nodes inserted by a conversion don't count.

    Args:
        view: the graph.
        given: scopes that hold gradient code by definition; all of their nodes count.
        recorded: recorded calls of the graph, also those of given scopes. With these and given
            scopes nothing is assumed.
    """
    found = {call.scope: set(call.nodes) for call in recorded}
    known = {name for call in recorded for name in [*call.nodes, *call.forward]}
    apart = known.union(filter(is_own, view.nodes))
    claims = {
        name: claim
        for name, claim in gradient_names.claims(view.nodes.keys()).items()
        if name not in apart and claim.scope not in found
    }
    unasked = [scope for scope in given if scope.strip("/") not in found]
    refuted, uncertain = _judged(view, claims, known)
    is_told = bool(given or recorded)
    without = refuted | apart | (uncertain.keys() if is_told else set())
    stored = gradient_names.proposed(view.nodes.keys(), claims, unasked, without)
    return GradientCode(
        {**{scope: nodes for scope, nodes in stored.items() if scope not in found}, **found},
        {} if is_told else uncertain,
    )


@remembered
def gradient_nodes(view: GraphView) -> Set[str]:
    """All nodes of gradient code."""
    return {name for nodes in gradient_code(view).values() for name in nodes}


def idle_nodes(
    view: GraphView, scopes: Iterable[AbstractSet[str]], control: bool = True
) -> Set[str]:
    """Gradient code without an effect, as gradients of constants: it runs only if fetched.

    Args:
        view: the graph.
        scopes: the nodes of each call of `tf.gradients`. A call without any effect is fetched, and
            runs.
        control: if false, control edges are ignored: an optimizer gates its gradients, so that a
            step also runs those that nothing reads.
    """

    def before(name: str) -> List[str]:
        data = [port.node for port in view.inputs(name)]
        return [*data, *view.controls(name)] if control else data

    found: Set[str] = set()
    for nodes in scopes:
        read = [name for name in nodes if _is_read_outside(view, name, nodes, control)]
        if read:
            found |= nodes - reached(read, before, nodes.__contains__)
    return found


def _is_read_outside(view: GraphView, name: str, nodes: AbstractSet[str], control: bool) -> bool:
    return any(consumer.node not in nodes for consumer in view.consumers(name)) or (
        control and any(after not in nodes for after in view.control_consumers(name))
    )


def _judged(
    view: GraphView, claims: Dict[str, NameClaim], recorded: AbstractSet[str]
) -> Tuple[Set[str], Dict[str, str]]:
    """Nodes below an `X_grad/` that isn't a gradient of X, and undecided ones with their X."""
    groups: Dict[NameClaim, List[str]] = {}
    for name, claim in claims.items():
        groups.setdefault(claim, []).append(name)
    refuted: Set[str] = set()
    uncertain: Dict[str, str] = {}
    if not groups:
        return refuted, uncertain
    asked = _Direction(view, claims, recorded)
    for claim, nodes in groups.items():
        place = asked.taken(claim, nodes) if view.inputs(claim.forward) else _FORWARD
        if place == _FORWARD:
            refuted.update(nodes)
        elif place == _NOWHERE and not asked.is_start(claim, nodes):
            uncertain.update((name, claim.forward) for name in nodes)
    return refuted, uncertain


class _Origin(NamedTuple):
    """The origin of the gradients that a group of nodes takes.

    Attributes:
        behind: whether some come from descendants of the node that the group differentiates, or are
            seeds, or zeros in place of gradients.
        ahead: whether some come from that node itself, or from its ancestors.
    """

    behind: bool
    ahead: bool


_FORWARD, _NOWHERE = _Origin(behind=False, ahead=True), _Origin(behind=False, ahead=False)


class _Direction:
    """Determines the direction in which gradients run through nodes."""

    def __init__(self, view: GraphView, claims: Dict[str, NameClaim], recorded: AbstractSet[str]):
        self._view, self._claims, self._recorded = view, claims, recorded
        self._order = {name: place for place, name in enumerate(whole_order(view))}
        self._after = view.descendants({*claims, *recorded}, control=False)
        self._frames = frames(view)
        self._of_scope: Dict[str, List[str]] = collections.defaultdict(list)
        for name, claim in claims.items():
            self._of_scope[claim.scope].append(name)

    def taken(self, claim: NameClaim, nodes: List[str]) -> _Origin:
        """The origin of the gradients that nodes take."""
        own = set(nodes)
        ahead = zeros = False
        seen: Set[str] = set()
        waiting = collections.deque(port.node for name in nodes for port in self._view.inputs(name))
        while waiting:
            name = waiting.popleft()
            if name in seen or name in own:
                continue
            seen.add(name)
            if self._is_seed(name, claim.scope) or (
                name in self._claims
                and self._comes_behind(self._claims[name].forward, claim.forward)
            ):
                return _Origin(behind=True, ahead=ahead)
            ahead = (
                ahead or name in self._claims or name in self._recorded
            )  # recorded calls are complete
            zeros = zeros or self._is_zero(name, claim.scope)
            if name in self._after and name not in self._claims and name not in self._recorded:
                waiting.extend(port.node for port in self._view.inputs(name))
        return _Origin(behind=zeros and not ahead, ahead=ahead)

    def is_start(self, claim: NameClaim, nodes: List[str]) -> bool:
        """Whether gradient code of the same call reads nodes that start from `grad_ys`.

        Before 1.5 these were not copied.
        """
        after = self._view.descendants(nodes, control=False)
        return any(
            self._claims[name] != claim and name in after for name in self._of_scope[claim.scope]
        )

    def _comes_behind(self, name: str, other: str) -> bool:
        """Whether a forward node depends on another, possibly in the next iteration of a loop."""
        loops = self._frames.get(name, ())[:1]
        return self._order.get(name, -1) > self._order.get(other, -1) or (
            bool(loops) and loops == self._frames.get(other, ())[:1]
        )

    def _is_zero(self, name: str, scope: str) -> bool:
        node = self._view.nodes[name]
        return name.rpartition("/")[0] == scope and (
            node.op == "ZerosLike" or all_equal(self._filled(name), 0)
        )

    def _filled(self, name: str) -> tf.NodeDef:
        """The constant that a Fill copies; the node itself if it isn't a Fill."""
        return self._view.nodes[
            self._view.inputs(name)[1].node if self._view.nodes[name].op == "Fill" else name
        ]

    def _is_seed(self, name: str, scope: str) -> bool:
        parent, _, leaf = name.rpartition("/")
        if parent != scope:
            return False
        return (
            leaf.startswith("grad_ys")
            or self._view.nodes[name].op == "OnesLike"
            or all_equal(self._filled(name), 1)
        )
