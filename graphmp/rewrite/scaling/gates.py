"""Skipping in a serialised graph: writes that change nothing unless a flag holds, and nothing else that is missing then.

1. An update kernel is dead where the flag is false: its gradient comes through a Switch. Whoever waited for it waits for a
   Merge that is alive in either case; whoever read the reference that it returns reads the variable's there.
2. An assignment takes the old value, an addition nothing (so that its result can be fetched): by a table of ops.
3. A histogram of gradients takes 0 for what is not finite.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.branches import conditional
from graphmp.graph.dtypes import BOOL, INT32, RESOURCE
from graphmp.graph.editing import Editor
from graphmp.graph.live import UPDATE_PREFIXES
from graphmp.graph.view import CONTROL, Port
from graphmp.rewrite.scaling.training_graph import FLOATS, TrainingGraph

_SELECTED = "skip gate: the old value unless the gradients are finite"
_ALIVE = "skip gate: runs whether or not the update does"
_FINITE = "finite check: a moving average takes no value that is not finite"
_SHOWN = "finite check: a histogram takes 0 for what is not finite"
OWN_SCOPE = "graphmp/moving_averages"


class _Neutral(NamedTuple):
    """What a write takes instead of its value so that nothing changes: which input that is, and how to make it."""

    slot: int
    kind: str


# By the op without `Resource` in front and `VariableOp` behind. zero: nothing is added; one: multiplied by 1; old: the old value;
# rows: the old rows; slice: the old slice.
_NEUTRAL = {
    "Assign": _Neutral(1, "old"),
    "AssignAdd": _Neutral(1, "zero"),
    "AssignSub": _Neutral(1, "zero"),
    "ScatterAdd": _Neutral(2, "zero"),
    "ScatterSub": _Neutral(2, "zero"),
    "ScatterNdAdd": _Neutral(2, "zero"),
    "ScatterNdSub": _Neutral(2, "zero"),
    "ScatterMul": _Neutral(2, "one"),
    "ScatterDiv": _Neutral(2, "one"),
    "ScatterUpdate": _Neutral(2, "rows"),
    "ScatterMin": _Neutral(2, "rows"),
    "ScatterMax": _Neutral(2, "rows"),
    "ScatterNdUpdate": _Neutral(2, "rows"),
    "ScatterNdMin": _Neutral(2, "rows"),
    "ScatterNdMax": _Neutral(2, "rows"),
    "StridedSliceAssign": _Neutral(4, "slice"),
}
_ADDS = frozenset(("AssignAdd", "ScatterAdd", "ScatterNdAdd"))


class Gates:
    """Puts gates into one graph.

    Attributes:
        gated: the writes that have one.
        impossible: writes that can't have one: calls of functions with results, which would be missing.
    """

    def __init__(self, editor: Editor, graph: TrainingGraph):
        """`editor` changes the graph that `graph` describes."""
        self._editor, self._graph = editor, graph
        self._conditional = conditional(graph.view)
        self._switched: Dict[Port, Tuple[Port, Port]] = {}
        self._shapes: List[Port] = []
        self.gated: List[str] = []
        self.impossible: List[str] = []

    def by_flag(self, name: str, flag: Port) -> None:
        """Lets a write happen only where a flag, a scalar bool, holds."""
        scope = "%s/skip/%s" % (flag.node.rsplit("/", 1)[0], name)
        op = self._graph.view.nodes[name].op
        if not op.startswith(UPDATE_PREFIXES) and _neutral(op) is None and self._graph.outputs(name):
            self.impossible.append(name)
            return
        self.gated.append(name)
        if _neutral(op) is None:
            self._dead(name, self._in_branch(name, flag, scope), scope)
        else:
            self._by_value(name, flag, scope, _SELECTED)

    def by_value(self, name: str) -> None:
        """Lets a write happen only where what it takes is finite."""
        self.gated.append(name)
        scope = "%s/%s" % (OWN_SCOPE, name)
        value, device = self._graph.view.inputs(name)[1], self._graph.places.of(name)
        finite = self._editor.add(scope + "/is_finite", "IsFinite", [value], _FINITE, device, T=self._graph.dtype(value))
        shape, axis = self._flat()
        flat = self._editor.add(scope + "/flat", "Reshape", [finite, shape], _FINITE, device, T=BOOL, Tshape=INT32)
        flag = self._editor.add(scope + "/all_finite", "All", [flat, axis], _FINITE, device, Tidx=INT32, keep_dims=False)
        self._by_value(name, flag, scope, _FINITE)

    def histogram(self, name: str) -> None:
        """Lets a HistogramSummary take 0 for values that are not finite: its kernel refuses them, and a step to be skipped would end the run."""
        value, device = self._now(name, 1), self._graph.places.of(name)
        dtype, scope = self._graph.dtype(self._graph.view.inputs(name)[1]), "graphmp/histograms/" + name
        finite = self._editor.add(scope + "/is_finite", "IsFinite", [value], _SHOWN, device, T=dtype)
        zeros = self._editor.add(scope + "/zeros", "ZerosLike", [value], _SHOWN, device, T=dtype)
        self._editor.connect(name, 1, self._editor.add(scope + "/selected", "Select", [finite, value, zeros], _SHOWN, device, T=dtype))

    def any_of(self, flags: List[Port]) -> Port:
        """A flag that holds where one of the flags does."""
        result = flags[0]
        for flag in flags[1:]:
            result = self._editor.add("graphmp/loss_scale/skip/any", "LogicalOr", [result, flag], "skip gate: one of the losses trains")
        return result

    def _dead(self, name: str, flag: Port, scope: str) -> None:
        view, node = self._graph.view, self._graph.view.nodes[name]
        slot = self._switchable(name)
        port = view.inputs(name)[slot]
        switch = self._add(scope + "/switch", "Switch", [self._now(name, slot), flag], name, T=self._graph.dtype(port))
        self._editor.connect(name, slot, Port(switch.node, 1))
        data, control = view.consumers(name), view.control_consumers(name)
        signature = self._graph.op_defs.signature(node)
        if data and signature is not None and signature.outputs[0].is_ref:
            dtype = signature.outputs[0].dtype
            unchanged = self._add(scope + "/unchanged", "RefSwitch", [view.inputs(name)[0], flag], name, T=dtype)
            alive = self._add(scope + "/alive", "RefMerge", [unchanged, Port(name, 0)], name, T=dtype, N=tf.AttrValue(i=2))
            self._editor.read_instead(data, alive)
            self._editor.wait_instead(name, alive.node, alive.node)
        elif control:
            skipped, applied = self._sides(flag)
            after = self._add(scope + "/applied", "Identity", [applied, Port(name, CONTROL)], name, T=BOOL)
            alive = self._add(scope + "/alive", "Merge", [skipped, after], name, T=BOOL, N=tf.AttrValue(i=2))
            self._editor.wait_instead(name, alive.node, after.node)

    def _switchable(self, name: str) -> int:
        """The input whose death is the write's: its gradient, else a float, else anything."""
        named = self._graph.slot_named(name, "grad", "delta")
        if named >= 0:
            return named
        signature = self._graph.op_defs.signature(self._graph.view.nodes[name])
        types = signature.inputs if signature is not None else ()
        floats = [slot for slot, port in enumerate(types) if port.dtype in FLOATS and not port.is_ref]
        return (floats or [slot for slot, port in enumerate(types) if port.dtype != RESOURCE] or [0])[0]

    def _in_branch(self, name: str, flag: Port, scope: str) -> Port:
        """The flag; in a branch of the model's own conditional one that is dead where the branch is."""
        if name not in self._conditional:
            return flag
        slot = self._switchable(name)
        inside = self._add(scope + "/gradient", "Identity", [self._now(name, slot)], name, T=self._graph.dtype(self._graph.view.inputs(name)[slot]))
        return self._add(scope + "/flag", "Identity", [flag, Port(inside.node, CONTROL)], name, T=BOOL)

    def _sides(self, flag: Port) -> Tuple[Port, Port]:
        """The flag where it is false, and where it is true; each dead elsewhere."""
        if flag not in self._switched:
            scope = flag.node.rsplit("/", 1)[0] + "/skip"
            switch = self._editor.add(scope + "/switch", "Switch", [flag, flag], _ALIVE, T=BOOL)
            skipped = self._editor.add(scope + "/skipped", "Identity", [switch], _ALIVE, T=BOOL)
            self._switched[flag] = (skipped, Port(switch.node, 1))
        return self._switched[flag]

    def _by_value(self, name: str, flag: Port, scope: str, reason: str) -> None:
        node = self._graph.view.nodes[name]
        neutral = _neutral(node.op)
        assert neutral is not None, node.op
        value = self._now(name, neutral.slot)
        dtype = self._graph.dtype(self._graph.view.inputs(name)[neutral.slot])
        other = _MAKE[neutral.kind](self, name, value, dtype, scope)
        if node.op == "Assign" and "validate_shape" in node.attr and not node.attr["validate_shape"].b:
            gated = self._either(name, flag, value, other, dtype, scope)
        else:
            gated = self._add(scope + "/selected", "Select", [flag, value, other], name, reason, T=dtype)
        self._editor.connect(name, neutral.slot, gated)

    def _either(self, name: str, flag: Port, value: Port, other: Port, dtype: int, scope: str) -> Port:
        """One of two values, whose shapes may differ."""
        new = self._add(scope + "/switch", "Switch", [value, flag], name, T=dtype)
        old = self._add(scope + "/switch_old", "Switch", [other, flag], name, T=dtype)
        return self._add(scope + "/selected", "Merge", [old, Port(new.node, 1)], name, T=dtype, N=tf.AttrValue(i=2))

    def _zero(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        """What changes nothing when added: -0.0, for -0.0 + 0.0 is 0.0; subtracted, 0.0."""
        zeros = self._add(scope + "/zeros", "ZerosLike", [value], name, T=dtype)
        adds = _base(self._graph.view.nodes[name].op) in _ADDS and dtype in FLOATS
        return self._add(scope + "/negative_zeros", "Neg", [zeros], name, T=dtype) if adds else zeros

    def _one(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        return self._add(scope + "/ones", "OnesLike", [value], name, T=dtype)

    def _old(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        """The variable's value, read as late as the write happens: after all that it waits for, and after what it takes is made."""
        variable = self._graph.view.inputs(name)[0]
        wait = [*self._editor.controls(name), Port(value.node, CONTROL)]
        if self._graph.dtype(variable) == RESOURCE:
            return self._add(scope + "/old", "ReadVariableOp", [variable, *wait], name, dtype=dtype)
        return self._add(scope + "/old", "Identity", [variable, *wait], name, T=dtype)

    def _rows(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        view = self._graph.view
        variable, indices = view.inputs(name)[:2]
        nd, integer = "Nd" in view.nodes[name].op, self._graph.dtype(indices)
        if self._graph.dtype(variable) == RESOURCE:
            op = "ResourceGatherNd" if nd else "ResourceGather"
            return self._add(scope + "/old", op, [variable, indices, *self._editor.controls(name)], name, dtype=dtype, Tindices=integer)
        old = self._old(name, value, dtype, scope)
        return self._add(scope + "/rows", "GatherNd" if nd else "Gather", [old, indices], name, Tparams=dtype, Tindices=integer)

    def _slice(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        old = self._old(name, value, dtype, scope)
        node, inputs = self._graph.view.nodes[name], self._graph.view.inputs(name)
        masks = {key: node.attr[key] for key in node.attr if key.endswith("_mask") or key == "Index"}
        return self._add(scope + "/slice", "StridedSlice", [old, *inputs[1:4]], name, T=dtype, **masks)

    def _flat(self) -> List[Port]:
        """The shape [-1] and the axis [0]."""
        if not self._shapes:
            for name, number in (("flat", -1), ("first", 0)):
                value = tf.make_tensor_proto([number], tf.int32)
                self._shapes.append(self._editor.add("%s/%s" % (OWN_SCOPE, name), "Const", (), _FINITE, dtype=INT32, value=value))
        return self._shapes

    def _now(self, name: str, slot: int) -> Port:
        return self._editor.input(name, slot)

    def _add(self, name: str, op: str, inputs: List[Port], beside: str, reason: str = _ALIVE, **attributes: Any) -> Port:
        return self._editor.add(name, op, inputs, reason, self._graph.places.of(beside), **attributes)


_MAKE: Dict[str, Callable[[Gates, str, Port, int, str], Port]] = {
    "zero": Gates._zero,
    "one": Gates._one,
    "old": Gates._old,
    "rows": Gates._rows,
    "slice": Gates._slice,
}


def _base(op: str) -> str:
    return op.replace("Resource", "", 1).replace("VariableOp", "")


def _neutral(op: str) -> Any:
    return _NEUTRAL.get(_base(op))
