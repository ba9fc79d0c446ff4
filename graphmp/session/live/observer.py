"""The fate of a live graph, and those who are told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from graphmp.session.live.not_finite.finite import NotFinite
from graphmp.session.tuned.verdict import Verdict


@dataclass
class Fate:
    """The fate of a graph: whether any of it ran, and whether it was or can't be converted.

    It outlives the graph.

    Attributes:
        by_hand: how it was trained by gradients that `tf.gradients` didn't compute in this process;
            empty if it wasn't.
    """

    ran: bool = False
    converted: bool = False
    by_hand: str = ""


class Observer:
    """Receives the events of a graph, a LiveGraph; this base class ignores them."""

    def converted(self, live: Any) -> None:
        """A conversion was made."""

    def left(self, graph: Any) -> None:
        """A graph isn't converted: the decorator converted it while it was built."""

    def went_on(self, live: Any, flags: Optional[Tuple[str, str]]) -> None:
        """A conversion was made of a graph that graphmp trained in another process.

        Its flags then and now are given as on a command line, those that differ; None if those of
        then aren't known.
        """

    def failed(self, error: Exception) -> bool:
        """A graph can't be converted; returns whether to train it in float32.

        Otherwise the run raises.
        """
        return False

    def trains_by_hand(self, live: Any) -> None:
        """A run trains by gradients that `tf.gradients` didn't compute; it converts nothing."""

    def begins(self, live: Any, feeds: Dict[Any, Any]) -> None:
        """A run that trains begins, with these feeds in the form of `session.run`."""

    def not_finite(self, live: Any, step: NotFinite) -> None:
        """A training run had a loss or a gradient that is not finite."""

    def tuned(self, live: Any, verdict: Verdict) -> None:
        """The tuning of a graph is over."""

    def kept(self, text: str, is_written: bool) -> None:
        """The measurements of a tuning were written to a file, or couldn't be; `text` says so."""
