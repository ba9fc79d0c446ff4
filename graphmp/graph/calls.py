"""Ops that call functions of a graph's library."""

from __future__ import annotations

from typing import Any, Iterator

CALLS = frozenset(
    ("Case", "If", "PartitionedCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf", "StatelessWhile", "SymbolicGradient", "While")
)


def functions_named(node: Any) -> Iterator[str]:
    """What may be a function's name in a node: its op, and the functions in its attributes."""
    yield node.op
    for attribute in node.attr.values():
        kind = attribute.WhichOneof("value")
        if kind == "func":
            yield attribute.func.name
        elif kind == "list":
            yield from (function.name for function in attribute.list.func)
