"""Devices and their support for fast half precision."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Tuple

from graphmp.doctor.installed import Version, cpu_flags, numbers

TENSOR_CORES, BFLOAT16_CORES = (7, 0), (8, 0)  # compute capabilities
BFLOAT16_FLAGS = frozenset(
    ("avx512_bf16", "amx_bf16")
)  # of a CPU that multiplies bfloat16 in hardware


class Device(NamedTuple):
    """A device for computations.

    Attributes:
        name: in words.
        capability: of a GPU, such as (8, 0); empty for a CPU.
        fast_bfloat16: whether a CPU multiplies bfloat16 in hardware, and this TensorFlow's CPU has
            bfloat16 kernels.
    """

    name: str
    capability: Tuple[int, ...] = ()
    fast_bfloat16: bool = False

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return bool(self.capability)

    @property
    def default_dtype(self) -> str:
        """The default dtype of a bench: the fast one on this device, or else float16."""
        return "bfloat16" if not self.on_gpu and self.fast_bfloat16 else "float16"


def described(gpu: str) -> Tuple[str, Version]:
    """Name and compute capability of a GPU in TensorFlow's words; empty what they don't tell.

    For example "device: 0, name: Tesla V100, ..., compute capability: 7.0".
    """
    name = re.search(r"name: ([^,]+)", gpu)
    capability = re.search(r"compute capability: ([\d.]+)", gpu)
    return name.group(1) if name else "", numbers(capability.group(1) if capability else "")


def bfloat16_instructions(path: str = "/proc/cpuinfo") -> List[str]:
    """Names of this CPU's instructions that multiply bfloat16."""
    return sorted(flag.upper() for flag in BFLOAT16_FLAGS & (cpu_flags(path) or frozenset()))
