"""The tuning of one live graph: its training steps by turns in float32 and in half precision.

1. A few steps are traced, in float32 and with everything in half precision that may be, and the
   graph is converted by the times of its operations.
2. Steps in float32, in the conversion by bytes and in the one by times are timed in turns. The
   fastest trains from then on.

Float32 is the graph's own nodes (a conversion to float32 where gradients are to be clipped), half
precision the clones of a conversion. They share all variables, so that every step counts, whatever
computes it. The loss scale rests while float32 trains. Runs that don't train, and partial runs, use
the conversion by bytes until there is a verdict.
"""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import replace
from typing import Any, Callable, Hashable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError, said
from graphmp.rewrite.decisions import in_half
from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.live.state.draws import Draws, unfetchable
from graphmp.session.tuned import tracing
from graphmp.session.tuned.costs_file import CostsFile
from graphmp.session.tuned.measurement import Measurement, computes_in_half, differs
from graphmp.session.tuned.owner import Owner
from graphmp.session.tuned.shared_shapes import SharedShapes
from graphmp.session.tuned.tracing import Trace, Tracing
from graphmp.session.tuned.turn import DrawingTurn, Request, TimedTurn, Turn, nodes_of
from graphmp.session.tuned.turns import FEWEST_ROUNDS, MOST_ROUNDS, MOST_STEPS, Turns, steps_of
from graphmp.session.tuned.variant_streams import VariantStreams
from graphmp.session.tuned.verdict import Verdict, in_words
from graphmp.tuning.costs import BYTES, FLOAT32, HALF, TUNED, Costs, Time

Clock = Callable[[], float]
_THREADS = "several threads train at the same time, whose steps can't be timed"
_SERVER = "the session runs on a server, %s"
_DEBUG = "--debug_overflow examines all tensors of each step, which takes longer than the step"
_CUT_SHORT = "it was interrupted before its first step"
_MEMORY = "a step ran out of memory in %s (one batch may be lost); it was repeated"
_SHAPES = "%d training steps had %d different fetches or shapes, too few alike in both types"
_FLOAT32 = "--compute_dtype=float32 leaves nothing to choose"
_NO_HALF = "the conversion computes nothing in %s, which leaves nothing to choose"
_OWN_TRACES = "the script itself traces %d of %d training steps, which takes time"
_SKIPPED = "of %d training steps too many were skipped: %d turns had such steps"
_MANY_SKIPS = 5
_UNMEASURED = "operations were not measured: %s"
_KEPT = "the next run takes what was measured from %s"
_KEPT_LATE = _KEPT + " if it restores a checkpoint there before it trains, else by --tune_file"
_NOT_KEPT = "%s keeps what was measured of another graph; the next run measures this one anew"
_OTHER_GRAPH = "%s: not used, it is of another graph"
_OTHER_BATCH = "%s: not used, its batches were of %s, these are of %s"
_UNFINISHED = "not tuned: it ended after %d training steps; %d to %d that are alike are needed"


