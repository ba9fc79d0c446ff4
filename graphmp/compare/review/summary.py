"""The summary of a review, as data; `graphmp.compare.review.words` turns it into lines.

These are the same for terminal, Markdown and page. Numbers are counted in the graphs. The engine,
reasons, and the owner of a clip come from the report of the conversion; empty without one.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from graphmp.compare.changes import BodyPair
from graphmp.compare.model import Comparison
from graphmp.compare.review.coverage import Coverage, coverage
from graphmp.compare.review.flow import Flow, flows
from graphmp.compare.review.stayed import Stayed, stayed_float32
from graphmp.compare.review.work import Work
from graphmp.graph.state.variables import float32_kept
from graphmp.verify import Claim


class ModelClip(NamedTuple):
    """A clip of the model's own between a loss's gradients and their updates.

    Attributes:
        node: its node.
        kind: `global norm`, `norm` or `value`.
        norm: its norm; None if it isn't constant.
        limits: those of a clip of values, None for one that isn't constant.
        after_unscale: whether it reads unscaled gradients; None if nothing is scaled.
    """

    node: str
    kind: str
    norm: Optional[float]
    limits: Tuple[Optional[float], ...]
    after_unscale: Optional[bool]


class ReportedLoss(NamedTuple):
    """A loss in the report.

    Attributes:
        scope: the name scope of its gradients.
        tensors: the losses themselves, by name.
        seeds: the number of its initial gradients.
        gradients: the number of gradients that reach a variable's update.
        updates: the number of variables they update.
        scale: the node of its loss scale; empty without one.
        clips: the model's own clips; None if the report doesn't tell.
        is_clipped: whether graphmp clips its gradients.
    """

    scope: str
    tensors: Tuple[str, ...]
    seeds: int
    gradients: int
    updates: int
    scale: str
    clips: Optional[Tuple[ModelClip, ...]]
    is_clipped: bool = True


class Reported(NamedTuple):
    """Facts that only the report of a conversion has.

    Attributes:
        source: the converted source, as the user named it.
        engine: "recipe" or "rewrite".
        engine_reason: why this engine was used.
        graphmp: the version of graphmp that converted.
        tensorflow: the version of TensorFlow that converted.
        compute_dtype: the requested dtype.
        guarded: the number of matmuls, convolutions and other ops kept in float32 by the range
            guard.
        repaired: the number of ops of the recipe's graph that the policy turned back into float32.
        repaired_ops: their number by op; empty if the report doesn't tell.
        clip_norm: the norm of graphmp's clip; None without one.
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
    losses: Tuple[ReportedLoss, ...]


class Summary(NamedTuple):
    """A review in short.

    Attributes:
        names: names of the two graphs.
        nodes: the number of nodes of each.
        tensorflow: the version of TensorFlow that wrote the original; may be empty.
        reported: the report's facts; None without a report.
        coverage: the share of the converted graph in half precision.
        stayed: other ops that could be in half precision.
        variables: the number of float32 variables in the original, and of those float32 after
            conversion.
        flows: the loss scales of the converted graph, each with its path.
        claims: the claims about the graphs.
        unexplained: the number of changes without reason in the report; 0 without a report.
        stale: the number of changes in the report that the graphs don't have.
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
        """`float16` or `bfloat16`; `float32` without half precision.

        The graph decides, then the report.
        """
        asked = self.reported.compute_dtype if self.reported else ""
        return self.coverage.dtype or asked or "float32"


def summarise(
    diff: Comparison,
    bodies: Sequence[BodyPair],
    work: Dict[str, Work],
    is_write: Callable[[str], bool],
) -> Summary:
    """The summary of a comparison.

    Args:
        diff: the comparison, with its graphs.
        bodies: its bodies, without functions that nothing uses.
        work: the bytes that the ops of the converted graph move, by path.
        is_write: whether a node of the converted graph changes state.
    """
    assert diff.graphs is not None
    before, after = diff.graphs
    counted = coverage(bodies)
    return Summary(
        names=diff.names,
        nodes=(len(before.graph_def.node), len(after.graph_def.node)),
        tensorflow=before.meta_info_def.tensorflow_version,
        reported=_reported(diff.report) if diff.report is not None else None,
        coverage=counted,
        stayed=stayed_float32(work, diff.kept) if counted.dtype else Stayed(),
        variables=float32_kept(before.graph_def, after.graph_def),
        flows=flows(diff.bodies[0].after, is_write),
        claims=diff.claims,
        unexplained=len(diff.unexplained),
        stale=len(diff.stale),
    )


def _reported(report: Dict[str, Any]) -> Reported:
    """A report of another version, or a hand-written one, may lack any part."""
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


def _loss(row: Dict[str, Any]) -> ReportedLoss:
    seeds, gradients, updates = (
        len(row.get(name) or ()) for name in ("seeds", "gradients", "updates")
    )
    is_told = "user_clips" in row and not row.get("calls")  # clips inside functions aren't named
    clips = tuple(map(_clip, row["user_clips"])) if is_told else None
    return ReportedLoss(
        row.get("gradient_scope") or "",
        tuple(row.get("loss") or ()),
        seeds,
        gradients,
        updates,
        row.get("scale") or "",
        clips,
        bool(row.get("clip", True)),
    )


def _clip(row: Dict[str, Any]) -> ModelClip:
    return ModelClip(
        row.get("node") or "",
        row.get("kind") or "",
        row.get("norm"),
        tuple(row.get("limits") or ()),
        row.get("after_unscale"),
    )
