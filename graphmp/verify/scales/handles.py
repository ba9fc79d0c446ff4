"""The variables of loss scales, by names that are valid in the main graph, loops and functions.

In a function a variable is an argument, bound by each call, or has the name by which sessions know
it.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from graphmp.graph.structure.view import Port
from graphmp.once import once
from graphmp.verify.sides import Sides, attribute
from graphmp.verify.structure.matcher import Matcher, unusual

VARIABLES = ("VariableV2", "VarHandleOp")
_ARGUMENT = "argument "  # prefix of the names of arguments, different from all other names


class DynamicState(NamedTuple):
    """The state of a dynamic loss scale.

    Attributes:
        variables: the names of its three variables: scale, good steps, skipped steps.
        initial: the initial value of the scale; the others start from 0.
    """

    variables: Tuple[str, str, str]
    initial: float


def _shared(name: str, node: Any) -> str:
    """The shared name of a handle's variable in sessions, and its device."""
    shared = attribute(node, "shared_name").s.decode() or name
    return "%s on %s" % (shared, node.device) if node.device else shared


def of_argument(name: str) -> str:
    """The name of an argument of a body: a scale, or one of its variables."""
    return _ARGUMENT + name


def is_argument(name: str) -> bool:
    """Whether a name is that of an argument."""
    return name.startswith(_ARGUMENT)


class Handles:
    """The references and handles of one converted body."""

    def __init__(self, sides: Sides, matcher: Matcher):
        self._sides, self._matcher, self._view = sides, matcher, sides.after.view

    def name(self, port: Port) -> Optional[str]:
        """The name of the variable that an added output refers to; None for anything else."""
        port = self._matcher.plain(port)
        node = self._view.nodes[port.node]
        if port.node in self._sides.more_arguments:
            return of_argument(port.node)
        if (
            port.node not in self._sides.added
            or node.op not in VARIABLES
            or attribute(node, "shape").shape.dim
        ):
            return None
        if node.op == "VariableV2":
            return None if unusual(node, ("shape",)) else port.node
        return (
            None
            if unusual(node, ("shape", "shared_name", "debug_name"))
            else _shared(port.node, node)
        )

    def is_the_models(self, name: str) -> bool:
        """Whether a handle belongs to a variable of the original."""
        return _shared(name, self._view.nodes[name]) in self._models

    @once
    def _models(self) -> Set[str]:
        """The variables of the original's handles."""
        nodes = self._sides.before.view.nodes
        return {_shared(name, node) for name, node in nodes.items() if node.op == "VarHandleOp"}

    def named(self, name: str) -> List[str]:
        """The added nodes that refer to a variable."""
        return self._nodes_of.get(name, [])

    @once
    def _nodes_of(self) -> Dict[Optional[str], List[str]]:
        found: Dict[Optional[str], List[str]] = {}
        for name, node in self._view.nodes.items():
            if name in self._sides.added and node.op in VARIABLES:
                found.setdefault(self.name(Port(name, 0)), []).append(name)
        return found

    def nodes(self, names: FrozenSet[str]) -> FrozenSet[str]:
        """The nodes that refer to some variables, including arguments."""
        arguments = {each for each in self._sides.more_arguments if of_argument(each) in names}
        return frozenset(arguments.union(*(self.named(name) for name in names)))
