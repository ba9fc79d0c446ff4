"""The tuning of one live graph: its training steps by turns in float32 and in half precision.

Float32 is the graph's own nodes (a conversion to float32 where gradients are to be clipped), half
precision the clones. They share all variables, so that every step counts, whatever computes it. The
loss scale rests while float32 trains. Runs that don't train, and partial runs, use the clones.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import (
    Any,
    Callable,
    FrozenSet,
    Hashable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.view import GraphView
from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.live.nodes import unconverted
from graphmp.session.tuned.shared_shapes import SharedShapes
from graphmp.session.tuned.streams import Draws, RandomStreams, Replay
from graphmp.session.tuned.turns import FEWEST_STEPS, MOST_STEPS, Turns
from graphmp.session.tuned.verdict import FLOAT32, HALF, Verdict, in_words

Clock = Callable[[], float]
_UNCONVERTED = unconverted()
_THREADS = "several threads train at the same time, whose steps can't be timed"
_SERVER = "the session runs on a server, %s"
_DEBUG = "--debug_overflow examines all tensors of each step, which takes longer than the step"
_MEMORY = "a step in float32 ran out of memory (one batch may be lost); it was repeated"
_SHAPES = (
    "%d training steps fetched or fed %d different things or shapes, too few alike in both types"
)
_FLOAT32 = "--compute_dtype=float32 leaves nothing to choose"
_SKIPPED = "of %d training steps too many were skipped: %d turns had such steps"
_MANY_SKIPS = 5


class Request(NamedTuple):
    """A run that a session is asked for.

    Attributes:
        session: the session.
        ops: the original's ops to run, or to fetch from.
        feeds: the original's tensors that are fed, with values.
        trains: whether it trains.
        timed: whether no tracer slows it down.
    """

    session: Any
    ops: Tuple[Any, ...]
    feeds: Sequence[Tuple[Any, Any]]
    trains: bool
    timed: bool


class Owner:
    """A live graph, as its tuning sees it.

    Attributes:
        converted: the conversion that runs; None for the graph's own nodes.
        debug: whether each run that trains is examined.
    """

    converted: Optional[LiveConversion]
    debug: bool

    def scale_state(self, session: Any) -> Tuple[int, List[float]]:
        """The number of skipped steps, and each dynamic loss scale, as a session has them now."""
        raise NotImplementedError

    def decided(self, verdict: Verdict) -> None:
        """The tuning is over."""
        raise NotImplementedError


class Turn:
    """What computes a run, and what is fetched with it.

    Attributes:
        conversion: the conversion whose clones run; None for the graph's own nodes.
        nodes: the graph's nodes, with those clones.
        extra: tensors to fetch besides.
    """

    def __init__(self, conversion: Optional[LiveConversion]):
        self.conversion = conversion
        self.nodes = _UNCONVERTED if conversion is None else conversion.nodes
        self.extra: List[Any] = []

    def watched(self, ops: Tuple[Any, ...]) -> List[Any]:
        """Tensors to fetch with ops that train, to check whether the step is finite."""
        watch = self.conversion.watch if self.conversion is not None else None
        return watch.fetches(ops) if watch is not None else []

    def timed(self, run: Callable[[], Any]) -> Any:
        """The results of TensorFlow's run."""
        return run()

    def ends(self, values: Sequence[Any]) -> None:
        """The run has ended, with the values of `extra`."""

    def fails(self, error: BaseException) -> Optional[Turn]:
        """The run raised an error; returns the turn in which to repeat it, if any."""
        return None


class _Drawing(Turn):
    """A run while its graph is being tuned, whose random numbers the other variant will draw."""

    def __init__(
        self,
        tuning: Tuning,
        request: Request,
        variant: str,
        conversion: Optional[LiveConversion],
    ):
        super().__init__(conversion)
        self.variant = variant
        self._tuning, self._request = tuning, request
        self._draws = tuning.draws(request, variant, conversion)
        self.extra = list(self._draws.fetches)

    def ends(self, values: Sequence[Any]) -> None:
        self._tuning.drew(self._request.session, self.variant, self._draws, values)


