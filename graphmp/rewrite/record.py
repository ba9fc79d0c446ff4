"""The record of a rewrite for the report, assembled from notes on each graph body."""

from __future__ import annotations

import collections
from typing import Counter, Dict, Iterator, List, NamedTuple, Sequence

from graphmp.errors import warning
from graphmp.naming import SCOPE, in_body
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.policy.reason import Done, Reason
from graphmp.report.record import Kept, Record
from graphmp.rewrite.decisions import Decisions
from graphmp.rewrite.paint import FLOAT
from graphmp.rewrite.problem import Problem
from graphmp.rewrite.recognise import Recognised
from graphmp.scaling.insertion.insert import Inserted


class Notes(NamedTuple):
    """Notes on one body; most fields are those of `Record`.

    Attributes:
        done: its changes.
        kept: the number of units that stayed float32, without constants, by the kind of reason.
        float32: the model's nodes in it that are entirely float32.
        left: its matmuls and convolutions in float32.
        unknown: its nodes with an unknown op.
    """

    done: List[Done]
    kept: Counter[str]
    float32: List[Kept]
    left: Dict[str, Reason]
    unknown: List[str]


def noted(problem: Problem, decisions: Decisions, done: List[Done]) -> Notes:
    """Notes on a body after its changes."""
    graph, body = decisions.graph, problem.body.name
    float32 = [
        (number, unit.node, p.reason)
        for number, (unit, p) in enumerate(decisions.units())
        if p.colour == FLOAT
    ]
    return Notes(
        done,
        collections.Counter(
            why.kind for number, _, why in float32 if graph.node(number).op != "Const"
        ),
        list(_nodes_in_float32(body, decisions)),
        {
            in_body(body, name): why
            for number, name, why in float32
            if graph.node(number).op in problem.policy.allow
        },
        [name for name in graph.unknown if graph.view.nodes[name].op not in (ARGUMENT, RESULT)],
    )


def _nodes_in_float32(body: str, decisions: Decisions) -> Iterator[Kept]:
    half, nodes = decisions.half_nodes(), decisions.graph.view.nodes
    reasons = {
        unit.node: p.reason for unit, p in reversed(list(decisions.units())) if p.colour == FLOAT
    }  # a node's first unit, its data, decides
    for name, why in reasons.items():
        is_model = not name.startswith(SCOPE + "/") and nodes[name].op not in (ARGUMENT, RESULT)
        if name not in half and is_model:
            yield Kept(body, name, why)


def record(
    special: Recognised, scaled: Inserted, painted: Sequence[Notes], done: List[Done]
) -> Record:
    """The record of a rewrite.

    Args:
        special: the special cases of the graph.
        scaled: the changes made by loss scaling.
        painted: the notes on each body.
        done: all changes.
    """
    trains = bool(scaled.losses) or any(row["code"] == "GMP110" for row in scaled.warnings)
    warnings = [row for row in special.warnings if row["code"] != "GMP105" or not trains]
    warnings += scaled.warnings
    unknown = [name for notes in painted for name in notes.unknown]
    if unknown:
        text = (
            "%d nodes have ops that neither TensorFlow here nor the graph defines: kept as they are"
        )
        warnings.append(warning("GMP109", unknown[0], text % len(unknown)))
    kept = sum((notes.kept for notes in painted), collections.Counter())
    return Record(
        warnings=warnings,
        losses=scaled.losses,
        scales=scaled.scales,
        done=done,
        left={name: why for notes in painted for name, why in notes.left.items()},
        kept=dict(sorted(kept.items())),
        float32=[row for notes in painted for row in notes.float32],
    )
