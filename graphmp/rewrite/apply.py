"""Applying decisions to a graph body, and the list of the changes."""

from __future__ import annotations

from typing import AbstractSet, Iterator, List, Mapping

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.contexts import Contexts
from graphmp.graph.structure.view import GraphView
from graphmp.naming import in_body, of_function
from graphmp.policy.reason import DROPPED_SHAPES, REWRITTEN, Done, Reason
from graphmp.rewrite import casts, check
from graphmp.rewrite.decisions import Decisions
from graphmp.rewrite.painting.paint import HALF
from graphmp.rewrite.problem import Problem, bodies
from graphmp.scaling.insertion.first_step import FirstStep, look
from graphmp.tf_hooks.bodies import write_back
from graphmp.tf_hooks.op_defs import OpDefs

_REWRITTEN = Reason(REWRITTEN, "its signature is kept")


def apply(problem: Problem, decisions: Decisions) -> List[Done]:
    """Change a body as decided; return the changes. A function without any isn't changed."""
    body = problem.body
    stale = casts.stale(decisions.graph)
    inserted = casts.apply(
        decisions.graph,
        decisions.placed,
        problem.config.compute_dtype,
        Contexts(tf.MetaGraphDef() if body.function else problem.meta_graph),
        body.graph_def,
    )
    rows = [
        row._replace(node=in_body(body.name, row.node)) for row in _rows(decisions, stale, inserted)
    ]
    if body.function is None:
        return rows
    if not inserted and not decisions.half_nodes():
        return []
    check.check_types(GraphView(body.graph_def), problem.op_defs)
    write_back(body.graph_def, body.function, problem.op_defs)
    return [Done(of_function(body.name), "rewritten", _REWRITTEN), *rows]


def _rows(decisions: Decisions, stale: List[str], inserted: Mapping[str, Reason]) -> Iterator[Done]:
    for unit, p in decisions.units():
        if p.colour == HALF:
            yield Done(unit.node, "painted", p.reason)
    painted = decisions.half_nodes()
    yield from (Done(name, "shapes", DROPPED_SHAPES) for name in stale if name not in painted)
    yield from (Done(name, "inserted", why) for name, why in inserted.items())


def look_at_gradients(
    meta_graph: tf.MetaGraphDef,
    op_defs: OpDefs,
    first_steps: Mapping[str, List[FirstStep]],
    allow: AbstractSet[str],
) -> Iterator[Done]:
    """Let first steps measure gradients, in each painted body; return the changes."""
    for body in bodies(meta_graph, op_defs) if first_steps else ():
        added = look(body.graph_def, first_steps.get(body.name, []), allow, op_defs)
        if added and body.function is not None:
            write_back(body.graph_def, body.function, op_defs)
        yield from (row._replace(node=in_body(body.name, row.node)) for row in added)
