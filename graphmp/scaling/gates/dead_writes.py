"""Writes that are dead in a skipped step.

A write is dead if its gradient comes through a Switch on the flag; one that takes only references
and handles waits for a dead node. Nodes that waited for it wait for a Merge that is alive in either
case, one for all writes that the same nodes wait for; consumers of its reference read the
variable's. A write that returns the variable's value is computed under another name, and its own
name returns the result or the value.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.graph.structure.view import CONTROL, Port
from graphmp.policy.dtypes import BOOL, RESOURCE
from graphmp.policy.op_sets import UPDATE_PREFIXES
from graphmp.policy.reason import SKIP_GATE, Reason
from graphmp.scaling.gates.neutral_values import NeutralValues
from graphmp.scaling.gates.write_editor import ALIVE, WriteEditor
from graphmp.scaling.losses.inside import RUNS

_RETURNS_THE_VALUE = frozenset(("CountUpTo", "ResourceCountUpTo"))  # the variable's old value
_TWO = tf.AttrValue(i=2)


class DeadWrites:
    """Makes writes of one graph dead unless flags are true."""

    def __init__(self, writes: WriteEditor, values: NeutralValues):
        self._writes, self._editor, self._graph = writes, writes.editor, writes.graph
        self._add, self._values = writes.add, values
        self._switched: Dict[Port, Tuple[Port, Port]] = {}
        # writes that die, with their scopes, by flag, device and the nodes that wait for them
        self._waited: Dict[Tuple[Port, str, Tuple[str, ...]], List[Tuple[str, str]]] = {}

    def may_die(self, name: str) -> bool:
        """Whether a write's results aren't needed, or can be provided.

        They are the variable's value, an update kernel's, references, or are not read where other
        nodes wait for them.
        """
        view = self._graph.view
        op, signature = view.nodes[name].op, self._graph.op_defs.signature(view.nodes[name])
        if op in _RETURNS_THE_VALUE or op.startswith(UPDATE_PREFIXES):
            return True
        if signature is not None and all(port.is_ref for port in signature.outputs):
            return True
        return not view.consumers(name) and bool(view.control_consumers(name))

    def unless(self, name: str, flag: Port, scope: str) -> None:
        """Make a write that may die dead unless a flag is true."""
        flag = self._in_branch(name, flag, scope)
        if self._graph.view.nodes[name].op in _RETURNS_THE_VALUE:
            self._elsewhere(name, flag, scope)
        else:
            self._dead(name, flag, scope)

    def finish(self) -> None:
        """Make what lives in place of writes that die, once all are gated."""
        for (flag, _, _), writes in self._waited.items():
            skipped, applied = self._sides(flag)
            first, scope = writes[0]
            waits = [Port(name, CONTROL) for name, _ in writes]
            after = self._add(scope + "/applied", "Identity", [applied, *waits], first, T=BOOL)
            alive = self._add(scope + "/alive", "Merge", [skipped, after], first, T=BOOL, N=_TWO)
            for name, _ in writes:
                self._editor.wait_instead(name, alive.node, after.node)

    def _dead(self, name: str, flag: Port, scope: str) -> None:
        view, node = self._graph.view, self._graph.view.nodes[name]
        self._die(name, name, flag, scope)
        data, control = view.consumers(name), view.control_consumers(name)
        signature = self._graph.op_defs.signature(node)
        if data and signature is not None and signature.outputs[0].is_ref:
            dtype = signature.outputs[0].dtype
            slot = next(slot for slot, port in enumerate(signature.inputs) if port.is_ref)
            reference = [view.inputs(name)[slot], flag]
            unchanged = self._add(scope + "/unchanged", "RefSwitch", reference, name, T=dtype)
            both = [unchanged, Port(name, 0)]
            alive = self._add(scope + "/alive", "RefMerge", both, name, T=dtype, N=_TWO)
            self._editor.read_instead(data, alive)
            self._editor.wait_instead(name, alive.node, alive.node)
        elif control:
            waiting = tuple(sorted(set(control)))
            key = (flag, self._graph.places.of(name), waiting if RUNS not in waiting else (name,))
            self._waited.setdefault(key, []).append((name, scope))

    def _elsewhere(self, name: str, flag: Port, scope: str) -> None:
        """Compute a write under another name.

        Its own name returns the result or the variable's value.
        """
        copy = tf.NodeDef()
        copy.CopyFrom(self._editor.nodes[name])
        copy.name = self._editor.unique(scope + "/write")
        self._editor.put(copy, ALIVE)
        dtype = self._graph.dtype(Port(name, 0))
        old = self._values.old(name, [self._sides(flag)[0]], dtype, scope)
        self._die(copy.name, name, flag, scope)
        both = [old, Port(copy.name, 0)]
        either = self._add(scope + "/alive", "Merge", both, name, T=dtype, N=_TWO)
        self._editor.make_identity(name, either, dtype)
        self._editor.changed[name] = Reason(
            SKIP_GATE,
            "under its name stands what %s returns, or the variable's value" % copy.name,
            copy.name,
        )

    def _die(self, name: str, write: str, flag: Port, scope: str) -> None:
        """Make a node, a write or its copy, dead unless a flag is true."""
        slot = self._switchable(write)
        if slot is None:
            taken = self._add(scope + "/taken", "Identity", [self._sides(flag)[1]], write, T=BOOL)
            self._editor.wait_for(name, [taken.node])
        else:
            inputs, dtype = [self._writes.now(name, slot), flag], self._writes.dtype(write, slot)
            switch = self._add(scope + "/switch", "Switch", inputs, write, T=dtype)
            self._editor.connect(name, slot, Port(switch.node, 1))

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
        by_value = slot is not None or self._writes.dtype(name, 0) == RESOURCE
        op, slot = "Identity" if by_value else "RefIdentity", slot or 0
        value, dtype = self._writes.now(name, slot), self._writes.dtype(name, slot)
        inside = self._add(scope + "/gradient", op, [value], name, T=dtype)
        flags = [flag, Port(inside.node, CONTROL)]
        return self._add(scope + "/flag", "Identity", flags, name, T=BOOL)

    def _sides(self, flag: Port) -> Tuple[Port, Port]:
        """The flag twice: alive only if it is false, and alive only if it is true."""
        if flag not in self._switched:
            scope = flag.node.rsplit("/", 1)[0] + "/skip"
            switch = self._editor.add(scope + "/switch", "Switch", [flag, flag], ALIVE, T=BOOL)
            skipped = self._editor.add(scope + "/skipped", "Identity", [switch], ALIVE, T=BOOL)
            self._switched[flag] = (skipped, Port(switch.node, 1))
        return self._switched[flag]
