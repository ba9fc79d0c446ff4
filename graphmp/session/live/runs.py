"""Sessions that fetch clones: a tensor of the original by any name or structure is fetched, fed and run as its clone.

All of tf.Session's ways to run come down to a list of tensors and ops (`_do_run`), but for callables, which keep names, and
the setup of a partial run. A half-precision clone is cast back to the original's dtype, in NumPy.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.session.live.live_graph import LiveGraph
from graphmp.tf_hooks import internals, patch

Finder = Callable[[Any], Optional[LiveGraph]]


def install(find: Finder) -> None:
    """Maps the runs of every session for which `find(session)` gives a LiveGraph; of several the first that gives one counts."""
    if find not in _FINDERS:
        _FINDERS.append(find)
    session = internals.base_session()
    for name in ("_do_run", "make_callable", "_make_callable_from_options", "partial_run_setup"):
        patch.wrap(session, name, getattr(_DOORS, name.lstrip("_")))
    patch.wrap(tf.train.Saver, "restore", _DOORS.restore)


class _Doors:
    """One method a door."""

    def _find(self, session: Any) -> Optional[LiveGraph]:
        return next(
            (live for live in (find(session) for find in _FINDERS) if live is not None), None
        )

    def do_run(
        self,
        original: Any,
        session: Any,
        handle: Any,
        targets: List[Any],
        fetches: List[Any],
        feeds: Dict[Any, Any],
        options: Any,
        metadata: Any,
    ) -> Any:
        live = self._find(session)
        if live is None:
            return original(session, handle, targets, fetches, feeds, options, metadata)
        trains = live.prepare(session, targets + [tensor.op for tensor in fetches])
        if trains:
            live.observer.begins(live, feeds)
        ops, tensors = [live.op(op) for op in targets], [live.tensor(tensor) for tensor in fetches]
        looks = (
            trains and live.flagged and handle is None
        )  # a partial run gives what its setup named
        key = (*ops, *(tensor.op for tensor in tensors)) if looks else ()
        watched = live.watched(key) if looks else []
        try:
            results = original(
                session, handle, ops, tensors + watched, _fed(live, feeds), options, metadata
            )
        except tf.errors.OpError as error:
            raise live.of_original(error) from None
        if trains:
            live.trained(session, key, results[len(tensors) :])
        return [cast_back(tensor, value) for tensor, value in zip(fetches, results)]

    def make_callable(
        self,
        original: Any,
        session: Any,
        fetches: Any,
        feed_list: Any = None,
        accept_options: bool = False,
    ) -> Any:
        if self._find(session) is None:
            return original(session, fetches, feed_list, accept_options)

        def run(*values: Any, **kwargs: Any) -> Any:
            feeds = dict(zip(feed_list or [], values))
            return session.run(
                fetches,
                feeds or None,
                options=kwargs.get("options"),
                run_metadata=kwargs.get("run_metadata"),
            )

        return run

    def make_callable_from_options(self, original: Any, session: Any, options: Any) -> Any:
        live = self._find(session)
        return (
            original(session, options)
            if live is None
            else _Callable(original, session, options, live)
        )

    def partial_run_setup(
        self, original: Any, session: Any, fetches: Any, feeds: Any = None
    ) -> Any:
        live = self._find(session)
        if live is None:
            return original(session, fetches, feeds)
        graph = session.graph
        found = [
            graph.as_graph_element(item)
            for item in (fetches if isinstance(fetches, (list, tuple)) else [fetches])
        ]
        fed = [graph.as_graph_element(item) for item in feeds or []]
        live.prepare(session, [getattr(item, "op", item) for item in found])
        return original(
            session,
            [_mapped(live, item) for item in found],
            list({t: None for f in fed for t in (f, live.tensor(f))}),
        )

    def restore(self, original: Any, saver: Any, session: Any, path: Any) -> None:
        original(saver, session, path)
        live = self._find(session)
        if live is not None:
            live.restored(session, str(path))


_FINDERS: List[Finder] = []
_DOORS = _Doors()


class _Callable:
    """The result of `_make_callable_from_options`, made anew whenever the clones change."""

    def __init__(self, original: Any, session: Any, options: Any, live: LiveGraph):
        self._original = original
        self._session = session
        self._options = options
        self._live = live
        self._conversion: Any = self
        self._run: Any = None
        self._key: Tuple[Any, ...] = ()
        element = session.graph.as_graph_element
        self._fetches = [element(name) for name in options.fetch]
        self._targets = [element(name) for name in options.target]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trains = self._live.prepare(
            self._session,
            [tensor.op for tensor in self._fetches]
            + [getattr(item, "op", item) for item in self._targets],
        )
        if trains:
            self._live.observer.begins(self._live, dict(zip(self._options_feeds(), args)))
        if self._conversion is not self._live.converted:
            self._conversion = self._live.converted
            self._key = tuple(
                getattr(self._mapped(item), "op", self._mapped(item))
                for item in self._fetches + self._targets
            )
            self._run = self._original(self._session, self._mapped_options(trains))
        dtypes = [self._live.tensor(t).dtype for t in self._options_feeds()]
        found = self._run(
            *(
                np.asarray(v).astype(d.as_numpy_dtype) if d.is_floating else v
                for v, d in zip(args, dtypes)
            ),
            **kwargs,
        )
        if trains:
            self._live.trained(self._session, self._key, found[len(self._fetches) :])
        return [cast_back(tensor, value) for tensor, value in zip(self._fetches, found)]

    def _options_feeds(self) -> List[Any]:
        return [self._session.graph.as_graph_element(name) for name in self._options.feed]

    def _mapped(self, item: Any) -> Any:
        return _mapped(self._live, item)

    def _mapped_options(self, trains: bool) -> Any:
        options = type(self._options)()
        options.CopyFrom(self._options)
        watched = self._live.watched(self._key) if trains else []
        options.fetch[:] = [
            tensor.name
            for tensor in [self._live.tensor(tensor) for tensor in self._fetches] + watched
        ]
        options.target[:] = [self._mapped(item).name for item in self._targets]
        options.feed[:] = [self._live.tensor(tensor).name for tensor in self._options_feeds()]
        for connection in options.tensor_connection:
            connection.from_tensor = self._live.tensor(
                self._session.graph.as_graph_element(connection.from_tensor)
            ).name
            connection.to_tensor = self._live.tensor(
                self._session.graph.as_graph_element(connection.to_tensor)
            ).name
        return options


def cast_back(tensor: Any, value: Any) -> Any:
    """A fetched value in the dtype that the original's tensor has."""
    if not tensor.dtype.is_floating or not isinstance(value, (np.ndarray, np.generic)):
        return value
    dtype = tensor.dtype.base_dtype.as_numpy_dtype
    return value if value.dtype == dtype else value.astype(dtype)


def _mapped(live: LiveGraph, item: Any) -> Any:
    return live.tensor(item) if hasattr(item, "value_index") else live.op(item)


def fed_tensor(key: Any) -> Any:
    """The tensor that a key of feeds stands for."""
    return key.deref() if hasattr(key, "deref") else key


def _fed(live: LiveGraph, feeds: Dict[Any, Any]) -> Dict[Any, Any]:
    """Feeds for the original, which may be fetched too, and for its clones. Keys are tensors in 1.15.5, references to them in 2.x."""
    result = dict(feeds)
    for key, value in feeds.items():
        tensor = fed_tensor(key)
        clone = live.tensor(tensor)
        if clone is not tensor:
            fed = (
                value.astype(clone.dtype.as_numpy_dtype) if isinstance(value, np.ndarray) else value
            )
            result[clone if tensor is key else clone.ref()] = fed
    return result
