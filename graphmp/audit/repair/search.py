"""Finding the nodes that must stay float32: a small set of them with which a conversion passes.

Nodes are in an order, those of a scope together. Keeping all of them passes, keeping none doesn't;
so there is a shortest prefix that does, found by bisection, and its last node is guilty. It is kept
for good, the nodes after it aren't needed, and the search continues among those before it. With g
guilty among n nodes that takes at most g * (log2(n) + 1) + 2 runs, with the logarithm rounded up:
far fewer if a guess is right, since n is then the number of nodes guessed.
"""

from __future__ import annotations

from typing import Callable, FrozenSet, List, NamedTuple, Optional, Sequence

Test = Callable[[FrozenSet[str]], bool]


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        kept: the nodes to keep in float32; None if keeping all of them doesn't help.
        runs: the number of sets tried.
    """

    kept: Optional[List[str]]
    runs: int


class Search:
    """One search; counts its runs."""

    def __init__(self, passes: Test):
        """`passes` tells whether a conversion that keeps a set of nodes passes.

        It is called once for each set.
        """
        self._passes = passes
        self._known = {frozenset(): False}  # type: dict[FrozenSet[str], bool]
        self.runs = 0

    def smallest(self, nodes: Sequence[str], guess: Sequence[str] = ()) -> SearchResult:
        """A small set of nodes that passes; keeping none is known not to.

        Args:
            nodes: all candidates, in order.
            guess: the suspects, in order.
        """
        suspects = list(guess) if guess and self._tried(guess) else list(nodes)
        if not self._tried(suspects):
            return SearchResult(None, self.runs)
        kept: List[str] = []
        while not self._tried(kept):
            end = self._shortest(kept, suspects)
            kept.append(suspects[end - 1])
            suspects = suspects[: end - 1]
        return SearchResult(kept, self.runs)

    def _shortest(self, kept: List[str], suspects: List[str]) -> int:
        """The number of suspects, from the first on, to keep together with `kept`."""
        fails, passes = 0, len(suspects)
        while passes - fails > 1:
            middle = (fails + passes) // 2
            if self._tried(kept + suspects[:middle]):
                passes = middle
            else:
                fails = middle
        return passes

    def _tried(self, nodes: Sequence[str]) -> bool:
        key = frozenset(nodes)
        if key not in self._known:
            self.runs += 1
            self._known[key] = self._passes(key)
        return self._known[key]


def by_scope(nodes: Sequence[str]) -> List[str]:
    """Nodes in order, with those of a scope next to its first one."""
    place: dict = {}
    for number, name in enumerate(nodes):
        parts = name.split("/")
        for depth in range(1, len(parts) + 1):
            place.setdefault("/".join(parts[:depth]), number)

    def key(name: str) -> List[int]:
        parts = name.split("/")
        return [place["/".join(parts[:depth])] for depth in range(1, len(parts) + 1)]

    return sorted(nodes, key=key)
