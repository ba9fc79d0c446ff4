"""The devices of this machine."""

from __future__ import annotations

import re

import tensorflow.compat.v1 as tf

from graphmp.doctor.devices import BFLOAT16_FLAGS, Device
from graphmp.doctor.installed import ask_tensorflow, cpu_flags, numbers


def find() -> Device:
    """The first GPU that TensorFlow finds, else the CPU.

    Another process looks for it, so that this one takes none of its memory.
    """
    if tf.config.experimental.list_physical_devices("GPU"):
        gpus = ask_tensorflow()[0].get("gpus", [])
        return gpu(gpus[0] if gpus else "")
    flags = cpu_flags() or frozenset()
    fast = sorted(flag.upper() for flag in BFLOAT16_FLAGS & flags)
    name = "CPU with %s" % " and ".join(fast) if fast else "CPU without bfloat16 instructions"
    return Device(
        name, fast_bfloat16=bool(fast) and tf.__version__ > "2"
    )  # 1.15.5's CPU has no bfloat16 convolutions


def gpu(description: str) -> Device:
    """A GPU in TensorFlow's words: "device: 0, name: Tesla V100, ..., compute capability: 7.0"."""
    name = re.search(r"name: ([^,]+)", description)
    capability = re.search(r"compute capability: ([\d.]+)", description)
    return Device(
        name.group(1) if name else "GPU", numbers(capability.group(1)) if capability else (0,)
    )
