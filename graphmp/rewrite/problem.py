"""The problems that a rewrite solves: one for the main graph, one for each called function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.calls import functions_by_name
from graphmp.graph.structure.functions import called_functions
from graphmp.policy.policy import Policy
from graphmp.scaling.plan.model import ScalePlan
from graphmp.tf_hooks.bodies import as_graph
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.tuning.given import predicted


class Body(NamedTuple):
    """A graph body: the main graph, of no name, or a function's as a GraphDef of its own."""

    name: str
    graph_def: tf.GraphDef
    function: Optional[Any]


@dataclass(frozen=True)
class Problem:
    """A graph body, and all that its dtypes depend on.

    Attributes:
        body: the nodes.
        meta_graph: has the signatures and collections that name nodes of the main graph.
        op_defs: definitions of the ops.
        config: the options.
        policy: the op lists.
        plan: the loss scaling of the whole graph.
        is_measured: whether the costs of the options, if any, are of the same graph.
    """

    body: Body
    meta_graph: tf.MetaGraphDef
    op_defs: OpDefs
    config: Config
    policy: Policy
    plan: ScalePlan
    is_measured: bool = False

    @property
    def plan_here(self) -> Optional[ScalePlan]:
        """The loss scaling of this body; None for a function without any."""
        if self.body.function is None:
            return self.plan
        inside = [*self.plan.inside, *self.plan.returned]
        return next((each.plan for each in inside if each.body.name == self.body.name), None)


def problems(
    meta_graph: tf.MetaGraphDef, op_defs: OpDefs, config: Config, policy: Policy, plan: ScalePlan
) -> Iterator[Problem]:
    """The problem of each body."""
    prediction = predicted(config.costs, config.compute_dtype)
    is_measured = prediction is not None and prediction.costs.are_of(meta_graph.graph_def)
    for body in bodies(meta_graph, op_defs):
        yield Problem(body, meta_graph, op_defs, config, policy, plan, is_measured)


def bodies(meta_graph: tf.MetaGraphDef, op_defs: OpDefs) -> Iterator[Body]:
    """The bodies that can be rewritten, the main graph first."""
    called = called_functions(meta_graph.graph_def)
    yield Body("", meta_graph.graph_def, None)
    functions = functions_by_name(meta_graph.graph_def)
    for name in called:
        graph_def = as_graph(functions[name], op_defs)
        if graph_def is not None:
            yield Body(name, graph_def, functions[name])
