"""`graphmp.check_overflow`: the first node of a step that isn't finite."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from graphmp.compare import roles
from graphmp.errors import GraphmpError
from graphmp.graph.state.live import as_ops, is_update
from graphmp.session.live.live_graph import known_live_graph
from graphmp.session.live.not_finite.watch import Overflow, Watch

# of a tf.Graph: objects that refer to each other are freed together
_ATTRIBUTE = "_graphmp_watches"


def check_overflow(
    session: Any, feed_dict: Optional[Dict[Any, Any]] = None, fetches: Any = None
) -> Optional[Overflow]:
    """Compute a step's gradients on a batch, without the update; find the first value not finite.

    Adds nodes to the session's graph at the first call, even to a finalised one. Values inside
    while loops and branches can't be seen; the results of a loop can. An input pipeline loses one
    batch.

    Args:
        session: a tf.Session of a converted graph, or a graphmp.Session that has trained.
        feed_dict: as for `session.run`.
        fetches: the step's outputs, as for `session.run`. By default the finite checks of the loss
            scales; without them the gradients that a fixed scale divides, else the inputs of the
            optimizers' kernels.

    Returns:
        An Overflow: the node, its op, its dtype and the ranges of its inputs; its `str` is a
        sentence. None if all is finite.

    Raises:
        GraphmpError: GMP002 if the graph shows no gradients, and `fetches` is empty, or if no
            floating-point tensor is computed for the fetches.
    """
    graph = session.graph
    live = known_live_graph(graph)
    ops = (
        _checks(graph, live)
        if fetches is None
        else [live.nodes.stand_ins.op(op) if live else op for op in as_ops(fetches, graph)]
    )
    if not ops:
        raise GraphmpError(
            "GMP002",
            "check_overflow: no gradients were found in the graph; accepted are fetches such as the"
            " loss",
        )
    watches = _watches(graph)
    key = tuple(op.name for op in ops)
    if key not in watches:
        watches[key] = Watch(ops, live.nodes.stand_ins.originals() if live else {})
    return watches[key].first(session.run(watches[key].fetches, feed_dict))


def _watches(graph: Any) -> Dict[Tuple[str, ...], Watch]:
    """The watches of a graph, by the names of the ops."""
    if not hasattr(graph, _ATTRIBUTE):
        setattr(graph, _ATTRIBUTE, {})
    found: Dict[Tuple[str, ...], Watch] = getattr(graph, _ATTRIBUTE)
    return found


def _checks(graph: Any, live: Any) -> List[Any]:
    if live is not None and live.converted is not None:
        return live.converted.checks()
    ops = graph.get_operations()
    found = [op for op in ops if roles.ALL_FINITE.match(op.name)] or [
        op for op in ops if roles.UNSCALE.match(op.name)
    ]
    return found or [
        tensor.op for op in ops if is_update(op) for tensor in op.inputs if tensor.dtype.is_floating
    ]