class _Timed(_Drawing):
    """A training step that is timed."""

    def __init__(
        self,
        tuning: Tuning,
        request: Request,
        variant: str,
        conversion: Optional[LiveConversion],
    ):
        super().__init__(tuning, request, variant, conversion)
        self._of_draws = len(self.extra)
        self.extra += tuning.shapes(request)
        self._seconds = 0.0

    def timed(self, run: Callable[[], Any]) -> Any:
        began = self._tuning.now()
        results = run()
        self._seconds = self._tuning.now() - began
        return results

    def ends(self, values: Sequence[Any]) -> None:
        super().ends(values[: self._of_draws])
        self._tuning.stepped(self._request, self._seconds, values[self._of_draws :])

    def fails(self, error: BaseException) -> Optional[Turn]:
        return self._tuning.failed(error, self.variant)


class Tuning:
    """The tuning of a live graph.

    Attributes:
        now: a clock, in seconds.
        float32: the conversion that computes in float32; None for the graph's own nodes.
        verdict: the result; None until there is one.
    """

    def __init__(self, owner: Owner, replay: Replay, now: Clock = time.perf_counter):
        """Nothing has been converted yet.

        Args:
            owner: the graph that is tuned.
            replay: runs ops of a session as they are, with feeds.
            now: a clock, in seconds.
        """
        self.now = now
        self.float32: Optional[LiveConversion] = None
        self.verdict: Optional[Verdict] = None
        self._owner = owner
        self._replay = replay
        self._turns: Optional[Turns] = None
        self._streams: Optional[RandomStreams] = None
        self._shapes: Optional[SharedShapes] = None
        self._clones: Mapping[str, str] = {}  # those that the streams know
        self._hidden: FrozenSet[str] = frozenset()
        self._spent = self._forgotten = self._skipped = 0
        self._lock = threading.RLock()
        self._stepping = False

    @property
    def current(self) -> str:
        """The variant of the next training step."""
        return HALF if self._turns is None else self._turns.current

    @property
    def steps(self) -> int:
        """Training steps spent so far."""
        return self._spent + (self._turns.steps if self._turns is not None else 0)

    def in_words(self, compute_dtype: str) -> str:
        """The state of the tuning in a line; `compute_dtype` is the half precision."""
        if self.verdict is None:
            text = "not tuned: it ended after %d training steps, and tuning takes at least %d"
            return text % (self.steps, FEWEST_STEPS)
        return in_words(self.verdict, compute_dtype)

    def begin(
        self,
        graph: Any,
        config: Config,
        half: LiveConversion,
        float32: Optional[LiveConversion],
    ) -> None:
        """Begin, or begin again after the graph got new training code.

        Args:
            graph: the tf.Graph.
            config: the options of the conversion.
            half: its conversion.
            float32: the conversion that computes in float32, if it isn't the graph itself.
        """
        if config.compute_dtype == "float32":
            self._decide(Verdict(HALF, None, _FLOAT32))
            return
        self._spent, self.float32 = self.steps, float32
        view = GraphView(graph.as_graph_def())
        looped = {name for name, depth in loop_depths(view).items() if depth}
        self._hidden = frozenset(conditional(view) | looped)
        self._turns = Turns((FLOAT32, HALF), MOST_STEPS - self._spent)
        self._streams = self._streams or RandomStreams(graph)
        self._clones = {}
        names = half.nodes.stand_ins.names
        self._shapes = SharedShapes(graph, names.values(), half.nodes.added, self._hidden)

    def turn(self, request: Request, half: LiveConversion) -> Turn:
        """The turn of a run, before it begins.

        Args:
            request: the run.
            half: the graph's conversion.
        """
        with self._lock:
            reason = self._hindrance(request)
            if reason:
                self._decide(Verdict(HALF, None, reason))
            if self.verdict is not None:
                return Turn(self._owner.converted)
            assert self._turns is not None and self._streams is not None  # there is a conversion
            self._know(half)
            variant = self._turns.current if request.trains else HALF
            self._streams.catch_up(request.session, variant, self._replay)
            conversion = half if variant == HALF else self.float32
            if not request.trains:
                return _Drawing(self, request, variant, conversion)
            self._stepping = True
            return _Timed(self, request, variant, conversion)

    def _hindrance(self, request: Request) -> str:
        """Why steps can't be timed; empty if they can."""
        if self._owner.debug:
            return _DEBUG
        if request.trains and request.session.sess_str:
            return _SERVER % tf.compat.as_str_any(request.session.sess_str)
        return _THREADS if request.trains and self._stepping else ""

    def _know(self, half: LiveConversion) -> None:
        """Tell the streams of clones that are new to them."""
        clones = half.nodes.stand_ins.names
        if clones is not self._clones and self._streams is not None:
            self._clones = clones
            own = self.float32.nodes.stand_ins.names if self.float32 is not None else {}
            self._streams.set_variants({FLOAT32: own, HALF: clones}, self._hidden)

    def draws(self, request: Request, variant: str, conversion: Optional[LiveConversion]) -> Draws:
        """The random numbers that a run draws."""
        assert self._streams is not None  # there is a conversion
        nodes = _UNCONVERTED if conversion is None else conversion.nodes
        fed = frozenset(
            op for tensor, _ in request.feeds for op in (tensor.op, nodes.stand_ins.op(tensor.op))
        )
        return self._streams.draws(variant, tuple(map(nodes.stand_ins.op, request.ops)), fed)

    def drew(self, session: Any, variant: str, draws: Draws, values: Sequence[Any]) -> None:
        """A run has drawn random numbers, with the values of `draws.fetches`."""
        with self._lock:
            if self._streams is not None:
                self._streams.drew(session, variant, draws, values)

    def shapes(self, request: Request) -> List[Any]:
        """The shapes to fetch with a run."""
        assert self._shapes is not None  # there is a conversion
        return self._shapes.of(request.ops, frozenset(tensor.op for tensor, _ in request.feeds))

    def stepped(self, request: Request, seconds: float, shapes: Sequence[Any]) -> None:
        """A training step has ended.

        Args:
            request: the run.
            seconds: its time.
            shapes: the values of `shapes`.
        """
        with self._lock:
            self._stepping = False
            if self.verdict is not None or self._turns is None:
                return
            self._turns.saw(_kind(request, shapes), seconds, request.timed)
            if self._turns.turn_is_over and not self._skips(request.session):
                self._turns.go_on()
            self._conclude()

    def _skips(self, session: Any) -> bool:
        """Whether a loss scale skipped steps of the current turn; they then don't count."""
        assert self._turns is not None  # there was a step
        if self._turns.current != HALF:
            return False
        before, self._skipped = self._skipped, self._owner.scale_state(session)[0]
        if self._skipped == before:
            return False
        self._turns.forget()
        self._forgotten += 1
        return True

    def _conclude(self) -> None:
        assert self._turns is not None  # there was a step
        outcome = self._turns.outcome()
        if outcome is not None:
            self._decide(Verdict(outcome.faster, outcome._replace(steps=self.steps)))
        elif self._turns.given_up:
            reason = (
                _SKIPPED % (self.steps, self._forgotten)
                if self._forgotten >= _MANY_SKIPS
                else _SHAPES % (self.steps, len(self._turns.kinds))
            )
            self._decide(Verdict(HALF, None, reason))

    def failed(self, error: BaseException, variant: str) -> Optional[Turn]:
        """A training step raised an error; returns the turn in which to repeat it, if any."""
        with self._lock:
            self._stepping = False
            if variant == HALF or not isinstance(error, tf.errors.ResourceExhaustedError):
                return None
            self._decide(Verdict(HALF, None, _MEMORY))
            return Turn(self._owner.converted)

    def _decide(self, verdict: Verdict) -> None:
        """Keep a variant, with its random streams where the other variant's are."""
        if self.verdict is not None:
            return
        for session in self._streams.sessions() if self._streams is not None else ():
            with contextlib.suppress(RuntimeError, tf.errors.OpError):  # the session is closed
                assert self._streams is not None  # it has sessions
                self._streams.catch_up(session, verdict.kept, self._replay)
        self._spent, self.verdict = self.steps, verdict
        self._streams = self._shapes = self._turns = None
        self._owner.decided(verdict)


def _kind(request: Request, shapes: Sequence[Any]) -> Hashable:
    """What makes two runs equal: their session, fetches, and the shapes of what they are fed."""
    return (
        id(request.session),
        tuple(sorted(op.name for op in request.ops)),
        tuple(sorted((tensor.name, np.shape(value)) for tensor, value in request.feeds)),
        tuple(tuple(np.asarray(shape).tolist()) for shape in shapes),
    )
