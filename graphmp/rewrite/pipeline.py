"""The rewrite of a graph: decide, then apply, then check.

What is given is copied first. The loss scale is put into the copy, then `casts.apply` changes it by what analysis decided, the one place
that does; `check` runs last.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Counter,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.errors import GraphmpError, warning
from graphmp.graph.edit.mark import mark
from graphmp.graph.io.stored import Readable, StoredMetaGraph, copied, emptied
from graphmp.graph.shapes.shapes import with_inferred_shapes
from graphmp.graph.structure.contexts import Contexts
from graphmp.graph.structure.functions import called_functions
from graphmp.graph.structure.gradient_code import gradient_code, idle_nodes
from graphmp.graph.structure.gradient_record import Recorded, valid
from graphmp.naming import SCOPE, in_body, of_function
from graphmp.once import once
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.policy.policy import Policy, tensor_core_ops
from graphmp.process_memory import collector_paused, give_back
from graphmp.report.reasons import DROPPED_SHAPES
from graphmp.rewrite import casts, check, pins, ranges
from graphmp.rewrite.calibration import overflowed
from graphmp.rewrite.groups import Groups
from graphmp.rewrite.paint import FLOAT, HALF, Paint, ahead_of_allow, paint
from graphmp.rewrite.placement import place
from graphmp.rewrite.recognise import Recognised, recognise
from graphmp.rewrite.units import TypedGraph
from graphmp.scaling.insertion.first_step import look
from graphmp.scaling.insertion.handles import pass_handles
from graphmp.scaling.insertion.insert import Inserted, insert
from graphmp.scaling.losses.allreduce import with_reduces
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.fetched_gradients import under_its_name
from graphmp.scaling.plan.plan import LOSS, ScalePlan, plan_scaling
from graphmp.tf_hooks import bodies
from graphmp.tf_hooks.op_defs import OpDefs


class Decisions(NamedTuple):
    """What was decided for one graph body.

    Attributes:
        graph: the body and its units.
        groups: which units share a dtype.
        painted: the colour of each unit and why.
    """

    graph: TypedGraph
    groups: Groups
    painted: List[Paint]


class Rewriting:
    """A rewritten graph.

    Attributes:
        converted: the converted graph, stored.
        record: facts for the report, as the recipe's record.
    """

    def __init__(self, converted: StoredMetaGraph, record: Dict[str, Any]):
        self.converted, self.record = converted, record

    @once
    def meta_graph(self) -> tf.MetaGraphDef:
        """The converted MetaGraphDef."""
        return self.converted.parsed()


Row = Tuple[str, str, str]
Placement = Callable[[TypedGraph, Groups, List[Paint], str], List[Paint]]


@dataclass
class _Painted:
    """What the painting leaves for the record, body by body.

    Attributes:
        done: node, what was done, why.
        kept: how many units stayed float32 by the kind of reason.
        float32: body, node and reason of nodes that are float32 in every respect.
        unknown: nodes whose op nobody knows.
        allowed_kept: matmuls and convolutions that stayed float32, and why.
    """

    done: List[Row] = field(default_factory=list)
    kept: Counter[str] = field(default_factory=collections.Counter)
    float32: List[Row] = field(default_factory=list)
    unknown: List[str] = field(default_factory=list)
    allowed_kept: Dict[str, str] = field(default_factory=dict)


class _Body(NamedTuple):
    """A graph body that can be painted: the main graph, or a function's as a GraphDef of its own."""

    name: str
    graph_def: tf.GraphDef
    function: Optional[Any]


def decide(
    meta_graph: tf.MetaGraphDef, config: Config, policy: Policy, placement: Placement = place
) -> Dict[str, Decisions]:
    """What becomes half and why, for the main graph ("") and each function that it calls; nothing is changed.

    Raises:
        GraphmpError: GMP002 for a --fetch that names no node, GMP008 for what is no graph.
    """
    op_defs = OpDefs(meta_graph)
    _, _, plan = _planned(meta_graph, config, policy, op_defs)
    return {
        body.name: _decide(body, op_defs, config, policy, meta_graph, placement, plan)
        for body in _bodies(meta_graph, op_defs)
    }


