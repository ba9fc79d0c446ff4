"""Devices: support for fast half precision, and the dtype in which products are added up."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

TENSOR_CORES, BFLOAT16_CORES = (7, 0), (8, 0)  # compute capabilities
BFLOAT16_FLAGS = frozenset(
    ("avx512_bf16", "amx_bf16")
)  # of a CPU that multiplies bfloat16 in hardware
# If unset, float16 products on a GPU are added up in float32 (core/util/matmul_autotune.cc,
# stream_executor/cuda/cuda_dnn.cc).
ACCUMULATION = {
    "matmul": "TF_FP16_MATMUL_USE_FP32_COMPUTE",
    "convolution": "TF_FP16_CONV_USE_FP32_COMPUTE",
}
_ROUNDED_ONCE = 2.5


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


def accumulation(errors: Mapping[str, Optional[float]], dtype: str) -> Dict[str, Optional[str]]:
    """The dtype in which "matmul" and "convolution" add up products; None if they don't run.

    Args:
        errors: the largest relative error of sums over thousands of positive products, in units of
            the dtype's rounding error: about one if only the sum is rounded, several if each
            addition is.
        dtype: of the factors.
    """
    return {
        kind: None if error is None else "float32" if error <= _ROUNDED_ONCE else dtype
        for kind, error in errors.items()
    }
