"""Putting the loss scale into a graph that is already built.

Order, always: gradients, float32, divide by the scale, finite check, clip, apply or skip.

1. Seeds are multiplied by the scale; the loss itself is left as it is.
2. Each output that leaves gradient code is divided by it, in float32, for all who read it outside.
3. The finite check looks at the gradients on their way to updates; where they come out of accumulators or are fed, there; where an all-reduce
   adds those of other processes to them, behind it (`allreduce.py`).
4. The clip takes the same gradients. Of towers, and behind an all-reduce, it takes what the updates read: averages.
5. What the step writes goes by the flag (`step.py`, `gates.py`).

The graph is float32 all the while: the painter comes afterwards, and what is below `graphmp/` stays float32.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.editing import Editor
from graphmp.graph.gradient_code import gradient_scopes
from graphmp.graph.live import UPDATE_PREFIXES, writes
from graphmp.graph.view import Port
from graphmp.loss_scale.scales import COLLECTION
from graphmp.rewrite.scaling.arithmetic import Arithmetic
from graphmp.rewrite.scaling.checkpoints import initialise, save_and_restore
from graphmp.rewrite.scaling.first_step import FirstStep
from graphmp.rewrite.scaling.fragment import Fragment
from graphmp.rewrite.scaling.gates import Gates
from graphmp.rewrite.scaling.losses import find_losses
from graphmp.rewrite.scaling.model import Loss
from graphmp.rewrite.scaling.skip_plan import activations, plan_skips
from graphmp.rewrite.scaling.training_graph import TrainingGraph


class Inserted(NamedTuple):
    """What was done, for the report and the painter.

    Attributes:
        losses: rows of the report, one a loss.
        scales: rows of the report, one a scale: scope, kind, initial value.
        done: (node, what, why) for nodes that were added.
        float32: nodes that compare with scaled values, read unscaled ones or hold a power of the scale, and stay float32, with the reason.
        first_steps: what a first step is to look at once the graph is painted.
        warnings: rows of the report.
        joined: nodes that belong to gradient code though they stand behind it: what hands gradients to all-reduces, those included.
    """

    losses: List[Dict[str, Any]]
    scales: List[Dict[str, Any]]
    done: List[Tuple[str, str, str]]
    float32: Dict[str, str]
    first_steps: List[FirstStep]
    warnings: List[Dict[str, str]]
    joined: AbstractSet[str]


def insert(graph: TrainingGraph, config: Config, allow: AbstractSet[str], leave: bool) -> Inserted:
    """Scales the losses of a graph, which is changed.

    Args:
        graph: the graph.
        config: loss scale, clip, and what names the losses where they aren't found.
        allow: matmuls and convolutions.
        leave: only list the losses: the graph scales them itself, or is not converted.

    Raises:
        GraphmpError: GMP002 for a --loss, --train_op or --gradient_scope that the graph has not.
    """
    losses = find_losses(graph, config)
    result = Inserted([], [], [], {}, [], [], graph.joined)
    if leave or (config.loss_scale == "none" and not config.clip_norm):
        result.losses.extend(_row(loss) for loss in losses)
        return result
    result.warnings.extend(_unscaled_functions(graph.meta_graph))
    result.warnings.extend(_unscaled_updates(graph, losses, config))
    _insert(graph, config, allow, losses, result)
    return result


def _insert(graph: TrainingGraph, config: Config, allow: AbstractSet[str], losses: Sequence[Loss], result: Inserted) -> None:
    editor, part = Editor(graph.meta_graph.graph_def), Fragment()
    served = [loss for loss in losses if not _refused(graph, loss, result.warnings)]
    made = []
    for number, loss in enumerate(served):
        scope = "loss_scale_%d" % number if number else "loss_scale"
        made.append(Arithmetic(graph, editor, part, config, loss, scope))
        result.scales.append({"scope": scope, "kind": made[-1].scale.kind, "initial": made[-1].scale.initial})
        result.float32.update((name, reason) for each in loss.scopes for name, reason in each.degrees.float32.items())
        if made[-1].first_step is not None:
            result.first_steps.append(made[-1].first_step)
        result.warnings.extend(_doubts(loss, made[-1], scope))
    if config.loss_scale == "dynamic" and served:
        gated = _gate(graph, editor, config, allow, served, made, result.warnings)
        initialise(graph, editor, served, [each.scale for each in made])
        save_and_restore(graph, editor, part, served, [each.scale for each in made])
    else:
        gated = [[] for _ in served]
    part.splice(editor, graph.meta_graph, {tf.GraphKeys.GLOBAL_VARIABLES: False, COLLECTION: True})
    for name, others in [item for each in made for item in each.waits.items()]:
        editor.wait_for(name, others)
    editor.finish()
    result.losses.extend(_row(loss, arithmetic, names) for loss, arithmetic, names in zip(served, made, gated))
    result.losses.extend(_row(loss) for loss in losses if loss not in served)
    result.done.extend((name, "inserted", reason) for name, reason in editor.added.items() if reason)
    result.done.extend((name, "changed", reason) for name, reason in editor.changed.items())


def _refused(graph: TrainingGraph, loss: Loss, warnings: List[Dict[str, str]]) -> bool:
    """Whether a loss lies in a while loop, where no scale can be brought in."""
    nodes = [port.node for scope in loss.scopes for port in scope.seeds] + [port.node for port in loss.gradients] + list(loss.direct)
    inside = next((name for name in nodes if graph.looped(name)), None)
    if inside is not None:
        warnings.append(warning("GMP110", inside, "it trains inside a while loop: gradients are not scaled"))
    return inside is not None


def _gate(
    graph: TrainingGraph,
    editor: Editor,
    config: Config,
    allow: AbstractSet[str],
    losses: Sequence[Loss],
    made: Sequence[Arithmetic],
    warnings: List[Any],
) -> List[List[str]]:
    """Puts gates before what the step writes. Returns the gated writes of each loss."""
    step = plan_skips(graph, losses, activations(graph, allow), config.count_skipped_steps)
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
    return [sorted(name for name, numbers in step.by_loss.items() if number in numbers and name in gated) for number in range(len(losses))]


def _doubts(loss: Loss, arithmetic: Arithmetic, scope: str) -> Iterator[Dict[str, str]]:
    for each in loss.scopes:
        for name in sorted(set(each.degrees.unclear)):
            yield warning("GMP111", name, "it is not linear and reads a list: it sees gradients multiplied by the loss scale")
    if arithmetic.clipped_apart:
        scopes = ", ".join(each.scope for each in loss.scopes)
        yield warning("GMP103", "graphmp/" + scope, "the gradients of %s are clipped one scope by the other" % scopes)


def _unscaled_functions(meta_graph: tf.MetaGraphDef) -> Iterator[Dict[str, str]]:
    """Functions that take gradients and update variables inside: what they need of the scale would have to be passed in."""
    for function in meta_graph.graph_def.library.function:
        scopes = gradient_scopes({node.name for node in function.node_def})
        if scopes and any(writes(node.op) for node in function.node_def):
            yield warning("GMP110", function.signature.name, "the function trains inside itself: its gradients are not scaled")


def _unscaled_updates(graph: TrainingGraph, losses: Sequence[Loss], config: Config) -> Iterator[Dict[str, str]]:
    """Update kernels that no gradient code was found for; said once."""
    served = {name for loss in losses for name in loss.updates}
    left = [n for n in graph.state.writes if n not in served and graph.view.nodes[n].op.startswith(UPDATE_PREFIXES)]
    if left and not config.names_training:
        text = "it belongs to no gradient code that was found (%d such updates): its gradient is neither scaled nor checked"
        yield warning("GMP110", left[0], text % len(left))


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
