"""Functions that compute results and do nothing else."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from graphmp.graph.structure.calls import called, with_called
from graphmp.policy.op_sets import CALLS, READS

Definition = Callable[[str], Optional[Any]]  # the OpDef of an op; None for an unknown one


def is_quiet(function: str, library: Mapping[str, Any], definition: Definition) -> bool:
    """Whether a function has no effect: only stateless ops, reads of variables and such calls.

    It doesn't write, print, test or draw random numbers.
    """
    if function not in library:
        return False
    return all(
        _is_quiet(node, library, definition)
        for name in with_called(library, [function])
        for node in library[name].node_def
    )


def _is_quiet(node: Any, library: Mapping[str, Any], definition: Definition) -> bool:
    if node.op in READS or (node.op in CALLS and called(node, library)):
        return True
    found = definition(node.op)
    return found is not None and not found.is_stateful
