"""Sessions that fetch clones: any tensor of the original is fetched, fed and run as its clone.

All of tf.Session's methods end in a list of tensors and ops (`_do_run`), except callables, which
keep names, and the setup of a partial run. A half-precision clone is cast back to the original's
dtype, in NumPy.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.graph.state.live import as_list
from graphmp.session.live import handed_out
from graphmp.session.live.cloning.errors import of_original
from graphmp.session.live.cloning.nodes import LiveNodes
from graphmp.session.live.gradient_values import Feeding
from graphmp.session.live.live_graph import LiveGraph
from graphmp.session.live.run_key import RunKey, fed_tensor
from graphmp.session.live.state.as_they_are import run_itself, runs_themselves
from graphmp.session.tuned.turn import Request, Turn
from graphmp.tf_hooks import internals, patch

Finder = Callable[[Any], Optional[LiveGraph]]


def install(find: Finder) -> None:
    """Map the runs of every session for which a `find(session)` returns a LiveGraph.

    The first `find` that returns one decides.
    """
    if find not in _FINDERS:
        _FINDERS.append(find)
    session = internals.base_session()
    for name in (
        "run",
        "_do_run",
        "make_callable",
        "_make_callable_from_options",
        "partial_run_setup",
    ):
        patch.wrap(session, name, getattr(_DOORS, name.lstrip("_")))
    patch.wrap(tf.train.Saver, "restore", _DOORS.restore)
    patch.wrap(tf.train.Saver, "save", _DOORS.save)
    patch.wrap(tf.Graph, "as_graph_def", handed_out.graph_def)
    patch.wrap(internals.meta_graphs(), "export_scoped_meta_graph", handed_out.exported)


class _MappedDoors:
    """One method for each way to run a graph.

    Parameters have TensorFlow's names: scripts may give them by name.
    """

    def _find(self, session: Any) -> Optional[LiveGraph]:
        if runs_themselves():
            return None
        return next(
            (live for live in (find(session) for find in _FINDERS) if live is not None), None
        )

    def run(
        self,
        original: Any,
        session: Any,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        results = original(session, fetches, feed_dict, options, run_metadata)
        if self._find(session) is not None:
            handed_out.name_as_built(run_metadata)
        return results

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
        ran = (*targets, *(tensor.op for tensor in fetches))
        trains = live.prepare(session, ran)
        if trains:
            live.observer.begins(live, feeds)
        given = internals.run_options(options)
        looks = trains and handle is None  # a partial run returns what its setup named

        def run(turn: Turn) -> Tuple[RunKey, List[Any]]:
            ops = [turn.nodes.stand_ins.op(op) for op in targets]
            tensors = [turn.nodes.fetched(tensor) for tensor in fetches]
            runs = (*ops, *(tensor.op for tensor in tensors))
            feeding = turn.nodes.feeding(
                list(map(fed_tensor, feeds)), *((ran, runs) if handle is None else ((), ()))
            )
            key = RunKey(runs, feeding.cut) if looks else RunKey(())
            wanted = tensors + (turn.watched(key) if looks else []) + turn.extra
            fed = _fed(session, feeding, feeds)
            if turn.trace is not None:
                values = {fed_tensor(tensor).name: value for tensor, value in fed.items()}
                run = functools.partial(_traced, session, ops, wanted, values, given, turn.trace)
                return key, turn.timed(run)
            return key, turn.timed(
                lambda: original(session, handle, ops, wanted, fed, options, metadata)
            )

        if handle is not None:
            turn = live.turn_of(handle)
        else:
            fed = tuple((fed_tensor(key), value) for key, value in feeds.items())
            turn = live.turn(Request(session, ran, fed, trains, not given.trace_level))
        results = _finished(live, trains, turn, run, len(fetches), ran)
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

    def make_callable_from_options(self, original: Any, session: Any, callable_options: Any) -> Any:
        live = self._find(session)
        return (
            original(session, callable_options)
            if live is None
            else _Callable(original, session, callable_options, live)
        )

    def partial_run_setup(
        self, original: Any, session: Any, fetches: Any, feeds: Any = None
    ) -> Any:
        live = self._find(session)
        if live is None:
            return original(session, fetches, feeds)
        graph = session.graph
        found = [graph.as_graph_element(item) for item in as_list(fetches)]
        fed = [graph.as_graph_element(item) for item in feeds or []]
        live.prepare(session, [getattr(item, "op", item) for item in found])
        handle = original(
            session,
            [_mapped(live.nodes, item) for item in found],
            list(dict.fromkeys([*fed, *live.nodes.feeding(fed, (), ()).tensors])),
        )
        live.set_up(handle)
        return handle

    def restore(self, original: Any, saver: Any, sess: Any, save_path: Any) -> None:
        original(saver, sess, save_path)
        live = self._find(sess)
        if live is not None:
            live.restored(sess, tf.compat.as_str_any(save_path))

    def save(
        self, original: Any, saver: Any, sess: Any, save_path: Any, *args: Any, **kwargs: Any
    ) -> Any:
        live = self._find(sess)
        if live is not None:
            live.checkpoint(tf.compat.as_str_any(save_path))
        return original(saver, sess, save_path, *args, **kwargs)


_FINDERS: List[Finder] = []
_DOORS = _MappedDoors()


def _traced(
    session: Any,
    ops: List[Any],
    tensors: List[Any],
    feeds: Dict[str, Any],
    given: tf.RunOptions,
    metadata: Any,
) -> List[Any]:
    """The values of some tensors; TensorFlow traces the run, with the given options else."""
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    options.MergeFrom(given)
    values: List[Any] = run_itself(session, [ops, tensors], feeds, options, metadata)[1]
    return values


def _finished(
    live: LiveGraph,
    trains: bool,
    turn: Turn,
    run: Callable[[Turn], Tuple[RunKey, List[Any]]],
    count: int,
    originals: Sequence[Any],
) -> List[Any]:
    """The first results of a run, after looking at the others.

    Args:
        live: the graph.
        trains: whether the run trains.
        turn: what computes it.
        run: the run, which returns the ops that ran and the results.
        count: of the results to return.
        originals: what the caller asked for.

    Raises:
        Exception: what the run raised, unless it is repeated in another turn.
    """
    try:
        key, results = run(turn)
    except BaseException as error:
        other = turn.fails(error)
        if other is not None:
            return _finished(live, trains, other, run, count, originals)
        if isinstance(error, tf.errors.OpError):
            raise of_original(error, turn.nodes, originals) from None
        raise
    extra = len(results) - len(turn.extra)
    if trains:
        live.trained(key, results[count:extra], turn, originals)
    turn.ends(results[extra:])
    return results[:count]


class _Made(NamedTuple):
    """A callable that TensorFlow made.

    Attributes:
        ran: the run.
        feeding: what it takes.
        more: what it returns besides.
        call: itself.
    """

    ran: RunKey
    feeding: Feeding
    more: List[Any]
    call: Any


class _Callable:
    """The result of `_make_callable_from_options`, renewed whenever the clones change."""

    def __init__(self, original: Any, session: Any, options: Any, live: LiveGraph):
        self._original = original
        self._session = session
        self._options = options
        self._live = live
        self._made: Dict[Tuple[Any, ...], _Made] = {}
        self._fetches, self._targets, self._feeds = (
            [session.graph.as_graph_element(name) for name in names]
            for names in (options.fetch, options.target, options.feed)
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ran = tuple(getattr(item, "op", item) for item in self._fetches + self._targets)
        trains = self._live.prepare(self._session, ran)
        if trains:
            self._live.observer.begins(self._live, dict(zip(self._feeds, args)))

        def run(turn: Turn) -> Tuple[RunKey, List[Any]]:
            made = self._made_for(turn, trains)
            values = made.feeding.values(list(map(np.asarray, args)), _number(self._session))
            if turn.trace is not None:
                return made.ran, self._traced(turn, made, values)
            return made.ran, turn.timed(lambda: made.call(*values, **kwargs))

        timed = not self._options.run_options.trace_level
        fed = tuple(zip(self._feeds, args))
        turn = self._live.turn(Request(self._session, ran, fed, trains, timed))
        found = _finished(self._live, trains, turn, run, len(self._fetches), ran)
        handed_out.name_as_built(kwargs.get("run_metadata"))
        return [cast_back(tensor, value) for tensor, value in zip(self._fetches, found)]

    def _made_for(self, turn: Turn, trains: bool) -> _Made:
        """The callable of a turn.

        While types alternate, the callables of both are kept.
        """
        wanted = (turn.nodes.stand_ins, tuple(tensor.name for tensor in turn.extra))
        if wanted not in self._made:
            if not self._live.alternates:
                self._made.clear()
            self._made[wanted] = self._make(turn, trains)
        return self._made[wanted]

    def _make(self, turn: Turn, trains: bool) -> _Made:
        items = self._fetches + self._targets
        runs = tuple(getattr(item, "op", item) for item in (_mapped(turn.nodes, i) for i in items))
        ran = [getattr(item, "op", item) for item in items]
        feeding = turn.nodes.feeding(self._feeds, ran, runs)
        key = RunKey(runs, feeding.cut)
        more = (turn.watched(key) if trains else []) + turn.extra
        options = self._mapped_options(turn.nodes, feeding, more)
        return _Made(key, feeding, more, self._original(self._session, options))

    def _traced(self, turn: Turn, made: _Made, values: List[Any]) -> List[Any]:
        """A run under TensorFlow's tracer, with the values of feeds."""
        targets = [_mapped(turn.nodes, item) for item in self._targets]
        tensors = [turn.nodes.fetched(tensor) for tensor in self._fetches] + made.more
        feeds = {tensor.name: value for tensor, value in zip(made.feeding.tensors, values)}
        run = functools.partial(
            _traced, self._session, targets, tensors, feeds, self._options.run_options, turn.trace
        )
        return turn.timed(run)

    def _mapped_options(self, nodes: LiveNodes, feeding: Feeding, more: List[Any]) -> Any:
        options = type(self._options)()
        options.CopyFrom(self._options)
        fetches = [nodes.fetched(tensor) for tensor in self._fetches]
        options.fetch[:] = [tensor.name for tensor in fetches + more]
        options.target[:] = [_mapped(nodes, item).name for item in self._targets]
        options.feed[:] = [tensor.name for tensor in feeding.tensors]
        element = self._session.graph.as_graph_element
        for connection in options.tensor_connection:
            connection.from_tensor = nodes.fetched(element(connection.from_tensor)).name
            connection.to_tensor = nodes.stand_ins.tensor(element(connection.to_tensor)).name
        return options


def cast_back(tensor: Any, value: Any) -> Any:
    """A fetched value in the dtype of the original's tensor."""
    if not tensor.dtype.is_floating or not isinstance(value, (np.ndarray, np.generic)):
        return value
    dtype = tensor.dtype.base_dtype.as_numpy_dtype
    return value if value.dtype == dtype else value.astype(dtype)


def _mapped(nodes: LiveNodes, item: Any) -> Any:
    return nodes.fetched(item) if hasattr(item, "value_index") else nodes.stand_ins.op(item)


def _number(session: Any) -> Callable[[Any], float]:
    """The value of a scalar tensor in a session."""
    return lambda tensor: float(run_itself(session, tensor))


def _fed(session: Any, feeding: Feeding, feeds: Dict[Any, Any]) -> Dict[Any, Any]:
    """Feeds for the original, which may be fetched too, and for its clones.

    Keys are tensors in 1.15.5, references to them in 2.x.
    """
    values = feeding.values(list(feeds.values()), _number(session))
    by_reference = any(fed_tensor(key) is not key for key in feeds)
    keys = [tensor.ref() if by_reference else tensor for tensor in feeding.tensors]
    return {**feeds, **dict(zip(keys, values))}
