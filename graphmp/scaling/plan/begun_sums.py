"""Writes that begin a sum of gradients, which a later run applies: it held an applied one before.

A skipped step leaves its gradients out of a sum. An addition then adds nothing. A write that begins
the sum anew writes zeros: the old value was applied already, and would be applied again. It

1. overwrites a variable that isn't trained, or a part of it, with what is zero where gradients are;
2. is run by what runs no update of its loss, or comes before one in a branch that it isn't in:
   there the step is not skipped as a whole;
3. is taken by such an update, as a term of a sum.

A write that may either begin the sum or add to it keeps the old value, and is told.
"""

from __future__ import annotations

from typing import AbstractSet, Callable, Iterable, List

from graphmp.graph.structure.terms import adds_to_itself, takers, vanishing
from graphmp.policy.op_sets import OVERWRITES, READS, ROW_OVERWRITES
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph


class BegunSums:
    """The writes of a graph that begin sums.

    Attributes:
        begun: the writes to which all of the rules apply.
        either: those that may begin a sum or add to it.
    """

    def __init__(self, graph: TrainingGraph, losses: Iterable[Loss], ends: Callable[[], List[str]]):
        """`ends` returns the nodes that programs run."""
        self._graph, self._ends = graph, ends
        self.begun: List[str] = []
        self.either: List[str] = []
        for loss in losses:
            self._sort(loss)

    def _sort(self, loss: Loss) -> None:
        view = self._graph.view
        writes = [n for n in loss.held if view.nodes[n].op in OVERWRITES | ROW_OVERWRITES]
        updates = set(loss.updates) - set(loss.held)
        if not writes or not updates:
            return
        last = {*self._ends(), *filter(self._is_unawaited, writes)} - view.descendants(updates)
        alone, is_zero = view.ancestors(last), vanishing(view, {*loss.gradients, *loss.checked})
        for name in writes:
            variables, floats = self._graph.state.written(name), self._graph.floats_written(name)
            if not floats or not (name in alone or self._is_ahead_of_a_branch(name, updates)):
                continue
            if all(updates.isdisjoint(takers(view, variable)) for variable in variables):
                continue
            value = view.inputs(name)[floats[-1]]
            if is_zero(value):
                self.begun.append(name)
            elif not adds_to_itself(view, value, variables):
                self.either.append(name)

    def _is_ahead_of_a_branch(self, name: str, updates: AbstractSet[str]) -> bool:
        """Whether an update that comes after a write lies in a branch that the write isn't in."""
        sides = self._graph.conditions
        own = sides.get(name, frozenset())
        after = self._graph.view.descendants([name]) & updates
        return any(not sides.get(update, frozenset()) <= own for update in after)

    def _is_unawaited(self, name: str) -> bool:
        """Whether nothing but a read of the variable waits for a write."""
        view = self._graph.view
        after = {*(c.node for c in view.consumers(name)), *view.control_consumers(name)}
        return all(view.nodes[n].op in READS and not view.consumers(n) for n in after)
