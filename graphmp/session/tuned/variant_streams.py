"""The random streams of a live graph that is tuned, across its variants."""

from __future__ import annotations

import contextlib
from typing import AbstractSet, Any, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.session.live.state.draws import Draws
from graphmp.session.tuned.owner import Owner
from graphmp.session.tuned.streams import RandomStreams
from graphmp.session.tuned.turn import Request, nodes_of
from graphmp.tuning.costs import BYTES, FLOAT32, HALF, TUNED


class VariantStreams:
    """The random streams of a live graph's own nodes and of its conversions."""

    def __init__(self, owner: Owner, graph: Any):
        """Nothing has been drawn.

        Args:
            owner: has the conversions.
            graph: the tf.Graph.
        """
        self._owner = owner
        self._streams = RandomStreams(graph)
        self._hidden: AbstractSet[str] = frozenset()
        self._known: Tuple[Any, ...] = ()  # the clones that the streams know

    def hide(self, nodes: AbstractSet[str]) -> None:
        """Set the nodes that can't be fetched, as in loops and branches."""
        self._hidden = nodes

    def catch_up(self, session: Any, variant: str) -> None:
        """Draw what the other variants have drawn, before a variant runs in a session."""
        variants = {name: self._nodes(name).stand_ins for name in (FLOAT32, HALF, BYTES, TUNED)}
        clones = tuple(variants.values())
        if clones != self._known:
            self._known = clones
            names = {name: stand_ins.names for name, stand_ins in variants.items()}
            self._streams.set_variants(names, self._hidden)
        self._streams.catch_up(session, variant)

    def draws(self, request: Request, variant: str) -> Draws:
        """The random numbers that a run by a variant that has caught up draws."""
        nodes = self._nodes(variant)
        runs = tuple(map(nodes.stand_ins.op, request.ops))
        feeds = {
            each.name: value
            for tensor, value in request.feeds
            for each in [tensor, *nodes.feeding([tensor], (), ()).tensors]
        }
        return self._streams.draws(variant, runs, feeds)

    def drew(self, session: Any, variant: str, draws: Draws, values: Sequence[Any]) -> None:
        """A run has drawn random numbers, with the values of `draws.fetches`."""
        self._streams.drew(session, variant, draws, values)

    def end(self, variant: str) -> None:
        """Draw in each session what the other variants have drawn: only this one runs now."""
        for session in self._streams.sessions():
            with contextlib.suppress(RuntimeError, tf.errors.OpError):  # the session is closed
                self._streams.catch_up(session, variant)

    def _nodes(self, variant: str) -> Any:
        return nodes_of(self._owner.variants.get(variant))
