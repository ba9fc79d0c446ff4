"""The result of an audit: the effect of half precision on each tensor, worst first."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from graphmp.audit.advice import Advice
from graphmp.audit.agreement import LOSSES, disagreeing, loss_difference
from graphmp.audit.measure.rows import ROLES, WEIGHT_GRADIENT
from graphmp.audit.measure.tally import Range, added_up
from graphmp.rewrite.calibration import SCHEMA
from graphmp.wording import json_escaped, printable


@dataclass(frozen=True)
class TensorFinding:
    """One measured tensor.

    Attributes:
        range: its measurements.
        half: whether it is half precision in the converted graph.
        reason: the rule for its dtype.
        flag: the flag that would keep its node float32; empty if it is.
    """

    range: Range
    half: bool
    reason: str
    flag: str

    @property
    def severity(self) -> Tuple[float, ...]:
        """The sort key of "worst first".

        Not finite, overflow, then the share of values that rounding lost.
        """
        r = self.range
        error = 0.0 if math.isnan(r.error) else r.error
        broken = r.not_finite and not r.original_not_finite
        return (
            float(broken),
            float(self.half and r.overflow > 0),
            max(error, r.share(r.flushed) if self.half else 0.0),
        )


@dataclass(frozen=True)
class LossFinding:
    """One loss over the steps.

    Attributes:
        loss: its tensors.
        original: its value in each step.
        converted: the converted graph's.
        scales: the loss scale in each step.
        skipped: the number of steps that no loss scale would have helped.
        advice: the loss scale for its gradients.
    """

    loss: List[str]
    original: List[float]
    converted: List[float]
    scales: List[float]
    skipped: int
    advice: Advice

    @property
    def difference(self) -> float:
        """The largest relative difference of a step.

        Infinite if only the converted graph's loss isn't finite.
        """
        return max(
            [loss_difference(a, b) for a, b in zip(self.original, self.converted)], default=0.0
        )

    def agrees(self, tolerance: float) -> bool:
        """Whether the losses are those of the original, and most steps were taken.

        A step whose loss isn't finite in the original either is rightly skipped.
        """
        right = sum(not math.isfinite(value) for value in self.original)
        taken = 2 * (self.skipped - right) <= len(self.original)
        return self.difference <= tolerance * LOSSES and taken


@dataclass(frozen=True)
class Audit:
    """An audit.

    Attributes:
        source: the SOURCE of the audit, as the user named it.
        compute_dtype: "float16" or "bfloat16".
        arithmetic: "simulated" or "native".
        data: the origin of the batches.
        steps: the number of steps.
        measured: the number of steps in which all tensors were measured.
        losses: one for each loss.
        findings: one for each tensor, worst first.
        left_out: tensors that can't be measured.
        seconds: of the plain steps and of the rest.
        flags: the conversion's.
        tolerance: the largest relative error of a weight gradient.
    """

    source: str
    compute_dtype: str
    arithmetic: str
    data: str
    steps: int
    measured: int
    losses: List[LossFinding]
    findings: List[TensorFinding]
    left_out: List[str]
    seconds: Dict[str, float]
    flags: Dict[str, Any]
    tolerance: float = 0.1

    def by_role(self) -> Dict[str, Sequence[TensorFinding]]:
        """The findings of each role, in half precision or not."""
        return {role: [f for f in self.findings if f.range.row.role == role] for role in ROLES}

    @property
    def offenders(self) -> List[TensorFinding]:
        """Tensors that overflow or are not finite though the original is, worst first."""
        return [finding for finding in self.findings if finding.severity[0] or finding.severity[1]]

    @property
    def first_not_finite(self) -> Optional[TensorFinding]:
        """The first tensor in a step that isn't finite though the original is.

        None if there is none.
        """
        broken = [finding for finding in self.findings if finding.severity[0]]
        return min(broken, key=lambda finding: finding.range.row.order, default=None)

    @property
    def disagreeing(self) -> List[TensorFinding]:
        """Weight gradients that differ from the original's."""
        gradients = self.by_role()[WEIGHT_GRADIENT]
        bad = {r.row for r in disagreeing([finding.range for finding in gradients], self.tolerance)}
        return [finding for finding in gradients if finding.range.row in bad]

    @property
    def suspects(self) -> List[TensorFinding]:
        """Possible causes.

        Half-precision tensors that overflow, lose a tenth of their values, or aren't finite.
        """
        return [
            f
            for f in self.findings
            if f.half
            and (f.severity[0] or f.range.overflow or f.range.share(f.range.flushed) > 0.1)
        ]

    @property
    def shows_nothing(self) -> List[LossFinding]:
        """Losses of which the original has no finite value, so that there is nothing to compare."""
        return [loss for loss in self.losses if not any(map(math.isfinite, loss.original))]

    @property
    def only_zeros(self) -> bool:
        """Whether no weight gradient other than zero was there to compare."""
        return all(math.isnan(f.range.error) for f in self.by_role()[WEIGHT_GRADIENT])

    @property
    def agrees(self) -> bool:
        """Whether the converted graph computes the original's losses and weight gradients."""
        return not self.disagreeing and all(loss.agrees(self.tolerance) for loss in self.losses)

    def to_json(self) -> str:
        """The audit as JSON, schema `graphmp.audit/1`; values that aren't numbers are null."""
        value = {
            "schema": SCHEMA,
            "source": self.source,
            "compute_dtype": self.compute_dtype,
            "arithmetic": self.arithmetic,
            "data": printable(self.data),
            "steps": self.steps,
            "measured_steps": self.measured,
            "losses": [_loss(loss) for loss in self.losses],
            "roles": {role: _role(findings) for role, findings in self.by_role().items()},
            "tensors": [_tensor(finding) for finding in self.findings],
            "tolerance": self.tolerance,
            "agrees": self.agrees,
            "disagreeing": [finding.range.row.name for finding in self.disagreeing],
            "overflowed": [
                finding.range.row.name
                for finding in self.findings
                if finding.half and finding.range.overflow
            ],
            "first_not_finite": self.first_not_finite.range.row.name
            if self.first_not_finite
            else None,
            "left_out": self.left_out,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "flags": self.flags,
        }
        text = json.dumps(
            _finite(value), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False
        )
        return json_escaped(text) + "\n"


