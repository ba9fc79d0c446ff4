"""The record of a rewrite for the report, assembled from notes on each graph body."""

from __future__ import annotations

import collections
import re
from types import MappingProxyType
from typing import (
    AbstractSet,
    Any,
    Counter,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
)

from graphmp.errors import warning
from graphmp.naming import SCOPE, function_of, in_body
from graphmp.patterns import LONGEST
from graphmp.policy.op_sets import ARGUMENT, RESULT
from graphmp.policy.reason import Done, Reason
from graphmp.report.record import Kept, Record
from graphmp.rewrite.decisions import Decisions
from graphmp.rewrite.faint_terms import faint_terms
from graphmp.rewrite.painting.paint import FLOAT
from graphmp.rewrite.placement.placement_by_time import Timed
from graphmp.rewrite.problem import Problem
from graphmp.rewrite.recognise import Recognised
from graphmp.scaling.insertion.inserted import Inserted
from graphmp.scaling.losses.directions import Direction
from graphmp.scaling.losses.idle import IdleCode
from graphmp.scaling.plan.model import ScalePlan
from graphmp.tuning.costs import FLOAT32, OPERATIONS, WHOLE, Costs
from graphmp.tuning.prediction import Prediction
from graphmp.wording import plural


class Notes(NamedTuple):
    """Notes on one body; most fields are those of `Record`.

    Attributes:
        done: its changes.
        kept: the number of units that stayed float32, without constants, by the kind of reason.
        float32: the model's nodes in it that are entirely float32.
        left: its matmuls and convolutions in float32.
        unknown: its nodes with an unknown op.
        timed: its placement by measured times; None without --costs.
        faint: its sums of which half precision rounds a term away, with the term's factor.
    """

    done: List[Done]
    kept: Counter[str]
    float32: List[Kept]
    left: Dict[str, Reason]
    unknown: List[str]
    timed: Optional[Timed] = None
    faint: Mapping[str, float] = MappingProxyType({})


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
        decisions.timed,
        {
            in_body(body, name): factor
            for name, factor in faint_terms(decisions, problem.config.compute_dtype).items()
        },
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
    special: Recognised,
    scaled: Inserted,
    painted: Sequence[Notes],
    done: List[Done],
    prediction: Optional[Prediction] = None,
    plan: Optional[ScalePlan] = None,
) -> Record:
    """The record of a rewrite.

    Args:
        special: the special cases of the graph.
        scaled: the changes made by loss scaling.
        painted: the notes on each body.
        done: all changes.
        prediction: times by --costs; None without.
        plan: of loss scaling, with gradient code whose gradients may vanish; None in bfloat16,
            which has the range of float32.
    """
    trains = bool(scaled.losses) or any(row["code"] == "GMP110" for row in scaled.warnings)
    warnings = [row for row in special.warnings if row["code"] != "GMP105" or not trains]
    warnings += scaled.warnings
    if plan is not None:
        half = {row.node for row in done if row.did == "painted"}
        warnings += [*_idle(plan.idle, half), *_directions(plan.directions, half)]
    for notes in painted:
        warnings += _faint(notes.faint)
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
        costs=_costs(prediction, [notes.timed for notes in painted if notes.timed is not None]),
    )


def _idle(idle: Mapping[str, IdleCode], half: AbstractSet[str]) -> Iterator[Dict[str, str]]:
    """Gradient code in half precision that no scale reaches; reported once."""
    left = [start for start, code in idle.items() if code.nodes & half]
    kept = [start for start in left if idle[start].kept]
    if left:
        first = (kept or left)[0]
        text = "no update takes gradients that are taken from here"
        text += ", but %s writes what is made of them" % idle[first].kept if kept else ""
        text += " (%s): no scale keeps those below 6e-8 from vanishing in float16; %s"
        calls = plural(len(left), "such call")
        yield warning("GMP110", first, text % (calls, _cure(left)))


def _directions(
    directions: Mapping[str, Direction], half: AbstractSet[str]
) -> Iterator[Dict[str, str]]:
    """Gradient code in half precision of which a loss reads the direction alone; reported once."""
    left = [start for start, code in directions.items() if code.nodes & half]
    if left:
        text = (
            "the loss reads, by %s, the mere direction of gradients that are taken from here (%s):"
            " those that vanish in float16 have none; %s"
        )
        calls = plural(len(left), "such call")
        yield warning("GMP128", left[0], text % (directions[left[0]].reader, calls, _cure(left)))


def _faint(faint: Mapping[str, float]) -> Iterator[Dict[str, str]]:
    """Terms that half precision rounds away; the faintest of a body is reported."""
    if faint:
        name = min(faint, key=lambda each: faint[each])
        text = (
            "adds %.2g times a value to another (%s): half precision rounds that away unless the"
            " first value is much larger; take a factor of 0.01 or more, or keep what reads the sum"
            " in float32 by --keep_float32"
        )
        yield warning("GMP129", name, text % (faint[name], plural(len(faint), "such sum")))


def _cure(starts: Sequence[str]) -> str:
    """The flag that cures idle gradient code; no rule for nodes names a function."""
    scopes = list(dict.fromkeys(re.escape(start.rpartition("/")[0]) for start in starts))
    kept = "^%s/" % (scopes[0] if len(scopes) == 1 else "(%s)" % "|".join(scopes))
    in_functions = any(function_of(start) != start for start in starts)
    if not all(scopes) or in_functions or len(kept) > LONGEST:
        return "--compute_dtype=bfloat16 has the range of float32"
    return "--keep_float32='%s' computes them in float32" % kept


def _costs(prediction: Optional[Prediction], timed: Sequence[Timed]) -> Dict[str, Any]:
    """The report's section on measured costs; empty without them."""
    if prediction is None or not timed:
        return {}
    costs, held_back = prediction.costs, prediction.held_back()
    nodes: Counter[str] = collections.Counter()
    saved: Counter[str] = collections.Counter()
    for each in timed:
        nodes.update(each.nodes)
        saved.update(each.saved)
    return {
        **costs.machine._asdict(),
        "source": costs.source,
        "batch_size": costs.batch_size,
        "complete": costs.complete,
        "nodes": dict(nodes),
        "held_back": held_back._asdict() if held_back else None,
        "placement": ",".join(each.digest for each in timed),
        "kept": timed[0].kept,
        "float32_nodes": sum(each.apart for each in timed),
        "predicted_step_ns": _predicted_steps(costs, saved),
        "measured_step_ns": {name: time.nanoseconds for name, time in costs.steps.items()},
    }


def _predicted_steps(costs: Costs, saved: Mapping[str, float]) -> Dict[str, float]:
    """Nanoseconds of a step by what is saved of one whose ops run one at a time.

    Ops that run side by side save in proportion. Empty if the float32 step wasn't timed.
    """
    names = (OPERATIONS % FLOAT32, WHOLE % FLOAT32, FLOAT32)
    alone, beside, together = (costs.steps.get(name) for name in names)
    if alone is None or not alone.nanoseconds:
        return {}
    scale = (together or beside or alone).nanoseconds / alone.nanoseconds
    return {name: round(scale * max(0.0, alone.nanoseconds - each)) for name, each in saved.items()}
