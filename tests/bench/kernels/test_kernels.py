"""Kernels on Tensor Cores: names, profiles, verdicts.

No profile here is a recording of ours. The kernels' names are taken from public reports, which
NAMES cites; they were arranged by hand into RunMetadata and traces of the forms that TensorFlow's
own code writes: 1.15 in core/profiler/internal/gpu/device_tracer.cc, 2.x in
core/profiler/convert/xplane_to_step_stats.cc.
"""

import runpy

import pytest
import tensorflow.compat.v1 as tf

from graphmp.bench.kernels import names
from graphmp.bench.kernels.names import PATTERNS, uses_tensor_cores
from graphmp.bench.kernels.products import ALL_ON, NOTHING_SEEN, SOME_OFF, judged, text, verify
from graphmp.bench.kernels.profile import kernels_of_run

S884 = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
SGEMM = "volta_fp16_sgemm_fp16_32x32_sliced1x4_nn"
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
XMMA_CONV = (
    "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize256x64x32_"
    "stage3_warpsize4x1x1_g1_tensor16x8x16_execute_kernel__5x_cudnn"
)
TRANSPOSE = (
    "void nchwToNhwcKernel<__half, __half, float, true, true, (cudnnKernelDataType_t)0>(int, int,"
    " int, int)"
)
# Name, whether it multiplies on Tensor Cores, who reports it so.
NAMES = [
    (
        S884,
        True,
        "NVIDIA's mixed-precision guides; NVIDIA/DeepLearningExamples issue 32 on the s884 in it",
    ),
    (
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",
        True,
        "tensorflow/tensorflow core/profiler/convert/xplane_to_kernel_stats_db_test.cc",
    ),
    (
        "volta_fp16_s884cudnn_fp16_128x128_ldg8_splitK_relu_f2f_exp_small_nhwc_tn_v1",
        True,
        "pytorch/kineto, test data of tb_plugin",
    ),
    (
        "volta_h884gemm_256x64_ldg8_nn",
        True,
        "the form volta_h884gemm: tensorflow/tensorflow core/profiler/utils/kernel_stats_utils.cc",
    ),
    (
        "turing_fp16_s1688cudnn_fp16",
        True,
        "tensorflow/tensorflow core/profiler/utils/kernel_stats_utils.cc",
    ),
    (
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4>(cutlass_80_tensorop_s1688gemm)"
        ),
        True,
        "JAX on A100, TF32",
    ),
    (
        "cutlass_tensorop_f16_s16816gemm_f16_256x128_32x3_nn_align8",
        True,
        "NVIDIA/cutlass issue 981",
    ),
    (
        "cutlass_80_tensorop_i16832gemm_s8_128x64_128x3_tn_align16",
        True,
        "int8 on A100, Nsight Compute",
    ),
    (
        "Volta_hmma_implicit_gemm_fprop_fp32_nhwc_128x128x64x1_1x3x3x0x1",
        True,
        "PyTorch's autocast on V100, nvprof",
    ),
    (XMMA_CONV, True, "PyTorch with cuDNN on A100, Nsight Systems"),
    (
        "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
        True,
        "NVIDIA/TensorRT-LLM issue 1541",
    ),
    (
        "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize2x1x1",
        True,
        "TF32 by cublasGemmEx on H100",
    ),
    ("nvjet_hsh_256x128_64x4_2x1_v_bz_TNN", True, "GindaChen/nsys-ai pull request 582"),
    (SGEMM, False, "NVIDIA/OpenSeq2Seq issue 270: float16 that ran without Tensor Cores"),
    (FFMA, False, "float32 on H100, Nsight Systems"),
    (
        "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8",
        False,
        "the same, cut by a profiler",
    ),
    (
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(T1::Params)",
        False,
        "float32 on H100, Nsight Systems",
    ),
    ("volta_sgemm_64x64_nt", False, "aoberai/chess-engine, a kernel_stats.pb"),
    (
        "volta_scudnn_128x64_stridedB_splitK_interior_nn_v1",
        False,
        "mholmeslinder/semi-supervised-cv, a kernel_stats.pb",
    ),
    (TRANSPOSE, False, "pytorch/pytorch issue 54324"),
    (
        (
            "void cudnn::detail::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int, int,"
            " int, float const*, int)"
        ),
        False,
        "the same kernel_stats.pb",
    ),
]
DETAILS = {
    "1.15": "%s regs:122 shm:32768 grid:4,1,1 block:256,1,1@@%s#id=7#",
    "2.x": "%s regs:122 static_shared:32768 dynamic_shared:0 grid:4,1,1 block:256,1,1 occ_pct:25",
    "2.x, lines": (
        "%s regs:122\nstatic_shared:32768\ndynamic_shared:0\ngrid:4,1,1\nblock:256,1,1\nocc_pct:25"
    ),
}


