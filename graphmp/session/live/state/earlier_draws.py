"""Draws of seeded random ops before their graph was converted, which their clones repeat.

So the first training step gets the numbers that it would get without a conversion. Random ops in
loops and branches can't be run by themselves: their clones begin anew.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import AbstractSet, Any, Dict, Hashable, Mapping, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.session.live.state.draws import (
    Draws,
    Inputs,
    draw,
    draws_alone,
    draws_of,
    is_constant,
    unfetchable,
)
from graphmp.session.tuned.turn import DrawingTurn, Request, Turn

_LONGEST_SHAPE = 16  # dimensions; a longer vector of integers is data
# by a digest of the inputs of a run's random ops: how many such runs there were, and the inputs
_Counts = Dict[Hashable, Tuple[int, Inputs]]


class EarlierDraws:
    """The draws of a graph's runs before its first conversion."""

    def __init__(self) -> None:
        """Nothing has been drawn."""
        self._known: Dict[Tuple[Any, ...], Draws] = {}
        self._counts: weakref.WeakKeyDictionary[Any, _Counts] = weakref.WeakKeyDictionary()
        self._unfetchable: Tuple[int, AbstractSet[str]] = (-1, frozenset())
        self._lock = threading.Lock()

    def turn(self, request: Request) -> Turn:
        """The turn of a run of the graph's own nodes, which notes what it draws."""
        draws = self._draws(request)
        if not draws.names:
            return Turn(None)
        return DrawingTurn(None, draws, functools.partial(self._drew, request.session, draws))

    def repeat(self, clones: Mapping[str, str]) -> None:
        """Let new clones, by the names of their originals, draw what these have drawn."""
        for session, counts in list(self._counts.items()):
            for times, inputs in list(counts.values()):
                with contextlib.suppress(RuntimeError, tf.errors.OpError):  # a closed session
                    for _ in range(times):
                        draw(session, inputs, clones)

    def _draws(self, request: Request) -> Draws:
        feeds = {tensor.name: value for tensor, value in request.feeds}
        key = (request.ops, frozenset(feeds))
        if key not in self._known:
            graph = request.session.graph

            def nodes(computed: AbstractSet[str]) -> Dict[str, str]:
                found = sorted(name for name in computed if self._may_get_a_clone(graph, name))
                return dict(zip(found, found))

            self._known[key] = draws_of(graph, request.ops, feeds, nodes)
        found = self._known[key]
        return found._replace(feeds={name: feeds[name] for name in found.feeds})

    def _may_get_a_clone(self, graph: Any, name: str) -> bool:
        """Whether a node draws by a seed, reads what varies, and lies where it can be run."""
        if not draws_alone(graph, name):
            return False
        if all(map(is_constant, graph.get_operation_by_name(name).inputs)):
            return False
        if self._unfetchable[0] != graph.version:
            self._unfetchable = (graph.version, unfetchable(graph))
        return name not in self._unfetchable[1]

    def _drew(self, session: Any, draws: Draws, values: Sequence[Any]) -> None:
        inputs = {
            name: [None if value is None else _amount(value) for value in given]
            for name, given in draws.noted(values).items()
        }
        key = tuple((name, *map(_digest, given)) for name, given in inputs.items())
        with self._lock:
            counts = self._counts.setdefault(session, {})
            counts[key] = (counts[key][0] + 1 if key in counts else 1, inputs)


def _amount(value: Any) -> Any:
    """An input by which as much is drawn; its values are kept if they may be a shape."""
    array = np.array(value)
    is_shape = array.dtype.kind in "iu" and array.ndim <= 1 and array.size <= _LONGEST_SHAPE
    return array if is_shape else np.ones_like(array)


def _digest(value: Any) -> Hashable:
    return None if value is None else (value.shape, value.tobytes() if value.ndim <= 1 else b"")
