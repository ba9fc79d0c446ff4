"""Errors of clones, reported like errors of the original nodes."""

from __future__ import annotations

from typing import Any

from graphmp.session.live.cloning.nodes import LiveNodes


def of_original(error: Any, nodes: LiveNodes) -> Any:
    """An error of a run with the original's op, name and message instead of the clone's."""
    originals = nodes.stand_ins.originals()
    if error.op is None or originals.get(error.op.name) not in nodes.known:
        return error
    original = error.op.graph.get_operation_by_name(originals[error.op.name])
    message = error.message.replace(error.op.name, original.name)
    return type(error)(error.node_def, original, message)
