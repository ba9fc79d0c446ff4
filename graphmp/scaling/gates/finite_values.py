"""Whether the values that writes take from the batch are finite.

Small values of one device are tested as one: on a GPU each test would be two kernels more.
"""

from __future__ import annotations

import collections
from typing import Any, Dict, Iterable, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import Port
from graphmp.loss_scale.gradients import SMALL
from graphmp.loss_scale.words import ONLY_FINITE
from graphmp.policy.dtypes import BOOL, INT32
from graphmp.policy.reason import FINITE_CHECK, Reason
from graphmp.scaling.gates.write_editor import WriteEditor

OWN_SCOPE = "graphmp/moving_averages"
FINITE = Reason(FINITE_CHECK, ONLY_FINITE)
Value = Tuple[str, int]  # the write, and the slot


class FiniteValues:
    """The flags, each made once."""

    def __init__(self, writes: WriteEditor):
        self._writes = writes
        self._own: Dict[Value, Port] = {}
        self._finite: Dict[Tuple[str, ...], Port] = {}
        self._both: Dict[Tuple[Port, Port], Port] = {}
        self._outside: Dict[Tuple[Port, Port, int], Port] = {}
        self._constants: Dict[str, Port] = {}

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
            flags += self._flags(key[len(known) :])
            self._finite[key] = flags[0] if len(flags) == 1 else self._all(flags, key[0])
        return self._finite[key]

    def for_write(self, name: str, groups: Sequence[Tuple[str, ...]]) -> Port:
        """Whether all values of several groups are finite, of which the first is a write's own.

        Those of another group that lie in a branch count where that is taken.
        """
        flag = self.all_finite(groups[0])
        for group in groups[1:]:
            flag = self.both(flag, self._seen_from(name, group), name)
        return flag

    def _seen_from(self, name: str, group: Tuple[str, ...]) -> Port:
        """A flag on the sides of conditionals of a write; true where its values don't exist.

        As `alive` of `scaling/insertion/carried.py`.
        """
        graph, flag = self._writes.graph, self.all_finite(group)
        values = [
            graph.view.inputs(other)[slot]
            for other in group
            for slot in graph.floats_written(other)
        ]
        sides = frozenset().union(*map(graph.sides, values))
        left = sides - graph.conditions.get(name, frozenset())
        order = sorted(left, key=lambda side: (len(graph.sides(side[0])), side))  # outermost first
        for place in reversed(range(len(order))):
            predicate, side = order[place]
            around = [each for each in order[:place] if each not in graph.sides(predicate)]
            key = (flag, predicate, side)
            if key not in self._outside:
                self._outside[key] = self._alive(flag, predicate, side, around, group[0])
            flag = self._outside[key]
        return flag

    def _alive(
        self, flag: Port, predicate: Port, side: int, around: Iterable[Tuple[Port, int]], by: str
    ) -> Port:
        """A flag that exists on one side of a conditional; on the other it is true.

        Args:
            flag: the flag.
            predicate: the conditional's predicate.
            side: the side.
            around: further sides that the flag requires and the predicate doesn't.
            by: a write, on whose device the nodes are.
        """
        add, scope, value = self._writes.add, OWN_SCOPE + "/in_branch", predicate
        for outer, its in around:
            taken = add(scope + "/taken", "Switch", [value, outer], by, FINITE, T=BOOL)
            value = Port(taken.node, its)
        switch = add(scope + "/switch", "Switch", [value, predicate], by, FINITE, T=BOOL)
        if side:
            other = add(scope + "/true", "LogicalNot", [switch], by, FINITE)
        else:
            other = add(scope + "/true", "Identity", [Port(switch.node, 1)], by, FINITE, T=BOOL)
        count = tf.AttrValue(i=2)
        return add(scope + "/alive", "Merge", [flag, other], by, FINITE, T=BOOL, N=count)

    def each(self, name: str, slot: int) -> Port:
        """Whether each element that a write takes by an input is finite."""
        scope, value = "%s/%s" % (OWN_SCOPE, name), self._writes.now(name, slot)
        dtype = self._writes.dtype(name, slot)
        return self._writes.add(scope + "/is_finite", "IsFinite", [value], name, FINITE, T=dtype)

    def _flags(self, names: Iterable[str]) -> List[Port]:
        """Flags that tell together whether all floating-point values of writes are finite."""
        graph = self._writes.graph
        alike: Dict[Tuple[str, int], List[Value]] = collections.defaultdict(list)
        flags = []
        for name in names:
            size = graph.size_written(name)
            for slot in graph.floats_written(name):
                if size is not None and size <= SMALL:
                    place = graph.places.of(name), self._writes.dtype(name, slot)
                    alike[place].append((name, slot))
                else:
                    flags.append(self._own_flag((name, slot)))
        return flags + [self._joint_flag(each) for each in alike.values()]

    def _own_flag(self, value: Value) -> Port:
        if value not in self._own:
            scope = "%s/%s" % (OWN_SCOPE, value[0])
            shape, axis = self._flat()
            flat = self._reshaped(scope, self.each(*value), shape, value[0], BOOL)
            self._own[value] = self._whole(scope, [flat, axis], value[0])
        return self._own[value]

    def _joint_flag(self, values: List[Value]) -> Port:
        """One flag for small values of one dtype on one device."""
        if len(values) == 1:
            return self._own_flag(values[0])
        beside, dtype = values[0][0], self._writes.dtype(*values[0])
        shape, axis = self._flat()
        rows = [
            self._reshaped(
                "%s/%s" % (OWN_SCOPE, name), self._writes.now(name, slot), shape, name, dtype
            )
            for name, slot in values
        ]
        add, count = self._writes.add, tf.AttrValue(i=len(rows))
        joint = add(
            OWN_SCOPE + "/small",
            "ConcatV2",
            [*rows, self._constant("axis", 0)],
            beside,
            FINITE,
            N=count,
            T=dtype,
            Tidx=INT32,
        )
        finite = add(OWN_SCOPE + "/is_finite", "IsFinite", [joint], beside, FINITE, T=dtype)
        return self._whole(OWN_SCOPE, [finite, axis], beside)

    def _reshaped(self, scope: str, value: Port, shape: Port, beside: str, dtype: int) -> Port:
        inputs = [value, shape]
        return self._writes.add(
            scope + "/flat", "Reshape", inputs, beside, FINITE, T=dtype, Tshape=INT32
        )

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
        return [self._constant("flat", [-1]), self._constant("first", [0])]

    def _constant(self, name: str, number: Any) -> Port:
        if name not in self._constants:
            value = tf.make_tensor_proto(number, tf.int32)
            self._constants[name] = self._writes.editor.add(
                "%s/%s" % (OWN_SCOPE, name), "Const", (), FINITE, dtype=INT32, value=value
            )
        return self._constants[name]
