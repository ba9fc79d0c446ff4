"""A live tf.Graph and its conversion: made at the first run that trains, renewed for later code."""

from __future__ import annotations

import collections
import itertools
import threading
import weakref
from typing import Any, Counter, Dict, FrozenSet, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.mark import differing, read_session_mark
from graphmp.rewrite.decisions import decided as placed
from graphmp.rewrite.pipeline import Solver
from graphmp.session.live.beside import counted_beside
from graphmp.session.live.cloning.export import as_built, left_by_others
from graphmp.session.live.cloning.later import followed
from graphmp.session.live.cloning.nodes import LiveNodes, unconverted
from graphmp.session.live.live_conversion import LiveConversion, convert
from graphmp.session.live.observer import Fate, Observer
from graphmp.session.live.run_key import RunKey
from graphmp.session.live.state.earlier_draws import EarlierDraws
from graphmp.session.live.state.restored import RestoredScales
from graphmp.session.live.state.savers import LateSavers
from graphmp.session.live.state.skips import scale_state
from graphmp.session.live.state.summaries import with_scales
from graphmp.session.training import trained_by_hand, trains, updates
from graphmp.session.tuned.costs_file import CostsFile
from graphmp.session.tuned.owner import Owner
from graphmp.session.tuned.tuning import Tuning
from graphmp.session.tuned.turn import Request, Turn
from graphmp.session.tuned.verdict import Verdict
from graphmp.tf_hooks import internals
from graphmp.tuning.costs import BYTES, FLOAT32

_ATTRIBUTE = "_graphmp_live"  # of a tf.Graph: objects that refer to each other are freed together
_LOCK = threading.Lock()
_NUMBERS = itertools.count()
_UNCONVERTED = unconverted()


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