@collector_paused()
def rewrite(
    meta_graph: Readable,
    config: Config,
    policy: Policy,
    placement: Placement = place,
    recorded: Sequence[Recorded] = (),
) -> Rewriting:
    """Converts a graph that is already built.

    Args:
        meta_graph: the graph; it is not changed. Of a stored one there is a single copy in memory while it is rewritten.
        config: the options.
        policy: the op lists.
        placement: decides on what painting left free.
        recorded: calls of `tf.gradients` that were seen as the graph was built.

    Raises:
        GraphmpError: GMP002, GMP008; GMP021 where the result fails its check; GMP022 for another conversion's result.
    """
    op_defs = OpDefs(meta_graph)
    changed, record = _changed(meta_graph, config, policy, placement, op_defs, recorded)
    give_back()
    check.check_types(
        changed.graph_def, OpDefs(changed) if changed.graph_def.library.function else op_defs
    )
    return Rewriting(check.loaded(meta_graph, changed), record)


def _changed(
    meta_graph: Readable,
    config: Config,
    policy: Policy,
    placement: Placement,
    op_defs: OpDefs,
    recorded: Sequence[Recorded],
) -> Tuple[StoredMetaGraph, Dict[str, Any]]:
    """The graph with all changes made, and the record of them."""
    result = copied(meta_graph)
    special, training, plan = _planned(result, config, policy, op_defs, recorded)
    scaled = insert(training, config, plan)
    op_defs = OpDefs(result) if plan.returned else op_defs
    painted = _Painted()
    if special.leave:
        return emptied(result), _record(scaled, special, painted)
    give_back()  # the loss scale's scratch graph
    for body in _bodies(result, op_defs) if config.compute_dtype != "float32" else ():
        _paint(body, op_defs, config, policy, result, placement, plan, painted)
    give_back()
    for body in _bodies(result, op_defs) if scaled.first_steps else ():
        painted.done += _look(body, scaled, policy, op_defs)
    if plan.inside:
        scaled.done[:0] = pass_handles(result.graph_def)
    mark(result, config, "rewrite")
    return emptied(result), _record(scaled, special, painted)


def _look(body: _Body, scaled: Inserted, policy: Policy, op_defs: OpDefs) -> List[Row]:
    """Has the first steps of one body look at gradients."""
    added = look(body.graph_def, scaled.first_steps.get(body.name, []), policy.allow, op_defs)
    if added and body.function is not None:
        bodies.write_back(body.graph_def, body.function, op_defs)
    return [
        (in_body(body.name, name), "inserted", "scale: a first step shows what scale fits")
        for name in added
    ]


def _planned(
    meta_graph: tf.MetaGraphDef,
    config: Config,
    policy: Policy,
    op_defs: OpDefs,
    recorded: Sequence[Recorded] = (),
) -> Tuple[Recognised, TrainingGraph, ScalePlan]:
    """What is special about a graph, the graph as loss scaling looks at it, and what that will do."""
    training = TrainingGraph(
        meta_graph,
        config,
        op_defs,
        valid(recorded, meta_graph.graph_def.node, config.gradient_scope),
        inside=recorded,
    )
    special = recognise(meta_graph, training.view, config, policy, training.gradients, recorded)
    leave = special.leave or special.scales_itself
    return (
        special,
        training,
        plan_scaling(
            training, config, frozenset(tensor_core_ops()) | policy.allow, leave, recorded
        ),
    )


