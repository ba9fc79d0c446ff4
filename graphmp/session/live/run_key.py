"""The key of a run of a session: its ops, and where it is fed."""

from __future__ import annotations

from typing import Any, FrozenSet, Iterable, NamedTuple, Tuple

from graphmp.policy.op_sets import PLACEHOLDERS


class RunKey(NamedTuple):
    """A run: its ops, and the names of the tensors that it is fed though it could compute them."""

    ops: Tuple[Any, ...]
    fed: FrozenSet[str] = frozenset()


def fed_tensor(key: Any) -> Any:
    """The tensor for a key of feeds: itself in 1.15.5, a reference to it in 2.x."""
    return key.deref() if hasattr(key, "deref") else key


def cut(tensors: Iterable[Any]) -> FrozenSet[str]:
    """Names of those of some fed tensors that a graph could compute."""
    return frozenset(t.name for t in tensors if t.op.type not in PLACEHOLDERS)
