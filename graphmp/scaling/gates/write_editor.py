"""Nodes inserted beside a write: on its device, from its present inputs."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from graphmp.graph.edit.editing import Editor
from graphmp.graph.structure.view import Port
from graphmp.policy.reason import SKIP_GATE, Reason
from graphmp.scaling.losses.training_graph import TrainingGraph

ALIVE = Reason(SKIP_GATE, "runs whether or not the update does")


class WriteEditor(NamedTuple):
    """A graph and its editor.

    Attributes:
        editor: edits the graph.
        graph: the graph as it was.
    """

    editor: Editor
    graph: TrainingGraph

    def now(self, name: str, slot: int) -> Port:
        """The present producer of an input of a write."""
        return self.editor.input(name, slot)

    def dtype(self, name: str, slot: int) -> int:
        """The type of a write's input."""
        return self.graph.dtype(self.graph.view.inputs(name)[slot])

    def add(
        self,
        name: str,
        op: str,
        inputs: Sequence[Port],
        beside: str,
        reason: Reason = ALIVE,
        **attributes: Any,
    ) -> Port:
        """Add a node on the device of the write `beside`; other arguments as `Editor.add`."""
        device = self.graph.places.of(beside)
        return self.editor.add(name, op, inputs, reason, device, **attributes)
