"""The path of each loss scale through a converted graph: scale, unscale, check, clip, gate.

Counted by its nodes' names and edges.
"""

from __future__ import annotations

import re
from typing import Callable, List, NamedTuple, Optional, Set, Tuple

from graphmp.compare import roles
from graphmp.graph.structure.values import number
from graphmp.graph.structure.view import GraphView
from graphmp.graph.structure.walk import reached
from graphmp.policy.op_sets import MERGES

# the initial value of a dynamic scale; of one that loops or functions adapt, the second
_STARTS = ("/scale/initial_value", "/scale/Initializer/initial_value")
_SCOPE = re.compile(r"^(graphmp/loss_scale(?:_(\d+))?)/current$")


class Flow(NamedTuple):
    """One loss scale.

    Attributes:
        scale: its node.
        is_dynamic: whether it adapts.
        initial: its initial or fixed value; None for a tensor.
        enters: the multiplied values, and the products, by name.
        unscales: the number of divisions by it.
        check: the finite check of all gradients; empty without one.
        clip: the scope of graphmp's clip; empty without one.
        gates: the number of writes that a skipped step omits.
    """

    scale: str
    is_dynamic: bool
    initial: Optional[float]
    enters: Tuple[Tuple[str, str], ...]
    unscales: int
    check: str
    clip: str
    gates: int


def flows(view: GraphView, is_write: Callable[[str], bool]) -> Tuple[Flow, ...]:
    """The loss scales of a graph, in order.

    Args:
        view: the converted graph.
        is_write: whether a node changes state.
    """
    found = filter(None, map(_SCOPE.match, view.nodes))
    return tuple(
        _flow(view, match.group(1), is_write)
        for match in sorted(found, key=lambda match: int(match.group(2) or 0))
    )


def _flow(view: GraphView, scope: str, is_write: Callable[[str], bool]) -> Flow:
    ours = [name for name in view.nodes if name.startswith(scope + "/")]
    entering = [
        name for name in ours if roles.SCALED.search(name) and "/" not in name[len(scope) + 1 :]
    ]
    check = scope + "/all_finite" if scope + "/all_finite" in view.nodes else ""
    clip = scope + "/clip_by_global_norm"
    is_dynamic = scope + "/scale" in view.nodes
    return Flow(
        scale=scope + "/current",
        is_dynamic=is_dynamic,
        initial=_value(
            view, *(scope + name for name in (_STARTS if is_dynamic else ("/current",)))
        ),
        enters=tuple((str(view.inputs(name)[0]), name) for name in entering if view.inputs(name)),
        unscales=sum(
            re.match(r"unscale(_\d+)?$", name[len(scope) + 1 :]) is not None for name in ours
        ),
        check=check,
        clip=clip if any(name.startswith(clip) for name in ours) else "",
        gates=len(_gated(view, check, is_write)) if check else 0,
    )


def _gated(view: GraphView, check: str, is_write: Callable[[str], bool]) -> Set[str]:
    """The model's writes that a flag gates.

    They are on paths from it through no other write, and through no Merge, which runs either way,
    but for one that selects the value to write.
    """

    def after(name: str) -> List[str]:
        either = view.nodes[name].op in MERGES and not roles.SELECTED.search(name)
        if name != check and (is_write(name) or either):
            return []
        return [consumer.node for consumer in view.consumers(name)] + list(
            view.control_consumers(name)
        )

    found = filter(is_write, reached([check], after) - {check})
    return {name for name in found if not name.startswith("graphmp/")}


def _value(view: GraphView, *names: str) -> Optional[float]:
    """The number in the first of some nodes that is there."""
    node = next((view.nodes[name] for name in names if name in view.nodes), None)
    return None if node is None else number(node)
