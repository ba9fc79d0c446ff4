"""Float32 islands: nodes that stay float32 between half-precision ones, at the cost of casts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Dict, Iterator, List, NamedTuple, Set

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.structure.view import Port
from graphmp.inspect.alike import alike, pattern
from graphmp.inspect.alternatives import option
from graphmp.naming import in_body
from graphmp.policy.policy import Policy
from graphmp.policy.reason import Reason
from graphmp.rewrite.pipeline import Decisions, decide
from graphmp.rewrite.placement.costs import CAST_BYTES

_MOST_TRIED = 10  # rows whose flag is tried


class IslandRow(NamedTuple):
    """Nodes in float32 with half-precision producers and consumers.

    Attributes:
        node: the one with the most bytes of casts.
        nodes: the number of similar ones, whose names only differ in numbers.
        op: their op.
        reason: why.
        bytes: moved by their casts in a step.
        flag: the flag that makes them half; empty if none does, or it wasn't tried.
    """

    node: str
    nodes: int
    op: str
    reason: Reason
    bytes: int
    flag: str


def islands(
    meta_graph: tf.MetaGraphDef, decided: Dict[str, Decisions], config: Config, policy: Policy
) -> List[IslandRow]:
    """The islands, in descending order of bytes."""
    rows = [row for body, decisions in decided.items() for row in _alone(body, decisions)]
    rows.sort(key=lambda row: (-row.bytes, row.node))
    groups = alike(rows, lambda row: (pattern(row.node), row.op, row.reason.kind))
    groups.sort(key=lambda group: (-sum(row.bytes for row in group), group[0].node))
    forcing = {
        group[0].node: _forcing([row.node for row in group]) for group in groups[:_MOST_TRIED]
    }
    changed = _changed(meta_graph, decided, config, policy, list(forcing.values()))
    return [
        group[0]._replace(
            nodes=len(group),
            bytes=sum(row.bytes for row in group),
            flag=option("force_compute", forcing[group[0].node])
            if group[0].node in forcing and group[0].node in changed
            else "",
        )
        for group in groups
    ]


def _changed(
    meta_graph: tf.MetaGraphDef,
    decided: Dict[str, Decisions],
    config: Config,
    policy: Policy,
    forced: List[str],
) -> Set[str]:
    """Nodes that become half by --force_compute."""
    if not forced:
        return set()
    return _half(
        decide(meta_graph, replace(config, force_compute=(*config.force_compute, *forced)), policy)
    ) - _half(decided)


def _alone(body: str, decisions: Decisions) -> Iterator[IslandRow]:
    """Float32 units that read a cast of a half value and whose own result is cast to half."""
    graph, half = decisions.graph, decisions.is_half
    for number, (unit, p) in enumerate(decisions.units()):
        name = unit.node
        inputs = enumerate(graph.view.inputs(name))
        read = {
            port
            for slot, port in inputs
            if graph.reading(name, slot) == number and half(graph.writer(port))
        }
        own = {Port(name, c.output) for c in graph.view.consumers(name) if half(graph.reader(c))}
        fed = {port for port in own if graph.writer(port) == number}
        if not half(number) and read and fed and graph.node(number).op != "Const":
            elements = sum(map(graph.elements.of, read | fed))
            moved = elements * CAST_BYTES * graph.trips(name)
            yield IslandRow(in_body(body, name), 1, graph.node(number).op, p.reason, moved, "")


def _half(decided: Dict[str, Decisions]) -> Set[str]:
    """Nodes with any half-precision unit."""
    return {
        in_body(body, name)
        for body, decisions in decided.items()
        for name in decisions.half_nodes()
    }


def _forcing(nodes: List[str]) -> str:
    """A regular expression for nodes whose names only differ in numbers; common numbers stay."""
    columns = zip(*(re.split(r"(\d+)", node) for node in nodes))
    return "^%s$" % "".join(
        re.escape(parts[0]) if len(set(parts)) == 1 else r"\d+" for parts in columns
    )
