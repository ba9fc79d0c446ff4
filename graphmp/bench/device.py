"""The device of a bench, and what its times say."""

from __future__ import annotations

from typing import Iterator, List

import tensorflow.compat.v1 as tf

from graphmp.doctor.devices import (
    BFLOAT16_CORES,
    TENSOR_CORES,
    Device,
    bfloat16_instructions,
    described,
)
from graphmp.doctor.installed import ask_tensorflow


def find() -> Device:
    """The first GPU that TensorFlow finds, else the CPU.

    Another process looks for it, so that this one takes none of its memory.
    """
    if tf.config.experimental.list_physical_devices("GPU"):
        gpus = ask_tensorflow()[0].get("gpus", [])
        name, capability = described(gpus[0] if gpus else "")
        return Device(name or "GPU", capability or (0,))
    fast = bfloat16_instructions()
    name = "CPU with %s" % " and ".join(fast) if fast else "CPU without bfloat16 instructions"
    return Device(
        name, fast_bfloat16=bool(fast) and tf.__version__ > "2"
    )  # 1.15.5's CPU has no bfloat16 convolutions


def limits(device: Device, dtype: str) -> List[str]:
    """Why times of a dtype say little on this device; empty if they are meaningful."""
    return list(_limits(device, dtype))


def _limits(device: Device, dtype: str) -> Iterator[str]:
    if dtype == "float32":
        yield "nothing is in half precision: only loss scaling and clipping are timed"
    elif device.on_gpu and device.capability < TENSOR_CORES:
        yield (
            "a GPU below compute capability 7.0 has no Tensor Cores: half precision saves memory"
            " there, hardly time"
        )
    elif device.on_gpu and dtype == "bfloat16" and device.capability < BFLOAT16_CORES:
        yield (
            "a GPU below compute capability 8.0 has no Tensor Cores for bfloat16: take"
            " --compute_dtype=float16"
        )
    elif not device.on_gpu and dtype == "float16":
        better = "; --compute_dtype=bfloat16 is fast here" if device.fast_bfloat16 else ""
        yield "float16 is emulated on a CPU: these times say nothing about a GPU%s" % better
    elif not device.on_gpu and not device.fast_bfloat16:
        yield (
            "this CPU, or this TensorFlow on it, has no bfloat16 in hardware: these times say"
            " nothing about a machine that has"
        )
