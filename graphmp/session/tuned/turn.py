"""The nodes that compute a run of a live graph: its own, or the clones of a conversion."""

from __future__ import annotations

from typing import Any, Callable, Hashable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.session.live.cloning.nodes import LiveNodes, unconverted
from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.live.run_key import RunKey
from graphmp.session.live.state.draws import Draws

_UNCONVERTED = unconverted()


class Request(NamedTuple):
    """A run that a session is asked for.

    Attributes:
        session: the session.
        ops: the original's ops to run, or to fetch from.
        feeds: the original's tensors that are fed, with values.
        trains: whether it trains.
        timed: whether no tracer of the script slows it down.
    """

    session: Any
    ops: Tuple[Any, ...]
    feeds: Sequence[Tuple[Any, Any]]
    trains: bool
    timed: bool

    @property
    def batch_size(self) -> Optional[int]:
        """The first dimension of what is fed, if it is one; None for a pipeline."""
        sizes = {np.shape(value)[0] for _, value in self.feeds if np.ndim(value)}
        return int(sizes.pop()) if len(sizes) == 1 else None

    def kind(self, shapes: Sequence[Any]) -> Hashable:
        """The marks of equal runs: their session, fetches, and the shapes of their feeds.

        Args:
            shapes: those of what a pipeline gave.
        """
        return (
            id(self.session),
            tuple(sorted(op.name for op in self.ops)),
            tuple(sorted((tensor.name, np.shape(value)) for tensor, value in self.feeds)),
            tuple(tuple(np.asarray(shape).tolist()) for shape in shapes),
        )


class Turn:
    """The nodes that compute a run, and the tensors to fetch with it.

    Attributes:
        conversion: the conversion whose clones run; None for the graph's own nodes.
        nodes: the graph's nodes, with those clones.
        extra: tensors to fetch besides.
        trace: what receives TensorFlow's trace of the run; None without one.
    """

    def __init__(self, conversion: Optional[LiveConversion]):
        self.conversion = conversion
        self.nodes = nodes_of(conversion)
        self.extra: List[Any] = []
        self.trace: Optional[tf.RunMetadata] = None

    def watched(self, ran: RunKey) -> List[Any]:
        """Tensors to fetch with a run that trains, to check whether the step is finite."""
        watch = self.conversion.watch if self.conversion is not None else None
        return watch.fetches(ran) if watch is not None else []

    def timed(self, run: Callable[[], Any]) -> Any:
        """The results of TensorFlow's run."""
        return run()

    def ends(self, values: Sequence[Any]) -> None:
        """The run has ended, with the values of `extra`."""

    def fails(self, error: BaseException) -> Optional[Turn]:
        """The run raised an error; returns the turn in which to repeat it, if any."""
        return None


class DrawingTurn(Turn):
    """A run whose random numbers other variants will draw too."""

    def __init__(
        self,
        conversion: Optional[LiveConversion],
        draws: Draws,
        drew: Callable[[Sequence[Any]], None],
    ):
        super().__init__(conversion)
        self.extra = list(draws.fetches)
        self._drew = drew

    def ends(self, values: Sequence[Any]) -> None:
        self._drew(values)


class TimedTurn(DrawingTurn):
    """A training step that is timed, or traced."""

    def __init__(
        self,
        conversion: Optional[LiveConversion],
        draws: Draws,
        drew: Callable[[Sequence[Any]], None],
        shapes: Sequence[Any],
        clock: Callable[[], float],
        stepped: Callable[[float, Sequence[Any], Optional[tf.RunMetadata]], None],
        failed: Callable[[BaseException], Optional[Turn]],
    ):
        """Nothing runs yet.

        Args:
            conversion: as in `Turn`.
            draws: the random numbers that the run draws.
            drew: receives their values.
            shapes: what is fetched besides.
            clock: in seconds.
            stepped: receives the run's seconds, the values of `shapes`, and the trace.
            failed: receives an error; returns the turn in which to repeat the step, if any.
        """
        super().__init__(conversion, draws, drew)
        self._of_draws = len(self.extra)
        self.extra += shapes
        self._clock = clock
        self._seconds = 0.0
        self._stepped = stepped
        self._failed = failed

    def timed(self, run: Callable[[], Any]) -> Any:
        began = self._clock()
        results = run()
        self._seconds = self._clock() - began
        return results

    def ends(self, values: Sequence[Any]) -> None:
        super().ends(values[: self._of_draws])
        self._stepped(self._seconds, values[self._of_draws :], self.trace)

    def fails(self, error: BaseException) -> Optional[Turn]:
        return self._failed(error)


def nodes_of(conversion: Optional[LiveConversion]) -> LiveNodes:
    """The nodes that run: those of a conversion, or the graph's own."""
    return _UNCONVERTED if conversion is None else conversion.nodes
