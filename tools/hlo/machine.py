"""The matmul rate of a device, measured in the same run as the programs. Needs JAX."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

import jax
import jax.numpy as jnp

_SIZE, _SIZE_ON_CPU = 8192, 1024  # rows and columns
_SECONDS = 0.05  # of products in a row
_REPEATS = 5


def matmul_rate(column: str, device: Any) -> float:
    """Operations per second of a large square product, the best of five runs.

    A multiplication and its addition count as two.

    Args:
        column: float16, bfloat16, float32, or tf32: float32 that the device may round.
        device: the JAX device.
    """
    dtype = jnp.float32 if column == "tf32" else jnp.dtype(column)
    size = _SIZE_ON_CPU if device.platform == "cpu" else _SIZE
    precision = (
        jax.lax.Precision.DEFAULT if column == "tf32" else jax.lax.Precision.HIGHEST
    )  # which has an effect on float32 only
    values = (
        jax.random.normal(jax.random.key(number), (size, size), jnp.float32).astype(dtype)
        for number in (0, 1)
    )
    left, right = (jax.device_put(value, device) for value in values)
    multiply = jax.jit(lambda a, b: jnp.matmul(a, b, precision=precision))
    once = _seconds(lambda: multiply(left, right), 1)
    count = max(1, int(_SECONDS / once))
    return float(
        2 * size**3 / min(_seconds(lambda: multiply(left, right), count) for _ in range(_REPEATS))
    )


def share(flops: Dict[str, int], column: str, seconds: float, rates: Dict[str, float]) -> float:
    """The share of the measured rates that a step of `seconds` seconds achieves.

    It is the time of its products at these rates, divided by the time of the step.
    """
    ideal = sum(
        count / rates["tf32" if (column, dtype) == ("tf32", "float32") else dtype]
        for dtype, count in flops.items()
    )
    return ideal / seconds


def _seconds(multiply: Callable[[], Any], count: int) -> float:
    """Seconds per product, over `count` products in a row after a warm-up."""
    jax.block_until_ready(multiply())
    start = time.perf_counter()
    results = [multiply() for _ in range(count)]
    jax.block_until_ready(results)
    return (time.perf_counter() - start) / count
