"""Errors of clones, reported like errors of the original nodes."""

from __future__ import annotations

from typing import Any, Sequence

from graphmp.graph.state.live import ancestors
from graphmp.session.live.cloning.nodes import LiveNodes

_WAITS = (
    "\ngraphmp: what was asked for doesn't read %s as it was built. A step is skipped whole, so"
    " that one update waits for the gradients of all that one apply_gradients updates: run the"
    " whole train op, or take a fixed loss scale or none, which skips nothing."
)


def of_original(error: Any, nodes: LiveNodes, asked: Sequence[Any]) -> Any:
    """An error of a run with the original's op, name and message instead of the clone's.

    Args:
        error: TensorFlow's.
        nodes: the graph's.
        asked: the ops that the caller's run asked for.
    """
    if error.op is None:
        return error
    if error.op.type == "Placeholder" and error.op not in ancestors(asked):
        return type(error)(error.node_def, error.op, error.message + _WAITS % error.op.name)
    originals = nodes.stand_ins.originals()
    if originals.get(error.op.name) not in nodes.known:
        return error
    original = error.op.graph.get_operation_by_name(originals[error.op.name])
    message = error.message.replace(error.op.name, original.name)
    return type(error)(error.node_def, original, message)
