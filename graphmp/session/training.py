"""Recognising runs that train: those that write a value that depends on a gradient."""

from __future__ import annotations

from typing import AbstractSet, Any, Collection, Iterable, List

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import (
    ancestors,
    as_ops,
    is_initializer,
    is_update,
    is_write,
    variable_in_branch,
    variable_op,
)
from graphmp.graph.structure.calls import functions_named, with_callers
from graphmp.graph.structure.gradient_names import claims
from graphmp.policy.op_sets import ASSIGNS, CALLS
from graphmp.policy.policy import tensor_core_ops
from graphmp.rewrite.by_hand import ByHand
from graphmp.scaling.losses.inside import taking_functions, training_functions
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.tf_hooks.internals import is_op, whole_graph_def

_SERVED = frozenset(tensor_core_ops())


def trains(graph: Any, fetches: Any) -> bool:
    """Whether fetching these ops would train.

    They then depend on an optimizer's kernel, on a write that depends on a gradient (one that a
    called function takes, too), or on a function that trains. An imported graph has no record of
    its gradients; there kernels count, and assignments to trainable variables that depend on what
    has the name of a gradient.
    """
    before = ancestors(as_ops(fetches, graph))
    writes = [op for op in before if is_write(op)]
    if any(is_update(op) for op in writes) or _calls_training(graph, before):
        return True
    if _gradients(graph, ancestors(writes, control=False)):
        return True
    if any(call.results for call in noted(graph) if not call.in_function):
        return False
    trainable = _trainable(graph) if writes else frozenset()
    assigned = [op for op in writes if op.type in ASSIGNS and _assigned(op) in trainable]
    named = {op.name for op in ancestors(assigned, control=False) if "_grad/" in op.name}
    return bool(named and named & claims({op.name for op in graph.get_operations()}).keys())


def trained_by_hand(graph: Any, ops: Iterable[Any]) -> str:
    """How these ops assign to a trainable variable what a matmul or convolution computed.

    That is training by gradients that `tf.gradients` didn't compute in this process; empty if they
    don't.
    """
    trainable = _trainable(graph)
    before = ancestors(ops) if trainable else ()
    writes = [op for op in before if op.type in ASSIGNS]
    for write in sorted(writes, key=lambda op: str(op.name)):
        variable = _assigned(write)
        if variable not in trainable:
            continue
        computed = ancestors([write.inputs[1].op], control=False)
        sources = sorted(op.name for op in computed if op.type in _SERVED)
        if sources:
            return str(ByHand(write.name, variable, sources[-1]))
    return ""


def _trainable(graph: Any) -> AbstractSet[str]:
    """The names of a graph's trainable variables."""
    found = map(variable_op, graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES))
    return {op.name for op in found if op is not None}


def _assigned(write: Any) -> str:
    """The name of the variable that an assignment changes, but for its initial value; or empty."""
    variable = None if is_initializer(write) else variable_in_branch(write.inputs[0])
    return variable.name if variable is not None else ""


def updates(graph: Any, fetches: Any) -> bool:
    """Whether fetching ops that train updates a trained variable, not only sums of gradients.

    A variable is trained if a gradient is taken with respect to it, or if gradients are both
    computed from it and written to it: a loop takes them with respect to its own values.

    True as well if that can't be told: in functions, in an imported graph, and where no gradient is
    taken with respect to a variable.
    """
    before = ancestors(as_ops(fetches, graph))
    calls = [call for call in noted(graph) if not call.in_function]
    named = {name for call in calls for name, _ in call.results}
    trained = {
        found.name for found in map(variable_op, _outputs_of(graph, named)) if found is not None
    }
    if not trained or _calls_training(graph, before):
        return True
    writes = {op: list(map(variable_in_branch, op.inputs)) for op in before if is_write(op)}
    if any(
        found is not None and found.name in trained for each in writes.values() for found in each
    ):
        return True
    read = ancestors(_gradients(graph, graph.get_operations()), control=False)
    back = [op for op, each in writes.items() if not read.isdisjoint(each)]
    return bool(_gradients(graph, ancestors(back, control=False)))


def _gradients(graph: Any, ops: Collection[Any]) -> List[Any]:
    """Those of some ops that compute gradients, by the calls that this process recorded.

    Or that call a function that takes some.
    """
    calls = noted(graph)
    names = {
        gradient.node for call in calls if not call.in_function for _, gradient in call.results
    }
    found = [op for op in ops if op.name in names]
    callers = [op for op in ops if op.type in CALLS or not is_op(op.type)]
    if not callers or all(not call.in_function for call in calls):
        return found
    graph_def = whole_graph_def(graph)
    functions = with_callers(graph_def, taking_functions(graph_def, calls))
    return found + [op for op in callers if not functions.isdisjoint(functions_named(op.node_def))]


def _outputs_of(graph: Any, names: AbstractSet[str]) -> List[Any]:
    ops = (op for op in graph.get_operations() if op.name in names)
    return [tensor for op in ops for tensor in op.outputs]


def _calls_training(graph: Any, ops: Iterable[Any]) -> bool:
    """Whether some of the ops call a function that trains inside."""
    calls = [op for op in ops if op.type in CALLS or not is_op(op.type)]
    if not calls:
        return False
    graph_def = whole_graph_def(graph)
    functions = with_callers(
        graph_def,
        training_functions(graph_def, [call for call in noted(graph) if call.in_function]),
    )
    return any(not functions.isdisjoint(functions_named(op.node_def)) for op in calls)
