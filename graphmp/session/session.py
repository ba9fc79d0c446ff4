"""`graphmp.Session` and `InteractiveSession`: sessions that convert their graph when it trains."""

from __future__ import annotations

import weakref
from dataclasses import fields
from typing import Any, Optional, Set, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.files.kept import check_tune_file
from graphmp.recipe import state as states
from graphmp.recipe.say import say
from graphmp.session.live import runs
from graphmp.session.live.live_graph import LiveGraph, known_live_graph, live_graph
from graphmp.session.live.not_finite.finite import NotFinite
from graphmp.session.live.not_finite.words import Words
from graphmp.session.live.observer import Fate, Observer
from graphmp.session.session_config import with_session_config
from graphmp.session.tuned.verdict import Verdict, in_words
from graphmp.tf_hooks import sessions

_SESSIONS: weakref.WeakSet[Any] = weakref.WeakSet()  # created to convert their graph
_GRAPHS: weakref.WeakSet[Any] = weakref.WeakSet()  # whose sessions all convert them
_WORDS = Words(python=True)


class _Converting:
    """A session that converts its graph."""

    _session = None  # read by tf.Session's destructor, even if the options were refused

    def __init__(
        self,
        target: str = "",
        graph: Optional[Any] = None,
        config: Optional[Any] = None,
        tune: Union[bool, str] = False,
        **options: Any,
    ):
        settings = Config.make(**options)
        if not isinstance(tune, bool):
            check_tune_file("tune", tune, settings)
        config = _with_config(config, target, settings)
        super().__init__(target, graph, config)  # type: ignore[call-arg]
        _convert_in(self, settings, tune)


class Session(_Converting, tf.Session):
    """A tf.Session that trains its graph in mixed precision.

    Nothing changes until a run trains: the graph may grow, its variables, iterators and queues are
    the session's own. That run converts the graph beside itself, once; from then on fetched values
    are computed by the converted nodes, under the same names, with the same variables. A value in
    half precision is returned in float32.

    Args:
        target: as for tf.Session.
        graph: as for tf.Session.
        config: as for tf.Session; `graphmp.session_config()` is merged into it.
        tune: whether to train the first steps in float32 and in half precision by turns, and to
            keep the faster; or the path of a file that keeps what is measured for the next run,
            by default `graphmp.costs` beside the checkpoints.
        **options: fields of `graphmp.config.Config`.

    Raises:
        GraphmpError: GMP002 for an option that isn't accepted; GMP004 for a file that can't be
            written; at the first run that trains, the errors of `graphmp.convert`.
    """


class InteractiveSession(_Converting, tf.InteractiveSession):
    """A `Session` that makes itself the default session, like tf.InteractiveSession.

    It has the same arguments and errors as `Session`.
    """


def _with_config(given: Optional[Any], target: str, settings: Config) -> Any:
    """A session's own options combined with those for a converted graph."""
    config = with_session_config(given)
    return sessions.unfused(config) if target and settings.compute_dtype == "bfloat16" else config


class _Says(Observer):
    """Reports messages about a graph as Python warnings, each text once."""

    def __init__(self) -> None:
        self._said: Set[str] = set()

    def converted(self, live: LiveGraph) -> None:
        assert live.converted is not None  # this is what is reported
        for row in live.converted.warnings:
            text = "%s: %s%s" % (
                row["code"],
                row["node"] + ": " if row["node"] else "",
                row["message"],
            )
            if text not in self._said:
                self._said.add(text)
                say(text)

    def went_on(self, live: LiveGraph, flags: Optional[Tuple[str, str]]) -> None:
        if flags is not None and any(flags):
            say("this graph was trained with %s before, and is now with %s" % flags)

    def not_finite(self, live: LiveGraph, step: NotFinite) -> None:
        for text in _WORDS.said(step):
            say(text)

    def tuned(self, live: LiveGraph, verdict: Verdict) -> None:
        if verdict.warns:
            say("%s: %s" % ("GMP125", in_words(verdict, live.config.compute_dtype)))

    def kept(self, text: str, is_written: bool) -> None:
        if not is_written:
            say(text)


def _convert_in(session: Any, settings: Config, tune: Union[bool, str]) -> None:
    live = _watched(session.graph, settings)
    if tune:
        live.tune("" if tune is True else str(tune))
    _SESSIONS.add(session)


def convert_sessions_of(graph: Any, config: Config) -> None:
    """Make every session of a graph train it like a `Session` with these options."""
    _watched(graph, config)
    _GRAPHS.add(graph)


def _watched(graph: Any, config: Config) -> LiveGraph:
    """A graph's LiveGraph, with warnings about the graph as a whole.

    One of them is given when the graph is deleted, or Python ends, and nothing has trained it.
    """
    runs.install(_live)
    live = known_live_graph(graph)
    if live is None:
        live = live_graph(graph, config, _Says())
        weakref.finalize(graph, _end, live.fate, config.compute_dtype)
    elif live.config != config:
        given, held = (
            {f.name: getattr(each, f.name) for f in fields(Config)}
            for each in (config, live.config)
        )
        differing = sorted(name for name in given if given[name] != held[name])
        texts = [
            ", ".join("%s=%s" % (name, options[name]) for name in differing)
            for options in (given, held)
        ]
        text = (
            "%s: %s: no effect, for the graph has %s already; one graph is converted once, build"
            " another tf.Graph for other options"
        )
        say(text % ("GMP124", *texts))
    return live


def _end(fate: Fate, compute_dtype: str) -> None:
    if fate.ran and not fate.converted and compute_dtype != "float32":
        say(
            "GMP120: nothing computed in %s: %s, and a graph is converted at the first run that"
            " trains by a gradient that tf.gradients computed" % (compute_dtype, fate.by_hand)
            if fate.by_hand
            else "GMP120: nothing computed in %s: no run trained, and a graph is converted at the"
            " first run that does" % compute_dtype
        )


def is_converted_in_sessions(graph: Any) -> bool:
    """Whether `convert_sessions_of` was called for a graph."""
    return graph in _GRAPHS


def _live(session: Any) -> Optional[LiveGraph]:
    converts = session.graph in _GRAPHS or session in _SESSIONS
    return known_live_graph(session.graph) if converts else None


def convert_every_session(
    config: Config,
    observer: Observer,
    debug: bool = False,
    tune: bool = False,
    tune_file: str = "",
) -> None:
    """Make every session of the process train like a `Session` with these options.

    Args:
        config: the options.
        observer: receives the events of each graph.
        debug: whether to find the first op that isn't finite in every run that trains.
        tune: whether to time each graph's first steps in both types, and to keep the faster.
        tune_file: keeps what is measured; empty for a file beside the checkpoints.
    """

    def find(session: Any) -> Optional[LiveGraph]:
        if states.has_converted(session.graph):
            observer.left(session.graph)
            return None
        live = live_graph(session.graph, config, observer)
        live.debug = debug
        if tune:
            live.tune(tune_file)
        return live

    sessions.configure(lambda given, target, graph: _with_config(given, target, config))
    runs.install(find)
