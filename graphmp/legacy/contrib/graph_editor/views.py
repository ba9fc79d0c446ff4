"""Views of subgraphs: operations with the tensors that go in and out."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.graph_editor import lists, selections

__all__ = [
    "SubGraphView",
    "compute_boundary_ts",
    "make_view",
    "make_view_from_scope",
    "sgv",
    "sgv_scope",
]


def compute_boundary_ts(ops: Any) -> Tuple[List[tf.Tensor], List[tf.Tensor], List[tf.Tensor]]:
    """The tensors that go into operations, those that come out, and those read among them.

    Out come tensors with a reader outside, and those without readers.
    """
    inside = lists.unique(lists.make_list_of_op(ops))
    members = set(inside)
    read = lists.unique(t for op in inside for t in op.inputs)
    made = [t for op in inside for t in op.outputs]
    inputs = [t for t in read if t.op not in members]
    outputs = [t for t in made if not t.consumers() or set(t.consumers()) - members]
    return inputs, outputs, [t for t in made if members.intersection(t.consumers())]


class SubGraphView:
    """Operations of a graph, the tensors that they read from outside, and those that they give."""

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()):
        self._ops = lists.unique(lists.make_list_of_op(inside_ops))
        inputs, outputs, inner = compute_boundary_ts(self._ops)
        linked = {*inputs, *outputs, *inner}
        given = lists.unique(lists.make_list_of_t(passthrough_ts))
        self._passthroughs = [t for t in given if t not in linked]
        self._inputs = inputs + self._passthroughs
        self._outputs = outputs + self._passthroughs

    @property
    def graph(self) -> Any:
        """The graph, None of an empty view."""
        elements = [*self._ops, *self._passthroughs]
        return elements[0].graph if elements else None

    @property
    def ops(self) -> List[tf.Operation]:
        """The operations."""
        return list(self._ops)

    @property
    def inputs(self) -> List[tf.Tensor]:
        """The tensors that go in."""
        return list(self._inputs)

    @property
    def outputs(self) -> List[tf.Tensor]:
        """The tensors that come out."""
        return list(self._outputs)

    @property
    def passthroughs(self) -> List[tf.Tensor]:
        """The tensors that go in and come out unchanged."""
        return list(self._passthroughs)

    @property
    def connected_inputs(self) -> List[tf.Tensor]:
        """The inputs that operations of the view read."""
        return [t for t in self._inputs if t not in self._passthroughs]

    @property
    def connected_outputs(self) -> List[tf.Tensor]:
        """The outputs that operations of the view make."""
        return [t for t in self._outputs if t not in self._passthroughs]

    def op(self, op_id: int) -> tf.Operation:
        """An operation by its place."""
        return self._ops[op_id]

    def find_op_by_name(self, op_name: str) -> tf.Operation:
        """An operation by its name.

        Raises:
            ValueError: there is none.
        """
        for op in self._ops:
            if op.name == op_name:
                return op
        raise ValueError("%s isn't in the subgraph" % op_name)

    def is_passthrough(self, t: tf.Tensor) -> bool:
        """Whether a tensor goes through unchanged."""
        return t in self._passthroughs

    def consumers(self) -> List[tf.Operation]:
        """The operations outside that read the outputs."""
        members = set(self._ops)
        return [op for op in lists.get_consuming_ops(self._outputs) if op not in members]

    def input_index(self, t: tf.Tensor) -> int:
        """The place of an input."""
        return self._inputs.index(t)

    def output_index(self, t: tf.Tensor) -> int:
        """The place of an output."""
        return self._outputs.index(t)

    def copy(self) -> SubGraphView:
        """An equal view."""
        view = SubGraphView(self._ops, self._passthroughs)
        view._inputs, view._outputs = self.inputs, self.outputs
        return view

    def set_inputs(self, inputs: List[tf.Tensor]) -> None:
        """Take note of other inputs that the operations read now."""
        self._inputs = list(inputs)

    def remap_inputs(self, new_input_indices: Iterable[int]) -> SubGraphView:
        """A view with the inputs at these places."""
        view = self.copy()
        view._inputs = [self._inputs[place] for place in new_input_indices]
        return view

    def remap_outputs(self, new_output_indices: Iterable[int]) -> SubGraphView:
        """A view with the outputs at these places."""
        view = self.copy()
        view._outputs = [self._outputs[place] for place in new_output_indices]
        return view


def make_view(*args: Any, **kwargs: Any) -> SubGraphView:
    """A view of operations, of tensors that go through, and of expressions with `graph`."""
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        return args[0]
    return SubGraphView(*selections.select_ops_and_ts(*args, **kwargs))


def make_view_from_scope(scope: str, graph: tf.Graph) -> SubGraphView:
    """A view of the operations below a name scope."""
    return SubGraphView(selections.get_name_scope_ops(graph, scope))


sgv: Callable[..., SubGraphView] = make_view
sgv_scope = make_view_from_scope
