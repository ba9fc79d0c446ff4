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
from graphmp.graph.live import writes
from graphmp.graph.view import Port
from graphmp.loss_scale.scales import COLLECTION
from graphmp.rewrite.scaling.arithmetic import Arithmetic
from graphmp.rewrite.scaling.checkpoints import initialise, save_and_restore
from graphmp.rewrite.scaling.first_step import FirstStep
from graphmp.rewrite.scaling.fragment import Fragment
from graphmp.rewrite.scaling.gates import Gates
from graphmp.rewrite.scaling.model import Loss
from graphmp.rewrite.scaling.plan import ScalePlan
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
    gated = _gate(graph, editor, plan, made, result.warnings)
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


def _gate(graph: TrainingGraph, editor: Editor, plan: ScalePlan, made: Sequence[Arithmetic], warnings: List[Dict[str, str]]) -> List[List[str]]:
    """Puts gates before what the step writes. Returns the gated writes of each loss."""
    step = plan.skips
    if step is None:
        return [[] for _ in made]
    gates = Gates(editor, graph)
    flags: Dict[Any, Port] = {}
    for name, numbers in step.by_loss.items():
        if graph.looped(name):
            warnings.append(warning("GMP112", name, "it writes inside a while loop: a skipped step runs it all the same"))
            continue
        if numbers not in flags:
            flags[numbers] = gates.any_of([flag for flag in (made[number].flag for number in sorted(numbers)) if flag is not None])
        gates.by_flag(name, flags[numbers])
    for name in step.by_value:
        if not graph.looped(name):
            gates.by_value(name)
    for name in sorted(graph.view.followed(graph.gradients, lambda name: not writes(graph.view.nodes[name].op))):
        if graph.view.nodes[name].op == "HistogramSummary" and graph.is_float(graph.view.inputs(name)[1]) and not graph.looped(name):
            gates.histogram(name)
    text = "it updates variables inside a function and returns what others read: a skipped step runs it all the same"
    warnings.extend(warning("GMP112", name, text) for name in gates.impossible)
    gated = set(gates.gated)
    return [sorted(name for name, numbers in step.by_loss.items() if number in numbers and name in gated) for number in range(len(made))]


def _doubts(loss: Loss, arithmetic: Arithmetic, scope: str) -> Iterator[Dict[str, str]]:
    for each in loss.scopes:
        for name in sorted(set(each.degrees.unclear)):
            yield warning("GMP111", name, "it is not linear and reads a list: it sees gradients multiplied by the loss scale")
    if arithmetic.clipped_apart:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning("GMP103", "graphmp/" + scope, "the gradients of %s are clipped one scope by the other" % scopes)


def _row(loss: Loss, arithmetic: Optional[Arithmetic] = None, gated: Sequence[str] = ()) -> Dict[str, Any]:
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
        "gated": list(gated),
    }
