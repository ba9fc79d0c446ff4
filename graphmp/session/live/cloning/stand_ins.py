"""The clones that run instead of a live graph's own nodes."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple


class StandIns:
    """The ops and tensors of a live graph to run, fetch and feed: clones where they exist.

    Attributes:
        names: original name to the clone's; does not change.
    """

    def __init__(self, names: Mapping[str, str]):
        self.names = names
        self._tensors: Dict[int, Tuple[Any, Any]] = {}  # by id: the clone, and the tensor itself

    def op(self, op: Any) -> Any:
        """The op to run in place of an op."""
        return self.named(op.graph, op.name)

    def named(self, graph: Any, name: str) -> Any:
        """The op to run in place of the node of that name."""
        return graph.get_operation_by_name(self.names.get(name, name))

    def tensor(self, tensor: Any) -> Any:
        """The tensor to fetch or feed in place of a tensor."""
        if not self.names:
            return tensor
        found = self._tensors.get(id(tensor))
        if found is None:  # the tensor is kept, so that its id stays unique
            found = self._tensors[id(tensor)] = (self._clone_of(tensor), tensor)
        return found[0]

    def _clone_of(self, tensor: Any) -> Any:
        if tensor.op.name not in self.names:
            return tensor
        return self.op(tensor.op).outputs[tensor.value_index]

    def originals(self) -> Dict[str, str]:
        """The original's name for each clone's."""
        return {clone: name for name, clone in self.names.items()}
