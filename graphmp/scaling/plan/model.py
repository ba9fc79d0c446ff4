"""The model of a plan: what is scaled in the main graph, in functions and in loops."""

from __future__ import annotations

from types import MappingProxyType
from typing import AbstractSet, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from graphmp.graph.structure.gradient_record import RecordedCall
from graphmp.graph.structure.view import Port
from graphmp.policy.reason import Reason
from graphmp.scaling.losses.directions import Direction
from graphmp.scaling.losses.idle import IdleCode
from graphmp.scaling.losses.inside import OpenBody
from graphmp.scaling.losses.model import Loss
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.skip_plan import SkipPlan


class ScalePlan(NamedTuple):
    """The plan of loss scaling.

    Attributes:
        losses: the scaled losses: their seeds are multiplied; results of their gradient code are
            divided, checked and clipped.
        unscaled: the unchanged losses.
        skips: the condition of each write; None if no step is skipped.
        kept: outputs of gradient code that are unscaled under their own names.
        float32: nodes that stay float32, with the reason.
        unnamed: gradient code that isn't known by names, by scope.
        forward: the forward nodes of those nodes.
        joined: nodes that belong to gradient code though they are behind it: nodes that pass
            gradients to all-reduces, and these.
        warnings: rows of the report.
        inside: the changes in functions that train inside.
        unscaled_inside: unchanged losses in functions, with the bodies that contain them.
        float32_inside: nodes of these functions that stay float32, by the function.
        loops: the changes in while loops that train inside.
        returned: the changes in functions that take gradients and return them; the unchanged
            functions if there is no scale.
        behind: writes of the main graph that belong to the steps of functions, with indices into
            `inside`.
        idle: gradient code whose gradients train nothing, by the path of its start.
        directions: gradient code of which a loss reads the direction alone, likewise.
    """

    losses: Sequence[Loss]
    unscaled: Sequence[Loss]
    skips: Optional[SkipPlan]
    kept: Sequence[Port]
    float32: Mapping[str, Reason]
    unnamed: Mapping[str, AbstractSet[str]]
    forward: Mapping[str, str]
    joined: AbstractSet[str]
    warnings: Sequence[Dict[str, str]]
    inside: Sequence[Inside] = ()
    unscaled_inside: Sequence[Tuple[OpenBody, Loss]] = ()
    float32_inside: Mapping[str, Mapping[str, Reason]] = MappingProxyType({})
    loops: Sequence[InLoop] = ()
    returned: Sequence[Inside] = ()
    behind: Mapping[str, AbstractSet[int]] = MappingProxyType({})
    recorded: Sequence[RecordedCall] = ()
    idle: Mapping[str, IdleCode] = MappingProxyType({})
    directions: Mapping[str, Direction] = MappingProxyType({})


class Inside(NamedTuple):
    """A function that trains inside.

    Attributes:
        body: its body, to be changed.
        graph: the body's TrainingGraph.
        plan: the changes in it.
    """

    body: OpenBody
    graph: TrainingGraph
    plan: ScalePlan


class InLoop(NamedTuple):
    """A while loop that trains inside.

    Attributes:
        graph: the TrainingGraph of one iteration.
        plan: the changes in it.
        pivot: a node of its body that starts once the previous iteration has trained.
    """

    graph: TrainingGraph
    plan: ScalePlan
    pivot: str
