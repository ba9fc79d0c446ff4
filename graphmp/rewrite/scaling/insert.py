"""Putting the loss scale into a graph that is already built.

Order, always: gradients, float32, divide by the scale, finite check, clip, apply or skip.

1. Seeds are multiplied by the scale; the loss itself is left as it is.
2. Each output that leaves gradient code is divided by it, in float32, for all who read it outside.
3. The finite check looks at the gradients on their way to updates; where they come out of accumulators or are fed, there; where an all-reduce
   adds those of other processes to them, behind it (`allreduce.py`).
4. The clip takes the same gradients. Of towers, and behind an all-reduce, it takes what the updates read: averages.
5. What the step writes goes by the flag (`skip_plan.py`, `gates.py`).

The graph is float32 all the while: the painter comes afterwards, and what is below `graphmp/` stays float32.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.editing import Editor
from graphmp.loss_scale.scales import COLLECTION
from graphmp.rewrite.scaling.arithmetic import Arithmetic
from graphmp.rewrite.scaling.checkpoints import initialise, save_and_restore
from graphmp.rewrite.scaling.first_step import FirstStep
from graphmp.rewrite.scaling.fragment import Fragment
from graphmp.rewrite.scaling.gates import Gates
from graphmp.rewrite.scaling.model import Loss
from graphmp.rewrite.scaling.plan import ScalePlan
from graphmp.rewrite.scaling.skip_plan import SkipPlan
from graphmp.rewrite.scaling.training_graph import TrainingGraph


class Inserted(NamedTuple):
    """What was done, for the report and the painter.

    Attributes:
        losses: rows of the report, one a loss.
        scales: rows of the report, one a scale: scope, kind, initial value.
        done: (node, what, why) for nodes that were added.
        first_steps: what a first step is to look at once the graph is painted.
        warnings: rows of the report.
    """

    losses: List[Dict[str, Any]]
    scales: List[Dict[str, Any]]
    done: List[Tuple[str, str, str]]
    first_steps: List[FirstStep]
    warnings: List[Dict[str, str]]


class Gated(NamedTuple):
    """What a skipped step of one loss does.

    Attributes:
        writes: those that it leaves out.
        goes_on: rows of the report: a node that changes state all the same, and why.
    """

    writes: List[str]
    goes_on: List[Dict[str, str]]


def insert(graph: TrainingGraph, config: Config, plan: ScalePlan) -> Inserted:
    """Scales the losses of a graph, which is changed, as a plan says."""
    result = Inserted([], [], [], [], list(plan.warnings))
    if plan.losses:
        _insert(graph, config, plan, result)
    result.losses.extend(_row(loss) for loss in plan.unscaled)
    return result


def _insert(graph: TrainingGraph, config: Config, plan: ScalePlan, result: Inserted) -> None:
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    served = plan.losses
    scopes = ["loss_scale_%d" % number if number else "loss_scale" for number in range(len(served))]
    made = [Arithmetic(graph, editor, part, config, loss, scope, plan.kept) for loss, scope in zip(served, scopes)]
    unscaled = {port: tensor for each in made for port, tensor in each.divisions.items()}
    for loss, each, scope in zip(served, made, scopes):
        each.complete(unscaled)
        result.scales.append({"scope": scope, "kind": each.scale.kind, "initial": each.scale.initial})
        if each.first_step is not None:
            result.first_steps.append(each.first_step)
        result.warnings.extend(_doubts(loss, each, scope))
    gated = _gate(graph, editor, plan.skips, made, result.warnings)
    if plan.skips is not None:
        initialise(graph, editor, served, [each.scale for each in made])
        save_and_restore(graph, editor, part, served, [each.scale for each in made])
    part.splice(editor, graph.meta_graph, {tf.GraphKeys.GLOBAL_VARIABLES: False, COLLECTION: True})
    for name, others in [item for each in made for item in each.waits.items()]:
        editor.wait_for(name, others)
    editor.finish()
    result.losses.extend(_row(loss, arithmetic, names) for loss, arithmetic, names in zip(served, made, gated))
    result.done.extend((name, "inserted", reason) for name, reason in editor.added.items() if reason)
    result.done.extend((name, "changed", reason) for name, reason in editor.changed.items())


def _gate(graph: TrainingGraph, editor: Editor, plan: Optional[SkipPlan], made: Sequence[Arithmetic], warnings: List[Dict[str, str]]) -> List[Gated]:
    """Puts gates before what the step writes. Returns for each loss what has one, and what hasn't."""
    if plan is None:
        return [Gated([], []) for _ in made]
    gates = Gates(editor, graph)
    outside = {name: numbers for name, numbers in plan.by_loss.items() if not graph.looped(name)}
    ungated = {name: "it writes inside a while loop: a skipped step runs it all the same" for name in plan.by_loss if graph.looped(name)}
    adapted = [each.flag for each in made if each.flag is not None]  # a plan to skip steps is made of dynamic scales alone
    own = [gates.all_of([flag, *(adapted[other] for other in plan.within[number])]) for number, flag in enumerate(adapted)]
    flags = {numbers: gates.any_of([own[number] for number in sorted(numbers)]) for numbers in dict.fromkeys(outside.values())}
    for name, numbers in outside.items():
        if name not in plan.by_value:
            gates.by_flag(name, flags[numbers])
    finite = {names: gates.all_finite(names) for names in sorted(set(plan.by_value.values()), key=lambda names: (len(names), names))}
    for name, names in plan.by_value.items():
        if name in outside:
            gates.by_flag(name, gates.both(flags[outside[name]], finite[names], name))
        else:
            gates.by_value(name, finite[names])
    for name in plan.in_loops:
        gates.in_loop(name)
    for name in sorted(graph.view.followed(graph.gradients, lambda name: not graph.state.is_write(name))):
        if graph.view.nodes[name].op == "HistogramSummary" and graph.is_float(graph.view.inputs(name)[1]) and not graph.looped(name):
            gates.histogram(name)
    ungated.update((name, "it returns what others read, and nothing else can: a skipped step runs it all the same") for name in gates.impossible)
    warnings.extend(warning("GMP112", name, text) for name, text in ungated.items())
    return [_gated(plan, number, ungated) for number in range(len(made))]