def _paint(
    body: _Body,
    op_defs: OpDefs,
    config: Config,
    policy: Policy,
    result: tf.MetaGraphDef,
    placement: Placement,
    plan: ScalePlan,
    painted: _Painted,
) -> None:
    """Decides on one body, notes why, and changes it."""
    decisions = _decide(body, op_defs, config, policy, result, placement, plan)
    painted.kept.update(_kinds_kept(decisions))
    painted.float32 += _float32(body.name, decisions)
    painted.unknown += [
        name
        for name in decisions.graph.unknown
        if decisions.graph.view.nodes[name].op not in (ARGUMENT, RESULT)
    ]
    painted.allowed_kept.update(_allowed_kept(decisions, policy, body.name))
    painted.done += _apply(body, decisions, config, result, op_defs)


def _bodies(meta_graph: tf.MetaGraphDef, op_defs: OpDefs) -> Iterator[_Body]:
    called = called_functions(meta_graph.graph_def)
    yield _Body("", meta_graph.graph_def, None)
    functions = {
        function.signature.name: function for function in meta_graph.graph_def.library.function
    }
    for name in called:
        graph_def = bodies.as_graph(functions[name], op_defs)
        if graph_def is not None:
            yield _Body(name, graph_def, functions[name])


def _decide(
    body: _Body,
    op_defs: OpDefs,
    config: Config,
    policy: Policy,
    meta_graph: tf.MetaGraphDef,
    placement: Placement,
    plan: ScalePlan,
) -> Decisions:
    graph = TypedGraph(
        body.graph_def if body.function else with_inferred_shapes(body.graph_def), op_defs
    )
    names = graph.view.nodes.keys()
    here = plan if body.function is None else _plan_inside(plan, body.name)
    scopes = gradient_code(
        graph.view, config.gradient_scope, here.recorded if here is not None else ()
    )
    unnamed = here.unnamed if here is not None else {}
    forward = here.forward if here is not None else {}
    graph.forward = {
        name: own for node, own in forward.items() for name in under_its_name(graph.view, node)
    }
    scopes.update(
        (scope, {name for node in nodes for name in under_its_name(graph.view, node)})
        for scope, nodes in unnamed.items()
    )
    gradients = {name for nodes in scopes.values() for name in nodes}
    if body.function is None:
        gradients |= plan.joined
        graph.joined = plan.joined
        policy = with_reduces(policy, {graph.view.nodes[name].op for name in plan.joined})
    graph.idle = idle_nodes(graph.view, scopes.values())
    graph.unread = idle_nodes(graph.view, scopes.values(), control=False)
    ahead = ahead_of_allow(graph, policy.allow, gradients)
    outputs = {
        name
        for name in names
        if name not in ahead and graph.view.nodes[name].op not in policy.allow
    }
    fetched = {} if body.function else _fetched(graph, meta_graph, config, outputs)
    own = here.float32 if here is not None else {}
    fetched.update(
        (name, reason) for name, reason in own.items() if reason != LOSS or name not in fetched
    )
    pinned = pins.pin(graph, op_defs, config, policy, fetched, gradients)
    guards = ranges.guarded(
        graph, policy, config.compute_dtype, overflowed("" if body.function else config.ranges)
    )
    groups = Groups(graph, policy.allow)
    painted = paint(graph, groups, pinned, guards, config, policy, op_defs, gradients)
    return Decisions(graph, groups, placement(graph, groups, painted, config.compute_dtype))


def _plan_inside(plan: ScalePlan, function: str) -> Optional[ScalePlan]:
    """What the loss scale does in a function; None where it does nothing there."""
    return next(
        (inside.plan for inside in [*plan.inside, *plan.returned] if inside.body.name == function),
        None,
    )


def _fetched(
    graph: TypedGraph, meta_graph: tf.MetaGraphDef, config: Config, outputs: Any
) -> Dict[str, str]:
    try:
        return pins.fetched_nodes(meta_graph, config, graph.view.nodes.keys(), outputs)
    except LookupError as error:
        raise GraphmpError(
            "GMP002",
            "--fetch=%s: the graph has no such node; accepted are names of tensors and ops"
            % error.args[0],
        ) from None


