"""`verify` and `prove`: all claims about one conversion."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.gate.given import given_graph
from graphmp.graph.structure.view import GraphView, Port
from graphmp.naming import in_body
from graphmp.policy.half_kernels import DEVICES
from graphmp.process_memory import collector_paused
from graphmp.verify.body import BodyFindings
from graphmp.verify.dtypes.half_values import half_value_faults
from graphmp.verify.dtypes.listed import listed_faults
from graphmp.verify.dtypes.precision import Precision
from graphmp.verify.dtypes.types import half_nodes, type_faults
from graphmp.verify.functions import Functions, compared
from graphmp.verify.parameters import asked_for, parameters_claim, read_off
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim, Proof
from graphmp.verify.scales.clips import clip_faults
from graphmp.verify.scales.degrees import ONE, Degrees
from graphmp.verify.scales.quotients import scaled_copies, unread_quotients, unscaled_gradients
from graphmp.verify.sides import Fault, Side, Sides, fetched, is_built_anew, keeps_names
from graphmp.verify.skips.skips import Skips
from graphmp.verify.structure.names import aligned
from graphmp.verify.structure.parts import part_faults
from graphmp.verify.wellformed import broken
from graphmp.wording import some


def verify(
    original: Any,
    converted: Any,
    expected: Optional[Mapping[str, Any]] = None,
    devices: Sequence[str] = DEVICES,
) -> Proof:
    """Prove that a converted graph computes the same as its original, both from outside.

    It works in this process, not in a child with limits as the command does.

    Args:
        original: the graph before, a MetaGraphDef or GraphDef.
        converted: the graph after.
        expected: as for `prove`.
        devices: likewise.

    Returns:
        The proof, which is broken if no TensorFlow could run one of the graphs.

    Raises:
        GraphmpError: GMP002 if one is no graph.
    """
    name = "the original"
    try:
        before = given_graph(original, "verify")
        name = "the converted graph"
        after = given_graph(converted, "verify")
    except GraphmpError as error:
        if error.code != "GMP008":
            raise
        claim = Claim("same graph", FAILED, "%s: %s" % (name, error.message))
        return Proof((claim,), {}, is_broken=True)
    return prove(before, after, expected, devices)


@collector_paused()
def prove(
    original: tf.MetaGraphDef,
    converted: tf.MetaGraphDef,
    expected: Optional[Mapping[str, Any]] = None,
    devices: Sequence[str] = DEVICES,
    views: Tuple[Optional[GraphView], Optional[GraphView]] = (None, None),
) -> Proof:
    """Prove that a converted graph computes the same as its original; both have passed the gate.

    Args:
        original: the graph before.
        converted: the graph after; its converter and the names of added nodes don't matter.
        expected: required flags of `graphmp convert` by name; by default those of the converted
            graph's mark.
        devices: the kinds of device, of `CPU` and `GPU`, for nodes without one: half precision
            needs kernels there.
        views: views of the two graphs, if there are any.

    Returns:
        The claims with their verdicts, and the parameters read off the converted graph.
    """
    before, after = (
        Side(graph, graph.graph_def, view=view) for graph, view in zip((original, converted), views)
    )
    faults = [*broken(before), *broken(after)]
    if faults:
        return Proof((_claim("same graph", faults, ""),), {}, is_broken=True)
    found = _proof(Sides(before, after), expected, devices)
    if found.ok or keeps_names(converted):
        return found
    renamed, had = aligned(original, converted)
    if renamed is converted:
        return found
    anew = _proof(Sides(before, Side(renamed, renamed.graph_def)), expected, devices)
    return anew._replace(
        claims=tuple(claim._replace(nodes=tuple(map(had, claim.nodes))) for claim in anew.claims)
    )


def _proof(sides: Sides, expected: Optional[Mapping[str, Any]], devices: Sequence[str]) -> Proof:
    """The claims about two graphs in which counterparts have equal names."""
    body, functions = compared(sides, devices)
    degrees = Degrees(body.sides, body.erasure, body.scales.nodes, functions.called, body.named)
    functions.compare_degrees()
    bodies = {"": body, **functions.bodies}
    dynamic = any(each.scales.dynamic for each in bodies.values())
    skips = {name: Skips(each) for name, each in bodies.items()} if dynamic else {}
    found = read_off(list(bodies.values()), [each.counts for each in skips.values()])
    claims = (
        _same(body, functions),
        _scaled(bodies, degrees),
        _skipped(skips),
        _clipped(bodies),
        _types(body, functions, devices, asked_for(body.sides, expected)),
    )
    return Proof((*claims, parameters_claim(list(bodies.values()), found, expected)), found)


def _same(body: BodyFindings, functions: Functions) -> Claim:
    faults = [*body.sides.faults, *part_faults(body), *body.unexplained(), *functions.faults]
    claim = _claim(
        "same graph",
        faults,
        "every node and edge is the original's, once all that was put in is taken for what it"
        " means",
    )
    return (
        claim._replace(verdict=NOT_PROVED)
        if faults and is_built_anew(body.sides.after.meta_graph)
        else claim
    )


def _scaled(bodies: Mapping[str, BodyFindings], degrees: Degrees) -> Claim:
    name, body = "scale cancels", bodies[""]
    steps = [
        in_body(function, node)
        for function, each in bodies.items()
        for node, step in each.erasure.steps.items()
        if step is not None
    ]
    scaled = sorted(
        port.node for port in _unread(body.sides) if degrees.at(port) not in (None, ONE)
    )
    named = fetched(body.sides.before.meta_graph)
    faults = [Fault(node, text) for node, text in degrees.problems.items()]
    faults += [
        Fault(node, "is fetched while it is multiplied by a loss scale")
        for node in scaled
        if node in named or _is_result(node, body)
    ]
    faults += [
        Fault(in_body(function, node), text)
        for function, each in bodies.items()
        for node, text in (*unread_quotients(each), *scaled_copies(each), *unscaled_gradients(each))
    ]
    if not steps and not faults:
        return Claim(name, NOT_APPLICABLE, "the graph has no loss scale")
    text = (
        "every write, named output and predicate is free of the scale; %d nodes multiply or divide"
        " by it" % len(steps)
    )
    return _claim(
        name,
        faults,
        text + ("; scaled where nobody reads: %s" % ", ".join(scaled[:3]) if scaled else ""),
        steps,
    )


def _is_result(name: str, body: BodyFindings) -> bool:
    """Whether an unread node may be fetched.

    In the original it has consumers that now read the unscaled value, or it is divided by the
    scale itself, or represents such a value.
    """
    sides = body.sides
    return bool(
        sides.before.view.consumers(name) or sides.is_moved(name) or body.erasure.is_unscaled(name)
    )


def _unread(sides: Sides) -> Iterator[Port]:
    """Outputs without consumers."""
    for name in sides.before.view.nodes:
        if name in sides.after.view.nodes and not sides.after.view.consumers(name):
            yield Port(name, 0)


def _skipped(skips: Mapping[str, Skips]) -> Claim:
    name = "steps are skipped whole"
    if not skips:
        return Claim(name, NOT_APPLICABLE, "the graph has no dynamic loss scale")
    faults: List[Fault] = []
    gated: List[str] = []
    counted: List[str] = []
    behind: List[str] = []
    for function, each in skips.items():
        faults += [Fault(in_body(function, fault.node), fault.text) for fault in each.faults]
        gated += [in_body(function, node) for node in each.gated]
        counted += [in_body(function, node) for node in each.counted]
        behind += [in_body(function, node) for node in each.behind_loops]
    also = "; counts skipped steps: %s" % ", ".join(sorted(counted)[:3]) if counted else ""
    if behind:
        also += "; written once behind a loop, whatever its iterations skip: %s" % some(behind, 3)
    text = "%d writes wait for flags that look at all gradients that they take%s" % (
        len(gated),
        also,
    )
    return _claim(name, faults, text, gated)


def _clipped(bodies: Mapping[str, BodyFindings]) -> Claim:
    name = "clip"
    if not any(body.clips.by_factor for body in bodies.values()):
        return Claim(name, NOT_APPLICABLE, "graphmp put no clip into the graph")
    faults: List[Fault] = []
    for function, body in bodies.items():
        if body.clips.by_factor:
            found = clip_faults(body.sides, body.scales, body.clips, body.erasure.divisions())
            faults += [Fault(in_body(function, fault.node), fault.text) for fault in found]
    norms = sorted(
        {clip.norm for body in bodies.values() for clip in body.clips.by_factor.values()}
    )
    text = "every gradient that a write takes is clipped by a global norm, of %s" % " and ".join(
        "%g" % norm for norm in norms
    )
    return _claim(
        name,
        faults,
        text,
        [
            in_body(function, node)
            for function, body in bodies.items()
            for node in body.clips.multiplied
        ],
    )


def _types(
    body: BodyFindings,
    functions: Functions,
    devices: Sequence[str],
    flags: Optional[Mapping[str, Any]],
) -> Claim:
    half = half_nodes(body.sides)
    text = "variables, inputs and outputs keep theirs; %d matmuls and convolutions are half" % len(
        half
    )
    faults = [*type_faults(body.sides, devices), *functions.type_faults]
    for function, each in {"": body, **functions.bodies}.items():
        precision = Precision(each.sides, each.erasure, each.clips.multiplied, each.gates.of)
        found = [*precision.faults(), *half_value_faults(each.sides)]
        named = {fault.node for fault in found}
        by_policy = listed_faults(each.sides, each.erasure.copies, flags)
        found += [fault for fault in by_policy if fault.node not in named]
        faults += [Fault(in_body(function, fault.node), fault.text) for fault in found]
    return _claim("types", faults, text, half)


def _claim(name: str, faults: List[Fault], text: str, about: Iterable[str] = ()) -> Claim:
    if not faults:
        return Claim(name, PROVED, text, tuple(sorted(about)))
    faults = sorted(faults)
    said = some(["%s %s" % (fault.node, fault.text) for fault in faults], 1)
    return Claim(name, FAILED, said, tuple(fault.node for fault in faults))
