"""The origin of the first value that isn't finite, by the ranges of all tensors in the run."""

from __future__ import annotations

import math
from typing import (
    AbstractSet,
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.graph.edit.building import own_scope
from graphmp.graph.state.live import ancestors
from graphmp.graph.structure.branches import conditional
from graphmp.graph.structure.frames import loop_depths
from graphmp.graph.structure.gradient_code import gradient_code, idle_nodes
from graphmp.graph.structure.order import in_order
from graphmp.graph.structure.view import GraphView
from graphmp.naming import SIBLING
from graphmp.policy.op_sets import ARRAY_READS, CALLS, EXITS, MERGES, SWITCHES, VARIABLE_OPS
from graphmp.tf_hooks.internals import is_op, outside, whole_graph_def

WATCH_SCOPE = "watch"  # below `graphmp/`, only in a live graph
_FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


class Seen(NamedTuple):
    """The range of a tensor: its name, its smallest and its largest value."""

    name: str
    low: float
    high: float

    def __str__(self) -> str:
        return (
            "%s in [%.3g, %.3g]" % self
            if math.isfinite(self.low + self.high)
            else "%s: not finite" % self.name
        )


class Overflow(NamedTuple):
    """The first op of a step with a result that isn't finite, though all its inputs are.

    Attributes:
        node: its name in the original graph, if it exists there.
        op: its type.
        dtype: "float16", "bfloat16", "float32" or "float64".
        inputs: its inputs, with ranges.
        to_keep: the original graph's nodes that would have to compute in float32: itself, or what
            reads it if a conversion inserted it.
        inside: whether its value comes out of a loop, a branch or a function, whose own values
            aren't seen.
    """

    node: str
    op: str
    dtype: str
    inputs: List[Seen]
    to_keep: List[str]
    inside: bool = False

    def __str__(self) -> str:
        seen = ", ".join(dict.fromkeys(map(str, self.inputs)))  # `h * h` reads one tensor
        reads = "; it reads " + seen if seen else ""
        outside = " outside of loops, branches and functions" if self.inside else ""
        return "%s (%s, %s) is the first that is not finite%s%s" % (
            self.node,
            self.op,
            self.dtype,
            outside,
            reads,
        )


class Watch:
    """Measures all tensors that some ops of a live graph depend on.

    Attributes:
        fetches: three vectors to fetch in the run: whether each tensor is finite, its smallest and
            largest value.
    """

    def __init__(
        self,
        ops: Sequence[Any],
        originals: Mapping[str, str],
        updates: bool = False,
        fed: AbstractSet[str] = frozenset(),
    ):
        """Add nodes to the graph, even a finalised one. Loops and branches are left out.

        Args:
            ops: ops of one graph.
            originals: the original's name for each clone's.
            updates: whether variables may change in the run: a read of a reference variable returns
                the new value.
            fed: names of tensors that are fed though the graph could compute them.

        Raises:
            GraphmpError: GMP002 if the ops depend on no floating-point tensor.
        """
        self._originals = originals
        self._behind = ancestors(ops, fed=fed)
        self._tensors = [
            tensor
            for tensor in _watched(ops[0].graph, {op.name for op in self._behind})
            if not (updates and _is_reference_read(tensor.op))
        ]
        if not self._tensors:
            raise GraphmpError(
                "GMP002",
                "no floating-point tensor is computed for the fetches; accepted are fetches such as"
                " the loss",
            )
        with outside(self._tensors[0].graph), own_scope(WATCH_SCOPE):
            parts = [_range(tensor) for tensor in self._tensors]
            self.fetches: List[Any] = [tf.stack(column, name="ranges") for column in zip(*parts)]

    def first(self, values: Tuple[Any, Any, Any]) -> Optional[Overflow]:
        """The first op with a result that isn't finite, by the fetched vectors.

        None if all are finite.
        """
        seen: Dict[str, Seen] = {}
        bad: Set[str] = set()
        for tensor, finite, low, high in zip(self._tensors, *values):
            seen[tensor.name] = Seen(self._name(tensor), float(low), float(high))
            if not finite:
                bad.add(tensor.name)
        for tensor in self._tensors:
            if tensor.name in bad and not any(each.name in bad for each in tensor.op.inputs):
                inputs = [seen[each.name] for each in tensor.op.inputs if each.name in seen]
                return Overflow(
                    self._name(tensor),
                    tensor.op.type,
                    tensor.dtype.base_dtype.name,
                    inputs,
                    list(dict.fromkeys(self._to_keep(tensor.op))),
                    _from_inside(tensor.op),
                )
        return None

    def _to_keep(self, op: Any) -> Iterator[str]:
        """The op's name in the original graph; for an inserted cast those of what reads it."""
        name = self._original(op)
        if not SIBLING.match(name):
            yield name
            return
        for tensor in op.outputs:
            for reader in tensor.consumers():
                if reader in self._behind:
                    yield from self._to_keep(reader)

    def _name(self, tensor: Any) -> str:
        name = self._original(tensor.op)
        return name if tensor.value_index == 0 else "%s:%d" % (name, tensor.value_index)

    def _original(self, op: Any) -> str:
        return self._originals.get(op.name, op.name)


def _is_reference_read(op: Any) -> bool:
    return op.type == "Identity" and op.inputs[0].op.type in VARIABLE_OPS


def _from_inside(op: Any) -> bool:
    """Whether an op hands out what a loop, a branch or a function computed, in a list too."""
    return (
        op.type in EXITS | MERGES | ARRAY_READS | CALLS
        or not is_op(op.type)
        or any(tensor.dtype == tf.variant for tensor in op.inputs)
    )


def _range(tensor: Any) -> Tuple[Any, Any, Any]:
    value = tf.cast(tensor, tf.float32)
    return tf.reduce_all(tf.is_finite(value)), tf.reduce_min(value), tf.reduce_max(value)


def _watched(graph: Any, behind: AbstractSet[str]) -> List[Any]:
    """Floating-point tensors that can be fetched whenever some ops run, in topological order.

    Gradients that nothing reads are left out.
    """
    view = GraphView(whole_graph_def(graph))
    looped = {name for name, depth in loop_depths(view).items() if depth}
    unread = idle_nodes(view, gradient_code(view).values(), control=False)
    hidden = conditional(view) | looped | unread
    names = [
        name
        for name in in_order(view, behind)
        if name not in hidden and view.nodes[name].op not in SWITCHES
    ]
    return [
        tensor
        for name in names
        for tensor in graph.get_operation_by_name(name).outputs
        if tensor.dtype in _FLOATS
    ]  # not references
