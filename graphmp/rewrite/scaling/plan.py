"""What loss scaling will do to a graph, decided before anything is changed: `convert` applies it, `inspect` and `explain` read it."""

from __future__ import annotations

from typing import AbstractSet, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import warning
from graphmp.graph.gradient_names import gradient_scopes
from graphmp.graph.live import UPDATE_PREFIXES, writes
from graphmp.graph.view import Port
from graphmp.rewrite.scaling.fetched_gradients import kept_ports
from graphmp.rewrite.scaling.losses import find_losses
from graphmp.rewrite.scaling.model import Loss
from graphmp.rewrite.scaling.skip_plan import SkipPlan, activations, plan_skips
from graphmp.rewrite.scaling.training_graph import TrainingGraph

_SEED = "loss scale: is multiplied by it in float32"
_KEPT = "loss scale: gives the unscaled gradient"


class ScalePlan(NamedTuple):
    """What loss scaling does.

    Attributes:
        losses: those that are scaled: their seeds are multiplied, what leaves their gradient code is divided, checked and clipped.
        unscaled: those that are left as they are.
        skips: what decides on each write; None where no step is skipped.
        kept: outputs of gradient code that are unscaled under their own names.
        float32: nodes that stay float32, with the reason.
        unnamed: gradient code that no name tells of, by scope.
        joined: nodes that belong to gradient code though they stand behind it: what hands gradients to all-reduces, those included.
        warnings: rows of the report.
    """

    losses: Sequence[Loss]
    unscaled: Sequence[Loss]
    skips: Optional[SkipPlan]
    kept: Sequence[Port]
    float32: Mapping[str, str]
    unnamed: Mapping[str, AbstractSet[str]]
    joined: AbstractSet[str]
    warnings: Sequence[Dict[str, str]]


def plan_scaling(graph: TrainingGraph, config: Config, allow: AbstractSet[str], leave: bool) -> ScalePlan:
    """Decides on the losses of a graph.

    Args:
        graph: the graph.
        config: loss scale, clip, and what names the losses where they aren't found.
        allow: matmuls and convolutions.
        leave: only list the losses: the graph scales them itself, or is not converted.

    Raises:
        GraphmpError: GMP002 for a --loss, --train_op or --gradient_scope that the graph has not.
    """
    losses = find_losses(graph, config)
    unnamed = {scope: found.nodes for scope, found in graph.discovered.items()}
    if leave or (config.loss_scale == "none" and not config.clip_norm):
        return ScalePlan([], losses, None, [], {}, unnamed, graph.joined, [])
    warnings = [*_unscaled_functions(graph.meta_graph), *_unscaled_updates(graph, losses, config)]
    served = [loss for loss in losses if not _refused(graph, loss, warnings)]
    skips = None
    if config.loss_scale == "dynamic" and served:
        skips = plan_skips(graph, served, activations(graph, allow), config.count_skipped_steps)
    kept = [port for loss in served for scope in loss.scopes for port in kept_ports(graph, config, loss, scope)]
    float32 = {name: reason for loss in served for scope in loss.scopes for name, reason in scope.degrees.float32.items()}
    float32.update((port.node, _KEPT) for port in kept)
    float32.update((seed.node, _SEED) for loss in served for scope in loss.scopes for seed in scope.seeds if seed.node in scope.nodes)
    return ScalePlan(served, [loss for loss in losses if loss not in served], skips, kept, float32, unnamed, graph.joined, warnings)


def _refused(graph: TrainingGraph, loss: Loss, warnings: List[Dict[str, str]]) -> bool:
    """Whether a loss lies in a while loop, where no scale can be brought in."""
    nodes = [port.node for scope in loss.scopes for port in scope.seeds] + [port.node for port in loss.gradients] + list(loss.direct)
    inside = next((name for name in nodes if graph.looped(name)), None)
    if inside is not None:
        warnings.append(warning("GMP110", inside, "it trains inside a while loop: gradients are not scaled"))
    return inside is not None


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
