"""Which nodes of an original run together: by the final nodes behind them, which programs run."""

from __future__ import annotations

import functools
from typing import AbstractSet, FrozenSet

from graphmp.policy.op_sets import READS
from graphmp.verify.sides import Sides


class Ends:
    """The final nodes of one body of the original."""

    def __init__(self, sides: Sides):
        self._view = sides.before.view
        self.of = functools.lru_cache(maxsize=None)(self._of)

    def runs_with(self, name: str, other: str) -> bool:
        """Whether a node is only run by what runs another one, too."""
        ends = self.of(name)
        return bool(ends) and ends <= self.of(other)

    def only_with(self, names: AbstractSet[str]) -> AbstractSet[str]:
        """The nodes that are only run by what runs one of some nodes, too."""
        every = self._view.nodes.keys()
        behind = self._view.descendants(names & every)
        apart = {name for name in every - behind - names if self._is_last(name)}
        return every - apart - self._view.ancestors(apart)

    def _of(self, name: str) -> FrozenSet[str]:
        """The final nodes behind a node, without reads after writes."""
        behind = self._view.descendants([name]) if name in self._view.nodes else ()
        return frozenset(each for each in behind if self._is_last(each))

    def _is_last(self, name: str) -> bool:
        return (
            self._view.nodes[name].op not in READS
            and not self._view.consumers(name)
            and not self._view.control_consumers(name)
        )
