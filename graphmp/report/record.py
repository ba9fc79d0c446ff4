"""The record of a conversion, written by an engine and turned into the report."""

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
        losses: rows of the report, one for each loss.
        scales: scope, kind and initial value of each loss scale.
        done: the changes.
        repaired: names of the nodes that were repaired.
        left: matmuls and convolutions in float32, by name, with the reason.
        kept: the number of units that stayed float32, by the kind of reason.
        float32: the model's nodes in float32; None if they follow from the op policy alone.
        costs: the report's section on measured costs; empty without them.
    """

    warnings: List[Dict[str, str]] = field(default_factory=list)
    losses: List[Dict[str, Any]] = field(default_factory=list)
    scales: List[Dict[str, Any]] = field(default_factory=list)
    done: List[Done] = field(default_factory=list)
    repaired: List[str] = field(default_factory=list)
    left: Mapping[str, Reason] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)
    float32: Optional[List[Kept]] = None
    costs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def left_as_it_is(self) -> bool:
        """Whether there was nothing to convert (GMP108)."""
        return any(row["code"] == "GMP108" for row in self.warnings)

    def as_json(self) -> Dict[str, Any]:
        """The record of a recipe, which has no `float32`, as a JSON value."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, values: Dict[str, Any]) -> Record:
        """The inverse of `as_json`."""
        done = [Done(node, did, Reason(*why)) for node, did, why in values["done"]]
        left = {name: Reason(*why) for name, why in values["left"].items()}
        return cls(**dict(values, done=done, left=left))
