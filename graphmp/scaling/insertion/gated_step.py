"""Gating the writes of a step by the flags of its losses."""

from __future__ import annotations

from typing import Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from graphmp.errors import warning
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Port
from graphmp.scaling.insertion.arithmetic import Arithmetic
from graphmp.scaling.insertion.gates import IMPOSSIBLE, GateInsertion
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.skip_plan import SkipPlan


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
    flags = _flags(graph, gates, plan, made, outside)
    for name in outside:
        if name not in plan.by_value:
            gates.by_flag(name, flags[name])
    finite = {
        names: gates.all_finite(names)
        for names in sorted(set(plan.by_value.values()), key=lambda names: (len(names), names))
    }
    for name, names in plan.by_value.items():
        if name in outside:
            gates.by_flag(name, gates.both(flags[name], finite[names], name))
        else:
            gates.by_value(name, finite[names])
    for name in plan.in_loops:
        gates.in_loop(name)
    for name in sorted(
        graph.view.followed(graph.gradients, lambda name: not graph.state.is_write(name))
    ):
        if (
            graph.view.nodes[name].op == "HistogramSummary"
            and graph.is_float(graph.view.inputs(name)[1])
            and not graph.looped(name)
        ):
            gates.histogram(name)
    ungated.update(dict.fromkeys(gates.impossible, IMPOSSIBLE))
    warnings.extend(warning("GMP112", name, text) for name, text in ungated.items())
    return [_gated(plan, number, ungated) for number in range(len(made))]


def _flags(
    graph: TrainingGraph,
    gates: GateInsertion,
    plan: SkipPlan,
    made: Sequence[Arithmetic],
    writes: Mapping[str, FrozenSet[int]],
) -> Dict[str, Port]:
    """The flag of each write that depends on losses, available wherever the write is."""
    own: Dict[Tuple[Port, ...], List[Port]] = {}
    known: Dict[Tuple[FrozenSet[int], Tuple[Port, ...]], Port] = {}
    found = {}
    for name, numbers in writes.items():
        sides = graph.conditions.get(name, frozenset())
        flags = tuple(each.flag_on(sides) for each in made)
        if flags not in own:
            own[flags] = [
                gates.all_of([flag, *(flags[other] for other in plan.within[number])])
                for number, flag in enumerate(flags)
            ]
        if (numbers, flags) not in known:
            known[numbers, flags] = gates.any_of([own[flags][number] for number in sorted(numbers)])
        found[name] = known[numbers, flags]
    return found


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
