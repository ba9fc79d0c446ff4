"""Nodes of a live graph after one more conversion: what of the earlier ones still holds."""

from __future__ import annotations

from typing import Any

from graphmp.graph.state.live import descendants
from graphmp.session.live.cloning.earlier import Earlier
from graphmp.session.live.cloning.nodes import LiveNodes, unconverted
from graphmp.session.live.cloning.stand_ins import StandIns


def kept_with(graph: Any, nodes: LiveNodes, results: Earlier) -> LiveNodes:
    """The nodes that a new conversion starts from: its own, and clones of later nodes that hold.

    Clones of Savers don't: there may be more to save.

    Args:
        graph: the tf.Graph.
        nodes: the nodes as the conversion before sees them.
        results: of the new conversion.
    """
    serve = set(results.clones.values())
    later = {
        name: clone
        for name, clone in nodes.stand_ins.names.items()
        if name not in results.converted and name not in nodes.savers and name in nodes.known
    }
    replaced = set(nodes.stand_ins.names.values()) - serve - set(later.values())
    ops = [graph.get_operation_by_name(name) for name in sorted(replaced)]
    stale = {op.name for op in descendants(ops)} if later else set()
    kept = {name: clone for name, clone in later.items() if clone not in stale}
    return unconverted(nodes.added)._replace(
        stand_ins=StandIns({**kept, **results.clones}), known=frozenset(kept)
    )
