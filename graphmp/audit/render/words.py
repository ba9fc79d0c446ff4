"""An audit in words, the same in all its forms: agreement, ranges, advice, what to do next."""

from __future__ import annotations

import math
import shlex
from typing import Any, Dict, List

from graphmp.audit.agreement import LOSSES
from graphmp.audit.audit import Audit, LossFinding, TensorFinding
from graphmp.audit.measure.rows import ROLES, WEIGHT_GRADIENT
from graphmp.config import Config
from graphmp.wording import plural, printable

_MOST_CHARACTERS = 160  # of a name


def share(value: float) -> str:
    """A share or a relative error in percent: `0`, `<0.0001%`, `0.021%`, `12%`."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite"
    percent = 100 * value
    if percent == 0 or percent >= 10:
        return "{:,.0f}{}".format(percent, "%" if percent else "")
    return "%s%%" % ("%.2g" % percent if percent >= 0.95e-4 else "<0.0001")


def power(scale: float) -> str:
    """A power of two: `256`, or `2^40` if it is long."""
    exponent = round(math.log2(scale))
    return format(int(scale), ",") if 0 <= exponent <= 20 else "2^%d" % exponent


def shown(name: str) -> str:
    """A name of a graph file, without control characters, and shortened."""
    text = printable(name)
    return (
        text
        if len(text) <= _MOST_CHARACTERS
        else "%s...%s" % (text[: _MOST_CHARACTERS // 2], text[-_MOST_CHARACTERS // 2 :])
    )


def arithmetic(audit: Audit) -> str:
    """How half precision was computed."""
    dtype = audit.compute_dtype
    if audit.arithmetic == "simulated":
        return (
            "simulated: %s ops compute in float32 and round what they give to %s, as Tensor"
            " Cores do" % (dtype, dtype)
        )
    return "native: %s ops run by this machine's own kernels" % dtype


def measured(audit: Audit) -> str:
    """The steps and their time."""
    seconds = sum(audit.seconds.values())
    return "%s, all tensors measured in %s of them; %.1f s" % (
        plural(audit.steps, "training step"),
        format(audit.measured, ","),
        seconds,
    )


def loss_name(loss: LossFinding) -> str:
    """The tensors of a loss."""
    return ", ".join(map(shown, loss.loss)) or "(no name)"


def agreement(loss: LossFinding) -> str:
    """The difference between the losses of the converted graph and the original."""
    if math.isinf(loss.difference):
        return "not finite in the converted graph, where the original's is"
    steps, bad = len(loss.original), sum(not math.isfinite(value) for value in loss.original)
    differ = "original and converted differ by %s at most" % share(loss.difference)
    if not bad:
        return differ
    said = "not finite in %d of %s, nor is the original's" % (bad, plural(steps, "step"))
    return said if bad == steps else "%s; else %s" % (said, differ)


def scale_now(loss: LossFinding) -> str:
    """Skipped steps and the present scale."""
    scale = power(loss.scales[-1]) if loss.scales else "none"
    return "%d of %s skipped; loss scale now %s" % (
        loss.skipped,
        plural(len(loss.original), "step"),
        scale,
    )


def range_used(loss: LossFinding, dtype: str) -> str:
    """The powers of two that gradients use."""
    advice = loss.advice
    if advice.largest is None:
        return "no gradient other than zero was seen"
    used = "use %d of the %d powers of two of %s" % (advice.used, advice.powers, dtype)
    return "%s; the largest is 2^%d, %d above it are unused" % (
        used,
        advice.largest,
        advice.unused_above,
    )


def scale_advice(loss: LossFinding) -> str:
    """The loss scale to use and its effect."""
    advice = loss.advice
    if advice.overflowing:
        return (
            "loss scale %s; with 1, the lowest by default, %s of the gradients overflow:"
            " --loss_scale_min=%g lets a dynamic scale fall so far"
        ) % (power(advice.scale), share(advice.overflowing), advice.scale)
    if not advice.flushed:
        return "no loss scale needed: no gradient becomes zero without one"
    rates = [share(value) for value in (advice.flushed, advice.flushed_scaled, advice.flushed_now)]
    return "loss scale %s; gradients that become zero: %s without a scale, %s with it, %s now" % (
        power(advice.scale),
        *rates,
    )


def range_advice(loss: LossFinding, dtype: str) -> str:
    """Advice on gradients that no loss scale can represent.

    Only for float16: bfloat16 has float32's range.
    """
    advice = loss.advice
    numbers = (
        share(advice.flushed_scaled),
        advice.largest - advice.smallest + 1,
        dtype,
        advice.powers,
    )
    return (
        "%s become zero whatever the loss scale: they span %d powers of two, %s holds %d;"
        " --compute_dtype=bfloat16 holds all" % numbers
    )


def wrong(finding: TensorFinding) -> str:
    """The effect of half precision on a tensor."""
    r = finding.range
    parts = []
    if r.not_finite and not r.original_not_finite:
        parts.append("%s not finite" % plural(r.not_finite, "value"))
    elif r.original_not_finite:
        parts.append("not finite in the original too")
    if finding.half and r.overflow:
        parts.append("%s overflow (%s)" % (format(r.overflow, ","), share(r.share(r.overflow))))
    if finding.half and r.flushed:
        parts.append("%s become zero (%s)" % (format(r.flushed, ","), share(r.share(r.flushed))))
    if not math.isnan(r.error):
        parts.append("relative error %s" % share(r.error))
    return ", ".join(parts) or "nothing to compare with"


def agreement_of_all(audit: Audit) -> str:
    """Whether the converted graph agrees with the original, within the audit's tolerance."""
    for_losses, for_gradients = (
        "(tolerance %s)" % share(part * audit.tolerance) for part in (LOSSES, 1)
    )
    if audit.agrees and audit.only_zeros and not audit.shows_nothing:
        return "losses %s agree; no weight gradient other than zero was compared" % for_losses
    if audit.agrees:
        text = "losses %s and weight gradients %s agree" % (for_losses, for_gradients)
        return text + ("; %s" % _nothing_shown(audit) if audit.shows_nothing else "")
    every = plural(len(audit.losses), "loss", "losses")
    losses = [loss for loss in audit.losses if not loss.agrees(audit.tolerance)]
    differing = [loss for loss in losses if loss.difference > audit.tolerance * LOSSES]
    parts = ["%d of %s %s" % (len(differing), every, for_losses)] if differing else []
    if len(differing) < len(losses):
        skipped = len(losses) - len(differing)
        parts.append("%d of %s, which skipped most steps," % (skipped, every))
    if audit.disagreeing:
        count = "%s of %s" % (
            format(len(audit.disagreeing), ","),
            plural(len(audit.by_role()[WEIGHT_GRADIENT]), "weight gradient"),
        )
        parts.append("%s %s" % (count, for_gradients))
    return "%s disagree" % " and ".join(parts)