class LiveGraph(Owner):
    """A graph whose sessions fetch the nodes of a conversion instead of its own.

    Attributes:
        config: the options.
        variants: its conversions: one, while it is being tuned several.
        fate: the fate of the graph.
        number: unique for each graph.
        steps: the number of runs that trained, counted by the callers.
        updates: the number of those that did more than sum gradients up.
        gave_up: whether the graph can't be converted and trains in float32.
        observer: receives the graph's events.
        debug: whether to find the first op that isn't finite in each run that trains.
        tuning: times training steps in both types; None if nobody asked for it.
    """

    def __init__(self, graph: Any, config: Config, observer: Observer):
        self.config = config
        self.variants: Dict[str, LiveConversion] = {}
        self._runs = BYTES  # the variant that runs, but for turns
        self._added: FrozenSet[str] = frozenset()  # nodes that conversions added
        self._left: FrozenSet[str] = frozenset()  # those of them that another process added
        self.fate = Fate()
        self.number = next(_NUMBERS)
        self.steps = 0
        self.updates = 0
        # of runs, by whether they update, by finite gradients, and whether these are watched
        self._runs_seen: Counter[Tuple[bool, bool, bool]] = collections.Counter()
        self.gave_up = False
        self.observer = observer
        self.debug = False
        self.tuning: Optional[Tuning] = None
        self._handles: Dict[Any, Optional[LiveConversion]] = {}
        self._session_config: Optional[Any] = None
        self._graph = weakref.ref(graph)
        self._lock, self._counting = threading.RLock(), threading.Lock()
        self._trains: Dict[Any, bool] = {}  # for each op that has run
        self._updates: Dict[Any, bool] = {}  # for each op that has run in a step
        self._savers: Dict[str, LateSavers] = {}  # for each variant
        self._restored = RestoredScales()
        self._earlier_draws = EarlierDraws()

    @property
    def nodes(self) -> LiveNodes:
        """The graph's nodes, with their clones."""
        return _UNCONVERTED if self.converted is None else self.converted.nodes

    def tune(self, path: str = "") -> None:
        """Train by turns from the first step on, and keep the faster type.

        No effect on a graph that has trained.

        Args:
            path: of the file that keeps what is measured; empty for one beside the checkpoints.
        """
        if self.tuning is None and not self.fate.converted:
            self.tuning = Tuning(self, CostsFile(path))
            self._runs = self.tuning.main

    def turn(self, request: Request) -> Turn:
        """The turn of a run that was prepared."""
        if not self.fate.converted:
            return self._earlier_draws.turn(request)
        if self.tuning is None or not self.alternates or self.converted is None:
            return Turn(self.converted)
        return self.tuning.turn(request)

    @property
    def alternates(self) -> bool:
        """Whether several variants may train the next step."""
        return self.tuning is not None and self.tuning.verdict is None

    def set_up(self, handle: Any) -> None:
        """Called when a partial run was set up: its parts run in the same variant."""
        if self.alternates:
            self._handles[handle] = self.converted

    def turn_of(self, handle: Any) -> Turn:
        """The turn of a part of a partial run."""
        return Turn(self._handles.get(handle, self.converted))

    def decided(self, verdict: Verdict, made: Optional[LiveConversion]) -> None:
        kept = self.variants.get(verdict.kept)
        self.variants = {} if kept is None else {verdict.kept: kept}
        if verdict.kept != self._runs and made is not None and kept is not None:
            self._runs = verdict.kept
            self._report(made._replace(nodes=kept.nodes))
        self._runs = verdict.kept
        self._earlier_draws = EarlierDraws()
        self.observer.tuned(self, verdict)

    def kept(self, text: str, is_written: bool) -> None:
        self.observer.kept(text, is_written)

    @property
    def converted(self) -> Optional[LiveConversion]:
        """The conversion that runs, if any; replaced when the graph grows."""
        return self.variants.get(self._runs)

    @property
    def _keeps_float32(self) -> bool:
        verdict = self.tuning.verdict if self.tuning is not None else None
        return verdict is not None and verdict.kept == FLOAT32

    def prepare(self, session: Any, ops: Sequence[Any]) -> bool:
        """Called before a run of a session: converts the graph if needed.

        New ops that train are converted, other new ones are mapped to the clones.

        Returns:
            Whether it trains.

        Raises:
            GraphmpError: as `graphmp.convert`, if the graph can't be converted and the observer
                doesn't say to continue without.
        """
        self.fate.ran = True
        known = self._trains
        if not all(op in known for op in ops) or self._savers_meet(ops):
            with self._lock:
                self._session_config = internals.config_of(session)
                self._look_at(ops)
                known = self._trains
        if self._restored and self.converted is not None:
            self._restored.assign(session, self.nodes.stand_ins.names)
        return any(known[op] for op in ops)

    def as_built(self, graph_def: tf.GraphDef) -> tf.GraphDef:
        """A GraphDef of the graph, changed: what the script built."""
        return as_built(self._graph(), graph_def, self._added)

    def restored(self, session: Any, path: str) -> None:
        """Called when a session has restored a checkpoint."""
        self.checkpoint(path)
        if self.converted is None:
            self._restored.read(session, path)

    def checkpoint(self, path: str) -> None:
        """Called when a session saves or restores a checkpoint."""
        if self.tuning is not None:
            self.tuning.checkpoint(path)

    def trained(
        self,
        ran: RunKey,
        values: Sequence[Any],
        turn: Turn,
        originals: Sequence[Any],
    ) -> None:
        """Called after a run that trained.

        Args:
            ran: what was run.
            values: those of `turn.watched`.
            turn: the run's.
            originals: what the caller asked for.
        """
        is_update = any(self._is_update(op) for op in originals)
        watch = turn.conversion.watch if turn.conversion is not None else None
        with self._counting:  # the script may train in several threads
            self.steps += 1
            self.updates += is_update
            step = self.updates + (not is_update)
            watched = watch.number(ran) if values and watch is not None else 0
            seen = watch.seen(ran, values, step) if watched and watch is not None else []
            is_good = watched > sum(not each.applied for each in seen)
            self._runs_seen[is_update, is_good, bool(watched)] += 1
            in_runs = self.steps > self.updates
        for each in seen:
            self.observer.not_finite(self, each._replace(adds=not is_update, in_runs=in_runs))

    @property
    def has_learned(self) -> bool:
        """Whether a run updated by finite gradients, or one may have, by a sum of some."""
        by_sums = self._runs_seen[False, True, True] and self._runs_seen[True, False, False]
        return bool(self._runs_seen[True, True, True] or by_sums)

    def _is_update(self, op: Any) -> bool:
        if op not in self._updates:
            self._updates[op] = trains(op.graph, [op]) and updates(op.graph, [op])
        return self._updates[op]

    def scale_state(self, session: Any) -> Tuple[int, List[float]]:
        """The number of skipped steps, and each dynamic loss scale, as a session has them now."""
        scales = self.converted.record.scales if self.converted is not None else ()
        return scale_state(session, scales, self.nodes.stand_ins)

    def _look_at(self, ops: Sequence[Any]) -> None:
        """Make the conversion include ops of which one never ran before."""
        found = {op: trains(op.graph, [op]) for op in ops}
        late = [op for op in ops if not self.nodes.knows(op.name)]
        trained = [op for op in late if found[op]]
        if trained and not self.gave_up and not self._keeps_float32:
            self._try_to_convert(trained, ops)
        if not any(found.values()) and not self.fate.by_hand:
            self.fate.by_hand = trained_by_hand(ops[0].graph, ops) if ops else ""
            if self.fate.by_hand:
                self.observer.trains_by_hand(self)
        self._trains.update(found)
        for name, made in self.variants.items():
            self.variants[name] = self._fitted(name, made, ops)

    def _savers_meet(self, ops: Sequence[Any]) -> bool:
        """Whether two Savers of a run have the same nodes run, in any variant."""
        return any(
            savers.meet(self.variants[name].nodes, list(ops))
            for name, savers in self._savers.items()
            if name in self.variants
        )

    def _fitted(self, variant: str, made: LiveConversion, ops: Sequence[Any]) -> LiveConversion:
        """A conversion with clones of later nodes that ops run, and with the scale in summaries."""
        nodes, late = made.nodes, [op for op in ops if not made.nodes.knows(op.name)]
        if late:
            nodes = self._savers[variant].mapped(nodes, late)
            nodes = followed(nodes, [op for op in late if not nodes.knows(op.name)])
        nodes = self._savers[variant].apart(nodes, list(ops))
        nodes = with_scales(nodes, self._trains, made.record.scales)
        self._added |= nodes.added
        return made._replace(nodes=nodes)

    def _try_to_convert(self, trained: List[Any], ops: Sequence[Any]) -> None:
        self.fate.converted = True
        try:
            self._convert(trained, ops)
        except Exception as error:
            self.gave_up = self.observer.failed(error)
            if not self.gave_up:
                raise

    def _convert(self, trained: List[Any], ops: Sequence[Any]) -> None:
        graph = self._graph()
        assert graph is not None  # a run of it is in progress
        before = self.converted
        trained_before = read_session_mark(graph)
        if before is None:
            self._left = left_by_others(graph, trained)
            self._added |= self._left
        self.variants, self._savers = {}, {}
        made = self._made(self._runs, self.config, self.debug, placed, before, trained, ops)
        as_it_is = made.record.left_as_it_is
        if before is None and not as_it_is and (self._left or trained_before):
            flags = differing(trained_before, self.config) if trained_before else None
            self.observer.went_on(self, flags)
        self._trains = {}  # what came late may read new clones
        if self.tuning is not None and self.alternates:
            self.tuning.begin(graph, made)
        else:
            self._earlier_draws = EarlierDraws()

    def convert_also(self, variant: str, config: Config, solve: Solver = placed) -> LiveConversion:
        return self._made(variant, config, False, solve)

    def _made(
        self,
        variant: str,
        config: Config,
        debug: bool,
        solve: Solver,
        earlier: Optional[LiveConversion] = None,
        trained: Sequence[Any] = (),
        ops: Sequence[Any] = (),
    ) -> LiveConversion:
        """A new conversion, with both graphs, which `variants` doesn't keep."""
        graph = self._graph()
        assert graph is not None  # a run of it is in progress
        made = convert(
            graph,
            config,
            self._added,
            earlier,
            trained,
            debug,
            solve,
            self._left,
            self._session_config,
        )
        self._savers[variant] = LateSavers(graph, config, made.record, made.nodes)
        self._added |= made.nodes.added
        if earlier is None:
            self._earlier_draws.repeat(made.nodes.stand_ins.names)
        if variant == self._runs:
            beside = counted_beside(graph, trained, ops, config)
            made.record.warnings.extend(beside)
            made = made._replace(warnings=[*made.warnings, *beside])
            self._report(made)
        fitted = self._fitted(variant, made._replace(original=None, meta_graph=None), [])
        self.variants[variant] = fitted
        return made

    def _report(self, made: LiveConversion) -> None:
        """Tell of the conversion that runs from now on; `made` has both graphs."""
        self.variants[self._runs] = made
        self.observer.converted(self)
        self.variants[self._runs] = made._replace(original=None, meta_graph=None)
