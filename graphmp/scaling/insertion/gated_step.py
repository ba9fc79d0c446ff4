"""Gating the writes of a step by the flags of its losses."""

from __future__ import annotations

from typing import Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from graphmp.errors import warning
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.branches import Conditions
from graphmp.graph.structure.view import Port
from graphmp.loss_scale.words import MAY_BEGIN
from graphmp.scaling.gates.insertion import IMPOSSIBLE, GateInsertion
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.skip_plan import SkipPlan
from graphmp.wording import plural

_HANDLES = (
    "it handles gradients that are not finite: it is written in steps that the loss scale skips"
    " too (%s)"
)
_GOES_ON = "%s: it is written in skipped steps too (%s)"

_MAY_BEGIN = "%s (%s)"


class Gated(NamedTuple):
    """The effect of a skipped step of one loss.

    Attributes:
        writes: the skipped writes.
        goes_on: rows of the report: a node that still changes state, and why.
    """

    writes: List[str]
    goes_on: List[Dict[str, str]]


def gate(
    graph: TrainingGraph,
    editor: Editor,
    plan: Optional[SkipPlan],
    made: Sequence[Arithmetic],
    warnings: List[Dict[str, str]],
) -> List[Gated]:
    """Gate the writes of a step. Returns the gated and the ungated writes of each loss."""
    if plan is None:
        return [Gated([], []) for _ in made]
    gates = GateInsertion(editor, graph)
    outside = {name: numbers for name, numbers in plan.by_loss.items() if not graph.looped(name)}
    ungated = {
        name: "it writes inside a while loop: a skipped step runs it all the same"
        for name in plan.by_loss
        if graph.looped(name)
    }
    steps = _StepFlags(gates, plan, made)
    flags = {
        name: steps.of(numbers, graph.conditions.get(name, frozenset()))
        for name, numbers in outside.items()
    }
    for name in outside:
        if name not in plan.by_value:
            gates.by_flag(name, flags[name], name in plan.begun)
    # Whether values are finite is found from the ungated writes: ahead of all that follows.
    for names in sorted(set(plan.by_value.values()), key=lambda names: (len(names), names)):
        gates.all_finite(names)
    for name, names in plan.by_value.items():
        groups = [names, *plan.elsewhere.get(name, ())]
        if name in outside:
            gates.by_flag_and_value(name, flags[name], groups)
        else:
            gates.by_value(name, groups)
    for name in plan.in_loops:
        gates.in_loop(name)
    for name in _histograms(graph):
        gates.histogram(name)
    gates.finish()
    ungated.update(dict.fromkeys(gates.impossible, IMPOSSIBLE))
    warnings.extend(warning("GMP112", name, text) for name, text in ungated.items())
    warnings.extend(
        warning("GMP112", name, _HANDLES % plural(len(plan.handling), "write"))
        for name in graph.view.in_graph_order(plan.handling)[:1]
    )
    warnings.extend(_told(graph, plan))
    return [_gated(plan, number, ungated) for number in range(len(made))]


def _told(graph: TrainingGraph, plan: SkipPlan) -> Iterator[Dict[str, str]]:
    """A warning for each reason why a skipped step writes, or keeps, what users don't expect."""
    by_reason: Dict[str, List[str]] = {}
    for name in graph.view.in_graph_order(plan.told):
        by_reason.setdefault(plan.told[name], []).append(name)
    for why, names in by_reason.items():
        text = _MAY_BEGIN if why == MAY_BEGIN else _GOES_ON
        yield warning("GMP112", names[0], text % (why, plural(len(names), "write")))


def _histograms(graph: TrainingGraph) -> List[str]:
    """Summaries of values that depend on gradients, outside of while loops."""
    view = graph.view
    return sorted(
        name
        for name in view.followed(graph.gradients, lambda name: not graph.state.is_write(name))
        if view.nodes[name].op == "HistogramSummary"
        and graph.is_float(view.inputs(name)[1])
        and not graph.looped(name)
    )


class _StepFlags:
    """Flags of losses and of several of them, each made once."""

    def __init__(self, gates: GateInsertion, plan: SkipPlan, made: Sequence[Arithmetic]):
        self._gates, self._within, self._made = gates, plan.within, made
        self._known: Dict[Tuple[str, Tuple[Port, ...]], Port] = {}

    def of(self, numbers: FrozenSet[int], sides: Conditions) -> Port:
        """The flag of writes that depend on some losses, on some sides of conditionals.

        Of several losses one must have trained; or none has run, where all are in branches.
        """
        losses = [(number, self._made[number]) for number in sorted(numbers)]
        found = []
        if len(losses) > 1:
            found = [self._whole(number, loss.trained_on(sides), sides) for number, loss in losses]
        if len(losses) == 1 or not any(loss.always_trains(sides) for _, loss in losses):
            flags = [self._whole(number, loss.flag_on(sides), sides) for number, loss in losses]
            found.insert(0, self._once("all", flags))
        return self._once("any", found)

    def _whole(self, number: int, flag: Port, sides: Conditions) -> Port:
        """A loss's flag with those of the losses that it requires too."""
        others = (self._made[other].flag_on(sides) for other in self._within[number])
        return self._once("all", [flag, *others])

    def _once(self, kind: str, flags: List[Port]) -> Port:
        key = (kind, tuple(flags))
        if key not in self._known:
            make = self._gates.all_of if kind == "all" else self._gates.any_of
            self._known[key] = make(flags)
        return self._known[key]


def _gated(plan: SkipPlan, number: int, ungated: Dict[str, str]) -> Gated:
    by_loss = [name for name, numbers in plan.by_loss.items() if number in numbers]
    goes_on = {
        **plan.always[number],
        **{name: ungated[name] for name in [*by_loss, *plan.always[number]] if name in ungated},
    }
    return Gated(
        sorted(name for name in by_loss if name not in ungated),
        [{"node": name, "why": goes_on[name]} for name in sorted(goes_on)],
    )