def _nothing_shown(audit: Audit) -> str:
    """The losses of the original that are never finite."""
    names = [loss_name(loss) for loss in audit.shows_nothing]
    text = "that shows nothing for %s: in the original, no step computes a finite value of it"
    return text % ", ".join(dict.fromkeys(names))


def verdict(audit: Audit) -> str:
    """The number of tensors that overflow."""
    count = len(audit.offenders)
    if not count:
        return "no tensor overflows"
    return "%s %s, or %s" % (
        plural(count, "tensor"),
        *(("overflows", "is not finite") if count == 1 else ("overflow", "are not finite")),
    )


def next_step(audit: Audit) -> str:
    """The next command to try."""
    if audit.agrees and audit.shows_nothing:
        return "with batches on which the losses are finite: " + next_command(audit)
    if audit.agrees and audit.only_zeros:
        return "with batches that give gradients other than zero: " + next_command(audit)
    return "nothing to repair: " * audit.agrees + next_command(audit)


def next_command(audit: Audit) -> str:
    """The command of the next step."""
    source = shlex.quote(printable(audit.source))
    if audit.compute_dtype != Config.compute_dtype:
        source += " --compute_dtype=%s" % audit.compute_dtype
    if audit.agrees and (audit.shows_nothing or audit.only_zeros):
        return "graphmp audit %s --data=FEEDS" % source
    if audit.agrees:
        return "graphmp convert %s" % source
    data = (
        "--random_data"
        if audit.data.startswith("random, ")
        else "--data=%s" % shlex.quote(printable(audit.data))
    )
    return "graphmp audit %s %s --fix=%s" % (
        source,
        data,
        shlex.quote(printable(_stem(audit.source)) + ".policy"),
    )


def _stem(source: str) -> str:
    """The file name without folders and endings: `model` for `dir/model.ckpt.meta`."""
    return source.rstrip("/").split("/")[-1].split(".")[0] or "model"


def role_rows(form: Dict[str, Any]) -> List[List[str]]:
    """A row of texts for each role: tensors, those in half, shares of values, errors.

    `form` is the audit's JSON.
    """
    found = []
    for role in ROLES:
        sums = form["roles"][role]
        shares = [share(sums[name + "_share"]) for name in ("overflow", "flushed", "subnormal")]
        errors = [
            share(float("nan") if sums[name] is None else sums[name])
            for name in ("median_error", "worst_error")
        ]
        found.append(
            [role, format(sums["tensors"], ","), format(sums["half"], ","), *shares, *errors]
        )
    return found


ROLE_TITLES = (
    "role",
    "tensors",
    "in half",
    "overflow",
    "become zero",
    "subnormal",
    "median error",
    "worst error",
)


def left_out(audit: Audit) -> str:
    """The tensors that weren't measured."""
    return (
        "%s of while loops not measured: nothing reads them in the same step of the loop"
        % plural(len(audit.left_out), "tensor")
    )
