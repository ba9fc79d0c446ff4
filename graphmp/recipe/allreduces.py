"""All-reduces between a loss's gradients and their optimizer, in a graph under construction."""

from __future__ import annotations

from typing import Any, Container, List, Set

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import ancestors
from graphmp.graph.structure.calls import functions_named
from graphmp.loss_scale.gradients import values
from graphmp.policy.op_sets import CALLS
from graphmp.scaling.losses.allreduce import is_reduce, reducing_functions


def reduced(gradients: List[Any], made: Container[str]) -> List[Any]:
    """The tensors to check for finite gradients if all-reduces add those of other processes.

    Empty without all-reduces. All processes thus skip the same steps. The result of an
    all-reduce is complete outside of its conditional: a part of one is dead in some steps.

    Args:
        gradients: the gradients that an optimizer applies.
        made: names of the ops that make gradients; their ancestors aren't examined.
    """
    graph = tf.get_default_graph()
    above = [
        ancestors([values(g).op], stop=lambda op: op.name in made, control=False) for g in gradients
    ]
    reduces = _all_reduces(graph, set().union(*above))
    if not reduces:
        return []
    found = {values(g): None for g, ops in zip(gradients, above) if reduces.isdisjoint(ops)}
    waiting, behind, outside = (
        sorted(reduces, key=lambda op: str(op.name)),
        set().union(*above),
        graph._get_control_flow_context(),
    )
    while waiting:
        op = waiting.pop()
        if op._get_control_flow_context() is outside:
            found.update((tensor, None) for tensor in op.outputs if tensor.dtype.is_floating)
        else:
            waiting += [
                reader for tensor in op.outputs for reader in tensor.consumers() if reader in behind
            ]
    return list(found)


def _all_reduces(graph: Any, ops: Set[Any]) -> Set[Any]:
    """All-reduces among ops, including calls of functions that contain one."""
    calls = {op for op in ops if op.type in CALLS}
    reducing = reducing_functions(graph.as_graph_def()) if calls else set()
    return {op for op in ops if is_reduce(op.type)} | {
        op for op in calls if not reducing.isdisjoint(functions_named(op.node_def))
    }
