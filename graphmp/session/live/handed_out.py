"""The graph that scripts get of a graph that sessions convert: as they built it, in traces too."""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from graphmp.naming import of_originals
from graphmp.session.live.live_graph import known_live_graph


def graph_def(original: Any, graph: Any, *args: Any, **kwargs: Any) -> tf.GraphDef:
    """The GraphDef of a graph: as the script built it, where that was converted in a session."""
    live = known_live_graph(graph)
    given = original(graph, *args, **kwargs)
    return given if live is None or not live.fate.converted else live.as_built(given)


def exported(
    original: Any,
    filename: Any = None,
    graph_def: Any = None,
    graph: Any = None,
    export_scope: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """A MetaGraphDef, by `as_graph_def`; to clear devices TensorFlow would read the ops itself."""
    given = tf.get_default_graph() if graph is None else graph
    if graph_def is None and not export_scope and known_live_graph(given) is not None:
        graph_def = given.as_graph_def(add_shapes=True)
    return original(filename, graph_def, graph, export_scope, *args, **kwargs)


def name_as_built(metadata: Optional[tf.RunMetadata]) -> None:
    """Give the clones in a trace their originals' names, which profilers look up in the graph."""
    for device in metadata.step_stats.dev_stats if metadata is not None else ():
        for node in device.node_stats:
            node.node_name = of_originals(node.node_name)
            node.timeline_label = of_originals(node.timeline_label)
