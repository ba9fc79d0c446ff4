"""Functions that compute results and do nothing else, and conditionals with one such branch."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from graphmp.graph.structure.calls import BRANCHES, called, with_called
from graphmp.policy.op_sets import CALLS, CONDITIONALS, READS

Definition = Callable[[str], Optional[Any]]  # the OpDef of an op; None for an unknown one


def quiet_branch(node: Any, library: Mapping[str, Any], definition: Definition) -> str:
    """The attribute of a conditional's one branch that has no effect; else empty."""
    if node.op not in CONDITIONALS:
        return ""
    quiet = [key for key in BRANCHES if _is_quiet(node.attr[key].func.name, library, definition)]
    return quiet[0] if len(quiet) == 1 else ""


def _is_quiet(function: str, library: Mapping[str, Any], definition: Definition) -> bool:
    """Whether a function has no effect: only stateless ops, reads of variables and such calls.

    It doesn't write, print, test or draw random numbers.
    """
    if function not in library:
        return False
    return all(
        _has_no_effect(node, library, definition)
        for name in with_called(library, [function])
        for node in library[name].node_def
    )


def _has_no_effect(node: Any, library: Mapping[str, Any], definition: Definition) -> bool:
    if node.op in READS or (node.op in CALLS and called(node, library)):
        return True
    found = definition(node.op)
    return found is not None and not found.is_stateful
