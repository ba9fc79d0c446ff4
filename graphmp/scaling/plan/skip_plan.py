"""The writes of a training step, and the condition of each: flags of losses, or its own values.

For each write except initialisers, the first rule that applies counts.

1. Writes that gradients reach in this step depend on their loss's flag.
2. Gradients pushed into an accumulator are always written. The check follows when they are taken
   out.
3. The global step is always written if gradients come out of accumulators, which count steps, or
   with --count_skipped_steps.
4. Some writes to global variables depend on the loss's flag, and on whether all values that such
   writes of the loss take are finite. In a step of a loss (5) or before it, these are

   - writes of values from the batch: statistics of a batch normalisation and their count, a
     codebook, centres, priorities, the state of an RNN;
   - writes, by any op, of values that such writes wrote before;
   - writes that are waited for together with such a write ahead of the flag.

   If the flag depends on one of them, or something else runs one too, all of the loss depend on
   these values alone: they are written together (`joint_writes.py`). A write of values that others
   wrote before, in a branch or in a step that it is no part of, depends on theirs too. In a while
   loop each depends on its own values.
   Outside of steps a write depends on its values if it descends from a matmul or
   convolution, takes what was made of gradients out of a queue, or is one of UPDATE_OPS.
5. Writes that run after an update (beta powers, step counters, zeroed sums), or before or beside it
   and never without it (variables that sparse Adam decays; parts of one train op; not metrics,
   which are local) depend on the flag of the update's loss. Of several losses, those count whose
   optimizer reads or writes the variable, or all if none does; one true flag suffices.
6. Everything else is always written: what something else than training runs too; what several
   steps share, each of which may run alone, for a flag of another one would run that one too. So
   is, whatever it runs with, the model's own handling of gradients that aren't finite: writes in
   branches, or of values, that are chosen by a test of finiteness, where the updates don't run too;
   and other writes on the other side of the updates' conditional.

7. A write of rule 1 that begins a sum of gradients writes zeros in a skipped step
   (`begun_sums.py`).

A flag requires the flags of losses that wrote the same variables before its gradients were
computed: a step that first goes uphill, and then downhill from there, is one step.
"""

from __future__ import annotations

