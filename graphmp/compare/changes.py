"""The findings of a comparison as data: changes, bodies side by side, reasons for float32."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Optional

from graphmp.graph.structure.view import GraphView
from graphmp.naming import in_body


@dataclass(frozen=True)
class Change:
    """One difference.

    Attributes:
        node: the node's name, in the converted graph where both have it; for META_GRAPH the field, such as `collection_def/losses`;
            for FUNCTION `library/` and the function's name.
        category: one of CATEGORIES.
        before: what the original has, in short; None if it has nothing there.
        after: what the converted graph has; None if it has nothing there.
        reason: why, in the words of the report; empty if the report doesn't say.
        part: the attribute, or `input 2` for the data input in slot 2; empty where the category says it all.
        body: the function whose body holds the node; empty for the main graph.
        kind: the kind of the reason, one of `graphmp.compare.kinds.KINDS`; empty if the report doesn't say.
        value: what `Diff.apply` puts in place: the binary form of a node or an attribute, text of anything else, a message of what is no node.
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
        """The node's name, behind that of its function where it is in one."""
        return in_body(self.body, self.node)


class Body(NamedTuple):
    """One graph body on both sides; a function that one side lacks has an empty body there.

    Attributes:
        name: the function's name; empty for the main graph.
        before: the original's nodes. Arguments and results of functions are nodes of the ops `_Arg` and `_Retval`.
        after: the converted graph's nodes.
        renamed: the names of nodes that have another name in the converted graph, original to converted.
    """

    name: str
    before: GraphView
    after: GraphView
    renamed: Mapping[str, str]


class Kept(NamedTuple):
    """Why a node that could be in half precision stayed float32, in the words of the report."""

    node: str
    body: str
    kind: str
    reason: str
