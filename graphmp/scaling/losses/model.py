"""Calls of `tf.gradients` in a training graph, and the losses that they belong to."""

from __future__ import annotations

from typing import AbstractSet, NamedTuple, Tuple

from graphmp.graph.structure.view import Port
from graphmp.scaling.degrees.homogeneity import Degrees


class GradientScope(NamedTuple):
    """One call of `tf.gradients`.

    Attributes:
        scope: its name scope.
        nodes: its gradient code.
        seeds: what it starts from.
        losses: the forward nodes whose gradient it takes.
        degrees: how the scale passes through it.
        leaving: floating point outputs that nodes outside read.
        call: the call of a function that takes the gradients inside, and gives them unscaled; empty where they are taken in this graph.
    """

    scope: str
    nodes: AbstractSet[str]
    seeds: Tuple[Port, ...]
    losses: Tuple[str, ...]
    degrees: Degrees
    leaving: Tuple[Port, ...]
    call: str = ""


class Loss(NamedTuple):
    """Gradient scopes that share a loss scale and a flag (`joint.py`).

    Attributes:
        scopes: the gradient scopes.
        gradients: outputs of gradient code on their way to the updates.
        checked: where they are looked at: the same, or on their way where an all-reduce has made them whole.
        reduced: whether there is such a one.
        added_up: whether gradients of several scopes come to one write, as those of towers do.
        arrivals: where gradients arrive that did not come by an edge: taken out of accumulators, or fed; else empty.
        fetched: whether its gradients leave the graph, and come back through placeholders.
        updates: the writes that the gradients reach.
        direct: those that they reach in the same step; behind accumulators, those that what is taken out reaches.
        emerging: where what was made of gradients taken in while loops comes out of these, on its way to updates outside; else empty.
    """

    scopes: Tuple[GradientScope, ...]
    gradients: Tuple[Port, ...]
    checked: Tuple[Port, ...]
    reduced: bool
    added_up: bool
    arrivals: Tuple[Port, ...]
    fetched: bool
    updates: Tuple[str, ...]
    direct: Tuple[str, ...]
    emerging: Tuple[Port, ...] = ()