import collections
from types import MappingProxyType
from typing import (
    AbstractSet,
    Dict,
    FrozenSet,
    Hashable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.graph.state.state_kinds import GO_ON, kind
from graphmp.loss_scale.words import (
    BEGINS,
    BY_OWN_VALUES,
    BY_VALUE,
    CHECKED,
    COUNTS_ALL,
    COUNTS_SKIPPED,
    MAY_BEGIN,
    RACED,
    SHARED,
    SHARED_BY_VALUE,
    WHEN_TAKEN,
)
from graphmp.policy.op_sets import ACCUMULATOR_PUSHES, ACCUMULATOR_TAKES, CALLS
from graphmp.scaling.losses.handling import Handling
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.batch_writes import BatchWrites
from graphmp.scaling.plan.begun_sums import BegunSums
from graphmp.scaling.plan.joint_writes import FlagWaits, joint_writes
from graphmp.scaling.plan.races import Races
from graphmp.scaling.plan.steps import Steps


class SkipPlan(NamedTuple):
    """The condition of each write.

    Attributes:
        by_loss: for a write, indices of the losses whose flags it depends on; any of them suffices.
        by_value: for a write, the writes whose values must be finite for it, itself included.
        in_loops: writes in while loops that depend on their own values.
        always: for each loss the state changes of a skipped step, and why.
        within: for each loss the indices of those whose flags it requires too.
        handling: the writes of the model's own handling of gradients that aren't finite.
        told: other writes that go on in a skipped step, or may keep a sum that was applied, and are
            to be warned of, with the reason.
        elsewhere: for a write by value, further groups of writes by value, in branches or steps in
            which it isn't: their values must be finite, too, where these branches are taken.
        begun: writes by a loss that begin sums: they write zeros in a skipped step.
    """

    by_loss: Dict[str, FrozenSet[int]]
    by_value: Dict[str, Tuple[str, ...]]
    in_loops: List[str]
    always: List[Dict[str, str]]
    within: List[List[int]]
    handling: AbstractSet[str] = frozenset()
    told: Mapping[str, str] = MappingProxyType({})
    elsewhere: Mapping[str, Sequence[Tuple[str, ...]]] = MappingProxyType({})
    begun: AbstractSet[str] = frozenset()


def plan_skips(
    graph: TrainingGraph,
    losses: Sequence[Loss],
    activations: AbstractSet[str],
    count_skipped_steps: bool,
    apart: AbstractSet[str] = frozenset(),
) -> SkipPlan:
    """Decide on every write of a graph.

    Args:
        graph: the graph.
        losses: its losses.
        activations: descendants of matmuls or convolutions; rule 4 applies to their descendants.
        count_skipped_steps: rule 3.
        apart: calls of functions that train inside, and skip steps there.
    """
    return _Planner(graph, losses, activations, count_skipped_steps, apart).plan()


class _Planner:
    def __init__(
        self,
        graph: TrainingGraph,
        losses: Sequence[Loss],
        activations: AbstractSet[str],
        count_skipped_steps: bool,
        apart: AbstractSet[str],
    ):
        self._writes = [name for name in graph.state.writes if name not in apart]
        self._graph, self._losses, self._activations = graph, losses, activations
        self._count_skipped_steps = count_skipped_steps
        self._direct = {name for loss in losses for name in loss.direct}
        self._steps = Steps(graph, losses)
        self._races = Races(graph, self._steps, self._writes)
        self._global_steps = _global_steps(graph)
        self._batch = BatchWrites(graph, activations)
        self._handling = [Handling(graph, loss) for loss in losses]
        self._shared: AbstractSet[str] = frozenset()  # by steps, each of which may run alone
        self._raced: Set[str] = set()

    def plan(self) -> SkipPlan:
        handling = {
            name
            for name in self._writes
            if name not in self._direct and any(each.tells(name) for each in self._handling)
        }
        steps, every = self._steps, self._steps.all
        plan = SkipPlan({}, {}, [], [{} for _ in every], steps.within, handling)
        others = [n for n in self._writes if n not in self._direct and self._batch.is_global(n)]
        beside = [steps.never_without([number], others) for number in every]
        if len(every) > 1:
            self._shared = steps.never_without(every, others) - set().union(*beside)
        batch: Dict[str, FrozenSet[int]] = {}
        left: Dict[str, FrozenSet[int]] = {}
        for name in self._writes:
            numbers = self._with_updates(name, beside)
            if name in self._direct:
                plan.by_loss[name] = frozenset(n for n in every if name in self._losses[n].direct)
            elif name not in handling and not self._goes_on(name, numbers):
                takes = self._batch.takes(name, bool(steps.of(name)))
                if numbers and not takes and self._races.has(name):
                    self._raced.add(name)
                else:
                    (batch if takes else left)[name] = numbers
        self._add_second_hand(batch, left)
        self._add_beside(batch, left)
        plan.by_loss.update(
            (name, self._closest(name, numbers)) for name, numbers in left.items() if numbers
        )
        self._decide(plan, batch)
        self._list_others(plan)
        sums = BegunSums(self._graph, self._losses, lambda: self._steps.ends)
        for number, loss in enumerate(self._losses):
            plan.always[number].update((n, BEGINS) for n in sums.begun if n in loss.direct)
        return plan._replace(
            told={**self._told(plan), **dict.fromkeys(sums.either, MAY_BEGIN)},
            elsewhere=self._elsewhere(plan.by_value),
            begun=frozenset(sums.begun),
        )

    def _with_updates(self, name: str, beside: Sequence[AbstractSet[str]]) -> FrozenSet[int]:
        """The losses after whose updates a write runs; else those beside whose updates it runs."""
        steps = self._steps
        numbers = [n for n in steps.all if name in steps.after[n]]
        return frozenset(
            n
            for n in numbers or [n for n in steps.all if name in beside[n]]
            if name not in steps.before[n] and not self._handling[n].is_apart(name)
        )

    def _add_second_hand(
        self, batch: Dict[str, FrozenSet[int]], left: Dict[str, FrozenSet[int]]
    ) -> None:
        """Add to `batch` writes of values that its writes wrote before in the same step.

        They run before an update or beside it.
        """
        graph = self._graph
        after = {name for names in self._steps.after for name in names}
        fresh: AbstractSet[str] = set(batch)
        while fresh and left:
            behind = graph.view.descendants(fresh) - after
            values = self._batch.made_of(fresh)
            fresh = {
                n
                for n in left
                if n in behind
                and self._steps.of(n)
                and self._batch.is_global(n)
                and self._batch.takes_any(n, values)
            }
            batch.update((name, left.pop(name)) for name in sorted(fresh))

    def _add_beside(
        self, batch: Dict[str, FrozenSet[int]], left: Dict[str, FrozenSet[int]]
    ) -> None:
        """Add to `batch` the writes that are waited for together with its writes ahead of a flag.

        For example a count that is incremented by a known number.
        """
        waits = {
            group
            for name, numbers in batch.items()
            if not numbers
            for group in self._graph.view.control_consumers(name)
        }
        for name in [
            name
            for name, numbers in left.items()
            if not numbers and self._batch.is_global(name) and self._steps.of(name)
        ]:
            if not waits.isdisjoint(self._graph.view.control_consumers(name)):
                batch[name] = left.pop(name)

    def _decide(self, plan: SkipPlan, batch: Mapping[str, FrozenSet[int]]) -> None:
        """Apply rule 4 to writes, with the losses whose flags they could depend on."""
        plan.in_loops.extend(name for name in batch if self._graph.looped(name))
        batch = {name: numbers for name, numbers in batch.items() if not self._graph.looped(name)}
        early = {n for name, numbers in batch.items() if not numbers for n in self._steps.of(name)}
        groups: Dict[str, Hashable] = {}
        for name, numbers in batch.items():
            if numbers and not numbers & early:
                groups[name] = plan.by_loss[name] = self._closest(name, numbers)
            else:
                groups[name] = ("by value", self._steps.of(name))
        if groups:
            own = [{port.node for port in loss.arrivals or loss.checked} for loss in self._losses]
            checked = [
                set().union(own[n], *(own[other] for other in self._steps.within[n]))
                for n in self._steps.all
            ]
            joined = joint_writes(self._graph, groups, FlagWaits(checked, plan.by_loss))
            plan.by_value.update((name, joined[name]) for name in batch if joined[name])

    def _elsewhere(
        self, by_value: Mapping[str, Tuple[str, ...]]
    ) -> Dict[str, List[Tuple[str, ...]]]:
        """For writes the groups of others that wrote before what they take.

        Others in other branches, and in other steps, aren't in a write's own group.
        """
        graph = self._graph
        found: Dict[str, List[Tuple[str, ...]]] = collections.defaultdict(list)
        members: Dict[Tuple[str, ...], List[str]] = {}
        for name, group in by_value.items():
            if graph.floats_written(name):
                members.setdefault(group, []).append(name)
        for group, writes in sorted(members.items()):
            outside = [n for n, own in by_value.items() if not set(group) <= set(own)]
            if not outside:
                continue
            behind, values = graph.view.descendants(writes), self._batch.made_of(writes)
            for name in outside:
                if name in behind and self._batch.takes_any(name, values):
                    found[name].append(group)
        return found

    def _list_others(self, plan: SkipPlan) -> None:
        """Writes that happen in skipped steps too."""
        written = set(self._writes)
        for name, node in self._graph.view.nodes.items():
            if (name in written and name not in plan.by_loss) or kind(node.op) in GO_ON:
                for number in self._steps.of(name):
                    plan.always[number][name] = GO_ON.get(kind(node.op)) or self._why(
                        plan, name, number
                    )

    def _told(self, plan: SkipPlan) -> Dict[str, str]:
        """Writes of a skipped step that its users wouldn't expect: shared ones, counts of steps."""
        return {
            name: why
            for always in plan.always
            for name, why in always.items()
            if why in (SHARED, RACED) or (why == CHECKED and self._counts_steps(name))
        }

    def _why(self, plan: SkipPlan, name: str, number: int) -> str:
        """Why a write doesn't depend on the loss's flag."""
        if name in plan.by_value:
            return SHARED_BY_VALUE if name in self._shared else BY_VALUE
        if name in plan.in_loops:
            return "it is written in a while loop: " + BY_OWN_VALUES
        if self._is_push(name):
            return WHEN_TAKEN
        if name in plan.handling:
            return "it belongs to the model's own handling of gradients that are not finite"
        if self._goes_on(name, {number}):
            return COUNTS_SKIPPED if self._count_skipped_steps else COUNTS_ALL
        if not self._batch.is_global(name):
            return "it writes no global variable: no part of the model's state"
        if name in self._raced:
            return RACED
        if name in self._steps.before[number]:
            return CHECKED
        return SHARED if name in self._shared else "something else than training runs it too"

    def _goes_on(self, name: str, numbers: AbstractSet[int]) -> bool:
        """Apply rules 2 and 3."""
        if self._is_push(name):
            return True
        if not self._counts_steps(name):
            return False
        return self._count_skipped_steps or any(map(self._is_counted_apart, numbers))

    def _counts_steps(self, name: str) -> bool:
        return bool(self._graph.state.written(name) & self._global_steps)

    def _is_counted_apart(self, number: int) -> bool:
        """Whether a loss's gradients come out of accumulators, which count steps."""
        nodes = self._graph.view.nodes
        return any(nodes[p.node].op in ACCUMULATOR_TAKES for p in self._losses[number].arrivals)

    def _is_push(self, name: str) -> bool:
        return self._graph.view.nodes[name].op in ACCUMULATOR_PUSHES

    def _closest(self, name: str, numbers: AbstractSet[int]) -> FrozenSet[int]:
        if len(numbers) > 1:
            written = self._graph.state.written(name)
            owners = {n for n in numbers if written & self._optimizer_state(n)}
            numbers = owners or numbers
        return frozenset(numbers)

    def _optimizer_state(self, number: int) -> AbstractSet[str]:
        """Variables that a loss's updates write, or read outside gradient code."""
        graph, loss = self._graph, self._losses[number]
        found: Set[str] = {
            variable for name in loss.direct for variable in graph.state.written(name)
        }
        read = graph.view.traced(
            loss.direct,
            lambda name: name not in graph.gradients and name not in self._activations,
        )
        return found | {
            variable for variable in map(graph.state.variable, read) if variable is not None
        }


def activations(graph: TrainingGraph, allow: AbstractSet[str]) -> Set[str]:
    """Nodes outside gradient code that depend on a matmul or convolution by data."""
    calls = graph.functions | CALLS
    starts = [
        name
        for name, node in graph.view.nodes.items()
        if (node.op in allow or node.op in calls) and name not in graph.gradients
    ]
    return graph.view.followed(starts, lambda name: name not in graph.gradients)


def _global_steps(graph: TrainingGraph) -> AbstractSet[str]:
    """The variables that count steps: those of the collection, and those with its name."""
    return {*(graph.state.collected(tf.GraphKeys.GLOBAL_STEP) or ()), *_named(graph)}


def _named(graph: TrainingGraph) -> Iterator[str]:
    for name in graph.view.nodes:
        if name.rsplit("/", 1)[-1] == "global_step" and graph.state.variable(name) == name:
            yield name
