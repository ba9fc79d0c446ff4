"""The findings of a comparison as data: changes, pairs of bodies, reasons for float32."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Optional

from graphmp.graph.structure.view import GraphView
from graphmp.naming import in_body


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        node: the node's name, in the converted graph if both have it; for META_GRAPH the field,
            such as `collection_def/losses`; for FUNCTION `library/` and the function's name.
        category: one of CATEGORIES.
        before: the original's value, abbreviated; None without one.
        after: the converted graph's value; None without one.
        reason: the report's reason; may be empty.
        part: the attribute, or `input 2` for the data input in slot 2; may be empty.
        body: the function that contains the node; empty for the main graph.
        kind: the kind of the reason, one of `graphmp.compare.kinds.KINDS`; may be empty.
        value: the value used by `Diff.apply`: the binary form of a node or an attribute, a message
            for other parts, else text.
    """

    node: str
    category: str
    before: Optional[str]
    after: Optional[str]
    reason: str = ""
    part: str = ""
    body: str = ""
    kind: str = ""
    value: Any = field(default=None, repr=False, compare=False)

    @property
    def path(self) -> str:
        """The node's name, after its function's name if it is in one."""
        return in_body(self.body, self.node)


class BodyPair(NamedTuple):
    """One graph body in both graphs; a missing function has an empty body.

    Attributes:
        name: the function's name; empty for the main graph.
        before: the original's nodes. Arguments and results of functions are nodes of the ops `_Arg`
            and `_Retval`.
        after: the converted graph's nodes.
        renamed: the names of renamed nodes, original to converted.
    """

    name: str
    before: GraphView
    after: GraphView
    renamed: Mapping[str, str]


class KeptReason(NamedTuple):
    """The report's reason why a node that could be in half precision stayed float32."""

    node: str
    body: str
    kind: str
    reason: str
