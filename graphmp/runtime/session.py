"""`graphmp.Session` and `graphmp.InteractiveSession`: TensorFlow's, but they convert their graph beside itself at the first run that trains."""

from __future__ import annotations

import warnings
import weakref
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.hooks import gradients, sessions
from graphmp.runtime.live import runs
from graphmp.runtime.live.finite import NotFinite
from graphmp.runtime.live.live_graph import LiveGraph, Observer, known_live_graph, live_graph
from graphmp.runtime.live.words import Words
from graphmp.runtime.session_config import with_session_config
from graphmp.runtime.training import record_gradients

_SESSIONS: weakref.WeakSet[Any] = weakref.WeakSet()
_WORDS = Words(python=True)


class Warner(Observer):
    """Warns of steps that are not finite."""

    def not_finite(self, live: Optional[LiveGraph], step: NotFinite) -> None:
        for text in _WORDS.said(step):
            warnings.warn(text, RuntimeWarning, stacklevel=2)


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

    _session = None  # what tf.Session's destructor looks at, also where the options were refused

    def __init__(self, target: str = "", graph: Optional[Any] = None, config: Optional[Any] = None, **options: Any):
        settings = Config.make(**options)
        super().__init__(target, graph, _with_config(config, target, settings))
        _convert_in(self, settings)


class InteractiveSession(tf.InteractiveSession):
    """A `Session` that makes itself the default session, as tf.InteractiveSession does; same arguments and errors as `Session`."""

    _session = None

    def __init__(self, target: str = "", graph: Optional[Any] = None, config: Optional[Any] = None, **options: Any):
        settings = Config.make(**options)
        super().__init__(target, graph, _with_config(config, target, settings))
        _convert_in(self, settings)


def _with_config(given: Optional[Any], target: str, settings: Config) -> Any:
    """A session's own options with those for a converted graph."""
    config = with_session_config(given)
    return sessions.unfused(config) if target and settings.compute_dtype == "bfloat16" else config


def _convert_in(session: Any, settings: Config) -> None:
    listen()
    live_graph(session.graph, settings, Warner())
    _SESSIONS.add(session)


def listen() -> None:
    """Has gradients remembered and sessions' runs mapped, once in a process."""
    gradients.install(record_gradients)
    runs.install(_live)


def convert_sessions_of(graph: Any, config: Config) -> None:
    """From now on every session of a graph trains it in mixed precision, as a `Session` with these options does."""
    listen()
    live_graph(graph, config, Warner()).for_every_session = True


def is_converted_in_sessions(graph: Any) -> bool:
    """Whether `convert_sessions_of` was called for a graph."""
    live = known_live_graph(graph)
    return live is not None and live.for_every_session


def _live(session: Any) -> Optional[LiveGraph]:
    live = known_live_graph(session.graph)
    return live if live is not None and (live.for_every_session or session in _SESSIONS) else None


def convert_every_session(config: Config, observer: Observer, debug: bool = False) -> None:
    """From now on every session of the process trains in mixed precision, as a `Session` with these options does.

    Args:
        config: the options.
        observer: is told what becomes of each graph.
        debug: whether to look for the first op that isn't finite in every run that trains.
    """

    def find(session: Any) -> LiveGraph:
        live = live_graph(session.graph, config, observer)
        live.debug = debug
        return live

    gradients.install(record_gradients)
    sessions.configure(lambda given, target, graph: _with_config(given, target, config))
    runs.install(find)
