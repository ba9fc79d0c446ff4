"""Compares two graphs: body by body, nodes by name, then by structure, never by position; and what a MetaGraphDef holds besides nodes.

The comparison looks at the graphs alone; a report only adds the reasons (`graphmp.diff.explain`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Iterator, List, Optional, Tuple

from graphmp.diff import categories
from graphmp.diff.changes import Body, Change
from graphmp.diff.claims import graph_claims
from graphmp.diff.comparing import bodies
from graphmp.diff.comparing.matching import Pairing, pair
from graphmp.diff.comparing.nodes import node_changes
from graphmp.diff.comparing.parts import function_changes, part_changes
from graphmp.diff.explain import explained
from graphmp.diff.model import Diff
from graphmp.diff.values import node_text
from graphmp.graph.collector import collector_paused
from graphmp.graph.stored import Readable, stored


@collector_paused()
def compare(
    before: Readable, after: Readable, report: Optional[Dict[str, Any]] = None, names: Tuple[str, str] = ("original", "converted"), prove: bool = True
) -> Diff:
    """All differences between two graphs.

    Args:
        before: the original MetaGraphDef.
        after: the converted MetaGraphDef.
        report: report.json as a dict; its `changes` say why, its `float32_nodes` why not.
        names: what to call the two.
        prove: whether to prove that the one computes what the other does.

    Raises:
        GraphmpError: GMP008 if a node name is not unique, or an input names a node that isn't there.
    """
    before, after = stored(before), stored(after)
    changes: List[Change] = [*part_changes(before.rest, after.rest), *function_changes(before.rest, after.rest)]
    compared = []
    for name, old, new in bodies.pairs(before, after):
        pairing = pair(old, new)
        changes += (replace(change, body=name) for change in _body_changes(pairing)) if name else _body_changes(pairing)
        compared.append(Body(name, old, new, pairing.renamed))
    order = {category: index for index, category in enumerate(categories.CATEGORIES)}
    changes.sort(key=lambda change: (order[change.category], change.body, change.node))  # stable: attributes and slots stay in order
    claims = graph_claims(before, after, compared[0]) if prove else ()
    found = Diff(tuple(changes), False, names, claims, bodies=tuple(compared), graphs=(before, after))
    return found if report is None else explained(found, report)


def _body_changes(pairing: Pairing) -> Iterator[Change]:
    for name in pairing.before.nodes:
        new_name = pairing.after_of(name)
        if new_name is None:
            yield Change(name, categories.REMOVED, node_text(pairing.before.nodes[name]), None)
            continue
        if new_name != name or pairing.before.serialized(name) != pairing.after.serialized(new_name):
            yield from node_changes(name, new_name, pairing)
    for name in pairing.after.nodes:
        if pairing.before_of(name) is None:
            yield Change(name, categories.ADDED, None, node_text(pairing.after.nodes[name]), value=pairing.after.serialized(name))
