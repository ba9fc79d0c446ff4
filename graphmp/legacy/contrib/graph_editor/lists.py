"""Lists of operations and tensors, and what is next to them in the graph."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple, Type

import tensorflow.compat.v1 as tf

__all__ = [
    "ControlOutputs",
    "check_cios",
    "get_consuming_ops",
    "get_generating_ops",
    "get_tensors",
    "make_list_of_op",
    "make_list_of_t",
]


class ControlOutputs:
    """For each operation of a graph, those that wait for it."""

    def __init__(self, graph: tf.Graph):
        if not isinstance(graph, tf.Graph):
            raise TypeError("Expected a tf.Graph, got: %s" % type(graph))
        self.graph = graph
        self.update()

    def update(self) -> ControlOutputs:
        """Read the graph again, after it changed."""
        self._waiting: Dict[tf.Operation, List[tf.Operation]] = {}
        for op in self.graph.get_operations():
            for before in op.control_inputs:
                self._waiting.setdefault(before, []).append(op)
        return self

    def get_all(self) -> Dict[tf.Operation, List[tf.Operation]]:
        """All operations that another waits for."""
        return self._waiting

    def get(self, op: tf.Operation) -> Iterable[tf.Operation]:
        """The operations that wait for one."""
        return self._waiting.get(op, ())


def check_cios(
    control_inputs: bool = False,
    control_outputs: Optional[ControlOutputs] = None,
    control_ios: Optional[ControlOutputs] = None,
) -> Tuple[bool, Optional[ControlOutputs]]:
    """Whether to follow control inputs, and the control outputs to follow.

    Raises:
        ValueError: `control_ios`, which stands for both, comes with one of them.
        TypeError: the control outputs are no `ControlOutputs`.
    """
    if control_ios is not None:
        if control_inputs or control_outputs is not None:
            raise ValueError("control_ios stands for control_inputs and control_outputs together")
        control_inputs, control_outputs = True, control_ios
    if control_outputs is not None and not isinstance(control_outputs, ControlOutputs):
        raise TypeError("Expected a ControlOutputs, got: %s" % type(control_outputs))
    return control_inputs, control_outputs


def as_list(elements: Any) -> List[Any]:
    """The elements of an iterable, or a list of the object itself."""
    if isinstance(elements, (str, tf.Tensor, tf.Operation)) or not hasattr(elements, "__iter__"):
        return [elements]
    return list(elements)


def unique(elements: Iterable[Any]) -> List[Any]:
    """The elements in their order, each once."""
    return list(dict.fromkeys(elements))


def _checked(elements: Any, kind: Type[Any], ignored: Tuple[Type[Any], ...], same: bool) -> Any:
    kept = [element for element in as_list(elements) if not isinstance(element, ignored)]
    for element in kept:
        if not isinstance(element, kind):
            raise TypeError("Expected %s, got: %s" % (kind.__name__, type(element)))
    if same and len({id(element.graph) for element in kept}) > 1:
        raise ValueError("The elements are of different graphs")
    return kept


def make_list_of_op(
    ops: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ts: bool = False
) -> List[tf.Operation]:
    """Operations as a list: of a graph, of an iterable, or one.

    Raises:
        TypeError: something is no operation.
        ValueError: they are of different graphs.
    """
    if isinstance(ops, tf.Graph) and allow_graph:
        return list(ops.get_operations())
    return _checked(ops, tf.Operation, (tf.Tensor,) if ignore_ts else (), check_graph)


def make_list_of_t(
    ts: Any, check_graph: bool = True, allow_graph: bool = True, ignore_ops: bool = False
) -> List[tf.Tensor]:
    """Tensors as a list: of a graph, of an iterable, or one.

    Raises:
        TypeError: something is no tensor.
        ValueError: they are of different graphs.
    """
    if isinstance(ts, tf.Graph) and allow_graph:
        return get_tensors(ts)
    return _checked(ts, tf.Tensor, (tf.Operation,) if ignore_ops else (), check_graph)


def get_tensors(graph: tf.Graph) -> List[tf.Tensor]:
    """All tensors of a graph."""
    if not isinstance(graph, tf.Graph):
        raise TypeError("Expected a tf.Graph, got: %s" % type(graph))
    return [t for op in graph.get_operations() for t in op.outputs]


def get_generating_ops(ts: Any) -> List[tf.Operation]:
    """The operations that make the tensors."""
    return unique(t.op for t in make_list_of_t(ts, allow_graph=False))


def get_consuming_ops(ts: Any) -> List[tf.Operation]:
    """The operations that read the tensors."""
    return unique(op for t in make_list_of_t(ts, allow_graph=False) for op in t.consumers())
