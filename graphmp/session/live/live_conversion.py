"""One conversion of a live graph, made beside the graph's own nodes; never changed afterwards."""

from __future__ import annotations

import time
from typing import AbstractSet, Any, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.mark import mark_session
from graphmp.graph.structure.view import GraphView
from graphmp.policy import policy as policies
from graphmp.policy.op_sets import VARIABLE_OPS
from graphmp.report.coverage import nothing_in_half
from graphmp.report.kernels_here import missing_kernels
from graphmp.report.record import Record
from graphmp.report.report import check_variables
from graphmp.rewrite.decisions import decided
from graphmp.rewrite.pipeline import Solver, rewrite
from graphmp.session.live.cloning.clones import Clones
from graphmp.session.live.cloning.closure import nodes_to_clone
from graphmp.session.live.cloning.earlier import NOTHING, Earlier, Settling, digested
from graphmp.session.live.cloning.export import exported
from graphmp.session.live.cloning.nodes import LiveNodes, unconverted
from graphmp.session.live.cloning.reused import kept_with
from graphmp.session.live.gradient_values import GradientValues
from graphmp.session.live.not_finite.finite import FiniteWatch, WatchedLoss
from graphmp.session.live.not_finite.losses import watched_losses
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.tuning.machine import check_given


class LiveConversion(NamedTuple):
    """One conversion of a live graph; immutable.

    Attributes:
        original: the MetaGraphDef before; None after the observer's call.
        meta_graph: the converted one, under the original's names; None likewise.
        record: the record of the rewrite.
        warnings: rows of a report's `warnings` about the whole graph: the record's, and that
            nothing is in half precision.
        seconds: the time it took, clones included.
        nodes: the graph's nodes and their clones.
        losses: the losses whose steps can be checked for finite values.
        watch: detects steps that are not finite; None without such losses.
        results: what the next conversion goes by.
    """

    original: Optional[tf.MetaGraphDef]
    meta_graph: Optional[tf.MetaGraphDef]
    record: Record
    warnings: List[Dict[str, str]]
    seconds: float
    nodes: LiveNodes
    losses: Sequence[WatchedLoss]
    watch: Optional[FiniteWatch]
    results: Earlier

    def checks(self) -> List[Any]:
        """The ops whose results tell whether gradients are finite.

        Finite checks, or else the ops that compute the gradients.
        """
        return [tensor.op for loss in self.losses for tensor in loss.flags or loss.gradients]


def convert(
    graph: Any,
    config: Config,
    added: AbstractSet[str],
    earlier: Optional[LiveConversion],
    trained: Sequence[Any],
    debug: bool,
    solve: Solver = decided,
    left: FrozenSet[str] = frozenset(),
    session_config: Optional[Any] = None,
) -> LiveConversion:
    """Convert a live graph beside itself, or what is new in it.

    Args:
        graph: the tf.Graph.
        config: the options.
        added: names of the nodes that conversions added.
        earlier: the conversion before, whose clones serve again; None for the first.
        trained: ops that train, which `earlier` doesn't know.
        debug: whether to find the first op that isn't finite in each run that trains.
        solve: decides on a body.
        left: those of `added` that another process left in the graph: nothing shares them.
        session_config: the ConfigProto of the session that trains; None if it has none.

    Raises:
        GraphmpError: as `graphmp.convert`.
    """
    start = time.time()
    check_given(config.costs)
    nodes = earlier.nodes if earlier is not None else unconverted(left)
    before = earlier.results if earlier is not None else NOTHING
    wanted = before.to_convert(graph, trained, added) if earlier is not None else None
    original = exported(graph, added, wanted)
    settling = Settling(before.settled, solve)
    done = rewrite(
        original,
        config,
        policies.load(config.compute_dtype, config.op_policy),
        recorded=noted(graph),
        solve=settling,
        goes_on=True,
    )
    if not done.record.left_as_it_is:
        mark_session(graph, config)
    check_variables(original, done.meta_graph)
    after = GraphView(done.meta_graph.graph_def)
    shared = _shared(after, added - left)
    cloned = nodes_to_clone(original.graph_def, after, shared)
    reused = before.reused(after, cloned, shared)
    clones = Clones(graph, after, original.graph_def, cloned - reused.keys(), reused=reused)
    clones.add()
    known = frozenset(node.name for node in original.graph_def.node)
    results = Earlier(known, {**reused, **clones.names}, digested(after), settling.decided)
    nodes = kept_with(graph, nodes, results).with_clones(clones, after, known)
    nodes = nodes._replace(gradients=GradientValues(nodes.stand_ins, done.as_built))
    warnings = [
        *done.record.warnings,
        *nothing_in_half(after.graph_def, config, done.record),
        *missing_kernels(after.graph_def, session_config),
    ]
    seconds = time.time() - start
    losses = watched_losses(
        done.record, after, nodes.in_loops, config, lambda name: nodes.stand_ins.named(graph, name)
    )
    watch = FiniteWatch(losses, nodes.stand_ins.originals(), debug) if losses else None
    return LiveConversion(
        original, done.meta_graph, done.record, warnings, seconds, nodes, losses, watch, results
    )


def _shared(after: GraphView, added: AbstractSet[str]) -> Set[str]:
    """The loss scale's variables that an earlier conversion added."""
    return {name for name in added if name in after.nodes and after.nodes[name].op in VARIABLE_OPS}