def _loss(loss: LossFinding) -> Dict[str, Any]:
    value = asdict(loss)
    value["advice"] = loss.advice._asdict()
    return dict(value, difference=loss.difference)


def _tensor(finding: TensorFinding) -> Dict[str, Any]:
    r = finding.range
    first = next((n for n, count in enumerate(r.exponents) if count), 0)
    return {
        "name": r.row.name,
        "role": r.row.role,
        "op": r.row.op,
        "order": r.row.order,
        "half": finding.half,
        "reason": finding.reason,
        "flag": finding.flag,
        "elements": r.elements,
        "counted": r.counted,
        "overflow": r.overflow,
        "flushed": r.flushed,
        "subnormal": r.subnormal,
        "overflow_share": r.share(r.overflow),
        "flushed_share": r.share(r.flushed),
        "subnormal_share": r.share(r.subnormal),
        "not_finite": r.not_finite,
        "original_not_finite": r.original_not_finite,
        "largest": r.largest,
        "relative_error": r.error,
        "first_exponent_field": first,
        "exponents": _trimmed(r.exponents, first),
    }


def _trimmed(exponents: Any, first: int) -> List[int]:
    last = max((n for n, count in enumerate(exponents) if count), default=0)
    return [int(count) for count in exponents[first : last + 1]]


def _role(findings: Sequence[TensorFinding]) -> Dict[str, Any]:
    """Sums over the tensors of a role that are in half precision."""
    half = [finding.range for finding in findings if finding.half]
    counted = sum(r.counted for r in half)
    sums = {
        name: sum(getattr(r, name) for r in half)
        for name in ("overflow", "flushed", "subnormal", "not_finite")
    }
    errors = sorted(r.error for r in half if not math.isnan(r.error))
    shares = {
        name + "_share": sums[name] / counted if counted else 0.0
        for name in ("overflow", "flushed", "subnormal")
    }
    return dict(
        sums,
        **shares,
        tensors=len(findings),
        half=len(half),
        counted=counted,
        median_error=errors[len(errors) // 2] if errors else float("nan"),
        worst_error=errors[-1] if errors else float("nan"),
        exponents=added_up(f.range.exponents for f in findings).tolist(),
    )


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
