"""Random streams that go on across switches between variants.

When a variant runs again, its generators first draw what the other variants have drawn meanwhile,
so that step n sees the numbers that it would see if one variant had trained all steps. Shared
random ops and those without seeds need nothing. Random ops inside loops and branches can't be run
by themselves: each variant goes on with its own stream there.
"""

from __future__ import annotations

import collections
import weakref
from typing import AbstractSet, Any, Dict, List, Mapping, Sequence, Set, Tuple

import numpy as np

from graphmp.session.live.state.draws import NO_DRAWS, Draws, Inputs, draw, draws_alone, draws_of


class _Drawn:
    """The random numbers drawn in a session.

    Attributes:
        history: for each run the inputs of each random op, by the original's name; None for a
            constant.
        reached: for each node the number of these runs that its generator has drawn for.
    """

    def __init__(self) -> None:
        self.history: List[Inputs] = []
        self.reached: Dict[str, int] = collections.defaultdict(int)


class RandomStreams:
    """The generators of a graph's variants."""

    def __init__(self, graph: Any):
        """There are no variants yet, and nothing has been drawn."""
        self._graph = graph
        self._nodes: Dict[str, Dict[str, str]] = {}  # by variant and original name
        self._draws: Dict[Tuple[Any, ...], Draws] = {}
        self._drawn: weakref.WeakKeyDictionary[Any, _Drawn] = weakref.WeakKeyDictionary()

    def set_variants(
        self, variants: Mapping[str, Mapping[str, str]], hidden: AbstractSet[str]
    ) -> None:
        """Tell which nodes belong together.

        Args:
            variants: for each variant the original name to the clone's.
            hidden: nodes that can't be fetched, as in loops and branches.
        """
        names = _with_several(self._graph, list(variants.values()), hidden)
        self._nodes = {
            variant: {name: clones.get(name, name) for name in names}
            for variant, clones in variants.items()
        }
        self._draws = {}

    def draws(self, variant: str, ops: Tuple[Any, ...], feeds: Mapping[str, Any]) -> Draws:
        """The random ops that a run computes.

        Args:
            variant: the variant that runs.
            ops: what it runs.
            feeds: the values that are fed, by the names of the variant's tensors.
        """
        if not self._nodes[variant]:
            return NO_DRAWS
        key = (variant, ops, frozenset(feeds))
        if key not in self._draws:
            self._draws[key] = self._found(variant, ops, feeds)
        found = self._draws[key]
        # copies: the script may write its next batch to the same array
        return found._replace(feeds={name: np.array(feeds[name]) for name in found.feeds})

    def _found(self, variant: str, ops: Tuple[Any, ...], feeds: Mapping[str, Any]) -> Draws:
        def nodes(computed: AbstractSet[str]) -> Dict[str, str]:
            both = self._nodes[variant].items()
            return {name: node for name, node in both if node in computed}

        return draws_of(self._graph, ops, feeds, nodes)

    def drew(self, session: Any, variant: str, draws: Draws, values: Sequence[Any]) -> None:
        """Note a run; the variant had caught up before.

        Args:
            session: the session.
            variant: the variant that ran.
            draws: what it drew.
            values: of `draws.fetches`.
        """
        if not draws.names:
            return
        drawn = self._drawn.setdefault(session, _Drawn())
        drawn.history.append(draws.noted(values))
        self._set_reached(drawn, variant)

    def catch_up(self, session: Any, variant: str) -> None:
        """Let a variant's generators draw what the others drew since it ran."""
        drawn = self._drawn.get(session)
        if drawn is None:
            return
        nodes = self._nodes[variant]
        first = min((drawn.reached[node] for node in nodes.values()), default=len(drawn.history))
        for number, inputs in enumerate(drawn.history[first:], first):
            behind = {name: nodes[name] for name in inputs if drawn.reached[nodes[name]] <= number}
            draw(session, inputs, behind)
        self._set_reached(drawn, variant)

    def _set_reached(self, drawn: _Drawn, variant: str) -> None:
        drawn.reached.update({node: len(drawn.history) for node in self._nodes[variant].values()})

    def sessions(self) -> List[Any]:
        """The sessions in which something was drawn."""
        return list(self._drawn)


def _with_several(
    graph: Any, variants: List[Mapping[str, str]], hidden: AbstractSet[str]
) -> List[str]:
    """Names of the seeded random ops that some variants have clones of."""
    found: Dict[str, Set[str]] = collections.defaultdict(set)
    for names in variants:
        for name in names:
            found[name].update(each.get(name, name) for each in variants)
    return [
        name
        for name, nodes in found.items()
        if len(nodes) > 1
        and hidden.isdisjoint(nodes)
        and all(draws_alone(graph, node) for node in nodes)
    ]
