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
   convolution, or is one of UPDATE_OPS.
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
from graphmp.once import once
from graphmp.policy.op_sets import CALLS
from graphmp.scaling.losses.handling import Handling
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.batch_writes import BatchWrites
from graphmp.scaling.plan.begun_sums import BegunSums
from graphmp.scaling.plan.by_products import is_by_product
from graphmp.scaling.plan.joint_writes import FlagWaits, joint_writes


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
        self._before = [
            graph.view.ancestors([port.node for port in loss.arrivals or loss.checked])
            for loss in losses
        ]
        self._after = [graph.view.descendants(loss.direct) for loss in losses]
        self._within = [self._earlier(number) for number in self._all]
        self._step = [graph.view.ancestors(after) for after in self._after]
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
        plan = SkipPlan({}, {}, [], [{} for _ in self._losses], self._within, handling)
        others = [name for name in self._writes if name not in self._direct]
        beside = [self._never_without([number], others) for number in self._all]
        if len(self._losses) > 1:
            self._shared = self._never_without(self._all, others) - set().union(*beside)
        batch: Dict[str, FrozenSet[int]] = {}
        left: Dict[str, FrozenSet[int]] = {}
        for name in self._writes:
            numbers = frozenset(n for n in self._all if name in self._after[n]) or frozenset(
                n for n in self._all if name in beside[n]
            )
            numbers = frozenset(
                n
                for n in numbers
                if name not in self._before[n] and not self._handling[n].is_apart(name)
            )
            if name in self._direct:
                plan.by_loss[name] = frozenset(
                    n for n in self._all if name in self._losses[n].direct
                )
            elif name not in handling and not self._goes_on(name, numbers):
                takes = self._batch.takes(name, bool(self._steps_of(name)))
                if numbers and not takes and self._is_raced(name):
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
        sums = BegunSums(self._graph, self._losses, lambda: self._ends)
        for number, loss in enumerate(self._losses):
            plan.always[number].update((n, BEGINS) for n in sums.begun if n in loss.direct)
        return plan._replace(
            told={**self._told(plan), **dict.fromkeys(sums.either, MAY_BEGIN)},
            elsewhere=self._elsewhere(plan.by_value),
            begun=frozenset(sums.begun),
        )

    @property
    def _all(self) -> range:
        return range(len(self._losses))

    def _earlier(self, number: int) -> List[int]:
        """Losses that write variables of a loss before its gradients are computed."""
        own, before = self._variables(number), self._before[number]
        others = (
            other
            for other in self._all
            if other != number and not before.isdisjoint(self._losses[other].direct)
        )
        return [other for other in others if own & self._variables(other)]

    def _variables(self, number: int) -> AbstractSet[str]:
        return {
            variable
            for name in self._losses[number].direct
            for variable in self._graph.state.written(name)
        }

    def _steps_of(self, name: str) -> FrozenSet[int]:
        """The losses in whose steps a node runs, or may run."""
        return frozenset(n for n in self._all if name in self._step[n])

    def _add_second_hand(
        self, batch: Dict[str, FrozenSet[int]], left: Dict[str, FrozenSet[int]]
    ) -> None:
        """Add to `batch` writes of values that its writes wrote before in the same step.

        They run before an update or beside it.
        """
        graph = self._graph
        after = {name for names in self._after for name in names}
        fresh: AbstractSet[str] = set(batch)
        while fresh and left:
            behind = graph.view.descendants(fresh) - after
            values = self._batch.made_of(fresh)
            fresh = {
                n
                for n in left
                if n in behind
                and self._steps_of(n)
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
            if not numbers and self._batch.is_global(name) and self._steps_of(name)
        ]:
            if not waits.isdisjoint(self._graph.view.control_consumers(name)):
                batch[name] = left.pop(name)

    def _decide(self, plan: SkipPlan, batch: Mapping[str, FrozenSet[int]]) -> None:
        """Apply rule 4 to writes, with the losses whose flags they could depend on."""
        plan.in_loops.extend(name for name in batch if self._graph.looped(name))
        batch = {name: numbers for name, numbers in batch.items() if not self._graph.looped(name)}
        early = {n for name, numbers in batch.items() if not numbers for n in self._steps_of(name)}
        groups: Dict[str, Hashable] = {}
        for name, numbers in batch.items():
            if numbers and not numbers & early:
                groups[name] = plan.by_loss[name] = self._closest(name, numbers)
            else:
                groups[name] = ("by value", self._steps_of(name))
        if groups:
            own = [{port.node for port in loss.arrivals or loss.checked} for loss in self._losses]
            checked = [
                set().union(own[n], *(own[other] for other in self._within[n])) for n in self._all
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
                for number in self._steps_of(name):
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
        if name in self._before[number]:
            return CHECKED
        return SHARED if name in self._shared else "something else than training runs it too"

    def _is_raced(self, name: str) -> bool:
        """Whether a write is early, and a late reader of its variable doesn't wait for it."""
        if self._waits(name, self._behind_gradients) or self._waits(name, self._behind_writes):
            return False
        late = {
            reader
            for variable in self._graph.state.written(name)
            for reader in self._readers(variable)
            if self._waits(reader, self._behind_writes) and self._steps_of(reader)
        }
        late.difference_update(self._writes)
        return bool(late and late - self._graph.view.descendants([name]))

    def _waits(self, name: str, nodes: AbstractSet[str]) -> bool:
        """Whether a node comes directly after one of some nodes."""
        view = self._graph.view
        return any(port.node in nodes for port in view.inputs(name)) or any(
            control in nodes for control in view.controls(name)
        )

    @once
    def _behind_writes(self) -> AbstractSet[str]:
        return self._graph.view.descendants(self._writes)

    @once
    def _behind_gradients(self) -> AbstractSet[str]:
        return self._graph.view.descendants(self._graph.gradients)

    def _readers(self, variable: str) -> Set[str]:
        """Nodes that read a variable; those of a reference's copy, which shares its memory."""
        view = self._graph.view
        found: Set[str] = set()
        for reader in (consumer.node for consumer in view.consumers(variable)):
            if view.nodes[reader].op == "Identity":
                found.update(consumer.node for consumer in view.consumers(reader))
            else:
                found.add(reader)
        return found

    def _never_without(self, numbers: Sequence[int], candidates: List[str]) -> AbstractSet[str]:
        """Writes whose results are used only after updates of some losses.

        They never run without one of these; updates that they follow aside.
        """
        view = self._graph.view
        after = frozenset().union(*(self._after[number] for number in numbers))
        joined = frozenset().union(*(self._step[number] for number in numbers))
        found = [
            name
            for name in candidates
            if name in joined and name not in after and self._batch.is_global(name)
        ]
        elsewhere = view.ancestors(n for n in self._ends if n not in after) if found else ()
        return {name for name in found if name not in elsewhere}

    @once
    def _ends(self) -> List[str]:
        """Nodes without readers that may be run.

        TensorFlow refuses to fetch what is inside a branch of a conditional.
        """
        view = self._graph.view
        return [
            name
            for name in view.nodes
            if name not in self._graph.conditions
            and not view.consumers(name)
            and not view.control_consumers(name)
            # An assignment to a resource variable is followed by a read that is mostly unused.
            and not self._graph.state.variable(name)
            and not is_by_product(view, name)
        ]

    def _goes_on(self, name: str, numbers: AbstractSet[int]) -> bool:
        """Apply rules 2 and 3."""
        if self._is_push(name):
            return True
        if not self._counts_steps(name):
            return False
        return self._count_skipped_steps or any(
            self._losses[n].arrivals and not self._losses[n].fetched for n in numbers
        )

    def _counts_steps(self, name: str) -> bool:
        return bool(self._graph.state.written(name) & self._global_steps)

    def _is_push(self, name: str) -> bool:
        return self._graph.view.nodes[name].op.endswith("AccumulatorApplyGradient")

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
