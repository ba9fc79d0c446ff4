"""GPU kernels that use Tensor Cores, by name: undocumented, so each pattern has its source.

Imports nothing of graphmp and no TensorFlow, so that tools can use this file without them.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Tuple

YES, NO, IF_REDUCED = (
    "yes",
    "no",
    "if reduced",
)  # the last: depends on the dtype of its operands, which its name doesn't tell

_TENSORFLOW = "tensorflow/tensorflow, core/profiler/utils/kernel_stats_utils.cc"
_PYPROF = "NVIDIA/PyProf, pyprof/prof/tc.py"
_CUTLASS = (
    "NVIDIA/cutlass, media/docs/cpp/functionality.md: opcode classes, and issue 981: the"
    " instruction's shape"
)


class KernelPattern(NamedTuple):
    """A regular expression to search for in a kernel's name.

    Attributes:
        expression: the expression, case-insensitive.
        verdict: YES, NO or IF_REDUCED.
        example: a matching name, from public reports.
        source: of the verdict.
    """

    expression: str
    verdict: str
    example: str
    source: str


# The first match decides; kernels without a match run on CUDA cores.
PATTERNS: Tuple[KernelPattern, ...] = (
    KernelPattern(
        "init_device_workspace",
        NO,
        "void cask_plugin__5x_cudnn::xmma__5x_cudnn::init_device_workspace_kernel<"
        "xmma__5x_cudnn::implicit_gemm::wgrad_indexed::Params>",
        "seen on an H200 with cuDNN 9: it clears what xmma's kernels add up in",
    ),
    KernelPattern("simt", NO, "cutlass_80_simt_sgemm_256x128_8x4_nt_align1", _CUTLASS),
    KernelPattern(
        # xmma's library, but plain multiply-adds; profilers may truncate the name
        r"ffma|xmma_\w*_f32f32_f32f32_f32",
        NO,
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4"
        "_alignc4_execute_kernel__5x_cublas",
        "public Nsight Systems reports of float32 training; float32 products take it where TF32"
        " is off",
    ),
    KernelPattern(
        "[his]884",
        YES,
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        _TENSORFLOW + "; NVIDIA/DeepLearningExamples issue 32",
    ),
    KernelPattern(
        "[hisc]1688",
        YES,
        "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_f2f_exp_small_nhwc_tn_v1",
        _TENSORFLOW,
    ),
    KernelPattern(
        "16816|16832|i8816|161616",
        YES,
        "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x3_nn",
        _TENSORFLOW + "; " + _CUTLASS,
    ),
    KernelPattern(
        "hmma|imma|wgmma|gmma",
        YES,
        "Volta_hmma_implicit_gemm_fprop_fp32_nhwc_128x128x64x1_1x3x3x0x1",
        _TENSORFLOW,
    ),
    KernelPattern(
        "tensorop", YES, "cutlass_tensorop_f16_s16816gemm_f16_256x128_32x3_nn_align8", _CUTLASS
    ),
    KernelPattern(
        "xmma_",
        YES,
        "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment"
        "_k_off_kernel__5x_cublas",
        _TENSORFLOW + "; NVIDIA/TensorRT-LLM issue 1541",
    ),
    KernelPattern(
        "nvjet_",
        YES,
        "nvjet_hsh_256x128_64x4_2x1_v_bz_TNN",
        "cuBLAS since Hopper: GindaChen/nsys-ai pull request 582",
    ),
    KernelPattern(
        "dgrad_1x1_stride_2x2|first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1|direct_group",
        YES,
        "first_layer_wgrad_kernel",
        _PYPROF,
    ),  # of cuDNN
    KernelPattern(
        "gemm_fusion|triton_gemm",
        IF_REDUCED,
        "gemm_fusion_dot_234",
        "openxla/xla: its matmuls by Triton, named after their HLO fusion",
    ),
)
_COMPILED = tuple(
    (re.compile(pattern.expression, re.IGNORECASE), pattern.verdict) for pattern in PATTERNS
)


def uses_tensor_cores(kernel: str, reduced: bool) -> bool:
    """Whether a kernel multiplies on Tensor Cores.

    Args:
        kernel: its name, demangled or not.
        reduced: whether its operands are float16, bfloat16 or TF32; used if its name doesn't tell.
    """
    verdict = next((verdict for expression, verdict in _COMPILED if expression.search(kernel)), NO)
    return verdict == YES or (verdict == IF_REDUCED and reduced)
