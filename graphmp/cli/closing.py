"""The closing lines of `graphmp run`: what each graph of a process was trained to."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List

import tensorflow.compat.v1 as tf

from graphmp.session.live.live_graph import LiveGraph, known_live_graph
from graphmp.session.live.not_finite.finite import NotFinite
from graphmp.session.live.not_finite.words import Words
from graphmp.wording import plural


class Closing:
    """Listens to the sessions of a process, and says at its end what they trained.

    Attributes:
        had_sessions: whether a session was used.
    """

    def __init__(self, words: Words):
        self.had_sessions = False
        self._words = words
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lines: Dict[int, str] = {}  # of each graph, by its number
        self._last: Dict[int, NotFinite] = {}  # of each graph the last step that was not finite
        self._applied: Dict[int, int] = {}  # the number of such steps that were applied
        self._left_out: Dict[int, int] = {}  # of such runs that only add gradients up

    def ran(self, session: Any, fetches: Any) -> None:
        """A session was used."""
        self._open.add(session)
        self.had_sessions = True

    def not_finite(self, live: LiveGraph, step: NotFinite) -> None:
        """A step had gradients that weren't finite."""
        if not step.applied:
            self._last[live.number] = step
        if step.kind != "dynamic":
            self._applied[live.number] = self._applied.get(live.number, 0) + 1
        elif step.adds and not step.applied:
            self._left_out[live.number] = self._left_out.get(live.number, 0) + 1

    def lines(self) -> List[str]:
        """A line for each graph that was trained, in the order of the graphs."""
        for session in list(self._open):
            self.note(session)
        return [text for _, text in sorted(self._lines.items())]

    def note(self, session: Any) -> None:
        """Read the state of the loss scale from a session, while that is possible."""
        live = known_live_graph(session.graph)
        if live is None or not live.steps:
            return
        try:
            (skipped, scales), is_known = live.scale_state(session), True
        except (tf.errors.OpError, RuntimeError):  # closed, or its server is gone
            skipped, scales, is_known = 0, [], False
        if is_known or live.number in self._applied or live.number not in self._lines:
            self._lines[live.number] = self._line(live, skipped, scales)

    def _line(self, live: LiveGraph, skipped: int, scales: List[float]) -> str:
        steps, bad = live.updates or live.steps, self._applied.get(live.number, 0)
        left_out = self._left_out.get(live.number, 0) if live.updates else 0
        is_vain = not live.has_learned and max(skipped, bad) >= steps
        vain = self._last.get(live.number) if is_vain else None
        text = "%d training step%s" % (steps, "" if steps == 1 else "s")
        if scales and vain is None:  # before a good step the scale tells nothing
            text += "; loss scale " + ", ".join("%g" % scale for scale in scales)
        text += "; %d skipped" % max(skipped - left_out, 0) if scales else ""
        if left_out and scales:
            runs = plural(live.steps - live.updates, "run")
            text += "; %d of %s that only add gradients up left out" % (left_out, runs)
        text += "; %d not finite" % bad if bad else ""
        text += ", in float32" if live.gave_up else ""
        if vain is not None:
            text += ": nothing was learned. " + self._words.cure(vain)
        return text + ("; " + live.tuning.in_words() if live.tuning is not None else "")
