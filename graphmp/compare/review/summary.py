"""The summary of a review, as data. `graphmp.compare.review.words` makes lines of it, the same for terminal, Markdown and page.

Numbers are counted in the graphs. The engine, reasons, and whose clip it is come from the report of the conversion; empty without one.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from graphmp.compare.model import Comparison
from graphmp.compare.review.coverage import Coverage, coverage
from graphmp.compare.review.flow import Flow, flows
from graphmp.compare.review.stayed import Stayed, stayed_float32
from graphmp.compare.review.work import Work
from graphmp.graph.state.state import State
from graphmp.graph.state.variables import variables
from graphmp.policy.dtypes import FLOAT32
from graphmp.tf_hooks.op_definitions import op_definitions
from graphmp.verify import Claim


class Clip(NamedTuple):
    """A clip of the model's own between a loss's gradients and their updates.

    Attributes:
        node: where it is.
        kind: `global norm`, `norm` or `value`.
        norm: the norm that it clips to; None where that is no constant.
        limits: those of a clip of values, None for one that is no constant.
        after_unscale: whether it reads unscaled gradients; None where nothing is scaled.
    """

    node: str
    kind: str
    norm: Optional[float]
    limits: Tuple[Optional[float], ...]
    after_unscale: Optional[bool]


class Loss(NamedTuple):
    """A loss that the report names.

    Attributes:
        scope: the name scope of its gradients.
        tensors: the losses themselves, by name.
        seeds: how many nodes its gradients start from.
        gradients: how many gradients reach a variable's update.
        updates: how many variables they update.
        scale: the node of its loss scale; empty where it has none.
        clips: the model's own clips; None where the report doesn't say whether there are any.
    """

    scope: str
    tensors: Tuple[str, ...]
    seeds: int
    gradients: int
    updates: int
    scale: str
    clips: Optional[Tuple[Clip, ...]]


class Reported(NamedTuple):
    """Facts that only the report of a conversion has.

    Attributes:
        source: what was converted, as the user named it.
        engine: "recipe" or "rewrite".
        engine_reason: why that one.
        graphmp: the version of graphmp that converted.
        tensorflow: the version of TensorFlow that converted.
        compute_dtype: the dtype that was asked for.
        guarded: how many matmuls, convolutions and other ops the range guard kept in float32.
        repaired: how many ops of the recipe's graph were put back into float32, which the policy wants there.
        repaired_ops: how many of each op these are; empty where the report doesn't say.
        clip_norm: the norm that graphmp clips by; None where it doesn't.
        losses: the losses that the model trains.
    """

    source: str
    engine: str
    engine_reason: str
    graphmp: str
    tensorflow: str
    compute_dtype: str
    guarded: int
    repaired: int
    repaired_ops: Tuple[Tuple[str, int], ...]
    clip_norm: Optional[float]
    losses: Tuple[Loss, ...]


class Summary(NamedTuple):
    """A review in short.

    Attributes:
        names: what the two graphs are called.
        nodes: how many nodes each has.
        tensorflow: the version of TensorFlow that wrote the original; empty where the graph doesn't say.
        reported: what the report adds; None without a report.
        coverage: how far the converted graph is in half precision.
        stayed: what else could be and is not.
        variables: how many float32 variables the original has, and how many of these are float32 in the converted graph.
        flows: the loss scales of the converted graph, each from where it enters to what it gates.
        claims: what was proved, and what was not.
        unexplained: how many changes the report gives no reason for; 0 without a report.
        stale: how many changes the report tells of that the graphs don't have.
    """

    names: Tuple[str, str]
    nodes: Tuple[int, int]
    tensorflow: str
    reported: Optional[Reported]
    coverage: Coverage
    stayed: Stayed
    variables: Tuple[int, int]
    flows: Tuple[Flow, ...]
    claims: Tuple[Claim, ...]
    unexplained: int
    stale: int

    @property
    def compute_dtype(self) -> str:
        """`float16`, `bfloat16`; `float32` where nothing computes in half precision. The graph's word counts, then the report's."""
        asked = self.reported.compute_dtype if self.reported else ""
        return self.coverage.dtype or asked or "float32"


def summarise(diff: Comparison, work: Dict[str, Work]) -> Optional[Summary]:
    """The summary of a comparison; None where the graphs are not at hand.

    Args:
        diff: the comparison.
        work: the bytes that the float ops of the converted graph move, by path.
    """
    if diff.graphs is None:
        return None
    before, after = diff.graphs
    counted = coverage(diff.bodies)
    return Summary(
        names=diff.names,
        nodes=(len(before.graph_def.node), len(after.graph_def.node)),
        tensorflow=before.meta_info_def.tensorflow_version,
        reported=_reported(diff.report) if diff.report is not None else None,
        coverage=counted,
        stayed=stayed_float32(work, diff.kept) if counted.dtype else Stayed(),
        variables=_variables(before, after),
        flows=flows(
            diff.bodies[0].after, State(after, diff.bodies[0].after, op_definitions(after)).is_write
        ),
        claims=diff.claims,
        unexplained=len(diff.unexplained),
        stale=len(diff.stale),
    )


def _variables(before: Any, after: Any) -> Tuple[int, int]:
    names = {v.name for v in variables(before.graph_def) if v.dtype == FLOAT32}
    return len(names), sum(
        v.name in names and v.dtype == FLOAT32 for v in variables(after.graph_def)
    )


def _reported(report: Dict[str, Any]) -> Reported:
    """A report of another version, or one made by hand, may lack any of it."""
    return Reported(
        source=report.get("source") or "",
        engine=report.get("engine") or "",
        engine_reason=report.get("engine_reason") or "",
        graphmp=report.get("graphmp_version") or "",
        tensorflow=report.get("tensorflow_version") or "",
        compute_dtype=report.get("compute_dtype") or "",
        guarded=(report.get("kept_float32") or {}).get("range guard", 0),
        repaired=(report.get("graph") or {}).get("repaired", 0),
        repaired_ops=tuple(
            sorted((report.get("repaired_ops") or {}).items(), key=lambda item: (-item[1], item[0]))
        ),
        clip_norm=report.get("clip_norm"),
        losses=tuple(_loss(row) for row in report.get("losses") or ()),
    )


def _loss(row: Dict[str, Any]) -> Loss:
    seeds, gradients, updates = (
        len(row.get(name) or ()) for name in ("seeds", "gradients", "updates")
    )
    clips = tuple(map(_clip, row["user_clips"])) if "user_clips" in row else None
    return Loss(
        row.get("gradient_scope") or "",
        tuple(row.get("loss") or ()),
        seeds,
        gradients,
        updates,
        row.get("scale") or "",
        clips,
    )


def _clip(row: Dict[str, Any]) -> Clip:
    return Clip(
        row.get("node") or "",
        row.get("kind") or "",
        row.get("norm"),
        tuple(row.get("limits") or ()),
        row.get("after_unscale"),
    )
