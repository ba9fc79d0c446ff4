"""Intercepting sessions: every method by which a graph is run.

`run` serves tf.Session, InteractiveSession, MonitoredSession and Supervisor; `make_callable` and
`_make_callable_from_options` (Keras trains through it) return callables that run later;
`partial_run` runs a part.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List

import tensorflow.compat.v1 as tf

from graphmp.tf_hooks import internals, patch

# (session, fetched ops and tensors by structure or name) -> None; may raise, or end the process
Listener = Callable[[Any, Any], None]
# (options or None, the session's target, its graph) -> options
Change = Callable[[Any, str, Any], Any]


def install(listener: Listener) -> None:
    """Call `listener(session, fetches)` before anything runs, by any method and in any thread."""
    doors = _DOORS.setdefault(
        listener, _Doors(listener)
    )  # methods of equal instances differ since Python 3.8
    session = internals.base_session()
    for name in ("run", "partial_run", "make_callable", "_make_callable_from_options"):
        patch.wrap(session, name, getattr(doors, name.lstrip("_")))


def configure(change: Change) -> None:
    """Create every session with the options `change(config, target, graph)`; config may be None."""
    patch.wrap(
        internals.base_session(), "__init__", _CONFIGURED.setdefault(change, _configured(change))
    )


def before_close(listener: Callable[[Any], None]) -> None:
    """Call `listener(session)` before a session is closed, except while Python shuts down.

    An object may close its session in `__del__`, when nothing can be imported any more: a listener
    that fails there would leave the session open, with a traceback.
    """

    def closed(original: Callable[..., Any], session: Any) -> None:
        if not sys.is_finalizing():
            listener(session)
        original(session)

    patch.wrap(internals.base_session(), "close", closed)


def place_softly() -> None:
    """Make every session place ops softly: on the CPU if their GPU doesn't exist."""
    configure(_softly_placed)


def unfused(given: Any) -> Any:
    """A copy of a session's options (may be None) without fusion, unless they specify it.

    For bfloat16 convolutions TensorFlow 2.21's master makes fused ops that its servers refuse on
    the CPU: `Value for attr 'T' of bfloat16 is not in the list of allowed values`. Within one
    process they run.
    """
    config = tf.ConfigProto()
    if given is not None:
        config.CopyFrom(given)
    rewrites = config.graph_options.rewrite_options
    if rewrites.remapping == type(rewrites).DEFAULT:
        rewrites.remapping = type(rewrites).OFF
    return config


def _softly_placed(config: Any, target: str, graph: Any) -> Any:
    soft = tf.ConfigProto()
    if config is not None:
        soft.CopyFrom(config)
    soft.allow_soft_placement = True
    return soft


def _configured(change: Change) -> Callable[..., None]:
    def configured(
        original: Callable[..., Any],
        session: Any,
        target: str = "",
        graph: Any = None,
        config: Any = None,
    ) -> None:
        original(
            session,
            target,
            graph,
            change(config, target, tf.get_default_graph() if graph is None else graph),
        )

    return configured


_CONFIGURED: Dict[Change, Callable[..., None]] = {}


class _Doors:
    """One method for each way to run a graph."""

    def __init__(self, listener: Listener):
        self._listener = listener

    def run(
        self, original: Callable[..., Any], session: Any, fetches: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._listener(session, fetches)
        return original(session, fetches, *args, **kwargs)

    def partial_run(
        self,
        original: Callable[..., Any],
        session: Any,
        handle: Any,
        fetches: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        self._listener(session, fetches)
        return original(session, handle, fetches, *args, **kwargs)

    def make_callable(
        self, original: Callable[..., Any], session: Any, fetches: Any, *args: Any, **kwargs: Any
    ) -> Any:
        return _Announced(
            original(session, fetches, *args, **kwargs), lambda: self._listener(session, fetches)
        )

    def make_callable_from_options(
        self, original: Callable[..., Any], session: Any, callable_options: Any
    ) -> Any:
        fetches: List[str] = list(callable_options.fetch) + list(callable_options.target)
        made = original(session, callable_options)
        return _Announced(made, lambda: self._listener(session, fetches))


_DOORS: Dict[Listener, _Doors] = {}


class _Announced:
    """A callable that announces what it is about to run."""

    def __init__(self, run: Callable[..., Any], announce: Callable[[], None]):
        self._run = run
        self._announce = announce

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._announce()
        return self._run(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)
