"""What computes a run of a live graph: its own nodes, or the clones of a conversion."""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.live.nodes import LiveNodes, unconverted

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


class Turn:
    """What computes a run, and what is fetched with it.

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


def nodes_of(conversion: Optional[LiveConversion]) -> LiveNodes:
    """The nodes that run: those of a conversion, or the graph's own."""
    return _UNCONVERTED if conversion is None else conversion.nodes
