"""Likely causes of a small speed-up, by measurements, the most expensive first.

1. Input: the step waits for its data, which no arithmetic makes faster.
2. GPU idle: its kernels take a small part of the step; the rest is launching them.
3. Kernels: matmuls and convolutions take as long in half precision as in float32, because the
   hardware has no fast ones.
4. Few products: most of the float32 step is no matmul or convolution, which limits any speed-up
   (Amdahl's law).
5. Casts between float32 and half precision.
6. Loss scaling: unscale, finite check, clip and skip.
7. Shapes: dimensions that are no multiples of 8, on a GPU.
8. Slower ops: other ops that may be half, whose kernels take longer in it than in float32.
"""

from __future__ import annotations

from typing import Callable, Iterator, List, Mapping, NamedTuple, Optional

from graphmp.bench.kernels.shares import Shares
from graphmp.policy.policy import Policy

INPUT, IDLE, KERNELS, FEW_PRODUCTS, CASTS, SCALING, SHAPES, SLOWER = (
    "input pipeline", "GPU idle", "kernels", "few matmuls", "casts", "loss scaling", "shapes",
    "slower ops",
)  # fmt: skip
ENOUGH = 1.2  # a speed-up that needs no explanation
_LEAST = 0.05  # of a step; cheaper causes aren't named
_LEAST_OTHER_WORK = 0.25  # of the float32 step
_AS_SLOW = 0.9  # of the float32 kernels' seconds
_SLOWER = 1.2  # times an op's seconds in float32
_NAMED = 3  # ops


class MeasuredStep(NamedTuple):
    """Measurements of the steps at one batch size.

    Attributes:
        step: seconds of a converted step.
        dtype: "float16" or "bfloat16".
        float32: shares of the original's step.
        converted: shares of the converted graph's.
        waiting: seconds that a step waits for its input; None if not measured.
        on_gpu: whether a GPU computes.
        float32_ops: seconds of the original's step by op, of what the shares don't name.
        converted_ops: of the converted graph's.
    """

    step: float
    dtype: str
    float32: Shares
    converted: Shares
    waiting: Optional[float]
    on_gpu: bool
    float32_ops: Mapping[str, float] = {}
    converted_ops: Mapping[str, float] = {}


class Cause(NamedTuple):
    """A cause.

    Attributes:
        kind: one of the constants above.
        share: its part of the step, 0 to 1.
        text: the measurement, in words.
    """

    kind: str
    share: float
    text: str


def causes(measured: MeasuredStep) -> List[Cause]:
    """Notable parts of a step, largest first."""
    found = [cause for look in _LOOKS for cause in look(measured)]
    return sorted(found, key=lambda cause: -cause.share)


def _input(m: MeasuredStep) -> Iterator[Cause]:
    if m.waiting is None or not m.waiting:
        return
    share = m.waiting / (m.waiting + m.step)
    if share >= _LEAST:
        yield Cause(
            INPUT,
            share,
            "%s for data, %s computing: prefetch, or make batches in other processes"
            % (_ms(m.waiting), _ms(m.step)),
        )


def _idle(m: MeasuredStep) -> Iterator[Cause]:
    if not m.on_gpu or not m.converted.gpu:
        return
    busy = min(1.0, m.converted.gpu / m.step)
    if 1 - busy >= _LEAST:
        yield Cause(
            IDLE,
            1 - busy,
            "its kernels run %s of a step of %s: take a larger batch"
            % (_ms(m.converted.gpu), _ms(m.step)),
        )


def _kernels(m: MeasuredStep) -> Iterator[Cause]:
    before, after = m.float32.products, m.converted.products
    share = m.converted.share("products")
    if before and after >= _AS_SLOW * before and share >= _LEAST:
        yield Cause(
            KERNELS,
            share,
            "matmuls and convolutions take %s in %s, %s in float32"
            % (_ms(after), m.dtype, _ms(before)),
        )


def _few_products(m: MeasuredStep) -> Iterator[Cause]:
    if not m.float32.total:
        return
    share = m.float32.share("products")
    if 1 - share >= _LEAST_OTHER_WORK:
        bound = (
            "; were they free, a step would be %.2f times as fast" % (1 / (1 - share))
            if share
            else ""
        )
        yield Cause(
            FEW_PRODUCTS,
            1 - share,
            "matmuls and convolutions are %.0f%% of the float32 kernels' time%s"
            % (100 * share, bound),
        )


def _casts(m: MeasuredStep) -> Iterator[Cause]:
    added = max(0.0, m.converted.casts - m.float32.casts)
    share = added / m.converted.total if m.converted.total else 0.0
    if share >= _LEAST:
        yield Cause(
            CASTS,
            share,
            "casts take %s more than in float32, of %s in kernels"
            % (_ms(added), _ms(m.converted.total)),
        )


def _scaling(m: MeasuredStep) -> Iterator[Cause]:
    share = m.converted.share("scaling")
    if share >= _LEAST:
        yield Cause(
            SCALING,
            share,
            "loss scale, finite check, clip and skip take %s, of %s in kernels"
            % (_ms(m.converted.scaling), _ms(m.converted.total)),
        )


def _shapes(m: MeasuredStep) -> Iterator[Cause]:
    share = m.converted.share("misfits")
    if m.on_gpu and share >= _LEAST:
        text = (
            "%s of %s in matmuls and convolutions are spent on dimensions that are no multiples"
            " of 8"
        )
        yield Cause(SHAPES, share, text % (_ms(m.converted.misfits), _ms(m.converted.products)))


def _slower(m: MeasuredStep) -> Iterator[Cause]:
    policy = Policy.default(m.dtype)
    added = {
        op: seconds - m.float32_ops[op]
        for op, seconds in m.converted_ops.items()
        if op in (policy.infer | policy.clear) & set(m.float32_ops)
        and seconds > _SLOWER * m.float32_ops[op]
    }
    share = sum(added.values()) / m.converted.total if m.converted.total else 0.0
    if share >= _LEAST:
        worst = sorted(added, key=lambda op: -added[op])[:_NAMED]
        times = (
            "%s takes %s, in float32 %s" % (op, _ms(m.converted_ops[op]), _ms(m.float32_ops[op]))
            for op in worst
        )
        yield Cause(SLOWER, share, "; ".join(times))


_LOOKS: List[Callable[[MeasuredStep], Iterator[Cause]]] = [
    _input,
    _idle,
    _kernels,
    _few_products,
    _casts,
    _scaling,
    _shapes,
    _slower,
]


def _ms(seconds: float) -> str:
    return "%.3g ms" % (1000 * seconds)
