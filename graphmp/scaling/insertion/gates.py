"""Skipping in a serialised graph: writes without effect unless a flag is true.

Nothing else may be missing in a skipped step.

1. An assignment writes the old value, an addition adds nothing (so that its result can be fetched),
   by a table of ops.
2. Any other write is dead if the flag is false: its gradient comes through a Switch; one that takes
   only references and handles waits for a dead node. Nodes that waited for it wait for a Merge that
   is alive in either case, one for all writes that the same nodes wait for; consumers of its
   reference read the variable's. A write that returns the
   variable's value is computed under another name, and its own name returns the result or the
   value.
3. A conditional of functions whose results are read takes its other branch, if that has no effect.
4. Any other write that returns results that nothing else can provide has no gate, and is reported.
5. Values that a step takes from the batch are checked themselves: they are written if all values
   that are written together are finite.
6. A histogram of gradients reads 0 in place of values that aren't finite.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.edit.editing import Editor
from graphmp.graph.state.quiet import quiet_branch
from graphmp.graph.structure.calls import BRANCHES, functions_by_name
from graphmp.graph.structure.view import CONTROL, Port
from graphmp.loss_scale.words import ONLY_FINITE
from graphmp.policy.dtypes import BOOL, FLOATS, INT32, RESOURCE
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.policy.reason import FINITE_CHECK, SKIP_GATE, Reason
from graphmp.scaling.losses.inside import RUNS
from graphmp.scaling.losses.training_graph import TrainingGraph

_SELECTED = Reason(SKIP_GATE, "the old value unless the gradients are finite")
_QUIET = Reason(SKIP_GATE, "the branch without effects unless the gradients are finite")
_ALIVE = Reason(SKIP_GATE, "runs whether or not the update does")
_FINITE = Reason(FINITE_CHECK, ONLY_FINITE)
_SHOWN = Reason(FINITE_CHECK, "a histogram takes 0 for what is not finite")
OWN_SCOPE = "graphmp/moving_averages"
# Why a write isn't gated.
IMPOSSIBLE = (
    "it returns what others read, and nothing else can: a skipped step runs it all the same"
)


class _Neutral(NamedTuple):
    """The neutral value of a write: its input slot, and how to make it."""

    slot: int
    kind: str


# By the op without `Resource` in front and `VariableOp` behind. zero: adds nothing; one: multiplies
# by 1; old: the old value; rows: the old rows; slice: the old slice.
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
_RETURNS_THE_VALUE = frozenset(("CountUpTo", "ResourceCountUpTo"))  # the variable's old value


class GateInsertion:
    """Inserts gates into one graph.

    Attributes:
        impossible: writes that can't be gated, because their results would be missing.
    """

    def __init__(self, editor: Editor, graph: TrainingGraph):
        """`editor` edits the graph that `graph` describes."""
        self._editor, self._graph = editor, graph
        self._switched: Dict[Port, Tuple[Port, Port]] = {}
        self._own: Dict[str, List[Port]] = {}
        self._finite: Dict[Tuple[str, ...], Port] = {}
        self._both: Dict[Tuple[Port, Port], Port] = {}
        self._shapes: List[Port] = []
        self._library = functions_by_name(graph.meta_graph.graph_def)
        # writes that die, with their scopes, by flag, device and the nodes that wait for them
        self._waited: Dict[Tuple[Port, str, Tuple[str, ...]], List[Tuple[str, str]]] = {}
        self.impossible: List[str] = []

    def by_flag(self, name: str, flag: Port) -> None:
        """Gate a write by a flag, a scalar bool."""
        self._by_flag(name, flag, "%s/skip/%s" % (flag.node.rsplit("/", 1)[0], name), _SELECTED)

    def by_value(self, name: str, flag: Port) -> None:
        """Gate a write by a flag from `all_finite`."""
        self._by_flag(name, flag, "%s/%s" % (OWN_SCOPE, name), _FINITE)

    def in_loop(self, name: str) -> None:
        """Write each element only if it is finite.

        The values of a loop leave it only at its end.
        """
        neutral = _neutral(self._graph.view.nodes[name].op)
        if neutral is None or not self._graph.is_float(self._graph.view.inputs(name)[neutral.slot]):
            self.impossible.append(name)
            return
        scope, dtype = (
            "%s/%s" % (OWN_SCOPE, name),
            self._graph.dtype(self._graph.view.inputs(name)[neutral.slot]),
        )
        self._by_value(
            name,
            self._add(
                scope + "/is_finite",
                "IsFinite",
                [self._now(name, neutral.slot)],
                name,
                _FINITE,
                T=dtype,
            ),
            scope,
            _FINITE,
        )

    def both(self, flag: Port, finite: Port, beside: str) -> Port:
        """The conjunction of a loss's flag and `all_finite`, on the device of its first user."""
        if (flag, finite) not in self._both:
            scope = flag.node.rsplit("/", 1)[0]
            self._both[flag, finite] = self._add(
                scope + "/finite_values", "LogicalAnd", [flag, finite], beside, _FINITE
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
            self._finite[key] = flags[0] if len(flags) == 1 else self._all(OWN_SCOPE, flags, key[0])
        return self._finite[key]

    def _own_flags(self, name: str) -> List[Port]:
        """For each floating-point value that a write takes, whether it is finite."""
        if name not in self._own:
            self._own[name] = [
                self._value_flag(name, slot) for slot in self._graph.floats_written(name)
            ]
        return self._own[name]

    def _value_flag(self, name: str, slot: int) -> Port:
        scope, dtype = (
            "%s/%s" % (OWN_SCOPE, name),
            self._graph.dtype(self._graph.view.inputs(name)[slot]),
        )
        finite = self._add(
            scope + "/is_finite", "IsFinite", [self._now(name, slot)], name, _FINITE, T=dtype
        )
        shape, axis = self._flat()
        flat = self._add(
            scope + "/flat", "Reshape", [finite, shape], name, _FINITE, T=BOOL, Tshape=INT32
        )
        return self._add(
            scope + "/all_finite", "All", [flat, axis], name, _FINITE, Tidx=INT32, keep_dims=False
        )

    def _all(self, scope: str, flags: List[Port], beside: str) -> Port:
        stack = self._add(
            scope + "/values", "Pack", flags, beside, _FINITE, T=BOOL, N=tf.AttrValue(i=len(flags))
        )
        return self._add(
            scope + "/all_finite",
            "All",
            [stack, self._flat()[1]],
            beside,
            _FINITE,
            Tidx=INT32,
            keep_dims=False,
        )

    def _by_flag(self, name: str, flag: Port, scope: str, reason: Reason) -> None:
        op = self._graph.view.nodes[name].op
        if _neutral(op) is not None:
            self._by_value(name, flag, scope, reason)
        elif op in _RETURNS_THE_VALUE:
            self._elsewhere(name, self._in_branch(name, flag, scope), scope)
        elif self._may_die(name):
            self._dead(name, self._in_branch(name, flag, scope), scope)
        elif self._quiet_side(name):
            self._take_quiet_side(name, flag, scope)
        else:
            self.impossible.append(name)

    def _may_die(self, name: str) -> bool:
        """Whether a write's results aren't needed.

        They are an update kernel's, references, or are not read where other nodes wait for them.
        """
        view = self._graph.view
        signature = self._graph.op_defs.signature(view.nodes[name])
        if view.nodes[name].op.startswith(UPDATE_PREFIXES) or (
            signature is not None and all(port.is_ref for port in signature.outputs)
        ):
            return True
        return not view.consumers(name) and bool(view.control_consumers(name))

    def _quiet_side(self, name: str) -> str:
        """The one branch of a conditional of functions that has no effect; else empty."""
        node = self._graph.view.nodes[name]
        quiet = quiet_branch(node, self._library, self._graph.op_defs.get)
        return quiet if quiet and self._graph.dtype(self._now(name, 0)) == BOOL else ""

    def _take_quiet_side(self, name: str, flag: Port, scope: str) -> None:
        """Let a conditional take the branch that has no effect unless a flag is true."""
        predicate, op = self._now(name, 0), "LogicalAnd"
        if self._quiet_side(name) == BRANCHES[0]:
            flag, op = self._add(scope + "/skipped", "LogicalNot", [flag], name), "LogicalOr"
        taken = self._add(scope + "/taken", op, [flag, predicate], name, _QUIET)
        self._editor.connect(name, 0, taken)

    def histogram(self, name: str) -> None:
        """Replace values that aren't finite by 0 for a HistogramSummary.

        Its kernel refuses them, which would end the run in a step that is to be skipped.
        """
        value, device = self._now(name, 1), self._graph.places.of(name)
        dtype, scope = (
            self._graph.dtype(self._graph.view.inputs(name)[1]),
            "graphmp/histograms/" + name,
        )
        finite = self._editor.add(
            scope + "/is_finite", "IsFinite", [value], _SHOWN, device, T=dtype
        )
        zeros = self._editor.add(scope + "/zeros", "ZerosLike", [value], _SHOWN, device, T=dtype)
        self._editor.connect(
            name,
            1,
            self._editor.add(
                scope + "/selected", "Select", [finite, value, zeros], _SHOWN, device, T=dtype
            ),
        )

    def all_of(self, flags: List[Port]) -> Port:
        """The conjunction of flags."""
        result = flags[0]
        for flag in flags[1:]:
            name = flags[0].node.rsplit("/", 1)[0] + "/skip/all"
            result = self._editor.add(
                name, "LogicalAnd", [result, flag], Reason(SKIP_GATE, "a step of several losses")
            )
        return result

    def any_of(self, flags: List[Port]) -> Port:
        """The disjunction of flags."""
        result = flags[0]
        for flag in flags[1:]:
            result = self._editor.add(
                "graphmp/loss_scale/skip/any",
                "LogicalOr",
                [result, flag],
                Reason(SKIP_GATE, "one of the losses trains"),
            )
        return result

    def _dead(self, name: str, flag: Port, scope: str) -> None:
        view, node = self._graph.view, self._graph.view.nodes[name]
        self._die(name, name, flag, scope)
        data, control = view.consumers(name), view.control_consumers(name)
        signature = self._graph.op_defs.signature(node)
        if data and signature is not None and signature.outputs[0].is_ref:
            dtype = signature.outputs[0].dtype
            reference = view.inputs(name)[
                next(slot for slot, port in enumerate(signature.inputs) if port.is_ref)
            ]
            unchanged = self._add(
                scope + "/unchanged", "RefSwitch", [reference, flag], name, T=dtype
            )
            alive = self._add(
                scope + "/alive",
                "RefMerge",
                [unchanged, Port(name, 0)],
                name,
                T=dtype,
                N=tf.AttrValue(i=2),
            )
            self._editor.read_instead(data, alive)
            self._editor.wait_instead(name, alive.node, alive.node)
        elif control:
            waiting = tuple(sorted(set(control)))
            key = (flag, self._graph.places.of(name), waiting if RUNS not in waiting else (name,))
            self._waited.setdefault(key, []).append((name, scope))

    def finish(self) -> None:
        """Make what lives in place of writes that die, once all are gated."""
        for (flag, _, _), writes in self._waited.items():
            skipped, applied = self._sides(flag)
            first, scope = writes[0]
            waits = [Port(name, CONTROL) for name, _ in writes]
            after = self._add(scope + "/applied", "Identity", [applied, *waits], first, T=BOOL)
            alive = self._add(
                scope + "/alive", "Merge", [skipped, after], first, T=BOOL, N=tf.AttrValue(i=2)
            )
            for name, _ in writes:
                self._editor.wait_instead(name, alive.node, after.node)

    def _die(self, name: str, write: str, flag: Port, scope: str) -> None:
        """Make a node, a write or its copy, dead unless a flag is true."""
        slot = self._switchable(write)
        if slot is None:
            taken = self._add(scope + "/taken", "Identity", [self._sides(flag)[1]], write, T=BOOL)
            self._editor.wait_for(name, [taken.node])
        else:
            switch = self._add(
                scope + "/switch",
                "Switch",
                [self._now(name, slot), flag],
                write,
                T=self._graph.dtype(self._graph.view.inputs(write)[slot]),
            )
            self._editor.connect(name, slot, Port(switch.node, 1))

    def _elsewhere(self, name: str, flag: Port, scope: str) -> None:
        """Compute a write under another name.

        Its own name returns the result or the variable's value.
        """
        copy = tf.NodeDef()
        copy.CopyFrom(self._editor.nodes[name])
        copy.name = self._editor.unique(scope + "/write")
        self._editor.put(copy, _ALIVE)
        dtype = self._graph.dtype(Port(name, 0))
        old = self._old(name, [self._sides(flag)[0]], dtype, scope)
        self._die(copy.name, name, flag, scope)
        either = self._add(
            scope + "/alive", "Merge", [old, Port(copy.name, 0)], name, T=dtype, N=tf.AttrValue(i=2)
        )
        self._editor.make_identity(name, either, dtype)
        self._editor.changed[name] = Reason(
            SKIP_GATE,
            "under its name stands what %s returns, or the variable's value" % copy.name,
            copy.name,
        )

    def _switchable(self, name: str) -> Optional[int]:
        """The input through which to make a write dead: its gradient, else a float, else any.

        None if all are references and handles.
        """
        named = self._graph.slot_named(name, "grad", "delta")
        if named >= 0:
            return named
        slots = [*self._graph.floats_written(name), *self._graph.values_written(name)]
        return slots[0] if slots else None

    def _in_branch(self, name: str, flag: Port, scope: str) -> Port:
        """The flag; inside a branch of the model, a copy that is dead if the branch isn't taken."""
        if name not in self._graph.conditions:
            return flag
        slot = self._switchable(name)
        op = (
            "Identity"
            if slot is not None or self._graph.dtype(self._graph.view.inputs(name)[0]) == RESOURCE
            else "RefIdentity"
        )
        slot = slot or 0
        inside = self._add(
            scope + "/gradient",
            op,
            [self._now(name, slot)],
            name,
            T=self._graph.dtype(self._graph.view.inputs(name)[slot]),
        )
        return self._add(
            scope + "/flag", "Identity", [flag, Port(inside.node, CONTROL)], name, T=BOOL
        )

    def _sides(self, flag: Port) -> Tuple[Port, Port]:
        """The flag twice: alive only if it is false, and alive only if it is true."""
        if flag not in self._switched:
            scope = flag.node.rsplit("/", 1)[0] + "/skip"
            switch = self._editor.add(scope + "/switch", "Switch", [flag, flag], _ALIVE, T=BOOL)
            skipped = self._editor.add(scope + "/skipped", "Identity", [switch], _ALIVE, T=BOOL)
            self._switched[flag] = (skipped, Port(switch.node, 1))
        return self._switched[flag]

    def _by_value(self, name: str, flag: Port, scope: str, reason: Reason) -> None:
        node = self._graph.view.nodes[name]
        neutral = _neutral(node.op)
        assert neutral is not None, node.op
        value = self._now(name, neutral.slot)
        dtype = self._graph.dtype(self._graph.view.inputs(name)[neutral.slot])
        other = _MAKE[neutral.kind](self, name, value, dtype, scope)
        if (
            node.op == "Assign"
            and "validate_shape" in node.attr
            and not node.attr["validate_shape"].b
        ):
            gated = self._either(name, flag, value, other, dtype, scope)
        else:
            gated = self._add(
                scope + "/selected", "Select", [flag, value, other], name, reason, T=dtype
            )
        self._editor.connect(name, neutral.slot, gated)

    def _either(
        self, name: str, flag: Port, value: Port, other: Port, dtype: int, scope: str
    ) -> Port:
        """One of two values, whose shapes may differ."""
        new = self._add(scope + "/switch", "Switch", [value, flag], name, T=dtype)
        old = self._add(scope + "/switch_old", "Switch", [other, flag], name, T=dtype)
        return self._add(
            scope + "/selected",
            "Merge",
            [old, Port(new.node, 1)],
            name,
            T=dtype,
            N=tf.AttrValue(i=2),
        )

    def _zero(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        """The neutral value of an addition or subtraction.

        -0.0 for an addition, because -0.0 + 0.0 is 0.0; 0.0 for a subtraction.
        """
        zeros = self._add(scope + "/zeros", "ZerosLike", [value], name, T=dtype)
        adds = _base(self._graph.view.nodes[name].op) in _ADDS and dtype in FLOATS
        return (
            self._add(scope + "/negative_zeros", "Neg", [zeros], name, T=dtype) if adds else zeros
        )

    def _one(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        return self._add(scope + "/ones", "OnesLike", [value], name, T=dtype)

    def _old_value(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        return self._old(name, [Port(value.node, CONTROL)], dtype, scope)

    def _old(self, name: str, wait: Sequence[Port], dtype: int, scope: str) -> Port:
        """The variable's value, read as late as the write: after its control inputs and values."""
        variable = self._graph.view.inputs(name)[0]
        wait = [*self._editor.controls(name), *(Port(port.node, CONTROL) for port in wait)]
        if self._graph.dtype(variable) == RESOURCE:
            return self._add(scope + "/old", "ReadVariableOp", [variable, *wait], name, dtype=dtype)
        return self._add(scope + "/old", "Identity", [variable, *wait], name, T=dtype)

    def _rows(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        view = self._graph.view
        variable, indices = view.inputs(name)[:2]
        nd, integer = "Nd" in view.nodes[name].op, self._graph.dtype(indices)
        if self._graph.dtype(variable) == RESOURCE:
            op = "ResourceGatherNd" if nd else "ResourceGather"
            return self._add(
                scope + "/old",
                op,
                [variable, indices, *self._editor.controls(name)],
                name,
                dtype=dtype,
                Tindices=integer,
            )
        old = self._old_value(name, value, dtype, scope)
        return self._add(
            scope + "/rows",
            "GatherNd" if nd else "Gather",
            [old, indices],
            name,
            Tparams=dtype,
            Tindices=integer,
        )

    def _slice(self, name: str, value: Port, dtype: int, scope: str) -> Port:
        old = self._old_value(name, value, dtype, scope)
        node, inputs = self._graph.view.nodes[name], self._graph.view.inputs(name)
        masks = {
            key: node.attr[key] for key in node.attr if key.endswith("_mask") or key == "Index"
        }
        return self._add(
            scope + "/slice", "StridedSlice", [old, *inputs[1:4]], name, T=dtype, **masks
        )

    def _flat(self) -> List[Port]:
        """The shape [-1] and the axis [0]."""
        if not self._shapes:
            for name, number in (("flat", -1), ("first", 0)):
                value = tf.make_tensor_proto([number], tf.int32)
                self._shapes.append(
                    self._editor.add(
                        "%s/%s" % (OWN_SCOPE, name), "Const", (), _FINITE, dtype=INT32, value=value
                    )
                )
        return self._shapes

    def _now(self, name: str, slot: int) -> Port:
        return self._editor.input(name, slot)

    def _add(
        self,
        name: str,
        op: str,
        inputs: List[Port],
        beside: str,
        reason: Reason = _ALIVE,
        **attributes: Any,
    ) -> Port:
        return self._editor.add(
            name, op, inputs, reason, self._graph.places.of(beside), **attributes
        )


_MAKE: Dict[str, Callable[[GateInsertion, str, Port, int, str], Port]] = {
    "zero": GateInsertion._zero,
    "one": GateInsertion._one,
    "old": GateInsertion._old_value,
    "rows": GateInsertion._rows,
    "slice": GateInsertion._slice,
}


def _base(op: str) -> str:
    return op.replace("Resource", "", 1).replace("VariableOp", "")


def _neutral(op: str) -> Optional[_Neutral]:
    return _NEUTRAL.get(_base(op))
