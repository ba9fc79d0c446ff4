"""The parameters of a conversion: read off its nodes, and compared with the requested ones."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Set

import numpy as np

from graphmp.graph.edit.mark import flags_that_held, read_mark
from graphmp.graph.structure.calls import called, with_callers
from graphmp.graph.structure.gradient_code import gradient_nodes
from graphmp.policy.dtypes import HALF, dtype_text
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.verify.body import BodyFindings
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, PROVED, Claim
from graphmp.verify.scales.handles import is_argument
from graphmp.verify.sides import Side, Sides

_NAME = "parameters"


def read_off(
    bodies: Sequence[BodyFindings], counts: Iterable[AbstractSet[bool]] = ()
) -> Dict[str, Any]:
    """Parameters read off the nodes of a converted graph, by flag of `graphmp convert`.

    Lists if parts differ.

    Args:
        bodies: the main graph and the functions.
        counts: for each, whether its global step counts skipped steps.
    """
    dynamic = [scale.parameters for body in bodies for scale in body.scales.dynamic]
    fixed = sorted({float(scale) for body in bodies for scale in _fixed(body)})
    found: Dict[str, Any] = {
        "loss_scale": ["dynamic"] * bool(dynamic) + [_short(scale) for scale in fixed] or ["none"]
    }
    for key in sorted(set().union(*dynamic)):
        found[key] = sorted({row[key] for row in dynamic})
    found["clip_norm"] = sorted(
        {clip.norm for body in bodies for clip in body.clips.by_factor.values()}
    ) or [0.0]
    found["compute_dtype"] = sorted(set().union(*map(_half_types, bodies))) or ["float32"]
    counted = sorted(frozenset().union(*counts))
    if counted:
        found["count_skipped_steps"] = counted
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}


def _fixed(body: BodyFindings) -> Iterator[str]:
    """The numbers that a body uses as a scale, or passes to functions as one.

    Without 1, which doesn't scale.
    """
    used = {step.scale for step in body.erasure.steps.values() if step is not None}
    for call in body.called:
        for function in call.functions:
            bound = body.called.bound(call, function)
            given = {
                body.scales.at(port) for port in bound.values() if body.sides.after.is_float(port)
            }
            used |= {scale for scale in given if scale not in (None, "1.0")}
    yield from (scale for scale in used - body.scales.adapting if not is_argument(scale))


def _short(number: float) -> str:
    return "%g" % number


def _shown(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _half_types(body: BodyFindings) -> Iterator[str]:
    nodes = body.sides.after.view.nodes
    found = {
        node.attr["DstT"].type for name, node in nodes.items() if body.sides.is_cast(name, HALF)
    }
    return map(dtype_text, found)


def parameters_claim(
    bodies: Sequence[BodyFindings], found: Mapping[str, Any], expected: Optional[Mapping[str, Any]]
) -> Claim:
    """Compare read-off parameters with the expected ones, or else with the conversion's mark.

    Args:
        bodies: the main graph and then the functions.
        found: the parameters.
        expected: as for `prove`.
    """
    wanted = asked_for(bodies[0].sides, expected)
    text = ", ".join(
        "%s %s" % (key, _shown(value)) for key, value in found.items() if value is not False
    )
    if wanted is None:
        return Claim(_NAME, NOT_APPLICABLE, "nobody says what was asked for; found: %s" % text)
    source = "asked for" if expected is not None else "claimed by the graph's mark"
    trains = _trains([body.sides.before for body in bodies])
    wrong = [
        (key, wanted[key])
        for key in found
        if key in wanted and not _same(key, found[key], wanted[key], trains)
    ]
    if wrong:
        return Claim(
            _NAME,
            FAILED,
            "; ".join(
                "%s is %s, %s is %s" % (key, _shown(found[key]), source, _shown(value))
                for key, value in wrong
            ),
        )
    return Claim(_NAME, PROVED, "as %s: %s" % (source, text))


def asked_for(sides: Sides, expected: Optional[Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
    """The flags that are expected, or else those of the conversion's mark; None without either."""
    if expected is not None:
        return expected
    mark = read_mark(sides.after.meta_graph)
    if mark is None or mark == read_mark(sides.before.meta_graph):
        return None  # a mark of both is that of an earlier conversion
    return flags_that_held(mark)


def _trains(sides: Sequence[Side]) -> bool:
    """Whether gradient code leads to a write, in the main graph or a function.

    A call of a function with gradient code counts as such code.
    """
    inside = {side.function: gradient_nodes(side.view) for side in sides}
    having = {function for function, gradients in inside.items() if function and gradients}
    having = with_callers(sides[0].meta_graph.graph_def, having)
    for side in sides:
        calls = {name for name, node in side.view.nodes.items() if called(node, having)}
        if _writes(side, inside[side.function] | calls):
            return True
    return False


def _writes(side: Side, gradients: AbstractSet[str]) -> bool:
    """Whether gradients lead to a write of a variable that they depend on.

    Or whether an optimizer may take them from an accumulator, from sums or by a feed.
    """
    view = side.view
    made_of = view.ancestors(gradients)
    taking = _taking(side, gradients)
    return any(
        (name in taking and side.state.written(name) & made_of)
        or (gradients and view.nodes[name].op.startswith(UPDATE_PREFIXES))
        for name in side.state.writes
    )


def _taking(side: Side, names: AbstractSet[str]) -> Set[str]:
    """The nodes that depend on some by data, also by way of variables that are written and read."""
    view, state = side.view, side.state
    found: Set[str] = set()
    fresh: AbstractSet[str] = names
    while fresh:
        found |= view.descendants(fresh, control=False)
        written = {
            variable for name in found & set(state.writes) for variable in state.written(name)
        }
        fresh = view.descendants(written, control=False) - found
    return found


def _same(key: str, found: Any, wanted: Any, trains: bool) -> bool:
    if wanted in (None, "") or (key == "compute_dtype" and found == "float32"):
        return True  # left open, or nothing needed conversion
    if key in ("loss_scale", "clip_norm") and found in ("none", 0.0) and not trains:
        return True
    if key == "loss_scale":
        return str(found) == str(wanted) or (
            str(wanted) not in ("dynamic", "none") and found == _short(float(wanted))
        )
    if isinstance(found, float):
        return found == float(np.float32(wanted))  # the graph's constants are float32
    return not isinstance(found, list) and found == wanted
