"""`graphmp.Session`: tf.Session that converts its graph beside itself at the first run that trains."""

from __future__ import annotations

import weakref
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.hooks import gradients, sessions
from graphmp.runtime.live import runs
from graphmp.runtime.live.live_graph import LiveGraph, Observer, live_graph
from graphmp.runtime.session_config import with_session_config
from graphmp.runtime.training import record_gradients

_SESSIONS: weakref.WeakKeyDictionary[Any, LiveGraph] = weakref.WeakKeyDictionary()
_GRAPHS: weakref.WeakKeyDictionary[Any, LiveGraph] = weakref.WeakKeyDictionary()


class Session(tf.Session):
    """A tf.Session that trains its graph in mixed precision.

    Nothing changes until a run trains: the graph may grow, its variables, iterators and queues are the session's own. That run converts the
    graph beside itself, once; from then on what is fetched is computed by the converted nodes, under the same names, with the same
    variables. A value in half precision comes back in float32.

    Args:
        target: as for tf.Session.
        graph: as for tf.Session.
        config: as for tf.Session; `graphmp.session_config()` is merged into it.
        **options: fields of `graphmp.config.Config`.

    Raises:
        GraphmpError: GMP002 for an option that isn't accepted; at the first run that trains, what `graphmp.convert` raises.
    """

    def __init__(self, target: str = "", graph: Optional[Any] = None, config: Optional[Any] = None, **options: Any):
        listen()
        settings = Config.make(**options)
        super().__init__(target, graph, with_session_config(config))
        _SESSIONS[self] = live_graph(self.graph, settings)


def listen() -> None:
    """Has gradients remembered and sessions' runs mapped, once in a process."""
    gradients.install(record_gradients)
    runs.install(_live)


def convert_sessions_of(graph: Any, config: Config) -> None:
    """From now on every session of a graph trains it in mixed precision, as a `Session` with these options does."""
    listen()
    _GRAPHS[graph] = live_graph(graph, config)


def is_converted_in_sessions(graph: Any) -> bool:
    """Whether `convert_sessions_of` was called for a graph."""
    return graph in _GRAPHS


def _live(session: Any) -> Optional[LiveGraph]:
    found = _SESSIONS.get(session)
    return _GRAPHS.get(session.graph) if found is None and _GRAPHS else found


def convert_every_session(config: Config, observer: Observer) -> None:
    """From now on every session of the process trains in mixed precision, as a `Session` with these options does."""
    gradients.install(record_gradients)
    sessions.configure(with_session_config)
    runs.install(lambda session: live_graph(session.graph, config, observer))
