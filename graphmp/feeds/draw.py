"""Drawing the values of a plan, the same for the same seed, step and tensor."""

from __future__ import annotations

import zlib

import numpy as np

from graphmp.feeds import contents
from graphmp.feeds.contents import DrawPlan

_STRINGS = {contents.LETTERS: (b"a", b"b", b"c", b"d"), contents.DIGITS: (b"1", b"2", b"3", b"4")}


def draw(plan: DrawPlan, seed: int, step: int) -> np.ndarray:
    """An array in the dtype and shape of the plan's tensor."""
    random = np.random.RandomState([seed % (1 << 32), step, zlib.crc32(plan.tensor.name.encode())])
    return np.asarray(_values(plan, random)).astype(plan.tensor.dtype.as_numpy_dtype)


def _values(plan: DrawPlan, random: np.random.RandomState) -> np.ndarray:
    """The values, in any dtype."""
    if plan.kind in _STRINGS:
        return np.array(_STRINGS[plan.kind], object)[
            random.randint(0, len(_STRINGS[plan.kind]), plan.sizes)
        ]
    if plan.kind == contents.CONSTANT:
        return np.full(plan.sizes, plan.value)
    if plan.kind == contents.NORMAL:
        return random.standard_normal(plan.sizes)
    if plan.kind == contents.ONE_HOT:
        return np.eye(plan.sizes[-1])[random.randint(0, plan.sizes[-1], plan.sizes[:-1])]
    if plan.kind == contents.LENGTHS:
        lengths = random.randint(plan.low, plan.high + 1, plan.sizes)
        lengths.ravel()[:1] = plan.high
        return lengths
    if plan.kind == contents.SPELLING and plan.sizes and plan.high - plan.low > 1:
        count = plan.high - plan.low
        return plan.low + np.cumsum(random.randint(1, count, plan.sizes), axis=-1) % count
    if plan.kind == contents.NUMBERS:
        rows = np.arange(plan.sizes[0]).reshape([-1] + [1] * (len(plan.sizes) - 1))
        return np.broadcast_to(rows, plan.sizes)
    return _without(plan, random.randint(plan.low, plan.high, plan.sizes, dtype=np.int64))


def _without(plan: DrawPlan, drawn: np.ndarray) -> np.ndarray:
    """Integers whose first row, of several, has none to avoid, if the range has others."""
    others = (value for value in range(plan.low, plan.high) if value not in plan.avoided)
    other = next(others, None) if plan.avoided and len(plan.sizes) > 1 else None
    if other is not None:
        first = drawn[:1]
        first[np.isin(first, plan.avoided)] = other
    return drawn