@pytest.mark.unit
@pytest.mark.parametrize("name, on, source", NAMES, ids=[name[:40] for name, _, _ in NAMES])
def test_a_kernel_is_known_by_its_name(name, on, source):
    assert uses_tensor_cores(name, reduced=True) == on, source


@pytest.mark.unit
@pytest.mark.parametrize("pattern", PATTERNS, ids=[pattern.expression for pattern in PATTERNS])
def test_each_pattern_decides_on_its_own_example(pattern):
    assert uses_tensor_cores(pattern.example, reduced=True) == (pattern.verdict != names.NO)
    assert uses_tensor_cores(pattern.example, reduced=False) == (pattern.verdict == names.YES)
    assert pattern.source


@pytest.mark.unit
def test_the_table_needs_neither_tensorflow_nor_graphmp():
    loaded = runpy.run_path(names.__file__)
    assert loaded["uses_tensor_cores"](S884, False)


def recorded(entries, form="2.x", shapes=()):
    """A RunMetadata by hand: (node, op, kernel, microseconds) on a GPU's streams.

    (node, dimensions) of what its nodes gave.
    """
    run_metadata = tf.RunMetadata()
    ran = run_metadata.step_stats.dev_stats.add(
        device="/job:localhost/replica:0/task:0/device:GPU:0"
    )
    for node, dimensions in shapes:
        tensor = ran.node_stats.add(node_name=node).output.add(slot=0).tensor_description
        tensor.shape.CopyFrom(tf.TensorShape(dimensions).as_proto())
    for device in ("/device:GPU:0/stream:14", "/device:GPU:0/stream:all"):
        stream = run_metadata.step_stats.dev_stats.add(device=device)
        for node, op, kernel, microseconds in entries:
            full_name = "%s:%s" % (node, op)
            label = DETAILS[form] % ((kernel, full_name) if "@@" in DETAILS[form] else kernel)
            stream.node_stats.add(
                node_name=full_name, timeline_label=label, op_end_rel_micros=microseconds
            )
    copies = run_metadata.step_stats.dev_stats.add(device="/device:GPU:0/memcpy")
    copies.node_stats.add(node_name="edge_5_x", timeline_label="MemcpyH2D size:8 dest:0 async:0")
    return run_metadata


def net(dtype=tf.float16, units=10):
    """x -> dense, 30 rows of 64 by 64 x units, and a convolution; batch sizes unknown."""
    with tf.Graph().as_default() as graph:
        x, image = (
            tf.placeholder(dtype, [None, 64], "x"),
            tf.placeholder(dtype, [None, 8, 8, 3], "image"),
        )
        bias = tf.matmul(x, tf.ones([64, units], dtype), name="dense/MatMul")
        tf.nn.relu(
            tf.nn.bias_add(bias, tf.ones([units], dtype), name="dense/BiasAdd"), name="dense/Relu"
        )
        tf.nn.conv2d(image, tf.ones([3, 3, 3, 16], dtype), 1, "SAME", name="conv/Conv2D")
        return graph.as_graph_def()


@pytest.mark.unit
@pytest.mark.parametrize("form", sorted(DETAILS))
def test_kernels_come_with_their_nodes(form):
    found = kernels_of_run(
        recorded(
            [("dense/MatMul", "MatMul", S884, 30), ("conv/Conv2D", "Conv2D", TRANSPOSE, 4)], form
        )
    )
    assert found == {
        "dense/MatMul": [(S884, "MatMul", 30.0)],
        "conv/Conv2D": [(TRANSPOSE, "Conv2D", 4.0)],
    }


