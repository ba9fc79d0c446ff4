"""Finding the nodes that must stay float32: a small set of them with which a conversion passes.

Nodes are in an order, those of a scope together. Keeping all of them passes, keeping none doesn't;
so there is a shortest prefix that does, found by bisection, and its last node is guilty. It is kept
for good, the nodes after it aren't needed, and the search continues among those before it. Guilty
nodes often stand close together: each is looked for first as near as the one before it was found.
With g guilty among n nodes that takes at most g * (log2(n) + 2) + 2 runs, with the logarithm
rounded up: far fewer if a guess is right, since n is then the number of nodes guessed. Where small
errors add up, most nodes are guilty. After MOST_RUNS the search ends with the prefix it has.
"""

from __future__ import annotations

from typing import Callable, FrozenSet, List, NamedTuple, Optional, Sequence

Test = Callable[[FrozenSet[str]], bool]

MOST_RUNS = 100


class SearchResult(NamedTuple):
    """The result of a search.

    Attributes:
        kept: the nodes to keep in float32; None if keeping all of them doesn't help.
        runs: the number of sets tried.
        cut: whether the search ended early, so that fewer nodes may do.
    """

    kept: Optional[List[str]]
    runs: int
    cut: bool = False


class Search:
    """One search; counts its runs."""

    def __init__(self, passes: Test, most: int = MOST_RUNS):
        """`passes` tells whether a conversion that keeps a set of nodes passes.

        It is called once for each set. No node is looked for after `most` runs.
        """
        self._passes = passes
        self._most = most
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
        near = len(suspects)
        end = self._shortest(kept, suspects, near)
        while end and self.runs < self._most:
            near = len(suspects) - end + 1
            kept.append(suspects[end - 1])
            suspects = suspects[: end - 1]
            end = self._shortest(kept, suspects, near)
        return SearchResult(kept + suspects[:end], self.runs, cut=end > 0)

    def _shortest(self, kept: List[str], suspects: List[str], near: int) -> int:
        """The number of suspects, from the first on, to keep together with `kept`.

        The first try leaves out the last `near` of them, or half if that is fewer, and the second
        one all, unless the first one failed.
        """
        fails, passes = -1, len(suspects)
        middle = max(passes // 2, passes - near)
        while passes - fails > 1:
            if self._tried(kept + suspects[:middle]):
                passes = middle
            else:
                fails = middle
            middle = (fails + passes) // 2 if fails >= 0 else 0
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