def _gated(plan: SkipPlan, number: int, ungated: Dict[str, str]) -> Gated:
    by_loss = [name for name, numbers in plan.by_loss.items() if number in numbers]
    goes_on = {**plan.always[number], **{name: ungated[name] for name in [*by_loss, *plan.always[number]] if name in ungated}}
    return Gated(sorted(name for name in by_loss if name not in ungated), [{"node": name, "why": goes_on[name]} for name in sorted(goes_on)])


def _doubts(loss: Loss, arithmetic: Arithmetic, scope: str) -> Iterator[Dict[str, str]]:
    for each in loss.scopes:
        for name in sorted(set(each.degrees.unclear)):
            yield warning("GMP111", name, "it is not linear and reads a list: it sees gradients multiplied by the loss scale")
    if arithmetic.clipped_apart:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning("GMP103", "graphmp/" + scope, "the gradients of %s are clipped one scope by the other" % scopes)


def _row(loss: Loss, arithmetic: Optional[Arithmetic] = None, gated: Optional[Gated] = None) -> Dict[str, Any]:
    """A row of the report's `losses`."""
    return {
        "gradient_scope": ", ".join(scope.scope for scope in loss.scopes),
        "loss": sorted({name for scope in loss.scopes for name in scope.losses}),
        "seeds": [port.node for scope in loss.scopes for port in scope.seeds],
        "gradients": [str(port) for port in loss.gradients],
        "updates": list(loss.updates),
        "scale": arithmetic.current if arithmetic else "",
        "unscale": arithmetic.unscaled if arithmetic else [],
        "finite": arithmetic.finite if arithmetic else "",
        "clip": arithmetic.clip if arithmetic else "",
        "gated": gated.writes if gated else [],
        "not_skipped": gated.goes_on if gated else [],
    }
