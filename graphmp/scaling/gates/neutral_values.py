"""Writes without effect: in a skipped step an assignment writes the old value, an addition adds 0.

By a table of ops. The write itself runs, so that its result can be fetched.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import CONTROL, Port
from graphmp.policy.dtypes import FLOATS, RESOURCE
from graphmp.policy.reason import SKIP_GATE, Reason
from graphmp.scaling.gates.write_editor import WriteEditor


class Neutral(NamedTuple):
    """The neutral value of a write: its input slot, and how to make it."""

    slot: int
    kind: str


# By the op without `Resource` in front and `VariableOp` behind. zero: adds nothing; one: multiplies
# by 1; old: the old value; rows: the old rows; slice: the old slice.
NEUTRAL = {
    "Assign": Neutral(1, "old"),
    "AssignAdd": Neutral(1, "zero"),
    "AssignSub": Neutral(1, "zero"),
    "ScatterAdd": Neutral(2, "zero"),
    "ScatterSub": Neutral(2, "zero"),
    "ScatterNdAdd": Neutral(2, "zero"),
    "ScatterNdSub": Neutral(2, "zero"),
    "ScatterMul": Neutral(2, "one"),
    "ScatterDiv": Neutral(2, "one"),
    "ScatterUpdate": Neutral(2, "rows"),
    "ScatterMin": Neutral(2, "rows"),
    "ScatterMax": Neutral(2, "rows"),
    "ScatterNdUpdate": Neutral(2, "rows"),
    "ScatterNdMin": Neutral(2, "rows"),
    "ScatterNdMax": Neutral(2, "rows"),
    "StridedSliceAssign": Neutral(4, "slice"),
}
_WRITTEN = Reason(SKIP_GATE, "what a skipped step writes")
_OF_NEW = frozenset(("zero", "one"))  # kinds made of the new value alone
_ADDS = frozenset(("AssignAdd", "ScatterAdd", "ScatterNdAdd"))


def neutral(op: str) -> Optional[Neutral]:
    """The neutral value of an op's writes; None if it isn't in the table."""
    return NEUTRAL.get(_base(op))


_Law = Tuple[Neutral, Port, int]  # of a write, with its present value and the type of both


class NeutralValues:
    """Puts neutral values in place of those that writes take."""

    def __init__(self, writes: WriteEditor):
        self._writes = writes

    def unless(self, name: str, flag: Port, scope: str, reason: Reason) -> None:
        """Let a write of the table take its neutral value unless a flag, a scalar, is true.

        What isn't taken is dead: no kernel computes it, and the value isn't copied.
        """
        self._unless(name, self._law(name), flag, scope, reason)

    def zeros_unless(self, name: str, flag: Port, scope: str, reason: Reason) -> None:
        """Let a write of the table that overwrites take zeros unless a flag, a scalar, is true."""
        law, value, dtype = self._law(name)
        self._unless(name, (law._replace(kind="zero"), value, dtype), flag, scope, reason)

    def _unless(self, name: str, law: _Law, flag: Port, scope: str, reason: Reason) -> None:
        (slot, kind), value, dtype = law
        new = self._writes.add(scope + "/switch", "Switch", [value, flag], name, reason, T=dtype)
        if kind in _OF_NEW:
            other = _MAKE[kind](self, name, new, dtype, scope)
        else:
            old = _MAKE[kind](self, name, value, dtype, scope)
            other = self._writes.add(
                scope + "/switch_old", "Switch", [old, flag], name, _WRITTEN, T=dtype
            )
        either = [other, Port(new.node, 1)]
        gated = self._writes.add(
            scope + "/selected", "Merge", either, name, reason, T=dtype, N=tf.AttrValue(i=2)
        )
        self._writes.editor.connect(name, slot, gated)

    def unless_each(self, name: str, flags: Port, scope: str, reason: Reason) -> None:
        """Let each element of a write take its neutral value unless its own flag is true."""
        law, value, dtype = self._law(name)
        other = _MAKE[law.kind](self, name, value, dtype, scope)
        gated = self._writes.add(
            scope + "/selected", "Select", [flags, value, other], name, reason, T=dtype
        )
        self._writes.editor.connect(name, law.slot, gated)

    def _law(self, name: str) -> _Law:
        """The neutral value of a write, its present value, and the type of both."""
        law = neutral(self._writes.graph.view.nodes[name].op)
        assert law is not None, name
        return law, self._writes.now(name, law.slot), self._writes.dtype(name, law.slot)

    def old(self, name: str, wait: Sequence[Port], dtype: int, scope: str) -> Port:
        """The variable's value, read as late as the write: after its control inputs and values."""
        writes, variable = self._writes, self._writes.graph.view.inputs(name)[0]
        wait = [*writes.editor.controls(name), *(Port(port.node, CONTROL) for port in wait)]
        if writes.graph.dtype(variable) == RESOURCE:
            inputs = [variable, *wait]
            return writes.add(scope + "/old", "ReadVariableOp", inputs, name, dtype=dtype)
        return writes.add(scope + "/old", "Identity", [variable, *wait], name, T=dtype)

    def _zero(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        """The neutral value of an addition or subtraction.

        -0.0 for an addition, because -0.0 + 0.0 is 0.0; 0.0 for a subtraction.
        """
        zeros = self._writes.add(scope + "/zeros", "ZerosLike", [value], name, _WRITTEN, T=dtype)
        if _base(self._writes.graph.view.nodes[name].op) not in _ADDS or dtype not in FLOATS:
            return zeros
        return self._writes.add(scope + "/negative_zeros", "Neg", [zeros], name, _WRITTEN, T=dtype)

    def _one(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        return self._writes.add(scope + "/ones", "OnesLike", [value], name, _WRITTEN, T=dtype)

    def _old_value(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        return self.old(name, [Port(value.node, CONTROL)], dtype, scope)

    def _rows(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        writes, view = self._writes, self._writes.graph.view
        variable, indices = view.inputs(name)[:2]
        nd, integer = "Nd" in view.nodes[name].op, writes.graph.dtype(indices)
        if writes.graph.dtype(variable) == RESOURCE:
            op = "ResourceGatherNd" if nd else "ResourceGather"
            inputs = [variable, indices, *writes.editor.controls(name)]
            return writes.add(scope + "/old", op, inputs, name, dtype=dtype, Tindices=integer)
        old, op = self._old_value(name, value, dtype, scope), "GatherNd" if nd else "Gather"
        return writes.add(
            scope + "/rows", op, [old, indices], name, Tparams=dtype, Tindices=integer
        )

    def _slice(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        old, view = self._old_value(name, value, dtype, scope), self._writes.graph.view
        attr, ends = view.nodes[name].attr, view.inputs(name)[1:4]
        masks = {key: attr[key] for key in attr if key.endswith("_mask") or key == "Index"}
        return self._writes.add(
            scope + "/slice", "StridedSlice", [old, *ends], name, T=dtype, **masks
        )


_MAKE: Dict[str, Callable[[NeutralValues, str, Port, int, str], Port]] = {
    "zero": NeutralValues._zero,
    "one": NeutralValues._one,
    "old": NeutralValues._old_value,
    "rows": NeutralValues._rows,
    "slice": NeutralValues._slice,
}


def _base(op: str) -> str:
    return op.replace("Resource", "", 1).replace("VariableOp", "")
