"""Calls of `tf.gradients` in a training graph, and the losses to which they belong."""

from __future__ import annotations

from typing import AbstractSet, List, NamedTuple, Tuple

from graphmp.graph.structure.view import Port
from graphmp.scaling.degrees.homogeneity import ScaleEffect


class GradientScope(NamedTuple):
    """One call of `tf.gradients`.

    Attributes:
        scope: its name scope.
        nodes: its gradient code.
        seeds: its start.
        losses: the forward nodes that it differentiates.
        degrees: the effect of the scale on it.
        leaving: floating-point outputs that nodes outside read.
        call: the call of a function that takes the gradients inside and returns them unscaled;
            empty if they are taken in this graph.
        goes_on: whether it starts from gradients of others: what it differentiates is no loss.
    """

    scope: str
    nodes: AbstractSet[str]
    seeds: Tuple[Port, ...]
    losses: Tuple[str, ...]
    degrees: ScaleEffect
    leaving: Tuple[Port, ...]
    call: str = ""
    goes_on: bool = False

    @property
    def starts(self) -> Tuple[str, ...]:
        """The call, or the nodes of the seeds."""
        return (self.call,) if self.call else tuple(port.node for port in self.seeds)


class Loss(NamedTuple):
    """Gradient scopes that share a loss scale and a flag (`joint.py`).

    Attributes:
        scopes: the gradient scopes.
        gradients: outputs of gradient code on their way to the updates.
        checked: the outputs to check: the same, or complete results of all-reduces on their way.
        reduced: whether there are all-reduces.
        added_up: whether gradients of several scopes reach one write, as those of towers do.
        arrivals: outputs at which gradients arrive other than by an edge: taken out of
            accumulators or queues, or fed; else empty.
        fetched: whether its gradients are fetched and fed back through placeholders.
        updates: the writes that the gradients reach.
        direct: those reached in the same step; with arrivals, those behind them.
        emerging: outputs by which functions of gradients leave while loops, on their way to updates
            outside; else empty.
        held: direct ones that train no variable: gradients for a later step.
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
    held: Tuple[str, ...] = ()

    @property
    def tensors(self) -> List[str]:
        """The nodes that it is the value of, or their sum.

        Code that computes activations again, to save memory, takes gradients of these, too.
        """
        first = [scope for scope in self.scopes if not scope.goes_on] or self.scopes
        return [name for scope in first for name in scope.losses]

    @property
    def nodes(self) -> List[str]:
        """The nodes of its seeds, of its gradients that leave for updates, and of its writes."""
        return (
            [name for scope in self.scopes for name in scope.starts]
            + [port.node for port in self.gradients]
            + list(self.direct)
        )
