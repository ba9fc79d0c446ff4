"""The clones that run in the place of a live graph's own nodes."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple


class StandIns:
    """The ops and tensors of a live graph that are run, fetched and fed; a node without a clone stands for itself.

    Attributes:
        names: original name to the clone's; does not change.
    """

    def __init__(self, names: Mapping[str, str]):
        self.names = names
        self._tensors: Dict[int, Tuple[Any, Any]] = {}  # by id: the clone, and the tensor itself

    def op(self, op: Any) -> Any:
        """The op to run for an op."""
        return self.named(op.graph, op.name)

    def named(self, graph: Any, name: str) -> Any:
        """The op to run for the node of that name."""
        return graph.get_operation_by_name(self.names.get(name, name))

    def tensor(self, tensor: Any) -> Any:
        """The tensor to fetch, or feed, for a tensor."""
        if not self.names:
            return tensor
        found = self._tensors.get(id(tensor))
        if found is None:  # the tensor is kept, so that its id stays its own
            found = self._tensors[id(tensor)] = (self._clone_of(tensor), tensor)
        return found[0]

    def _clone_of(self, tensor: Any) -> Any:
        if tensor.op.name not in self.names:
            return tensor
        return self.op(tensor.op).outputs[tensor.value_index]

    def originals(self) -> Dict[str, str]:
        """For the name of each clone the original's."""
        return {clone: name for name, clone in self.names.items()}
