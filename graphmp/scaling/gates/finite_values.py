"""Whether the values that writes take from the batch are finite."""

from __future__ import annotations

from typing import Dict, List, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.loss_scale.words import ONLY_FINITE
from graphmp.policy.dtypes import BOOL, INT32
from graphmp.policy.reason import FINITE_CHECK, Reason
from graphmp.scaling.gates.write_editor import WriteEditor

OWN_SCOPE = "graphmp/moving_averages"
FINITE = Reason(FINITE_CHECK, ONLY_FINITE)


class FiniteValues:
    """The flags, each made once."""

    def __init__(self, writes: WriteEditor):
        self._writes = writes
        self._own: Dict[str, List[Port]] = {}
        self._finite: Dict[Tuple[str, ...], Port] = {}
        self._both: Dict[Tuple[Port, Port], Port] = {}
        self._shapes: List[Port] = []

    def both(self, flag: Port, finite: Port, beside: str) -> Port:
        """The conjunction of a loss's flag and `all_finite`, on the device of its first user."""
        if (flag, finite) not in self._both:
            scope = flag.node.rsplit("/", 1)[0]
            self._both[flag, finite] = self._writes.add(
                scope + "/finite_values", "LogicalAnd", [flag, finite], beside, FINITE
            )
        return self._both[flag, finite]

    def all_finite(self, key: Tuple[str, ...]) -> Port:
        """Whether all floating-point values that some writes take are finite.

        It is on the device of the first write. To be called before any of the writes is gated.
        """
        if key not in self._finite:
            known = max(
                (known for known in self._finite if key[: len(known)] == known), key=len, default=()
            )
            flags = [self._finite[known]] if known else []
            flags += [flag for name in key[len(known) :] for flag in self._own_flags(name)]
            self._finite[key] = flags[0] if len(flags) == 1 else self._all(flags, key[0])
        return self._finite[key]

    def each(self, name: str, slot: int) -> Port:
        """Whether each element that a write takes by an input is finite."""
        scope, value = "%s/%s" % (OWN_SCOPE, name), self._writes.now(name, slot)
        dtype = self._writes.dtype(name, slot)
        return self._writes.add(scope + "/is_finite", "IsFinite", [value], name, FINITE, T=dtype)

    def _own_flags(self, name: str) -> List[Port]:
        """For each floating-point value that a write takes, whether it is finite."""
        if name not in self._own:
            slots = self._writes.graph.floats_written(name)
            self._own[name] = [self._value_flag(name, slot) for slot in slots]
        return self._own[name]

    def _value_flag(self, name: str, slot: int) -> Port:
        scope, finite = "%s/%s" % (OWN_SCOPE, name), self.each(name, slot)
        shape, axis = self._flat()
        flat = self._writes.add(
            scope + "/flat", "Reshape", [finite, shape], name, FINITE, T=BOOL, Tshape=INT32
        )
        return self._whole(scope, [flat, axis], name)

    def _all(self, flags: List[Port], beside: str) -> Port:
        count = tf.AttrValue(i=len(flags))
        stack = self._writes.add(
            OWN_SCOPE + "/values", "Pack", flags, beside, FINITE, T=BOOL, N=count
        )
        return self._whole(OWN_SCOPE, [stack, self._flat()[1]], beside)

    def _whole(self, scope: str, inputs: List[Port], beside: str) -> Port:
        return self._writes.add(
            scope + "/all_finite", "All", inputs, beside, FINITE, Tidx=INT32, keep_dims=False
        )

    def _flat(self) -> List[Port]:
        """The shape [-1] and the axis [0]."""
        if not self._shapes:
            for name, number in (("flat", -1), ("first", 0)):
                value = tf.make_tensor_proto([number], tf.int32)
                self._shapes.append(
                    self._writes.editor.add(
                        "%s/%s" % (OWN_SCOPE, name), "Const", (), FINITE, dtype=INT32, value=value
                    )
                )
        return self._shapes
