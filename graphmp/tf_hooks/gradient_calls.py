"""Recorded calls of `tf.gradients` and of gradient tapes in graph mode.

All calls that a process makes after importing graphmp are recorded.

1. A call's gradient code is all that it adds to the graph, including calls inside it: a custom
   gradient may take gradients itself.
2. Accumulators and counters for backward loops belong to the forward pass: nodes added to an
   existing while loop, and nodes that existing nodes now read.
3. `tf.gradients` starts from the result of `_DefaultGradYs`. A tape starts from ones, which it
   makes first, or from the `output_gradients`. If these have other consumers too, a seed can't be
   told from a forward value, and the call isn't recorded.
4. A record holds only names, and is deleted with its graph.
"""

from __future__ import annotations

import threading
import weakref
from typing import AbstractSet, Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import as_list
from graphmp.graph.structure.gradient_record import RecordedCall
from graphmp.graph.structure.view import Port
from graphmp.policy.op_sets import FILLS

TAPE = "gradient tape"
_NOTED: weakref.WeakKeyDictionary[Any, List[RecordedCall]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()
_LOCAL = threading.local()


class _Call:
    """A call in progress: its graph, and the facts known so far."""

    def __init__(self, graph: Any):
        self.graph = graph
        self.context = graph._get_control_flow_context()
        self.before = len(graph.get_operations())
        self.seeds: Optional[List[Any]] = None


def noted(graph: Any) -> List[RecordedCall]:
    """The calls recorded in a graph, and in functions inside it."""
    with _LOCK:
        return list(_NOTED.get(graph, ()))


def gradients(original: Callable[..., Any], ys: Any, xs: Any, *args: Any, **kwargs: Any) -> Any:
    """Replaces TensorFlow's gradient function: records the call."""

    def seeds(call: _Call, made: List[Any]) -> Optional[List[Any]]:
        return call.seeds

    return _noting(lambda: original(ys, xs, *args, **kwargs), ys, xs, "", seeds)


def seeds(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Replaces the function that makes the seeds of `tf.gradients`."""
    found = original(*args, **kwargs)
    calls = _under_way()
    if calls and calls[-1] is not None:
        calls[-1].seeds = list(found)
    return found


def tape_gradients(
    original: Callable[..., Any],
    tape: Any,
    target: Any,
    sources: Any,
    output_gradients: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Replaces the function by which a tape computes gradients."""
    if tf.executing_eagerly():
        return original(tape, target, sources, output_gradients, *args, **kwargs)
    given = [None for _ in target] if output_gradients is None else list(output_gradients)

    def seeds(call: _Call, made: List[Any]) -> Optional[List[Any]]:
        return _seeds_of_tape(target, given, made)

    return _noting(
        lambda: original(tape, target, sources, output_gradients, *args, **kwargs),
        target,
        sources,
        TAPE,
        seeds,
    )


def _noting(
    run: Callable[[], Any],
    ys: Any,
    xs: Any,
    scope: str,
    seeds: Callable[[_Call, List[Any]], Optional[List[Any]]],
) -> Any:
    """Run a call, and record it unless it is inside another call of its graph."""
    graph, calls = tf.get_default_graph(), _under_way()
    inner = any(call is not None and call.graph is graph for call in calls)
    call = None if inner else _Call(graph)
    calls.append(call)
    try:
        results = run()
    finally:
        calls.pop()
    if call is not None:
        made = graph.get_operations()[call.before :]
        starts = seeds(call, made)
        if starts:
            _note(call, made, starts, scope, as_list(ys), list(zip(as_list(xs), results)))
    return results


def _under_way() -> List[Optional[_Call]]:
    if not hasattr(_LOCAL, "calls"):
        _LOCAL.calls = []
    found: List[Optional[_Call]] = _LOCAL.calls
    return found


def _note(
    call: _Call,
    made: Sequence[Any],
    seeds: Sequence[Any],
    scope: str,
    ys: Sequence[Any],
    results: Sequence[Tuple[Any, Any]],
) -> None:
    apart = _forward(made, call.context)
    ports = [_port(seed) for seed in seeds]
    noted = RecordedCall(
        scope or ports[0].node.rpartition("/")[0],
        {op.name: op.type for op in made if op.name not in apart},
        tuple(op.name for op in made if op.name in apart),
        tuple(ports),
        tuple(dict.fromkeys(y.op.name for y in ys if hasattr(y, "op"))),
        tuple(
            (x.op.name, _port(gradient))
            for x, gradient in results
            if gradient is not None and hasattr(x, "op")
        ),
        False,
    )
    with _LOCK:
        for graph in _graphs_around(call.graph):
            _NOTED.setdefault(graph, []).append(
                noted if graph is call.graph else noted._replace(in_function=True)
            )


def _graphs_around(graph: Any) -> Iterator[Any]:
    """A graph, and its enclosing graphs if it is a function."""
    while isinstance(graph, tf.Graph):
        yield graph
        graph = getattr(graph, "outer_graph", None) or getattr(graph, "_outer_graph", None)


def _forward(made: Sequence[Any], outside: Any) -> Set[str]:
    """The forward nodes that a call made, and their inputs."""
    own = {op.name: op for op in made}
    read = [
        op
        for op in made
        if any(reader.name not in own for tensor in op.outputs for reader in tensor.consumers())
    ]
    waiting = read + [op for op in made if _is_in_older_loop(op, outside, own.keys())]
    found: Set[str] = set()
    while waiting:
        op = waiting.pop()
        if op.name in own and op.name not in found:
            found.add(op.name)
            waiting += [tensor.op for tensor in op.inputs]
    return found


def _is_in_older_loop(op: Any, outside: Any, made: AbstractSet[str]) -> bool:
    """Whether an op is in a while loop inside `outside` that no node in `made` starts."""
    around = list(_outward(outside))
    inner = (
        context for context in _outward(op._get_control_flow_context()) if context not in around
    )
    return any(context.IsWhileContext() and context.pivot.op.name not in made for context in inner)


def _outward(context: Any) -> Iterator[Any]:
    """A control flow context and its outer contexts."""
    while context is not None:
        yield context
        context = context.outer_context


def _port(tensor: Any) -> Port:
    """The output behind a tensor; of a sparse one, of its values."""
    values = getattr(tensor, "values", tensor)
    return Port(values.op.name, values.value_index)


def _seeds_of_tape(
    targets: Sequence[Any], given: Sequence[Any], made: Sequence[Any]
) -> Optional[List[Any]]:
    """The seeds of a tape by target.

    Given gradients, or its own ones. None if they can't be told.
    """
    own = set(made)
    if any(
        reader not in own
        for gradient in given
        if gradient is not None
        for reader in gradient.consumers()
    ):
        return None
    ones: Dict[int, List[Any]] = {}
    for op in made:
        if op.type in FILLS or (
            op.type == "Const"
            and not any(reader.type == "Fill" for reader in op.outputs[0].consumers())
        ):
            ones.setdefault(op.outputs[0].dtype.as_datatype_enum, []).append(op.outputs[0])
    found = []
    for target, gradient in zip(targets, given):
        alike = (
            ones.get(target.dtype.base_dtype.as_datatype_enum, [])
            if gradient is None
            else [gradient]
        )
        if not alike:
            return None
        found.append(alike.pop(0) if gradient is None else gradient)
    return found
