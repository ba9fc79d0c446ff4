"""A live tf.Graph and its conversion: made at the first run that trains, renewed for later code."""

from __future__ import annotations

import itertools
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from graphmp.config import Config
from graphmp.session.live.finite import NotFinite
from graphmp.session.live.later import followed
from graphmp.session.live.live_conversion import LiveConversion, convert
from graphmp.session.live.nodes import LiveNodes, unconverted
from graphmp.session.live.restored import RestoredScales
from graphmp.session.live.savers import LateSavers
from graphmp.session.live.skips import scale_state
from graphmp.session.live.summaries import with_scales
from graphmp.session.training import trains

_ATTRIBUTE = "_graphmp_live"  # of a tf.Graph: objects that refer to each other are freed together
_LOCK = threading.Lock()
_NUMBERS = itertools.count()
_UNCONVERTED = unconverted()


@dataclass
class Fate:
    """The fate of a graph: whether any of it ran, and whether it was or can't be converted.

    It outlives the graph.
    """

    ran: bool = False
    converted: bool = False


class Observer:
    """Receives the events of a graph; this base class ignores them."""

    def converted(self, live: LiveGraph) -> None:
        """A conversion was made."""

    def left(self, graph: Any) -> None:
        """A graph isn't converted: the decorator converted it while it was built."""

    def failed(self, error: Exception) -> bool:
        """A graph can't be converted; returns whether to train it in float32.

        Otherwise the run raises.
        """
        return False

    def begins(self, live: LiveGraph, feeds: Dict[Any, Any]) -> None:
        """A run that trains begins, with these feeds in the form of `session.run`."""

    def not_finite(self, live: LiveGraph, step: NotFinite) -> None:
        """A training run had a loss or a gradient that is not finite."""


def live_graph(graph: Any, config: Config, observer: Optional[Observer] = None) -> LiveGraph:
    """The LiveGraph of a tf.Graph, with the first caller's options and the last's observer."""
    with _LOCK:
        found = known_live_graph(graph)
        if found is None:
            found = LiveGraph(graph, config, observer or Observer())
            setattr(graph, _ATTRIBUTE, found)
        if observer is not None:
            found.observer = observer
        return found


def known_live_graph(graph: Any) -> Optional[LiveGraph]:
    """The LiveGraph of a tf.Graph, if it has one."""
    return getattr(graph, _ATTRIBUTE, None)


class LiveGraph:
    """A graph whose sessions fetch the nodes of a conversion instead of its own.

    Attributes:
        config: the options.
        converted: the conversion, if any; replaced when the graph grows.
        fate: the fate of the graph.
        number: unique for each graph.
        steps: the number of runs that trained, counted by the callers.
        gave_up: whether the graph can't be converted and trains in float32.
        observer: receives the graph's events.
        debug: whether to find the first op that isn't finite in each run that trains.
    """

    def __init__(self, graph: Any, config: Config, observer: Observer):
        self.config = config
        self.converted: Optional[LiveConversion] = None
        self.fate = Fate()
        self.number = next(_NUMBERS)
        self.steps = 0
        self.gave_up = False
        self.observer = observer
        self.debug = False
        self._graph = weakref.ref(graph)
        self._lock = threading.RLock()
        self._trains: Dict[Any, bool] = {}  # for each op that has run
        self._savers: Optional[LateSavers] = None
        self._restored = RestoredScales()

    @property
    def nodes(self) -> LiveNodes:
        """The graph's nodes, with their clones."""
        return _UNCONVERTED if self.converted is None else self.converted.nodes

    def prepare(self, session: Any, ops: List[Any]) -> bool:
        """Called before a run of a session: converts the graph if needed.

        New ops that train are converted, other new ones are mapped to the clones.

        Returns:
            Whether it trains.

        Raises:
            GraphmpError: as `graphmp.convert`, if the graph can't be converted and the observer
                doesn't say to continue without.
        """
        self.fate.ran = True
        if not all(op in self._trains for op in ops):
            with self._lock:
                self._look_at([op for op in ops if op not in self._trains])
        if self._restored and self.converted is not None:
            self._restored.assign(session, self.nodes.stand_ins.names)
        return any(self._trains[op] for op in ops)

    def restored(self, session: Any, path: str) -> None:
        """Called when a session has restored a checkpoint."""
        if self.converted is None:
            self._restored.read(session, path)

    def watched(self, ops: Tuple[Any, ...]) -> List[Any]:
        """Tensors to fetch with ops that train, to check whether the step is finite."""
        watch = self.converted.watch if self.converted is not None else None
        return watch.fetches(ops) if watch is not None else []

    def trained(self, ops: Tuple[Any, ...], values: Sequence[Any]) -> None:
        """Called after a run that trained, with the values of `watched`."""
        self.steps += 1
        watch = self.converted.watch if self.converted is not None else None
        if values and watch is not None:
            for step in watch.seen(ops, values, self.steps):
                self.observer.not_finite(self, step)

    def scale_state(self, session: Any) -> Tuple[int, List[float]]:
        """The number of skipped steps, and each dynamic loss scale, as a session has them now."""
        scales = self.converted.record.scales if self.converted is not None else ()
        return scale_state(session, scales, self.nodes.stand_ins)

    def _look_at(self, ops: List[Any]) -> None:
        """Make the conversion include ops that never ran before."""
        found = {op: trains(op.graph, [op]) for op in ops}
        late = [op for op in ops if not self.nodes.knows(op.name)]
        trained = [op for op in late if found[op]]
        if trained and not self.gave_up:
            self._try_to_convert(trained)
            late = [op for op in ops if not self.nodes.knows(op.name)]
        if late and self.converted is not None and self._savers is not None:
            nodes = self._savers.mapped(self.nodes, late)
            nodes = followed(nodes, [op for op in late if not nodes.knows(op.name)])
            self.converted = self.converted._replace(nodes=nodes)
        self._trains.update(found)
        if self.converted is not None:
            scales = self.converted.record.scales
            self.converted = self.converted._replace(
                nodes=with_scales(self.nodes, self._trains, scales)
            )

    def _try_to_convert(self, trained: List[Any]) -> None:
        self.fate.converted = True
        try:
            self._convert(trained)
        except Exception as error:
            self.gave_up = self.observer.failed(error)
            if not self.gave_up:
                raise

    def _convert(self, trained: List[Any]) -> None:
        graph = self._graph()
        assert graph is not None  # a run of it is in progress
        self.converted = convert(graph, self.config, self.converted, trained, self.debug)
        self._savers = LateSavers(graph, self.config, self.converted.record, self.converted.nodes)
        self._trains.clear()  # what came late may read new clones
        self.observer.converted(self)
        self.converted = self.converted._replace(original=None, meta_graph=None)
