"""Warnings about steps of decorated functions' graphs that are not finite.

Every `session.run` of such a graph is watched.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.loss_scale.scales import FixedLossScale
from graphmp.recipe import state as states
from graphmp.recipe.say import say
from graphmp.session.live.not_finite.finite import FiniteWatch, WatchedLoss
from graphmp.session.live.not_finite.words import Words
from graphmp.session.live.run_key import RunKey, cut, fed_tensor
from graphmp.session.training import trains
from graphmp.tf_hooks import internals, patch

# of a tf.Graph: objects that refer to each other are freed together
_ATTRIBUTE = "_graphmp_decorated"
_WORDS = Words(python=True)


def listen() -> None:
    """Watch the runs of every session, once in a process; not callables and partial runs."""
    patch.wrap(internals.base_session(), "_do_run", _do_run)


def _do_run(
    original: Any,
    session: Any,
    handle: Any,
    targets: List[Any],
    fetches: List[Any],
    feeds: Dict[Any, Any],
    options: Any,
    metadata: Any,
) -> Any:
    runs = None if handle is not None else _runs(session.graph)
    ops = (*targets, *(tensor.op for tensor in fetches))
    key = RunKey(ops, cut(map(fed_tensor, feeds)) if runs is not None else frozenset())
    watched = runs.watched(key) if runs is not None else []
    if runs is None or not watched:
        return original(session, handle, targets, fetches, feeds, options, metadata)
    results = original(session, handle, targets, fetches + watched, feeds, options, metadata)
    runs.trained(key, results[len(fetches) :])
    return results[: len(fetches)]


class _Runs:
    """The training runs of a graph, until more gradients are taken in it."""

    def __init__(self, graph: Any, losses: List[WatchedLoss], size: Tuple[int, int]):
        self.size = size
        self._graph = graph
        self._finite = FiniteWatch(losses, {}, debug=False)
        self._trains: Dict[Tuple[Any, ...], bool] = {}
        self._steps = 0

    def watched(self, ran: RunKey) -> List[Any]:
        if ran.ops not in self._trains:
            self._trains[ran.ops] = trains(self._graph, ran.ops)
        return self._finite.fetches(ran) if self._trains[ran.ops] else []

    def trained(self, ran: RunKey, values: List[Any]) -> None:
        self._steps += 1
        for step in self._finite.seen(ran, values, self._steps):
            for text in _WORDS.said(step):
                say(text)


def _runs(graph: Any) -> Optional[_Runs]:
    state = states.find(graph)
    if state is None or not state.groups:
        return None
    size = len(state.calls), sum(len(group.checked) for group in state.groups)
    found: Optional[_Runs] = getattr(graph, _ATTRIBUTE, None)
    if found is None or found.size != size:
        found = _Runs(graph, [_watched(graph, state, group) for group in state.groups], size)
        setattr(graph, _ATTRIBUTE, found)
    return found


def _watched(graph: Any, state: states.GraphState, group: states.LossGroup) -> WatchedLoss:
    calls = [call for call in state.calls if call.group is group]
    names = list(dict.fromkeys(name for call in calls for name in call.losses))
    scale = group.scale

    def tensors(ops: Any) -> List[Any]:
        found = [graph.get_operation_by_name(name.split(":")[0]) for name in ops]
        return [op.outputs[0] for op in found if op._get_control_flow_context() is None]

    return WatchedLoss(
        " + ".join(names),
        scale.kind,
        tensors(group.checked) if scale.skips else [],
        [] if scale.skips else tensors(name for call in calls for name in call.unscaled),
        [tensor for tensor in tensors(names) if tensor.dtype.is_floating],
        scale.in_step if isinstance(scale, FixedLossScale) else None,
        group.config.loss_scale_min if scale.skips else 0.0,
        group.config.loss_scale_backoff_factor,
        half=group.config.compute_dtype,
        stands=bool(
            graph.get_collection(tf.GraphKeys.GLOBAL_STEP) and not state.always.get(scale.scope)
        ),
    )
