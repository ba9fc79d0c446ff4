"""The record of a conversion: an engine writes it, the report is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from graphmp.policy.reason import Done, Reason


class Kept(NamedTuple):
    """A node that computes in float32: its body, its name there, and the reason."""

    body: str
    node: str
    why: Reason


@dataclass(frozen=True)
class Record:
    """The record of one conversion.

    Attributes:
        warnings: rows of the report.
        losses: rows of the report, one a loss.
        scales: scope, kind and initial value of each loss scale.
        done: the changes.
        repaired: names of the nodes that were repaired.
        left: matmuls and convolutions in float32, by name, and why.
        kept: how many units stayed float32, by the kind of reason.
        float32: the nodes of the model in float32; None where the op policy alone tells.
    """

    warnings: List[Dict[str, str]] = field(default_factory=list)
    losses: List[Dict[str, Any]] = field(default_factory=list)
    scales: List[Dict[str, Any]] = field(default_factory=list)
    done: List[Done] = field(default_factory=list)
    repaired: List[str] = field(default_factory=list)
    left: Mapping[str, Reason] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    float32: Optional[List[Kept]] = None

    def as_json(self) -> Dict[str, Any]:
        """The record of a recipe as a JSON value; that has no `float32`."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, values: Dict[str, Any]) -> Record:
        """The record that `as_json` gave."""
        done = [Done(node, did, Reason(*why)) for node, did, why in values["done"]]
        left = {name: Reason(*why) for name, why in values["left"].items()}
        return cls(**dict(values, done=done, left=left))
