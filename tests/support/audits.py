"""Audits made by hand, for tests of their text and their page."""

from __future__ import annotations

import math

import numpy as np

from graphmp.audit.advice import advise
from graphmp.audit.audit import Audit, LossFinding, TensorFinding
from graphmp.audit.measure.rows import (
    ACTIVATION,
    ACTIVATION_GRADIENT,
    WEIGHT,
    WEIGHT_GRADIENT,
    TensorRow,
)
from graphmp.audit.measure.tally import Range
from graphmp.policy.dtypes import BY_NAME
from graphmp.policy.formats import EXPONENT_BIAS, FORMATS

HOSTILE = (
    "</script><script>alert(1)</script><img src=x "
    "onerror=alert(1)>\"'&amp;`[b]\x1b[31m\u202e\n\u00e4\u4e2d" + "x/" * 300
)
REASON = "allow: MatMul is worth half precision"


def exponents(lowest, *counts, zeros=0, not_finite=0):
    """Counts of the exponents from `lowest` upwards."""
    found = np.zeros(256, np.int64)
    found[lowest + EXPONENT_BIAS : lowest + EXPONENT_BIAS + len(counts)] = counts
    found[[0, -1]] = zeros, not_finite
    return found


def finding(name, role, counts, half=True, reason=REASON, op="MatMul", dtype="float16", **numbers):
    """A tensor's audit; `numbers` are the fields of its Range that are not zero."""
    values = dict(
        overflow=0,
        flushed=0,
        subnormal=0,
        largest=1.0,
        not_finite=0,
        original_not_finite=0,
        error=0.001,
        norm=1.0,
        converted_norm=1.0,
    )
    values.update(numbers)
    row = TensorRow(
        name,
        role,
        op,
        name,
        BY_NAME[dtype] if half else 0,
        0 if "gradient" in role else -1,
        power=int("gradient" in role),
    )
    elements = int(counts.sum())
    return TensorFinding(
        Range(row, counts, elements, elements, **values),
        half,
        reason,
        "--keep_float32='^%s$'" % name if half else "",
    )


def loss(
    gradients,
    original=(2.0, 1.5, 1.25),
    converted=(2.0, 1.5, 1.2501),
    dtype="float16",
    scale=256.0,
    skipped=0,
    name="loss",
):
    """A loss with the advice for its gradients."""
    advice = advise([each.range.exponents for each in gradients], FORMATS[dtype], scale)
    return LossFinding(
        [name], list(original), list(converted), [scale] * len(original), skipped, advice
    )


def audit(findings, losses, dtype="float16", **others):
    """An audit of three steps."""
    values = dict(
        source="models/net.ckpt.meta",
        arithmetic="simulated",
        data="random, seed 0",
        steps=3,
        measured=3,
        left_out=[],
    )
    values.update(
        compute_dtype=dtype, seconds={"plain_steps": 0.5, "measured_steps": 1.0}, flags={}
    )
    values.update(others)
    return Audit(
        losses=losses,
        findings=sorted(findings, key=lambda each: each.severity, reverse=True),
        **values,
    )


def good(dtype="float16"):
    """Four roles, gradients that need a loss scale in float16, and no repairs."""
    gradients = [
        finding(
            "gradients/a/MatMul",
            ACTIVATION_GRADIENT,
            exponents(-30, 10, 20, 30, 40, 50, 60, 50, zeros=40),
            dtype=dtype,
            flushed=3,
            error=0.002,
        ),
        finding(
            "gradients/a/MatMul_1",
            WEIGHT_GRADIENT,
            exponents(-26, 5, 20, 75),
            dtype=dtype,
            subnormal=7,
        ),
    ]
    others = [
        finding(
            "a/MatMul",
            ACTIVATION,
            exponents(-4, 100, 200, 100, zeros=100),
            dtype=dtype,
            largest=0.4,
        ),
        finding(
            "a/Softmax",
            ACTIVATION,
            exponents(-9, 7),
            half=False,
            reason="deny: Softmax needs float32",
            op="Softmax",
        ),
        finding("a/kernel/read", WEIGHT, exponents(-5, 50, 50), dtype=dtype, op="Identity"),
    ]
    return audit([*gradients, *others], [loss(gradients, dtype=dtype)], dtype)


def bad():
    """Overflows, a loss and a gradient that disagree, unmeasurable tensors, and NaN."""
    gradients = [
        finding(
            "g/worse",
            WEIGHT_GRADIENT,
            exponents(-20, 50, 50),
            not_finite=9,
            overflow=12,
            error=0.9,
            largest=math.inf,
        ),
        finding("g/nan", WEIGHT_GRADIENT, exponents(-20, 5), error=math.nan),
    ]
    others = [
        finding(
            "a/Exp",
            ACTIVATION,
            exponents(10, 500, 300, 100, 60, 20, 10, 6, 4, not_finite=2),
            op="Exp",
            overflow=10,
            largest=1e5,
            flushed=1,
        ),
        finding(
            "a/infinite",
            ACTIVATION,
            exponents(3, 4),
            half=False,
            original_not_finite=2,
            not_finite=2,
            error=math.inf,
            largest=math.nan,
        ),
    ]
    losses = [loss(gradients, converted=(2.0, math.nan, 1.3), skipped=2), loss([], name="other")]
    return audit(
        [*gradients, *others],
        losses,
        left_out=["while/x:%d" % number for number in range(7)],
        data="feeds.npz",
    )


def hostile():
    """Malicious strings in a graph file, in all displayed names."""
    each = finding(
        HOSTILE, WEIGHT_GRADIENT, exponents(-30, 4, 4), reason=HOSTILE, op=HOSTILE, overflow=1
    )
    return audit(
        [each], [loss([each], name=HOSTILE)], source=HOSTILE, data=HOSTILE, left_out=[HOSTILE]
    )


def many(count):
    """As many tensors as in a large recurrent network."""
    roles = (ACTIVATION, ACTIVATION_GRADIENT, WEIGHT_GRADIENT)
    numbers = np.random.RandomState(0)
    found = [
        finding(
            "rnn/multi_rnn_cell/cell_%d/lstm_cell/while_%d/gates/%s_%d"
            % (number % 4, number % 50, "MatMul" if number % 2 else "Sigmoid", number),
            roles[number % 3],
            exponents(-30 + number % 7, *numbers.randint(1, 9000, 20 + number % 9)),
            op="MatMul" if number % 2 else "Sigmoid",
            error=float(numbers.rand() / 1000),
            flushed=int(numbers.randint(0, 50)),
        )
        for number in range(count)
    ]
    return audit(found, [loss([each for each in found if "gradient" in each.range.row.role])])


def exponent_fields(values):
    """Exponent fields of float32, by frexp."""
    finite = np.isfinite(values)
    _, powers = np.frexp(np.where(finite, values, 1))
    fields = np.where(values == 0, 0, powers + 126)
    return np.bincount(np.where(finite, fields, 255).ravel(), minlength=256)
