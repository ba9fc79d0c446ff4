"""Copies of subgraphs that read other tensors."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.graph_editor import views, walks
from graphmp.legacy.contrib.graph_editor.copying import Copying, Names
from graphmp.legacy.contrib.graph_editor.lists import ControlOutputs
from graphmp.legacy.contrib.graph_editor.views import SubGraphView

__all__ = ["TransformerInfo", "copy_with_input_replacements", "graph_replace"]


class TransformerInfo:
    """Which operation and tensor was copied to which."""

    def __init__(self, graph: tf.Graph, ops: Any, tensors: Any, scope: str):
        self.graph = self.graph_ = graph
        self.scope_ = scope
        self.transformed_ops = self._transformed_ops = ops
        self.transformed_ts = self._transformed_ts = tensors

    def transformed(self, original_top: Any, missing_fn: Any = None) -> Any:
        """The copies of a structure of tensors and operations; None for what wasn't copied.

        Args:
            original_top: a tensor, an operation or a structure of them.
            missing_fn: makes what stands for an original that wasn't copied.
        """
        maps = {**self._transformed_ops, **self._transformed_ts}
        return _looked_up(original_top, maps, missing_fn)

    def original(self, transformed_top: Any, missing_fn: Any = None) -> Any:
        """The originals of a structure of copies; None for what is no copy."""
        maps = {**self._transformed_ops, **self._transformed_ts}
        back = {copy: original for original, copy in maps.items() if copy is not original}
        return _looked_up(transformed_top, back, missing_fn)


def _looked_up(structure: Any, maps: Dict[Any, Any], missing_fn: Any) -> Any:
    def found(element: Any) -> Any:
        if element in maps:
            return maps[element]
        return None if missing_fn is None else missing_fn(element)

    return tf.nest.map_structure(found, structure)


def _naming(graph: tf.Graph, scope: str, source: str, reuse: bool) -> Tuple[str, Names]:
    """The scope of copies, and the function that makes a copy's name of the original's."""
    if scope and not reuse:
        scope = graph.unique_name(scope.rstrip("/"))
    scope, source = (part.rstrip("/") + "/" if part else "" for part in (scope, source))

    def name(original: str) -> str:
        if not original.startswith(source):
            raise ValueError("%s is not below the scope %s" % (original, source))
        return scope + original[len(source) :]

    return scope, name


def copy_with_input_replacements(
    sgv: Any,
    replacement_ts: Dict[tf.Tensor, tf.Tensor],
    dst_graph: Optional[tf.Graph] = None,
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Tuple[SubGraphView, TransformerInfo]:
    """Copy a subgraph; the copies read other tensors where an input has a replacement.

    Returns:
        A view of the copies, and a `TransformerInfo`.
    """
    view = views.make_view(sgv)
    graph = view.graph if dst_graph is None else dst_graph
    if not isinstance(graph, tf.Graph):
        raise TypeError("Expected a tf.Graph, got: %s" % type(graph))
    scope, name = _naming(graph, dst_scope, src_scope, reuse_dst_scope)
    copying = Copying(graph, replacement_ts, name)
    copying.run(view)
    copied = SubGraphView(list(copying.ops.values()))
    return copied, TransformerInfo(graph, copying.ops, copying.tensors, scope)


def graph_replace(
    target_ts: Any,
    replacement_ts: Dict[tf.Tensor, tf.Tensor],
    dst_scope: str = "",
    src_scope: str = "",
    reuse_dst_scope: bool = False,
) -> Any:
    """The targets as they are with other tensors in the place of some; copies what is between.

    Raises:
        ValueError: no target depends on a tensor that is to be replaced.
    """
    targets = tf.nest.flatten(target_ts)
    control = ControlOutputs(targets[0].graph)
    ops = walks.get_walks_intersection_ops(list(replacement_ts), targets, control_ios=control)
    if not ops:
        raise ValueError("The targets don't depend on the tensors to replace")
    _, info = copy_with_input_replacements(
        ops, replacement_ts, None, dst_scope, src_scope, reuse_dst_scope
    )
    return info.transformed(target_ts, lambda original: original)