class Tuning:
    """The tuning of a live graph.

    Attributes:
        now: a clock, in seconds.
        measures: whether operations are traced, and the graph is converted by their times.
        main: the variant of runs that don't train.
        measured: the times of operations; None until they are measured.
        verdict: the result; None until there is one.
    """

    def __init__(self, owner: Owner, file: CostsFile):
        """Nothing has been converted yet.

        Args:
            owner: the graph that is tuned.
            file: keeps what is measured.
        """
        self.now: Clock = time.perf_counter
        self.measures = not owner.config.costs
        self.main = BYTES if self.measures else TUNED
        self.measured: Optional[Costs] = None
        self.verdict: Optional[Verdict] = None
        self._owner = owner
        self._file = file
        self._earlier: Optional[Costs] = None  # of an earlier run
        self._kept_in_words = _KEPT
        self._placement = ""  # digest of the placement by measured times
        self._batch_size: Optional[int] = None
        self._tracing: Optional[Tracing] = None
        self._turns: Optional[Turns] = None
        self._made: Optional[LiveConversion] = None  # the graph's conversion, with both graphs
        self._by_times: Optional[LiveConversion] = None  # another one, with both graphs
        self._measurement: Optional[Measurement] = None
        self._streams: Optional[VariantStreams] = None
        self._shapes: Optional[SharedShapes] = None
        self._spent = self._forgotten = self._skipped = self._own_traces = 0
        self._note = ""
        self._lock = threading.RLock()
        self._stepping: Optional[int] = None  # the thread that trains

    @property
    def current(self) -> str:
        """The variant of the next training step."""
        if self._tracing is not None:
            return self._tracing.current
        return self.main if self._turns is None else self._turns.current

    @property
    def steps(self) -> int:
        """Training steps spent so far."""
        return self._spent + (self._turns.steps if self._turns is not None else 0)

    def conversion(self, variant: str) -> Optional[LiveConversion]:
        """The conversion of a variant; None if that is the graph itself."""
        return self._owner.variants.get(variant)

    def in_words(self) -> str:
        """The state of the tuning in a line."""
        if self.verdict is not None:
            return in_words(self.verdict, self._owner.config.compute_dtype)
        fewest, most = (
            steps_of(2 + self.measures, rounds) + tracing.STEPS * self.measures
            for rounds in (FEWEST_ROUNDS, MOST_ROUNDS)
        )
        return _UNFINISHED % (self.steps, fewest, most)

    def begin(self, graph: Any, made: LiveConversion) -> None:
        """Begin, or begin again after the graph got new training code.

        Args:
            graph: the tf.Graph.
            made: its conversion, with both graphs.
        """
        config = self._owner.config
        if config.compute_dtype == "float32":
            self._decide(Verdict(self.main, None, _FLOAT32))
            return
        left = said("GMP108", made.record.warnings)
        if not left and not computes_in_half(made):
            left = _NO_HALF % config.compute_dtype
        if left:
            self._decide(Verdict(self.main, None, left, left=True))
            return
        self._spent, self._turns, self._tracing = self.steps, None, None
        hidden = unfetchable(graph)
        self._streams = self._streams or VariantStreams(self._owner, graph)
        self._streams.hide(hidden)
        clones = made.nodes.stand_ins.names.values()
        self._shapes = SharedShapes(graph, clones, made.nodes.added, hidden)
        if config.clip_norm:
            float32 = replace(config, compute_dtype="float32", loss_scale="none", costs="")
            self._owner.convert_also(FLOAT32, float32)
        self._made = made
        self._kept_in_words = _KEPT if self._file.path else _KEPT_LATE
        self._earlier = self._by_file() if self.measures else None
        if self._earlier is None:
            self._prepare()

    def _prepare(self) -> None:
        """Prepare what is to be traced, if anything is, or timed."""
        if self.measures and self._made is not None:
            try:
                half = self._owner.convert_also(HALF, self._owner.config, in_half)
                self._measurement, self._tracing = Measurement(self._made, half), Tracing()
            except GraphmpError as error:
                self._note = _UNMEASURED % error
        if self._tracing is None:
            self._compare([FLOAT32, self.main])

    def _by_file(self) -> Optional[Costs]:
        """The costs of an earlier run, if they are of this graph; it is converted by them."""
        config = self._owner.config
        try:
            costs = self._file.read(config.compute_dtype)
            if costs is None:
                return None
            self._convert_by(self._file.path)
        except GraphmpError as error:
            self._note = str(error)
            return None
        if self._placement == costs.placement:
            self._file.holds(self._placement)
            return costs
        self._note = _OTHER_GRAPH % self._file.path
        return None

    def _convert_by(self, path: str) -> None:
        """Convert the graph by the costs in a file."""
        config = replace(self._owner.config, costs=path)
        self._by_times = self._owner.convert_also(TUNED, config)
        self._placement = str(self._by_times.record.costs["placement"])

    def _compare_all(self) -> None:
        """Time float32, the conversion by bytes, and the one by times if it is another one."""
        assert self._made is not None  # both were made
        other = self._by_times is not None and differs(self._made, self._by_times)
        self._compare([FLOAT32, self.main, *([TUNED] if other else [])])

    def _compare(self, variants: Sequence[str]) -> None:
        """Time variants in turns from now on."""
        self._turns = Turns(variants, MOST_STEPS - self._spent)

    def turn(self, request: Request) -> Turn:
        """The turn of a run, before it begins."""
        with self._lock:
            reason = self._hindrance(request)
            if reason:
                self._decide(Verdict(self.main, None, reason))
            elif request.trains and self.verdict is None:
                self._use_earlier(request)
            if self.verdict is not None:
                return Turn(self.conversion(self.verdict.kept))
            assert self._streams is not None  # there is a conversion
            variant = self.current if request.trains else self.main
            self._streams.catch_up(request.session, variant)
            return self._turn(request, variant, self._streams.draws(request, variant))

    def _turn(self, request: Request, variant: str, draws: Draws) -> Turn:
        """The turn of a run before there is a verdict."""
        drew = functools.partial(self._drew, request.session, variant, draws)
        if not request.trains:
            return DrawingTurn(self.conversion(variant), draws, drew)
        self._stepping = threading.get_ident()
        turn = TimedTurn(
            self.conversion(variant),
            draws,
            drew,
            self._shapes_of(request, variant),
            self.now,
            functools.partial(self._stepped, request),
            functools.partial(self._failed, variant),
        )
        if self._tracing is not None and self._tracing.traces and request.timed:
            turn.trace = tf.RunMetadata()
        return turn

    def _use_earlier(self, request: Request) -> None:
        """Decide by the costs of an earlier run, if its batches were as large."""
        if not self.steps:
            self._batch_size = request.batch_size
        costs, self._earlier = self._earlier, None
        if costs is None:
            return
        if costs.batch_size != self._batch_size:
            self._note = _OTHER_BATCH % (self._file.path, costs.batch_size, self._batch_size)
            self._prepare()
        elif costs.faster:
            assert self._by_times is not None  # the graph was converted by the file
            kept = TUNED if costs.float32_nodes else costs.faster
            if kept == TUNED and not computes_in_half(self._by_times):
                kept = FLOAT32
            self._decide(Verdict(kept, None, file=self._file.path))
        else:  # of a run that ended before there was a verdict
            self.measured = costs
            self._compare_all()

    def _hindrance(self, request: Request) -> str:
        """Why steps can't be timed; empty if they can."""
        if self._owner.debug:
            return _DEBUG
        if self._turns is None and self._tracing is None and self._earlier is None:
            return _CUT_SHORT
        if request.trains and request.session.sess_str:
            return _SERVER % tf.compat.as_str_any(request.session.sess_str)
        # a thread that Ctrl-C took out of a step may train again
        other = self._stepping not in (None, threading.get_ident())
        return _THREADS if request.trains and other else ""

    def _drew(self, session: Any, variant: str, draws: Draws, values: Sequence[Any]) -> None:
        """A run has drawn random numbers, with the values of `draws.fetches`."""
        with self._lock:
            if self._streams is not None:
                self._streams.drew(session, variant, draws, values)

    def _shapes_of(self, request: Request, variant: str) -> List[Any]:
        """The shapes to fetch with a run by a variant."""
        assert self._shapes is not None  # there is a conversion
        fed = frozenset(tensor.op for tensor, _ in request.feeds)
        return self._shapes.of(request.ops, fed, nodes_of(self.conversion(variant)).stand_ins)

    def _stepped(
        self,
        request: Request,
        seconds: float,
        shapes: Sequence[Any],
        trace: Optional[tf.RunMetadata],
    ) -> None:
        """A training step has ended.

        Args:
            request: the run.
            seconds: its time.
            shapes: the values of `shapes`.
            trace: TensorFlow's trace of it, if it was traced.
        """
        with self._lock:
            self._stepping = None
            if self.verdict is not None:
                return
            kind = request.kind(shapes)
            self._own_traces += not request.timed
            if self._tracing is not None:
                self._traced(self._tracing, kind, request, trace)
            elif self._turns is not None:
                self._timed(self._turns, kind, request, seconds)

    def _traced(
        self, steps: Tracing, kind: Hashable, request: Request, trace: Optional[tf.RunMetadata]
    ) -> None:
        self._spent += 1
        if trace is None and steps.traces:  # the script traces this step itself
            if self.steps >= MOST_STEPS:
                self._give_up()
            return
        names = tuple(op.name for op in request.ops)
        steps.saw(kind, Trace(names, trace or tf.RunMetadata()))
        if steps.is_over:
            self._tracing, self._by_times = None, None
            try:
                self._measure(steps)
            finally:  # after Ctrl-C too: the script may go on
                self._compare_all()

    def _measure(self, steps: Tracing) -> None:
        """Convert the graph by the times of operations in traced steps."""
        assert self._measurement is not None  # steps were traced for it
        try:
            dtype = self._owner.config.compute_dtype
            with self._measurement.costs_file(steps, dtype, self._batch_size) as path:
                self._convert_by(path)
                self.measured = self._measurement.costs
            self._keep()
        except GraphmpError as error:
            self._note = _UNMEASURED % error

    def _timed(self, turns: Turns, kind: Hashable, request: Request, seconds: float) -> None:
        turns.saw(kind, seconds, request.timed)
        if turns.turn_is_over and not self._skips(turns, request.session):
            turns.go_on()
        outcome = turns.outcome()
        if outcome is not None:
            self._decide(Verdict(outcome.faster, outcome._replace(steps=self.steps)))
        elif turns.given_up:
            self._give_up(len(turns.kinds))

    def _give_up(self, kinds: int = 1) -> None:
        """Decide nothing after many steps, of some kinds, and say why."""
        reason = _SHAPES % (self.steps, kinds)
        if self._forgotten >= _MANY_SKIPS:
            reason = _SKIPPED % (self.steps, self._forgotten)
        elif 2 * self._own_traces > self.steps:
            reason = _OWN_TRACES % (self._own_traces, self.steps)
        self._decide(Verdict(self.main, None, reason))

    def _skips(self, turns: Turns, session: Any) -> bool:
        """Whether a loss scale skipped steps of the current turn; they then don't count."""
        if turns.current == FLOAT32:
            return False
        before, self._skipped = self._skipped, self._owner.scale_state(session)[0]
        if self._skipped == before:
            return False
        turns.forget()
        self._forgotten += 1
        return True

    def _failed(self, variant: str, error: BaseException) -> Optional[Turn]:
        """A training step raised an error; returns the turn in which to repeat it, if any."""
        with self._lock:
            self._stepping = None
            if variant == self.main or not isinstance(error, tf.errors.ResourceExhaustedError):
                return None
            dtype = "float32" if variant == FLOAT32 else self._owner.config.compute_dtype
            self._decide(Verdict(self.main, None, _MEMORY % dtype))
            return Turn(self.conversion(self.main))

    def _decide(self, verdict: Verdict) -> None:
        """Keep a variant, with its random streams where the other variants' are."""
        if self.verdict is not None:
            return
        if self._streams is not None:
            self._streams.end(verdict.kept)
        self._spent, self.verdict = self.steps, verdict._replace(note=self._note)
        self._streams = self._shapes = self._turns = self._tracing = None
        self._measurement = self._made = self._earlier = None
        self._keep()
        made, self._by_times = self._by_times, None
        self._owner.decided(self.verdict, made if verdict.kept == TUNED else None)

    def checkpoint(self, prefix: str) -> None:
        """A checkpoint of this prefix was saved or restored."""
        with self._lock:
            self._file.beside(prefix)
            self._keep()

    def _keep(self) -> None:
        """Write what was measured, if it is known where to; a verdict only once."""
        if self.measured is None or not self._file.path:
            return
        costs = replace(self.measured, placement=self._placement)
        found = self.verdict.outcome if self.verdict is not None else None
        if found is not None:
            steps = {name: _time(seconds, found.rounds) for name, seconds in found.seconds.items()}
            costs = replace(costs, faster=found.faster, steps={**costs.steps, **steps})
        text, is_written = self._kept_in_words % self._file.path, True
        try:
            if self._file.holds(self._placement):
                self._file.write(costs)
            else:
                text, is_written = _NOT_KEPT % self._file.path, False
        except GraphmpError as error:
            text, is_written = str(error), False
        if self.verdict is not None:
            self.measured = None
            self._owner.kept(text, is_written)


def _time(seconds: float, samples: int) -> Time:
    nanoseconds = 1e9 * seconds
    return Time(nanoseconds, nanoseconds, nanoseconds, samples)
