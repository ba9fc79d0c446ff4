"""Files for Model Explorer, Google's graph viewer: both graphs side by side, coloured by change.

A node has the same id in both graphs: `Change.path`, its name in the converted graph if both have
it. The app's mode "match node id" thus finds a node's counterpart, renamed or not, without a
mapping. The mapping adds the casts: each belongs to its source.

The formats are those of ai-edge-model-explorer 0.1.34.
"""

from __future__ import annotations

import json
import pathlib
import pkgutil
import shlex
from typing import Any, Dict, List, Mapping, Optional

from graphmp.compare import colours
from graphmp.compare.changes import BodyPair
from graphmp.compare.render.model_explorer.graph import (
    CONVERTED,
    ORIGINAL,
    Pane,
    graph,
    graph_id,
    notes,
)
from graphmp.compare.review.reviewed import Reviewed
from graphmp.files.reading import Path
from graphmp.graph.structure.view import GraphView
from graphmp.naming import in_body

_OPEN = "open.py"


def files(diff: Reviewed) -> Dict[str, bytes]:
    """The files of a folder, by name; the same bytes for the same diff."""
    words, shown = colours.reasons(diff), notes(diff)
    result = {"sync_navigation.json": _json(_sync_navigation(diff)), _OPEN: _script()}
    for side, panes in ((ORIGINAL, _original(diff)), (CONVERTED, _converted(diff))):
        functions = {pane.function for pane in panes}
        result["%s.json" % side] = _json(
            {"label": side, "graphs": [graph(pane, functions, shown) for pane in panes]}
        )
        result["node_data_%s.json" % side] = _json(
            {graph_id(side, pane.function): _node_data(pane, words) for pane in panes}
        )
    return dict(sorted(result.items()))


def command(folder: Path) -> str:
    """The command that opens the files in a folder, if `ai-edge-model-explorer` is installed."""
    return "python %s" % shlex.quote(str(pathlib.Path(folder) / _OPEN))


def _original(diff: Reviewed) -> List[Pane]:
    return [
        _pane(ORIGINAL, body, body.before, body.renamed)
        for body in diff.bodies
        if body.before.nodes
    ]


def _converted(diff: Reviewed) -> List[Pane]:
    return [_pane(CONVERTED, body, body.after, {}) for body in diff.bodies if body.after.nodes]


def _pane(side: str, body: BodyPair, view: GraphView, names: Mapping[str, str]) -> Pane:
    return Pane(
        side,
        body.name,
        view,
        {name: in_body(body.name, names.get(name, name)) for name in view.nodes},
    )


def _node_data(pane: Pane, words: Mapping[str, str]) -> Dict[str, Any]:
    """Why each node changed or stayed, as the app's `GraphNodeData`."""
    known = {identity: words[identity] for identity in pane.ids.values() if identity in words}
    return {
        "results": {
            identity: {"value": word, "bgColor": colours.of(word)}
            for identity, word in known.items()
        },
        "showExpandedSummaryOnGroupNode": True,
        "showLabelCountColumnsInChildrenStatsTable": True,
    }


def _sync_navigation(diff: Reviewed) -> Dict[str, Any]:
    """Ids that belong together.

    The app goes to the first id of the other side, and shows them all.
    """
    entries: Dict[str, List[str]] = {}
    for body in diff.bodies:
        matched = {body.renamed.get(name, name) for name in body.before.nodes} & set(
            body.after.nodes
        )
        for name in body.after.nodes:
            source = _behind_casts(body.after, name, matched)
            if source is not None:
                right = entries.setdefault(in_body(body.name, source), [])
                right.insert(0 if source == name else len(right), in_body(body.name, name))
    return {
        "type": "sync_navigation",
        "mappingEntries": [
            {"leftNodeIds": [left], "rightNodeIds": right}
            for left, right in sorted(entries.items())
        ],
        "showDiffHighlights": True,
    }


def _behind_casts(view: GraphView, name: str, matched: Any) -> Optional[str]:
    """The matched node that a node is, or whose output it casts; None if it is neither."""
    while name not in matched:
        if view.nodes[name].op != "Cast" or not view.inputs(name):
            return None
        name = view.inputs(name)[0].node
    return name


def _script() -> bytes:
    data = pkgutil.get_data("graphmp.compare.render.model_explorer", _OPEN)
    assert data is not None  # package data, installed with this file
    return data


def _json(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")
