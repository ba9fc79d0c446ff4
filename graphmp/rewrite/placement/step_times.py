"""The time of a step by the dtypes of its nodes.

Nodes that the measured step didn't run, such as those of an evaluation, aren't counted in it.
"""

from __future__ import annotations

import collections
from typing import AbstractSet, Callable, Dict, List, Tuple

from graphmp.graph.structure.view import Port
from graphmp.rewrite.painting.groups import Groups
from graphmp.rewrite.painting.paint import HALF, Paint
from graphmp.rewrite.placement.node_times import NodeTimes
from graphmp.rewrite.units import TypedGraph
from graphmp.tuning import prediction as predictions

_Tensor = Tuple[Port, int, List[int]]  # its port, its unit, the units that read it


class StepTimes:
    """The time of a step by the dtypes of its nodes."""

    def __init__(self, graph: TypedGraph, groups: Groups, times: NodeTimes):
        self.graph = graph
        self.groups = groups
        self.times = times
        self._tensors = [
            (port, producer, [graph.reader(consumer) for consumer in consumers])
            for port, producer, consumers in graph.float32_tensors()
            if graph.view.nodes[port.node].op != "Const"
        ]
        self._in_step = [
            (port, producer, [unit for unit in readers if unit < 0 or self._runs(unit)])
            for port, producer, readers in self._tensors
            if times.in_step(port.node)
        ]
        self._near: Dict[int, List[int]] = collections.defaultdict(list)
        for number, (_, producer, readers) in enumerate(self._tensors):
            for unit in {producer, *readers}:
                if unit >= 0:
                    self._near[groups.of[unit]].append(number)

    def cost(self, placed: List[Paint]) -> float:
        """Nanoseconds of a step above those in float32."""
        half = {number for number, p in enumerate(placed) if p.colour == HALF}
        nodes = (self._main(number) for number in half if self._runs(number))
        total = sum(time.half - time.float32 for time in nodes)
        return total + sum(self._cast(tensor, half.__contains__) for tensor in self._in_step)

    def known(self) -> Dict[str, int]:
        """The number of nodes by how their times are known."""
        counted: Dict[str, int] = dict.fromkeys(
            (predictions.MEASURED, predictions.PREDICTED, predictions.UNKNOWN), 0
        )
        for name in self.graph.view.nodes:
            if self.graph.units_of(name):
                counted[self.times.node(name).how] += 1
        return counted

    def sides(self, group: int, half: AbstractSet[int]) -> Tuple[float, float, float, float]:
        """Nanoseconds of a group in each dtype, and of the casts that each one needs.

        Args:
            group: its number.
            half: all units that are half.
        """
        members = set(self.groups.members[group])
        own = [self._main(number) for number in members]
        float32, narrow = sum(time.float32 for time in own), sum(time.half for time in own)
        wide_casts = narrow_casts = 0.0
        for tensor in map(self._tensors.__getitem__, set(self._near[group])):
            as_wide = self._cast(tensor, lambda unit: unit in half and unit not in members)
            as_half = self._cast(tensor, lambda unit: unit in half or unit in members)
            wide_casts += max(0.0, as_wide - as_half)
            narrow_casts += max(0.0, as_half - as_wide)
        return float32, narrow, wide_casts, narrow_casts

    def kernel_of(self, unit: int) -> int:
        """The group of a unit, or of the node whose kernel its node is part of."""
        within = self.times.node(self.graph.units[unit].node).within
        anchor = self.graph.units_of(within) if within in self.graph.view.nodes else ()
        return self.groups.of[anchor[0] if anchor else unit]

    def how(self, group: int) -> str:
        """How the times of a group are known: by the least certain of its slower nodes."""
        kinds = {self._main(number).how for number in self.groups.members[group]}
        order = (predictions.UNKNOWN, predictions.PREDICTED, predictions.MEASURED)
        return next(kind for kind in order if kind in kinds)

    def _main(self, number: int) -> predictions.NodeTime:
        """The time of a unit's node; nothing for its further units."""
        name = self.graph.units[number].node
        first = self.graph.units_of(name)[0] == number
        return self.times.node(name) if first else predictions.NOTHING

    def _runs(self, number: int) -> bool:
        """Whether the step runs a unit's node."""
        return self.times.in_step(self.graph.units[number].node)

    def _cast(self, tensor: _Tensor, is_half: Callable[[int], bool]) -> float:
        """Nanoseconds of the casts of a tensor."""
        port, producer, readers = tensor
        from_half = is_half(producer)
        others = [unit for unit in readers if is_half(unit) != from_half]
        if not others:
            return 0.0
        cost = self.times.tensor(port)
        return cost.up if from_half else cost.down