@pytest.mark.unit
def test_all_on_tensor_cores():
    graph_def = net(units=16)
    verdict = verify(
        graph_def,
        recorded(
            [
                ("conv/Conv2D", "Conv2D", XMMA_CONV, 90),
                ("conv/Conv2D", "Conv2D", TRANSPOSE, 9),
                ("dense/MatMul", "MatMul", S884, 30),
            ]
        ),
    )
    assert [
        (row.node, row.op, row.kernels, row.tensor_core, row.advice) for row in verdict.rows
    ] == [
        ("conv/Conv2D", "Conv2D", (XMMA_CONV, TRANSPOSE), True, ""),
        ("dense/MatMul", "MatMul", (S884,), True, ""),
    ]
    assert (
        verdict.rows[1].shape == "?x64 * 64x16"
        and verdict.rows[1].dtype == "float16"
        and verdict.rows[0].microseconds == 99
    )
    assert verdict.exit_status == ALL_ON
    assert (
        text(verdict)
        == "tensor cores: 2 of 2 matmuls and convolutions that ran, 100.0% of their time\n"
    )


@pytest.mark.unit
def test_what_did_not_run_there_gets_advice_by_the_shapes_of_the_step():
    graph_def = net()
    verdict = verify(
        graph_def,
        recorded(
            [("dense/MatMul", "MatMul", SGEMM, 30), ("conv/Conv2D", "Conv2D", XMMA_CONV, 90)],
            shapes=[("x", [30, 64])],
        ),
    )
    row = verdict.rows[1]
    assert (row.shape, row.tensor_core) == ("30x64 * 64x10", False)
    assert row.advice == "make M 32 of 30, N 16 of 10"
    assert verdict.exit_status == SOME_OFF
    assert text(verdict).splitlines() == [
        "tensor cores: 1 of 2 matmuls and convolutions that ran, 75.0% of their time",
        "  not: dense/MatMul  float16 MatMul  30x64 * 64x10  %s; make M 32 of 30, N 16 of 10"
        % SGEMM,
    ]


@pytest.mark.unit
def test_gradients_of_convolutions_get_their_layers_advice():
    with tf.Graph().as_default() as graph:
        image, filters = (
            tf.placeholder(tf.float16, [8, 8, 8, 3], "image"),
            tf.placeholder(tf.float16, [3, 3, 3, 12], "filters"),
        )
        tf.gradients(tf.nn.conv2d(image, filters, 1, "SAME", name="conv/Conv2D"), [filters])
        graph_def = graph.as_graph_def()
    node = "gradients/conv/Conv2D_grad/Conv2DBackpropFilter"
    row = verify(
        graph_def,
        recorded(
            [
                (
                    node,
                    "Conv2DBackpropFilter",
                    "volta_scudnn_128x64_stridedB_splitK_interior_nn_v1",
                    5,
                )
            ]
        ),
    ).rows[0]
    assert (row.node, row.shape) == (node, "8x8x8x3 * 8x8x8x12")
    assert row.advice == "make input channels 8 of 3, output channels 16 of 12"


@pytest.mark.unit
def test_a_fused_product_is_found_under_the_last_node():
    verdict = verify(net(units=16), recorded([("dense/Relu", "_FusedMatMul", S884, 30)]))
    assert [(row.node, row.kernels) for row in verdict.rows if row.tensor_core] == [
        ("dense/MatMul", (S884,))
    ]
    assert verdict.exit_status == ALL_ON
    assert (
        text(verdict).splitlines()[-1]
        == "  not in the profile: 1 others, folded, or not run in this step"
    )


@pytest.mark.unit
def test_float32_is_said():
    verdict = verify(net(tf.float32), recorded([("dense/MatMul", "MatMul", FFMA, 30)]))
    assert verdict.rows[0].advice == "it computes in float32: `graphmp explain` says why"
    assert verdict.exit_status == SOME_OFF


@pytest.mark.unit
def test_float32_kernels_beside_half_ones_are_not_held_against_it():
    kernels = kernels_of_run(
        recorded([("dense/MatMul", "MatMul", S884, 30), ("f/MatMul", "MatMul", FFMA, 10)])
    )
    graph_def = net(units=16)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        tf.matmul(
            tf.placeholder(tf.float32, [8, 8]), tf.placeholder(tf.float32, [8, 8]), name="f/MatMul"
        )
        assert judged(graph.as_graph_def(), kernels).exit_status == ALL_ON


def test_a_profile_of_a_cpu_shows_nothing():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        product = tf.matmul(tf.ones([8, 8]), tf.ones([8, 8]))
        run_metadata = tf.RunMetadata()
        session.run(
            product,
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=run_metadata,
        )
        verdict = verify(graph.as_graph_def(), run_metadata)
    assert verdict.exit_status == NOTHING_SEEN
    assert (
        text(verdict)
        == "tensor cores: the profile shows no GPU kernel of 1 matmuls and convolutions\n"
    )
