"""The copying itself: one operation after the other, with loops, control edges and collections."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.legacy.contrib.graph_editor import lists
from graphmp.legacy.contrib.graph_editor.views import SubGraphView

Names = Callable[[str], str]
_ENTERS = frozenset(("Enter", "RefEnter"))
_LOOP_STARTS = frozenset(("Merge", "RefMerge"))
_LOOP_ENDS = frozenset(("NextIteration", "RefNextIteration"))


class Copying:
    """One copy of operations, into the same graph or another."""

    def __init__(self, graph: tf.Graph, replaced: Dict[Any, Any], names: Names):
        self.graph = graph
        self.ops: Dict[tf.Operation, tf.Operation] = {}
        self.tensors = dict(replaced)
        self.name = names
        self._late: List[Tuple[tf.Operation, int, tf.Tensor]] = []
        self._frames: Dict[bytes, bytes] = {}

    def run(self, view: SubGraphView) -> None:
        """Copy each operation after those that it reads, then close loops and add control edges."""
        self.tensors = {t: self._input(t) for t in view.inputs}
        self._frames = {frame: self._unique(frame.decode()).encode() for frame in _loops(view)}
        for op in _in_order(view.ops):
            self._copy(op)
        for copy, place, source in self._late:
            copy._update_input(place, self.tensors[source])
        for op, copy in self.ops.items():
            before = [self.ops.get(one, one) for one in op.control_inputs]
            copy._add_control_inputs([one for one in before if one.graph is self.graph])
        _collect(self, view.graph)

    def _input(self, t: tf.Tensor) -> tf.Tensor:
        """The input of copies for a tensor from outside: itself, or another graph's placeholder."""
        if t in self.tensors:
            return self.tensors[t]
        if t.graph is self.graph:
            return t
        with self.graph.as_default():
            name = "geph__%s_%d" % (t.op.name.rpartition("/")[2], t.value_index)
            return tf.placeholder(t.dtype.base_dtype, t.shape, name)

    def _unique(self, name: str) -> str:
        return self.graph.unique_name(self.name(name))

    def _copy(self, op: tf.Operation) -> None:
        node = tf.NodeDef()
        node.CopyFrom(op.node_def)
        node.name = self._unique(op.name)
        del node.input[:]
        if "frame_name" in node.attr:
            frame = node.attr["frame_name"].s
            node.attr["frame_name"].s = self._frames.get(frame, frame)
        copied = [self.tensors.get(t) for t in op.inputs]
        first = next((t for t in copied if t is not None), None)
        inputs, types = [first if t is None else t for t in copied], list(op._input_types)
        copy = tf.Operation.from_node_def(
            node, self.graph, inputs, None, [], types, op_def=op.op_def
        )
        self._late += [
            (copy, place, t) for place, t in enumerate(op.inputs) if t not in self.tensors
        ]
        self.ops[op] = copy
        self.tensors.update(zip(op.outputs, copy.outputs))


def _loops(view: SubGraphView) -> List[bytes]:
    """The frames of the loops that are whole in a view; a copy of such a loop gets its own."""
    members = set(view.ops)
    if not any(op.type in _ENTERS for op in members):
        return []
    enters = [op for op in view.graph.get_operations() if op.type in _ENTERS]
    outside = {op.get_attr("frame_name") for op in enters if op not in members}
    inside = lists.unique(op.get_attr("frame_name") for op in enters if op in members)
    return [frame for frame in inside if frame not in outside]


def _in_order(ops: List[tf.Operation]) -> Iterator[tf.Operation]:
    """The operations, each after those among them that it reads, except around loops."""
    members, done = set(ops), set()
    for first in ops:
        stack = [(first, False)]
        while stack:
            op, ready = stack.pop()
            if ready:
                yield op
            elif op not in done:
                done.add(op)
                stack.append((op, True))
                stack += [(before, False) for before in _read(op) if before in members]


def _read(op: tf.Operation) -> List[tf.Operation]:
    """The operations that one reads, without the edge that closes a loop."""
    return [t.op for t in op.inputs if t.op.type not in _LOOP_ENDS or op.type not in _LOOP_STARTS]


def _collect(copying: Copying, source: tf.Graph) -> None:
    """Put copies into the collections of their originals; a script's own get the copies' scope."""
    known = {value for key, value in vars(tf.GraphKeys).items() if not key.startswith("_")}
    made = {**copying.ops, **{t: copying.tensors[t] for op in copying.ops for t in op.outputs}}
    for key in source.get_all_collection_keys():
        for element in source.get_collection(key):
            if isinstance(element, (tf.Tensor, tf.Operation)) and element in made:
                name = key if key in known else copying.name(key)
                copying.graph.add_to_collection(name, made[element])
