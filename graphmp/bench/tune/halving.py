"""Deciding on regions of a conversion by timed steps, where predictions of operations don't tell.

Each question converts the graph with a further region in float32, and times whole steps of it in
turns with float32 and with the fastest conversion so far. A question has few rounds: what the
answers led to is timed once more at the end, against float32 and the conversion that the search
began with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Dict, FrozenSet, Mapping, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.bench.timing import schedule
from graphmp.bench.tune.regions import HalfPart, narrowed
from graphmp.graph.structure.view import GraphView
from graphmp.timings import Rounds, fastest, speedup
from graphmp.tuning.costs import BYTES, FLOAT32, REGIONS, TUNED, Costs

DIFFERS = 0.1  # of a speed-up: a prediction further from the timed steps isn't relied on
_HOPELESS = 0.5  # times as fast as float32
_QUESTION = (2.0, 40.0)  # seconds: at least; in times a step of all three
_LAST = 1 / 3  # of the search's time, for the last comparison
_SO_FAR = "so far"
Convert = Callable[[Costs], tf.MetaGraphDef]
Timed = Callable[[Mapping[str, tf.MetaGraphDef], float], Dict[str, Rounds]]


class Halving:
    """A search.

    Attributes:
        base: the placement that it starts from, BYTES or TUNED.
        nodes: those that are better in float32.
        rounds: seconds of steps by turns, by FLOAT32, REGIONS and `base`, or by the first two
            until the last comparison; empty if `nodes` is.
    """

    def __init__(
        self,
        base: str,
        costs: Costs,
        graphs: Mapping[str, tf.MetaGraphDef],
        convert: Convert,
        timed: Timed,
    ):
        """Nothing is asked yet.

        Args:
            base: the placement.
            costs: with its digest.
            graphs: by FLOAT32 and `base`.
            convert: the graph by costs.
            timed: times steps of graphs in turns, in about so many seconds.
        """
        self.base = base
        self.nodes: FrozenSet[str] = frozenset()
        self.rounds: Dict[str, Rounds] = {}
        self._costs = replace(costs, faster=base)
        self._float32 = graphs[FLOAT32]
        self._base = self._fastest = graphs[base]
        self._all: FrozenSet[str] = frozenset()
        self._convert = convert
        self._timed = timed

    def search(self, ends: float, seconds: float) -> None:
        """Search until the time is up.

        Args:
            ends: when it is, by `schedule.now()`.
            seconds: of a float32 step.
        """
        part = HalfPart(GraphView(self._float32.graph_def), self._fastest)
        self._all = frozenset(part.names)
        least, steps = _QUESTION
        each, last = max(least, steps * seconds), 0.0
        comparing = max(each, _LAST * (ends - schedule.now()))

        def is_faster(nodes: FrozenSet[str], others: FrozenSet[str]) -> bool:
            nonlocal last
            began = schedule.now()
            answer = self._asked(nodes, each)
            last = max(last, schedule.now() - began)
            return answer

        def goes_on() -> bool:
            """Opening the graphs takes `last - each`, of a question and of the last comparison."""
            return schedule.now() + max(each, 2 * last - each) + comparing <= ends

        narrowed(part, self._times(), is_faster, goes_on)
        if self.nodes:
            graphs = {FLOAT32: self._float32, self.base: self._base, REGIONS: self._fastest}
            self.rounds = self._timed(graphs, comparing)

    def settled(self) -> Tuple[str, Tuple[str, ...]]:
        """The fastest placement, and its nodes in float32; empty if the regions weren't timed."""
        best = fastest(self.rounds) if REGIONS in self.rounds else ""
        if best != REGIONS:
            return best, ()
        if self.nodes == self._all:
            return FLOAT32, ()
        return self.base, tuple(sorted(self.nodes))

    def _asked(self, nodes: FrozenSet[str], seconds: float) -> bool:
        """Whether a step is faster with these nodes in float32; they are, from now on, if so."""
        graph = self._convert(replace(self._costs, float32_nodes=tuple(sorted(nodes))))
        graphs = {FLOAT32: self._float32, _SO_FAR: self._fastest, REGIONS: graph}
        rounds = self._timed(graphs, seconds)
        if not {_SO_FAR, REGIONS} <= set(rounds):
            return False
        if (speedup(rounds[_SO_FAR], rounds[REGIONS]).low or 0.0) <= 1.0:
            return False
        self.nodes, self._fastest = nodes, graph
        self.rounds = {name: rounds[name] for name in (FLOAT32, REGIONS) if name in rounds}
        return True

    def _times(self) -> Dict[str, float]:
        """Nanoseconds of the measured nodes in half precision."""
        found = {}
        for name, node in self._costs.nodes.items():
            if node.measurement >= 0:
                half = self._costs.measurements[node.measurement].half
                found[name] = node.runs * (half.nanoseconds if half is not None else 0.0)
        return found


def starting_point(
    rounds: Mapping[str, Rounds],
    predicted: Mapping[str, float],
    in_half: Callable[[str], bool],
) -> Optional[str]:
    """The placement whose regions are to be decided by timed steps; None if that isn't needed.

    It isn't where the faster of both placements is shown to be faster than float32, as much as was
    predicted; nor where it takes more than twice as long, as if the processor emulates it.

    Args:
        rounds: seconds of steps by turns, by FLOAT32, BYTES and TUNED.
        predicted: the speed-up of BYTES and TUNED by times of operations.
        in_half: whether a placement has anything in half precision.
    """
    ratios: Dict[str, Any] = {
        name: speedup(rounds[FLOAT32], rounds[name])
        for name in (TUNED, BYTES)
        if FLOAT32 in rounds and name in rounds and in_half(name)
    }
    if not ratios:
        return None
    best = max(ratios, key=lambda name: ratios[name].value)
    ratio = ratios[best]
    if ratio.value < _HOPELESS:
        return None
    agrees = abs(ratio.value / predicted.get(best, ratio.value) - 1.0) <= DIFFERS
    return None if agrees and (ratio.low or 0.0) > 1.0 else best
