"""Sessions that fetch clones: any tensor of the original is fetched, fed and run as its clone.

All of tf.Session's methods end in a list of tensors and ops (`_do_run`), except callables, which
keep names, and the setup of a partial run. A half-precision clone is cast back to the original's
dtype, in NumPy.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.session.live.errors import of_original
from graphmp.session.live.live_graph import LiveGraph
from graphmp.session.live.stand_ins import StandIns
from graphmp.tf_hooks import internals, patch

Finder = Callable[[Any], Optional[LiveGraph]]


def install(find: Finder) -> None:
    """Map the runs of every session for which a `find(session)` returns a LiveGraph.

    The first `find` that returns one decides.
    """
    if find not in _FINDERS:
        _FINDERS.append(find)
    session = internals.base_session()
    for name in ("_do_run", "make_callable", "_make_callable_from_options", "partial_run_setup"):
        patch.wrap(session, name, getattr(_DOORS, name.lstrip("_")))
    patch.wrap(tf.train.Saver, "restore", _DOORS.restore)


class _MappedDoors:
    """One method for each way to run a graph."""

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
        asked = targets + [tensor.op for tensor in fetches]
        trains = live.prepare(session, asked)
        if trains:
            live.observer.begins(live, feeds)
        nodes = live.nodes
        ops = [nodes.stand_ins.op(op) for op in targets]
        tensors = [nodes.stand_ins.tensor(tensor) for tensor in fetches]
        looks = trains and handle is None  # a partial run returns what its setup named
        key = (*ops, *(tensor.op for tensor in tensors)) if looks else ()
        watched = live.watched(key) if looks else []
        try:
            fed = _fed(nodes.stand_ins, feeds)
            results = original(session, handle, ops, tensors + watched, fed, options, metadata)
        except tf.errors.OpError as error:
            raise of_original(error, nodes) from None
        if trains:
            live.trained(key, results[len(tensors) :], asked)
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
        stand_ins = live.nodes.stand_ins
        return original(
            session,
            [_mapped(stand_ins, item) for item in found],
            list({t: None for f in fed for t in (f, stand_ins.tensor(f))}),
        )

    def restore(self, original: Any, saver: Any, session: Any, path: Any) -> None:
        original(saver, session, path)
        live = self._find(session)
        if live is not None:
            live.restored(session, str(path))


_FINDERS: List[Finder] = []
_DOORS = _MappedDoors()


class _Callable:
    """The result of `_make_callable_from_options`, renewed whenever the clones change."""

    def __init__(self, original: Any, session: Any, options: Any, live: LiveGraph):
        self._original = original
        self._session = session
        self._options = options
        self._live = live
        self._stand_ins: Optional[StandIns] = None
        self._run: Any = None
        self._key: Tuple[Any, ...] = ()
        self._fetches, self._targets, self._feeds = (
            [session.graph.as_graph_element(name) for name in names]
            for names in (options.fetch, options.target, options.feed)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ran = [getattr(item, "op", item) for item in self._fetches + self._targets]
        trains = self._live.prepare(self._session, ran)
        if trains:
            self._live.observer.begins(self._live, dict(zip(self._feeds, args)))
        stand_ins = self._live.nodes.stand_ins
        if self._stand_ins is not stand_ins:
            self._stand_ins = stand_ins
            mapped = [_mapped(stand_ins, item) for item in self._fetches + self._targets]
            self._key = tuple(getattr(item, "op", item) for item in mapped)
            self._run = self._original(self._session, self._mapped_options(stand_ins, trains))
        dtypes = [stand_ins.tensor(tensor).dtype for tensor in self._feeds]
        found = self._run(
            *(
                np.asarray(v).astype(d.as_numpy_dtype) if d.is_floating else v
                for v, d in zip(args, dtypes)
            ),
            **kwargs,
        )
        if trains:
            self._live.trained(self._key, found[len(self._fetches) :], ran)
        return [cast_back(tensor, value) for tensor, value in zip(self._fetches, found)]

    def _mapped_options(self, stand_ins: StandIns, trains: bool) -> Any:
        options = type(self._options)()
        options.CopyFrom(self._options)
        watched = self._live.watched(self._key) if trains else []
        fetches = [stand_ins.tensor(tensor) for tensor in self._fetches]
        options.fetch[:] = [tensor.name for tensor in fetches + watched]
        options.target[:] = [_mapped(stand_ins, item).name for item in self._targets]
        options.feed[:] = [stand_ins.tensor(tensor).name for tensor in self._feeds]
        element = self._session.graph.as_graph_element
        for connection in options.tensor_connection:
            connection.from_tensor = stand_ins.tensor(element(connection.from_tensor)).name
            connection.to_tensor = stand_ins.tensor(element(connection.to_tensor)).name
        return options


def cast_back(tensor: Any, value: Any) -> Any:
    """A fetched value in the dtype of the original's tensor."""
    if not tensor.dtype.is_floating or not isinstance(value, (np.ndarray, np.generic)):
        return value
    dtype = tensor.dtype.base_dtype.as_numpy_dtype
    return value if value.dtype == dtype else value.astype(dtype)


def _mapped(stand_ins: StandIns, item: Any) -> Any:
    return stand_ins.tensor(item) if hasattr(item, "value_index") else stand_ins.op(item)


def fed_tensor(key: Any) -> Any:
    """The tensor for a key of feeds."""
    return key.deref() if hasattr(key, "deref") else key


def _fed(stand_ins: StandIns, feeds: Dict[Any, Any]) -> Dict[Any, Any]:
    """Feeds for the original, which may be fetched too, and for its clones.

    Keys are tensors in 1.15.5, references to them in 2.x.
    """
    result = dict(feeds)
    for key, value in feeds.items():
        tensor = fed_tensor(key)
        clone = stand_ins.tensor(tensor)
        if clone is not tensor:
            fed = (
                value.astype(clone.dtype.as_numpy_dtype) if isinstance(value, np.ndarray) else value
            )
            result[clone if tensor is key else clone.ref()] = fed
    return result
