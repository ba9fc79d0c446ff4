"""Training runs with a loss or gradient that is not finite, by flags fetched with each run."""

from __future__ import annotations

import threading
from typing import (
    AbstractSet,
    Any,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import ancestors, computed_by, is_half
from graphmp.loss_scale.gradients import all_finite
from graphmp.session.live.not_finite.watch import WATCH_SCOPE, Overflow, Watch
from graphmp.session.live.run_key import RunKey
from graphmp.tf_hooks.internals import outside


class WatchedLoss(NamedTuple):
    """A loss, and the tensors of a live graph that tell whether its step is finite.

    Attributes:
        name: the loss's name, or several.
        kind: of its loss scale: "dynamic", "fixed" or "none".
        flags: scalar bools by which a dynamic scale skips; empty for another scale.
        gradients: the unscaled gradients, if there are no flags.
        values: the loss itself, maybe in several parts.
        scale: the factor of this step's loss; None without a scale.
        floor: the minimum of a dynamic scale.
        backoff: the factor of the scale in a skipped step.
        audited: whether an audit looks at its gradients.
        behind: values that the loss is computed of, where it isn't computed itself.
        half: the compute dtype.
        stands: whether the global step stands still in a skipped step.
    """

    name: str
    kind: str
    flags: Sequence[Any]
    gradients: Sequence[Any]
    values: Sequence[Any]
    scale: Optional[Any]
    floor: float
    backoff: float
    audited: bool = True
    behind: Sequence[Any] = ()
    half: str = "float16"
    stands: bool = False

    def computed(self, ops: AbstractSet[Any], fed: AbstractSet[str]) -> WatchedLoss:
        """The parts of this loss that some ops compute, or that are fed, given their names."""
        flags, gradients, values = (
            tuple(t for t in part if t.op in ops or t.name in fed)
            for part in (self.flags, self.gradients, self.values)
        )
        behind = () if values else computed_by(ops, self.values)
        return self._replace(flags=flags, gradients=gradients, values=values, behind=behind)

    def parts(self) -> Sequence[Sequence[Any]]:
        """Its tensors."""
        return self.flags, self.gradients, self.values, self.behind


class NotFinite(NamedTuple):
    """A training run with a loss or a gradient that is not finite.

    Attributes:
        step: the number of the training step, from 1; of a run that only adds gradients up, that of
            the step that is to apply them.
        loss: the loss's name.
        kind: of its loss scale; only "dynamic" skipped the step.
        in_a_row: the number of consecutive steps of this loss, up to this one, that were not
            finite.
        first: whether it is the first of this loss.
        of_loss: whether the loss itself is not finite, or what it is computed of.
        scale: the factor of the loss; 1 without a loss scale.
        lowered: a dynamic scale after this step.
        floor: the minimum of a dynamic scale.
        hopeless: whether no lower scale would help: one of the consecutive steps was at the floor,
            or its loss was not finite.
        turned: whether that is known since this step.
        overflow: the first op that wasn't finite; None if nothing was examined, or if it can't be
            seen.
        audited: whether an audit looks at the loss's gradients.
        computed: whether the step computed the loss itself.
        applied: whether the gradients are finite all the same: nothing skips the step.
        adds: whether the run only adds gradients up.
        in_runs: whether some runs only add gradients up, so that a step may take several.
        half: the compute dtype.
        stands: whether the global step stands still in a skipped step.
    """

    step: int
    loss: str
    kind: str
    in_a_row: int
    first: bool
    of_loss: bool
    scale: float
    lowered: float
    floor: float
    hopeless: bool
    turned: bool
    overflow: Optional[Overflow]
    audited: bool = True
    computed: bool = True
    applied: bool = False
    adds: bool = False
    in_runs: bool = False
    half: str = "float16"
    stands: bool = False


class _Looked(NamedTuple):
    """Tensors fetched with a training run.

    A vector for each of some losses, by number, and the ranges of all tensors.
    """

    losses: Dict[int, WatchedLoss]
    watch: Optional[Watch]
    fetches: List[Any]


class _Streak:
    """Consecutive steps of one loss that are not finite."""

    def __init__(self) -> None:
        self.length = 0
        self.ever = self.hopeless = False

    def end(self) -> None:
        self.length, self.hopeless = 0, False


class FiniteWatch:
    """The steps of a live graph that are not finite."""

    def __init__(self, losses: Sequence[WatchedLoss], originals: Mapping[str, str], debug: bool):
        """Nothing is added to the graph yet.

        Args:
            losses: the losses to watch.
            originals: the original's name for each clone's.
            debug: whether to examine all tensors in every training run.
        """
        self._losses = losses
        self._originals = originals
        self._debug = debug
        self._lock = threading.Lock()
        self._looked: Dict[RunKey, _Looked] = {}
        self._vectors: Dict[Tuple[Any, ...], Any] = {}  # by a loss's number, and its computed parts
        # of each loss: of steps whose gradients aren't finite, and of those with finite ones
        self._streaks = [(_Streak(), _Streak()) for _ in losses]

    def fetches(self, ran: RunKey) -> List[Any]:
        """Tensors to fetch with a run that trains: only those that it computes anyway."""
        if ran not in self._looked:
            with self._lock:  # the script may train in several threads
                self._looked[ran] = self._look(ancestors(ran.ops, fed=ran.fed), ran.fed)
        return self._looked[ran].fetches

    def _look(self, behind: AbstractSet[Any], fed: AbstractSet[str]) -> _Looked:
        """Tensors to fetch when these ops run."""
        parts = {number: loss.computed(behind, fed) for number, loss in enumerate(self._losses)}
        parts = {number: loss for number, loss in parts.items() if loss.flags or loss.gradients}
        found = [self._vector(number, loss) for number, loss in parts.items()]
        updates = any(loss.kind != "dynamic" for loss in parts.values())
        watch = (
            Watch([vector.op for vector in found], self._originals, updates, fed)
            if self._debug and found
            else None
        )
        return _Looked(parts, watch, found + (watch.fetches if watch else []))

    def _vector(self, number: int, loss: WatchedLoss) -> Any:
        key = (number, *(tensor.name for part in loss.parts() for tensor in part))
        if key not in self._vectors:
            self._vectors[key] = _vector(loss)
        return self._vectors[key]

    def number(self, ran: RunKey) -> int:
        """The number of losses that are watched in a run."""
        return len(self._looked[ran].losses)

    def seen(self, ran: RunKey, values: Sequence[Any], step: int) -> List[NotFinite]:
        """The losses that were not finite in a run, given the values of `fetches`."""
        losses, watch, _ = self._looked[ran]
        found = []
        for number, (finite, of_loss, scale) in zip(losses, values):
            for applied, streak in enumerate(self._streaks[number]):
                if (finite and of_loss) or applied != bool(finite):
                    streak.end()
            if finite and of_loss:
                continue
            overflow = watch.first((values[-3], values[-2], values[-1])) if watch else None
            row = self._not_finite(number, bool(finite), not of_loss, float(scale), overflow)
            found.append(row._replace(step=step, computed=bool(losses[number].values)))
        return found

    def _not_finite(
        self,
        number: int,
        applied: bool,
        of_loss: bool,
        scale: float,
        overflow: Optional[Overflow],
    ) -> NotFinite:
        loss, streak = self._losses[number], self._streaks[number][applied]
        first, streak.ever = not streak.ever, True
        streak.length += 1
        hopeless, known = of_loss or scale <= loss.floor, streak.hopeless
        streak.hopeless |= hopeless
        lowered = max(scale * loss.backoff, loss.floor)
        return NotFinite(
            0,
            loss.name,
            loss.kind,
            streak.length,
            first,
            of_loss,
            scale,
            lowered,
            loss.floor,
            streak.hopeless,
            hopeless and not known,
            overflow,
            loss.audited,
            applied=applied,
            half=loss.half,
            stands=loss.stands,
        )


def _vector(loss: WatchedLoss) -> Any:
    """Three float32 numbers for a loss in a step.

    Whether the gradients are finite, whether the loss is, and its scale.
    """
    with outside((loss.flags or loss.gradients)[0].graph), own_scope(WATCH_SCOPE):
        flags = loss.flags or [_finite(loss.gradients)]
        finite = tf.reduce_all(tf.stack(flags)) if len(flags) > 1 else flags[0]
        parts = [finite, _of_loss(loss, finite)]
        parts.append(loss.scale if loss.scale is not None else tf.constant(1.0))
        return tf.stack([tf.cast(part, tf.float32) for part in parts], name="finite")


def _of_loss(loss: WatchedLoss, finite: Any) -> Any:
    """Whether the loss is finite, given whether its gradients are.

    What it is computed of doesn't count where they are: the loss may ignore some of these values.
    """
    if loss.values:
        return _finite(loss.values)
    return tf.logical_or(finite, _finite(loss.behind)) if loss.behind else tf.constant(True)


def _finite(tensors: Sequence[Any]) -> Any:
    """Whether tensors are finite."""
    return all_finite([_tested(tensor) for tensor in tensors], WATCH_SCOPE)


def _tested(tensor: Any) -> Any:
    """The tensor to test in place of a tensor.

    In float32: 1.15.5 has no IsFinite for bfloat16 on the CPU. Behind a Print it's the absolute
    value: 1.15's optimizer would move the test ahead of the Print, which then runs twice.
    """
    if is_half(tensor.dtype):
        return tf.cast(tensor, tf.float32)
    return tf.abs(tensor) if tensor.op.op_def.is_stateful else tensor