def _apply(
    body: _Body, decisions: Decisions, config: Config, result: tf.MetaGraphDef, op_defs: OpDefs
) -> List[Row]:
    """Changes one body in the result. Returns rows of the record: node, what, why."""
    stale = casts.stale(decisions.graph)
    contexts = Contexts(tf.MetaGraphDef() if body.function else result)
    inserted = casts.apply(
        decisions.graph, decisions.painted, config.compute_dtype, contexts, body.graph_def
    )
    if body.function is not None:
        if not inserted and not any(p.colour == HALF for p in decisions.painted):
            return []
        check.check_types(body.graph_def, op_defs)
        bodies.write_back(body.graph_def, body.function, op_defs)
        return [
            (of_function(body.name), "rewritten", "rewritten inside: its signature is kept"),
            *_rows(body.name, decisions, stale, inserted),
        ]
    return _rows("", decisions, stale, inserted)


def _rows(
    body: str, decisions: Decisions, stale: List[str], inserted: Mapping[str, str]
) -> List[Row]:
    """Rows of the record for one body: node by its path, what was done, why."""
    rows = [
        (unit.node, "painted", p.reason)
        for unit, p in zip(decisions.graph.units, decisions.painted)
        if p.colour == HALF
    ]
    painted = {row[0] for row in rows}
    rows += [(name, "shapes", DROPPED_SHAPES) for name in stale if name not in painted]
    rows += [(name, "inserted", reason) for name, reason in inserted.items()]
    return [(in_body(body, name), did, why) for name, did, why in rows]


def _kinds_kept(decisions: Decisions) -> Iterator[str]:
    """For each unit that stayed float32, constants aside, the kind of reason, which is what stands before its colon."""
    kept = (
        p
        for n, p in enumerate(decisions.painted)
        if p.colour == FLOAT and decisions.graph.node(n).op != "Const"
    )
    return (p.reason.split(":")[0] for p in kept)


def _float32(body: str, decisions: Decisions) -> Iterator[Row]:
    """Body, node and reason of each of the model's nodes that is float32 in every respect."""
    half = {
        unit.node for unit, p in zip(decisions.graph.units, decisions.painted) if p.colour == HALF
    }
    units = list(zip(decisions.graph.units, decisions.painted))
    reasons = {
        unit.node: p.reason for unit, p in reversed(units) if p.colour == FLOAT
    }  # a node's first unit, its data, tells
    skipped = (ARGUMENT, RESULT)
    nodes = decisions.graph.view.nodes
    yield from (
        (body, n, why)
        for n, why in reasons.items()
        if n not in half and not n.startswith(SCOPE + "/") and nodes[n].op not in skipped
    )


def _allowed_kept(decisions: Decisions, policy: Policy, body: str) -> Dict[str, str]:
    """Matmuls and convolutions that stayed float32, and why; by path."""
    graph = decisions.graph
    kept = [
        n
        for n, p in enumerate(decisions.painted)
        if p.colour == FLOAT and graph.node(n).op in policy.allow
    ]
    return {in_body(body, graph.units[n].node): decisions.painted[n].reason for n in kept}


def _record(scaled: Inserted, special: Recognised, painted: _Painted) -> Dict[str, Any]:
    elsewhere = bool(scaled.losses) or any(
        row["code"] == "GMP110" for row in scaled.warnings
    )  # then there is training after all
    warnings = [
        row for row in special.warnings if row["code"] != "GMP105" or not elsewhere
    ] + scaled.warnings
    if painted.unknown:
        text = (
            "%d nodes have ops that neither TensorFlow here nor the graph defines: kept as they are"
        )
        warnings.append(warning("GMP109", painted.unknown[0], text % len(painted.unknown)))
    return {
        "done": [list(row) for row in [*scaled.done, *painted.done]],
        "repaired": [],
        "warnings": warnings,
        "losses": scaled.losses,
        "scales": scaled.scales,
        "kept": dict(sorted(painted.kept.items())),
        "kept_allowed": painted.allowed_kept,
        "float32": painted.float32,
    }
