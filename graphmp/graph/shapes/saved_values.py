"""Stacks and TensorArrays of while loops: a read returns the tensor that was written."""

from __future__ import annotations

from typing import Dict, List, Optional

from graphmp.graph.structure.frames import Frames, frames
from graphmp.graph.structure.view import GraphView, Port
from graphmp.policy.op_sets import ARRAY_READS, ENTERS, IDENTITIES, POPS, PUSHES, SWITCHES

_HANDED_ON = ENTERS | SWITCHES | IDENTITIES
_PUTS_NOTHING_IN = ARRAY_READS | {"TensorArray%sV3" % verb for verb in ("Close", "Grad", "Size")}


class SavedValues:
    """The Stacks and TensorArrays of a graph."""

    def __init__(self, view: GraphView):
        """Args: view: the graph; its loops are looked at when they are asked for."""
        self._view = view
        self._frames: Optional[Frames] = None
        self._users: Dict[str, List[str]] = {}

    def pushed(self, pop: str) -> Optional[Port]:
        """The tensor that a pop returns, in its iteration; None if several are pushed or popped."""
        users = self._users_of(self._holder(self._view.inputs(pop)[0]))
        pushes = [name for name in users if self._op(name) in PUSHES]
        alone = len(pushes) == 1 and [name for name in users if self._op(name) in POPS] == [pop]
        return self._view.inputs(pushes[0])[1] if alone else None

    def scattered(self, read: str) -> Optional[Port]:
        """The tensor one row of which a TensorArray's read returns.

        None if more than one tensor's rows are written.
        """
        holder = self._holder(self._view.inputs(read)[0])
        writes = [name for name in self._users_of(holder) if self._op(name) not in _PUTS_NOTHING_IN]
        if (
            self._op(holder) != "TensorArrayV3"
            or len(writes) != 1
            or self._op(writes[0]) != "TensorArrayScatterV3"
        ):
            return None
        return (
            self._view.inputs(writes[0])[2]
            if self._frame(writes[0]) == self._frame(holder)
            else None
        )

    def _holder(self, handle: Port) -> str:
        """The node that created the resource of a handle."""
        return self._view.behind(handle, _HANDED_ON).node

    def _users_of(self, holder: str) -> List[str]:
        """The consumers of a handle, each once."""
        if holder not in self._users:
            found = self._view.followed(
                [holder], lambda name: name == holder or self._op(name) in _HANDED_ON
            )
            readers = [
                c
                for name in found
                for c in self._view.consumers(name)
                if c.slot == 0 and (name != holder or c.output == 0)
            ]
            self._users[holder] = sorted(
                {c.node for c in readers if self._op(c.node) not in _HANDED_ON}
            )
        return self._users[holder]

    def _op(self, name: str) -> str:
        return str(self._view.nodes[name].op)

    def _frame(self, name: str) -> object:
        if self._frames is None:
            self._frames = frames(self._view)
        return self._frames.get(name, ())
