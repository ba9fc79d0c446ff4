"""Scaling the losses of while loops that train inside."""

from __future__ import annotations

from typing import Dict, Iterator, List

import tensorflow.compat.v1 as tf

from graphmp.config import Config
from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.contexts import Contexts
from graphmp.graph.structure.frames import is_invariant, outputs_frame
from graphmp.graph.structure.view import GraphView
from graphmp.scaling.insertion.checkpoints import ScaleState
from graphmp.scaling.insertion.fragment import Fragment
from graphmp.scaling.insertion.inserted import Inserted
from graphmp.scaling.insertion.scaled import given_to_calls, scale_losses, states_outside
from graphmp.scaling.losses.training_graph import TrainingGraph
from graphmp.scaling.plan.model import InLoop


def insert_in_loop(
    loop: InLoop,
    meta_graph: tf.MetaGraphDef,
    editor: Editor,
    outside: Fragment,
    config: Config,
    scopes: Iterator[str],
    result: Inserted,
    given: Dict[str, str],
) -> List[ScaleState]:
    """Scale the losses of a while loop.

    Returns the state of their scales, which is made outside, and adds inputs of calls.
    """
    before, part = set(editor.added), Fragment()
    made = scale_losses(loop.graph, editor, part, config, loop.plan, scopes, result, handles=True)
    given.update(given_to_calls(made))
    part.splice(editor, meta_graph, {})
    contexts = Contexts(meta_graph)
    for name in [name for name in editor.added if name not in before]:
        if not editor.nodes[name].input:
            editor.wait_for(name, [loop.pivot])
        contexts.add(name, editor.nodes[loop.pivot])
    contexts.write()
    for name, others in [item for each in made for item in each.waits.items()]:
        editor.wait_for(name, others)
    return list(states_outside(loop.graph, loop.plan, made, outside, config, lambda names: names))


def list_in_contexts(graph: TrainingGraph, editor: Editor) -> None:
    """List new nodes of while loops in the loops' contexts."""
    contexts, view = Contexts(graph.meta_graph), GraphView(graph.meta_graph.graph_def)
    for name in editor.added:
        node, path = editor.nodes[name], outputs_frame(view, name)
        if path and is_invariant(node):
            outside = "%s:%d" % editor.input(name, 0)
            contexts.bring_in(name, graph.loop_conditions[path], outside)
        elif path:
            contexts.add(name, editor.nodes[graph.loop_conditions[path]])
    contexts.write()
