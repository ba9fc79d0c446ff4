"""The table of how factors pass through ops, measured.

Each op that has a CPU kernel runs on inputs, and on the same inputs times powers of two.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.policy import homogeneity, tables, traits
from graphmp.policy.dtypes import COMPLEX, FLOATS, VARIANT
from graphmp.tf_hooks import internals

TF2 = tf.__version__ > "2"
RANDOM = np.random.RandomState(0)
FACTOR = 16.0  # a fourth power: its root is a power of two as well
RAW = tf.raw_ops


def positive(*shape):
    return RANDOM.uniform(0.5, 1.5, shape).astype(np.float32)


def normal(*shape):
    return np.asarray(RANDOM.randn(*shape), np.float32)


def symmetric(size):
    half = normal(size, size)
    return half @ half.T + size * np.eye(size, dtype=np.float32)


def ints(*values, dtype=np.int32):
    return np.array(values, dtype)


def longs(*values):
    return ints(*values, dtype=np.int64)


def complexes(*shape):
    return (normal(*shape) + 1j * normal(*shape)).astype(np.complex64)


IDS, NHWC, NDHWC = ints(0, 0, 2), (1, 4, 4, 2), (1, 4, 4, 4, 2)
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
POOL_V2 = {"ksize": ints(1, 2, 2, 1), "strides": ints(1, 2, 2, 1), "padding": "VALID"}
POOL3D = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "VALID"}
CONV = {"strides": [1, 1, 1, 1], "padding": "SAME"}
CONV3D = {"strides": [1, 1, 1, 1, 1], "padding": "SAME"}
ERODE = {**CONV, "rates": [1, 1, 1, 1], "filter": (2, 2, 2)}
SPARSE = {"indices": longs([0, 0], [1, 1], [2, 0]), "values": (3,), "shape": longs(3, 3)}
INPUT = {"input_indices": SPARSE["indices"], "input_values": (3,), "input_shape": SPARSE["shape"]}
TWO_SPARSE = {letter + "_" + name: value for letter in "ab" for name, value in SPARSE.items()}
SP = {
    "sp_indices": SPARSE["indices"],
    "sp_values": (3,),
    "sp_shape": SPARSE["shape"],
    "dense": positive(3, 3),
}
SEGMENTS = {"data": (3, 2), "segment_ids": IDS}
ROWS = {"data": (3, 2), "indices": ints(0, 1, 2), "segment_ids": IDS}
SEGMENT_GRADS = {"grad": (3, 2), "indices": ints(0, 1, 2), "segment_ids": IDS}
SCATTER = {"tensor": (4, 2), "indices": ints([0], [2]), "updates": (2, 2)}
SLICE = {"begin": ints(0), "end": ints(2), "strides": ints(1)}
BLOCKS = {"block_shape": ints(2, 2)}
BOXES = np.array([[0.1, 0.1, 0.8, 0.9]], np.float32)
CROP = {"boxes": BOXES, "box_ind": ints(0)}
NORM = {
    "y_backprop": NHWC,
    "x": NHWC,
    "scale": (2,),
    "reserve_space_1": (2,),
    "reserve_space_2": positive(2),
}
CELL = dict.fromkeys(
    ("cs_prev", "h_prev", "i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad"), (2, 3)
)
PEEP = {"wci": (3,), "wcf": (3,), "wco": (3,), "b": (12,), "w": (5, 12), "use_peephole": False}
SEQUENCE = {
    **dict.fromkeys(("i", "cs", "f", "o", "ci", "co", "h", "cs_grad", "h_grad"), (1, 2, 3)),
    "cs_prev": (2, 3),
    "h_prev": (2, 3),
}
QUANTISED = {"gradients": (3, 4), "inputs": (3, 4)}
DIAGONAL = {"k": ints(0), "padding_value": np.float32(0)}
FIELDS = {"row_pooling_sequence": longs(0, 2, 4), "col_pooling_sequence": longs(0, 2, 4)}

# What an op takes besides random matrices: shapes of floating point inputs, values of others and of
# attributes.
WITH = {
    "AccumulateNV2": {"shape": [4, 4]},
    "AvgPool": {"value": NHWC, **POOL},
    "AvgPool3D": {"input": NDHWC, **POOL3D},
    "AvgPool3DGrad": {"orig_input_shape": ints(*NDHWC), "grad": (1, 2, 2, 2, 2), **POOL3D},
    "AvgPoolGrad": {"orig_input_shape": ints(*NHWC), "grad": (1, 2, 2, 2), **POOL},
    "BandedTriangularSolve": {"matrix": positive(2, 3), "rhs": (3, 2)},
    "BatchMatMulV3": {"Tout": tf.float32},
    "BatchToSpace": {"input": (4, 1, 1, 2), "crops": ints([0, 0], [0, 0]), "block_size": 2},
    "BatchToSpaceND": {"input": (4, 1, 1, 2), "crops": ints([0, 0], [0, 0]), **BLOCKS},
    "BiasAdd": {"bias": (4,)},
    "BiasAddV1": {"bias": (4,)},
    "BlockLSTMGrad": {"seq_len_max": np.int64(1), "x": (1, 2, 2), **PEEP, **SEQUENCE},
    "BlockLSTMGradV2": {"seq_len_max": np.int64(1), "x": (1, 2, 2), **PEEP, **SEQUENCE},
    "BroadcastTo": {"input": (1, 4), "shape": ints(3, 4)},
    "Cast": {"DstT": tf.float64},
    "CheckNumerics": {"message": ""},
    "CheckNumericsV2": {"message": ""},
    "Cholesky": {"input": symmetric(3)},
    "CholeskyGrad": {"l": np.linalg.cholesky(symmetric(3)), "grad": (3, 3)},
    "Concat": {"concat_dim": np.int32(0)},
    "ConcatV2": {"axis": np.int32(0)},
    "ConjugateTranspose": {"perm": ints(1, 0)},
    "Conv2D": {"input": NHWC, "filter": (2, 2, 2, 3), **CONV},
    "Conv2DBackpropFilter": {
        "input": NHWC,
        "filter_sizes": ints(2, 2, 2, 3),
        "out_backprop": (1, 4, 4, 3),
        **CONV,
    },
    "Conv2DBackpropInput": {
        "input_sizes": ints(*NHWC),
        "filter": (2, 2, 2, 3),
        "out_backprop": (1, 4, 4, 3),
        **CONV,
    },
    "Conv3D": {"input": NDHWC, "filter": (2, 2, 2, 2, 3), **CONV3D},
    "Conv3DBackpropFilterV2": {
        "input": NDHWC,
        "filter_sizes": ints(2, 2, 2, 2, 3),
        "out_backprop": (1, 4, 4, 4, 3),
        **CONV3D,
    },
    "Conv3DBackpropInputV2": {
        "input_sizes": ints(*NDHWC),
        "filter": (2, 2, 2, 2, 3),
        "out_backprop": (1, 4, 4, 4, 3),
        **CONV3D,
    },
    "CropAndResize": {"image": NHWC, "crop_size": ints(2, 2), **CROP},
    "CropAndResizeGradBoxes": {"grads": (1, 2, 2, 2), "image": NHWC, **CROP},
    "CropAndResizeGradImage": {
        "grads": (1, 2, 2, 2),
        "image_size": ints(*NHWC),
        "T": tf.float32,
        **CROP,
    },
    "Cross": {"a": (2, 3), "b": (2, 3)},
    "DepthToSpace": {"input": (1, 2, 2, 4), "block_size": 2},
    "DepthwiseConv2dNative": {"input": NHWC, "filter": (2, 2, 2, 1), **CONV},
    "DepthwiseConv2dNativeBackpropFilter": {
        "input": NHWC,
        "filter_sizes": ints(2, 2, 2, 1),
        "out_backprop": NHWC,
        **CONV,
    },
    "DepthwiseConv2dNativeBackpropInput": {
        "input_sizes": ints(*NHWC),
        "filter": (2, 2, 2, 1),
        "out_backprop": NHWC,
        **CONV,
    },
    "Dilation2D": {"input": NHWC, **ERODE},
    "Dilation2DBackpropFilter": {"input": NHWC, "out_backprop": NHWC, **ERODE},
    "Dilation2DBackpropInput": {"input": NHWC, "out_backprop": NHWC, **ERODE},
    "DynamicPartition": {"data": (3, 2), "partitions": ints(0, 1, 0), "num_partitions": 2},
    "DynamicStitch": {"indices": [ints(0, 1), ints(2, 3)], "data": [(2, 2), (2, 2)]},
    "Einsum": {"equation": "ij,jk->ik"},
    "EnsureShape": {"shape": [4, 4]},
    "ExpandDims": {"dim": np.int32(0)},
    "ExtractImagePatches": {
        "images": NHWC,
        "ksizes": [1, 2, 2, 1],
        "strides": [1, 1, 1, 1],
        "rates": [1, 1, 1, 1],
        "padding": "SAME",
    },
    "ExtractVolumePatches": {
        "input": NDHWC,
        "ksizes": [1, 2, 2, 2, 1],
        "strides": [1, 1, 1, 1, 1],
        "padding": "SAME",
    },
    "FakeQuantWithMinMaxVarsGradient": {**QUANTISED, "min": np.float32(-1), "max": np.float32(1)},
    "FakeQuantWithMinMaxVarsPerChannelGradient": {
        **QUANTISED,
        "min": -positive(4),
        "max": positive(4),
    },
    "Fill": {"dims": ints(2, 2), "value": ()},
    "FractionalAvgPool": {
        "value": NHWC,
        "pooling_ratio": [1.0, 1.5, 1.5, 1.0],
        "deterministic": True,
        "seed": 1,
        "seed2": 1,
    },
    "FractionalMaxPool": {
        "value": NHWC,
        "pooling_ratio": [1.0, 1.5, 1.5, 1.0],
        "deterministic": True,
        "seed": 1,
        "seed2": 1,
    },
    "FractionalMaxPoolGrad": {
        "orig_input": NHWC,
        "orig_output": (1, 2, 2, 2),
        "out_backprop": (1, 2, 2, 2),
        **FIELDS,
    },
    "FractionalAvgPoolGrad": {
        "orig_input_tensor_shape": longs(*NHWC),
        "out_backprop": (1, 2, 2, 2),
        **FIELDS,
    },
    "FusedBatchNormGrad": NORM,
    "FusedBatchNormGradV2": NORM,
    "FusedBatchNormGradV3": {**NORM, "reserve_space_3": positive(2)},
    "GRUBlockCellGrad": {
        **dict.fromkeys(("x", "h_prev", "r", "u", "c", "d_h"), (2, 3)),
        "w_ru": (6, 6),
        "w_c": (6, 3),
        "b_ru": (6,),
        "b_c": (3,),
    },
    "Gather": {"indices": ints(2, 0)},
    "GatherNd": {"indices": ints([2], [0])},
    "GatherV2": {"indices": ints(2, 0), "axis": np.int32(0)},
    "IRFFT": {"fft_length": ints(4)},
    "IRFFT2D": {"fft_length": ints(4, 4)},
    "IRFFT3D": {"input": (2, 4, 4), "fft_length": ints(2, 4, 4)},
    "InTopK": {"targets": ints(0, 1, 2, 3), "k": 2},
    "InTopKV2": {"targets": ints(0, 1, 2, 3), "k": np.int32(2)},
    "LRNGrad": dict.fromkeys(("input_grads", "input_image", "output_image"), NHWC),
    "LSTMBlockCellGrad": {"x": (2, 2), **PEEP, **CELL},
    "LinSpace": {"start": (), "stop": (), "num": np.int32(5)},
    "LowerBound": {"sorted_inputs": np.sort(normal(2, 5)), "values": (2, 3)},
    "UpperBound": {"sorted_inputs": np.sort(normal(2, 5)), "values": (2, 3)},
    "MatrixBandPart": {"num_lower": np.int64(1), "num_upper": np.int64(0)},
    "MatrixDiagPartV2": DIAGONAL,
    "MatrixDiagPartV3": DIAGONAL,
    "MatrixDiagV2": {"num_rows": np.int32(4), "num_cols": np.int32(4), **DIAGONAL},
    "MatrixDiagV3": {"num_rows": np.int32(4), "num_cols": np.int32(4), **DIAGONAL},
    "MatrixInverse": {"input": symmetric(4)},
    "MatrixSetDiag": {"diagonal": (4,)},
    "MatrixSetDiagV2": {"diagonal": (4,), "k": ints(0)},
    "MatrixSetDiagV3": {"diagonal": (4,), "k": ints(0)},
    "MatrixSolve": {"matrix": symmetric(4)},
    "MatrixTriangularSolve": {"matrix": symmetric(4)},
    "MaxPool": {"input": NHWC, **POOL},
    "MaxPool3D": {"input": NDHWC, **POOL3D},
    "MaxPool3DGrad": {
        "orig_input": NDHWC,
        "orig_output": (1, 2, 2, 2, 2),
        "grad": (1, 2, 2, 2, 2),
        **POOL3D,
    },
    "MaxPool3DGradGrad": {
        "orig_input": NDHWC,
        "orig_output": (1, 2, 2, 2, 2),
        "grad": NDHWC,
        **POOL3D,
    },
    "MaxPoolGrad": {"orig_input": NHWC, "orig_output": (1, 2, 2, 2), "grad": (1, 2, 2, 2), **POOL},
    "MaxPoolGradGrad": {"orig_input": NHWC, "orig_output": (1, 2, 2, 2), "grad": NHWC, **POOL},
    "MaxPoolGradV2": {
        "orig_input": NHWC,
        "orig_output": (1, 2, 2, 2),
        "grad": (1, 2, 2, 2),
        **POOL_V2,
    },
    "MaxPoolGradGradV2": {"orig_input": NHWC, "orig_output": (1, 2, 2, 2), "grad": NHWC, **POOL_V2},
    "MaxPoolV2": {"input": NHWC, **POOL_V2},
    "MaxPoolWithArgmax": {"input": NHWC, **POOL},
    "MaxPoolGradWithArgmax": {
        "input": NHWC,
        "grad": (1, 2, 2, 2),
        "argmax": longs(*range(8)).reshape(1, 2, 2, 2),
        **POOL,
    },
    "MirrorPad": {"paddings": ints([1, 0], [0, 1]), "mode": "REFLECT"},
    "MirrorPadGrad": {"paddings": ints([1, 0], [0, 1]), "mode": "REFLECT"},
    "NthElement": {"n": np.int32(1)},
    "OneHot": {"indices": ints(0, 2), "depth": np.int32(3), "on_value": (), "off_value": ()},
    "Pad": {"paddings": ints([1, 0], [0, 1])},
    "PadV2": {"paddings": ints([1, 0], [0, 1]), "constant_values": ()},
    "ParallelConcat": {"values": [(1, 2), (1, 2)], "shape": [2, 2]},
    "ParallelDynamicStitch": {"indices": [ints(0, 1), ints(2, 3)], "data": [(2, 2), (2, 2)]},
    "PlaceholderWithDefault": {"shape": [4, 4]},
    "Print": {"data": []},
    "QuantizeAndDequantizeV4Grad": {"input_min": np.float32(-1), "input_max": np.float32(1)},
    "RFFT": {"fft_length": ints(4)},
    "RFFT2D": {"fft_length": ints(4, 4)},
    "RFFT3D": {"input": (2, 4, 4), "fft_length": ints(2, 4, 4)},
    "RaggedFillEmptyRowsGrad": {"reverse_index_map": longs(0, 2), "grad_values": (3,)},
    "Reshape": {"shape": ints(2, 8)},
    "ResizeArea": {"images": NHWC, "size": ints(3, 5)},
    "ResizeBicubic": {"images": NHWC, "size": ints(3, 5)},
    "ResizeBicubicGrad": {"grads": (1, 3, 5, 2), "original_image": NHWC},
    "ResizeBilinear": {"images": NHWC, "size": ints(3, 5)},
    "ResizeBilinearGrad": {"grads": (1, 3, 5, 2), "original_image": NHWC},
    "ResizeNearestNeighbor": {"images": NHWC, "size": ints(3, 5)},
    "ResizeNearestNeighborGrad": {"grads": (1, 3, 5, 2), "size": ints(4, 4)},
    "Reverse": {"dims": np.array([True, False])},
    "ReverseSequence": {"seq_lengths": ints(1, 2, 3, 4), "seq_dim": 1},
    "ReverseV2": {"axis": ints(0)},
    "Roll": {"shift": ints(1), "axis": ints(0)},
    "Rsqrt": {"x": positive(4, 4)},
    "ScaleAndTranslate": {
        "images": NHWC,
        "size": ints(3, 5),
        "scale": np.ones(2, np.float32),
        "translation": np.zeros(2, np.float32),
    },
    "ScaleAndTranslateGrad": {
        "grads": (1, 3, 5, 2),
        "original_image": NHWC,
        "scale": np.ones(2, np.float32),
        "translation": np.zeros(2, np.float32),
    },
    "ScatterNd": {"indices": ints([0], [2]), "updates": (2, 2), "shape": ints(4, 2)},
    "ScatterNdNonAliasingAdd": {"input": (4, 2), "indices": ints([0], [2]), "updates": (2, 2)},
    "SegmentMax": SEGMENTS,
    "SegmentMean": SEGMENTS,
    "SegmentMin": SEGMENTS,
    "SegmentSum": SEGMENTS,
    **{
        op: {**SEGMENTS, "num_segments": np.int32(4)}
        for op in ("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin")
    },
    "Select": {"condition": normal(4, 4) > 0},
    "SelectV2": {"condition": normal(4, 4) > 0},
    "SelfAdjointEigV2": {"input": symmetric(4)},
    "Slice": {"begin": ints(0, 1), "size": ints(2, 2)},
    "SpaceToBatch": {"input": NHWC, "paddings": ints([0, 0], [0, 0]), "block_size": 2},
    "SpaceToBatchND": {"input": NHWC, "paddings": ints([0, 0], [0, 0]), **BLOCKS},
    "SpaceToDepth": {"input": NHWC, "block_size": 2},
    "SparseAdd": {**TWO_SPARSE, "thresh": np.float32(0)},
    "SparseAddGrad": {
        "backprop_val_grad": (3,),
        **{letter + "_indices": SPARSE["indices"] for letter in "ab"},
        "sum_indices": SPARSE["indices"],
    },
    "SparseConcat": {
        "indices": [SPARSE["indices"]] * 2,
        "values": [(3,)] * 2,
        "shapes": [SPARSE["shape"]] * 2,
        "concat_dim": 0,
    },
    "SparseDenseCwiseAdd": SP,
    "SparseDenseCwiseDiv": SP,
    "SparseDenseCwiseMul": SP,
    "SparseFillEmptyRows": {
        "indices": longs([0, 0], [2, 0]),
        "values": (2,),
        "dense_shape": longs(3, 3),
        "default_value": (),
    },
    "SparseFillEmptyRowsGrad": {"reverse_index_map": longs(0, 2), "grad_values": (3,)},
    "SparseReduceMax": {**INPUT, "reduction_axes": ints(0)},
    "SparseReduceMaxSparse": {**INPUT, "reduction_axes": ints(0)},
    "SparseReduceSum": {**INPUT, "reduction_axes": ints(0)},
    "SparseReduceSumSparse": {**INPUT, "reduction_axes": ints(0)},
    "SparseReorder": INPUT,
    **{"SparseSegment%s" % word: ROWS for word in ("Mean", "SqrtN", "Sum")},
    **{
        "SparseSegment%sWithNumSegments" % word: {**ROWS, "num_segments": np.int32(4)}
        for word in ("Mean", "SqrtN", "Sum")
    },
    **{
        "SparseSegment%sGrad" % word: {**SEGMENT_GRADS, "output_dim0": np.int32(4)}
        for word in ("Mean", "SqrtN", "Sum")
    },
    **{
        "SparseSegment%sGradV2" % word: {**SEGMENT_GRADS, "dense_output_dim0": np.int32(4)}
        for word in ("Mean", "SqrtN", "Sum")
    },
    "SparseSlice": {**SPARSE, "start": longs(0, 0), "size": longs(2, 2)},
    "SparseSliceGrad": {
        "backprop_val_grad": (2,),
        "input_indices": SPARSE["indices"],
        "input_start": longs(0, 0),
        "output_indices": longs([0, 0], [1, 1]),
    },
    "SparseSparseMaximum": TWO_SPARSE,
    "SparseSparseMinimum": TWO_SPARSE,
    "SparseSplit": {"split_dim": np.int64(0), **SPARSE, "num_split": 3},
    "SparseTensorDenseAdd": {
        "a_indices": SPARSE["indices"],
        "a_values": (3,),
        "a_shape": SPARSE["shape"],
        "b": (3, 3),
    },
    "SparseTensorDenseMatMul": {
        "a_indices": SPARSE["indices"],
        "a_values": (3,),
        "a_shape": SPARSE["shape"],
        "b": (3, 3),
    },
    "SparseToDense": {
        "sparse_indices": ints(0, 2),
        "output_shape": ints(4),
        "sparse_values": (2,),
        "default_value": (),
    },
    "Split": {"split_dim": np.int32(0), "num_split": 2},
    "SplitV": {"size_splits": ints(1, 3), "split_dim": np.int32(0), "num_split": 2},
    "Sqrt": {"x": positive(4, 4)},
    "Squeeze": {"input": (4, 1)},
    "StridedSlice": SLICE,
    "StridedSliceGrad": {"shape": ints(4), **SLICE, "dy": (2,)},
    "TensorScatterAdd": SCATTER,
    "TensorScatterMax": SCATTER,
    "TensorScatterMin": SCATTER,
    "TensorScatterSub": SCATTER,
    "TensorScatterUpdate": SCATTER,
    "TensorStridedSliceUpdate": {
        "begin": ints(0, 0),
        "end": ints(2, 4),
        "strides": ints(1, 1),
        "value": (2, 4),
    },
    "Tile": {"multiples": ints(2, 1)},
    "TopKV2": {"k": np.int32(2)},
    "Transpose": {"perm": ints(1, 0)},
    "TridiagonalMatMul": {
        "superdiag": (1, 4),
        "maindiag": (1, 4),
        "subdiag": (1, 4),
        "rhs": (4, 2),
    },
    "TridiagonalSolve": {"diagonals": positive(3, 4), "rhs": (4, 2)},
    "Unique": {"x": (4,)},
    "UniqueV2": {"axis": longs(0)},
    "UniqueWithCounts": {"x": (4,)},
    "UniqueWithCountsV2": {"axis": longs(0)},
    "Unpack": {"num": 4},
    "Cumsum": {"axis": np.int32(0)},
    **{op: {"reduction_indices": ints(0)} for op in ("EuclideanNorm", "Max", "Mean", "Min", "Sum")},
    **{op: {"dimension": np.int32(0)} for op in ("ArgMax", "ArgMin")},
    **{op: {"i": ints(0, 1), "v": (2, 4)} for op in ("InplaceAdd", "InplaceSub", "InplaceUpdate")},
}

# Arguments that the functions of TensorFlow call otherwise than the definitions of their ops do.
RENAMED = {
    **{(op, "reduction_indices"): "axis" for op in ("EuclideanNorm", "Max", "Mean", "Min", "Sum")},
    ("ExpandDims", "dim"): "axis",
    ("Split", "split_dim"): "axis",
    ("SplitV", "split_dim"): "axis",
    ("Select", "t"): "x",
    ("Select", "e"): "y",
    ("Where", "input"): "condition",
}

ELEMENT = ints(2)  # the shape of what lists and arrays hold


def a_list(tensor):
    return RAW.TensorListFromTensor(tensor=tensor, element_shape=ELEMENT)


def stacked(handle):
    return RAW.TensorListStack(input_handle=handle, element_shape=ELEMENT, element_dtype=tf.float32)


def an_array():
    return RAW.TensorArrayV3(size=4, dtype=tf.float32, element_shape=[2], clear_after_read=False)


def filled(value):
    """The handle and the flow of an array with four rows."""
    made = an_array()
    return made.handle, RAW.TensorArrayScatterV3(
        handle=made.handle, indices=ints(0, 1, 2, 3), value=value, flow_in=made.flow
    )


def all_rows(handle, flow):
    return RAW.TensorArrayGatherV3(
        handle=handle, indices=ints(0, 1, 2, 3), flow_in=flow, dtype=tf.float32
    )


def written(x):
    made = an_array()
    flow = RAW.TensorArrayWriteV3(handle=made.handle, index=0, value=x[0], flow_in=made.flow)
    return RAW.TensorArrayReadV3(handle=made.handle, index=0, flow_in=flow, dtype=tf.float32)


def split(x):
    made = an_array()
    return all_rows(
        made.handle,
        RAW.TensorArraySplitV3(
            handle=made.handle,
            value=tf.reshape(x, [-1]),
            lengths=longs(2, 2, 2, 2),
            flow_in=made.flow,
        ),
    )


def parts(x, **more):
    return dict(tensor=x, element_shape=ELEMENT, **more)


def a_complex(x):
    return tf.complex(x, tf.reverse(x, [0]))


ROWS_OF_FOUR = ints(0, 1, 2, 3)
# Ops on what no constant can be: each with its function of a 4 x 2 matrix.
CHAINS = {
    "TensorListFromTensor": lambda x: stacked(a_list(x)),
    "TensorListStack": lambda x: stacked(a_list(x)),
    "TensorListGather": lambda x: RAW.TensorListGather(
        input_handle=a_list(x), indices=ints(2, 0), element_shape=ELEMENT, element_dtype=tf.float32
    ),
    "TensorListGetItem": lambda x: RAW.TensorListGetItem(
        input_handle=a_list(x), index=1, element_shape=ELEMENT, element_dtype=tf.float32
    ),
    "TensorListPopBack": lambda x: (
        RAW.TensorListPopBack(
            input_handle=a_list(x), element_shape=ELEMENT, element_dtype=tf.float32
        ).tensor
    ),
    "TensorListPushBack": lambda x: stacked(
        RAW.TensorListPushBack(input_handle=a_list(x), tensor=x[0])
    ),
    "TensorListSetItem": lambda x: stacked(
        RAW.TensorListSetItem(input_handle=a_list(x), index=1, item=x[0])
    ),
    "TensorListConcat": lambda x: (
        RAW.TensorListConcat(
            input_handle=a_list(x), element_dtype=tf.float32, element_shape=[2]
        ).tensor
    ),
    "TensorListConcatLists": lambda x: stacked(
        RAW.TensorListConcatLists(input_a=a_list(x), input_b=a_list(x), element_dtype=tf.float32)
    ),
    "TensorListConcatV2": lambda x: (
        RAW.TensorListConcatV2(
            input_handle=a_list(x),
            element_shape=ELEMENT,
            leading_dims=np.zeros(0, np.int64),
            element_dtype=tf.float32,
        ).tensor
    ),
    "TensorListResize": lambda x: stacked(RAW.TensorListResize(input_handle=a_list(x), size=3)),
    "TensorListScatter": lambda x: stacked(RAW.TensorListScatter(**parts(x, indices=ROWS_OF_FOUR))),
    "TensorListScatterV2": lambda x: stacked(
        RAW.TensorListScatterV2(**parts(x, indices=ROWS_OF_FOUR, num_elements=4))
    ),
    "TensorListScatterIntoExistingList": lambda x: stacked(
        RAW.TensorListScatterIntoExistingList(
            input_handle=a_list(x), tensor=x[:2], indices=ints(3, 2)
        )
    ),
    "TensorListSplit": lambda x: stacked(
        RAW.TensorListSplit(
            tensor=tf.reshape(x, [-1]), element_shape=ELEMENT, lengths=longs(2, 2, 2, 2)
        )
    ),
    "TensorArrayScatterV3": lambda x: all_rows(*filled(x)),
    "TensorArrayGatherV3": lambda x: all_rows(*filled(x)),
    "TensorArrayConcatV3": lambda x: (
        RAW.TensorArrayConcatV3(
            **dict(zip(("handle", "flow_in"), filled(x))), dtype=tf.float32
        ).value
    ),
    "TensorArrayReadV3": written,
    "TensorArrayWriteV3": written,
    "TensorArraySplitV3": split,
    **{
        op: lambda x, op=op: tf.abs(getattr(RAW, op)(input=a_complex(x)))
        for op in ("FFT", "FFT2D", "IFFT", "IFFT2D", "Conj")
    },
    **{
        op: lambda x, op=op: tf.abs(getattr(RAW, op)(input=a_complex(tf.reshape(x, [2, 2, 2]))))
        for op in ("FFT3D", "IFFT3D")
    },
    **{op: lambda x, op=op: getattr(RAW, op)(input=a_complex(x)) for op in ("Imag", "Real")},
    **{
        op: lambda x, op=op: getattr(RAW, op)(
            input=tf.complex(tf.tile(x, [1, 2]), tf.zeros([4, 4])),
            fft_length=ints(*[4] * int(op[5:-1] or 1)),
        )
        for op in ("IRFFT", "IRFFT2D")
    },
    "ComplexAbs": lambda x: RAW.ComplexAbs(x=a_complex(x)),
    "Switch": lambda x: RAW.Switch(data=x, pred=True).output_true,
    "Merge": lambda x: RAW.Merge(inputs=[x, RAW.Switch(data=x, pred=False).output_true]).output,
}

NOT_RUN = {
    "no kernel for the CPU": """
        BatchNormWithGlobalNormalizationGrad Conv2DBackpropFilterV2 Conv2DBackpropInputV2
        CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3
        MaxPoolGradGradWithArgmax SegmentMaxV2 SegmentMinV2 SegmentSumV2 NcclAllReduce NcclBroadcast
        NcclReduce _FusedBatchNormGradEx""",
    "of several processes": """
        CollectiveReduce CollectiveReduceV2 CollectiveReduceV3 HorovodAllgather HorovodAllreduce
        HorovodBroadcast HorovodGroupedAllreduce""",
    "of several devices' meshes, or of a debugger": """
        CopyToMesh CopyToMeshGrad Copy CopyHost DebugIdentity DebugIdentityV2 DebugGradientIdentity
        DebugGradientRefIdentity""",
    "takes references":
        "RefEnter RefExit RefIdentity RefMerge RefNextIteration RefSelect RefSwitch",
    "of loops, where tests of loops run it": "Enter Exit NextIteration",
    "deprecated versions, which the running one refuses": """
        BatchCholesky BatchCholeskyGrad BatchFFT BatchFFT2D BatchFFT3D BatchIFFT BatchIFFT2D
        BatchIFFT3D BatchMatrixBandPart BatchMatrixDiag
        BatchMatrixDiagPart BatchMatrixInverse BatchMatrixSetDiag BatchMatrixSolve
        BatchMatrixTriangularSolve BatchSelfAdjointEigV2 BatchSvd
        Conv3DBackpropFilter Conv3DBackpropInput TileGrad TopK
        TensorArrayConcatV2 TensorArrayGatherV2 TensorArrayGradV2 TensorArrayReadV2
        TensorArrayScatterV2 TensorArraySizeV2 TensorArraySplitV2
        TensorArrayWriteV2""",
    "a handle beside what it hands on": (
        "StackPop StackPopV2 StackPush StackPushV2 TensorArrayGradV3 TensorArrayGradWithShape "
        "TensorArraySizeV3"
    ),
    "takes or gives variants that only its own family reads": """
        CSRSparseMatrixComponents CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor
        DenseToCSRSparseMatrix RaggedTensorToVariantGradient
        SparseMatrixMatMul SparseMatrixMul SparseMatrixSoftmaxGrad SparseMatrixSparseMatMul
        SparseMatrixTranspose SparseTensorToCSRSparseMatrix
        EmptyTensorList TensorListElementShape TensorListLength TensorListPushBackBatch
        TensorListReserve""",
    "of function bodies": "_Retval",
    "its kernel ends the process on 1.15.5": "" if TF2 else "TensorStridedSliceUpdate",
}  # fmt: skip
SKIPPED = {op for ops in NOT_RUN.values() for op in ops.split()}
OPS = [
    word.split(":")[0].split(">")[0]
    for _, *words in tables.rows("homogeneity.txt")
    for word in words
]
LISTED = {op: homogeneity.rule(op) for op in OPS}


def registered(op):
    try:
        return internals.op_def(op) is not None
    except KeyError:
        return False


class Scaling:
    """The inputs of an op, some of them multiplied by a factor."""

    def __init__(self, op):
        self.op = op
        self.rule = LISTED[op]
        given = WITH.get(op, {})
        self.values = {}
        self.slots = {}
        slot = 0
        for argument in internals.op_def(op).input_arg:
            value = given.get(
                argument.name,
                [(4, 4), (4, 4)] if argument.number_attr or argument.type_list_attr else (4, 4),
            )
            each = value if isinstance(value, list) else [value]
            each = [normal(*item) if isinstance(item, tuple) else item for item in each]
            self.values[argument.name] = each if isinstance(value, list) else each[0]
            self.slots[argument.name] = list(range(slot, slot + len(each)))
            slot += len(each)
        self.attributes = {name: value for name, value in given.items() if name not in self.values}

    def floats(self):
        """Slots of floating point inputs that may carry a factor."""
        return [
            slot
            for name in self.values
            for slot, value in zip(self.slots[name], self._each(name))
            if np.asarray(value).dtype == np.float32
        ]

    def _each(self, name):
        return self.values[name] if isinstance(self.values[name], list) else [self.values[name]]

    def outputs(self, scaled):
        """The floating point outputs of the op by number.

        Inputs in the slots given are multiplied by FACTOR.
        """
        arguments = {}
        for name in self.values:
            each = [
                value * np.float32(FACTOR) if slot in scaled else value
                for slot, value in zip(self.slots[name], self._each(name))
            ]
            arguments[RENAMED.get((self.op, name), name)] = (
                each if isinstance(self.values[name], list) else each[0]
            )
        with tf.Graph().as_default(), tf.Session() as session:
            made = getattr(RAW, self.op)(**arguments, **self.attributes)
            operation = next(
                each for each in tf.nest.flatten(made) if isinstance(each, tf.Tensor)
            ).op
            found = session.run([*operation.outputs])
        return {
            number: value
            for number, value in enumerate(found)
            if value.dtype in (np.float32, np.float64, np.complex64)
        }


def expect(found, before, factor):
    np.testing.assert_allclose(
        found, before * factor, rtol=1e-5, atol=1e-6 * np.abs(before * factor).max(initial=0)
    )


RUN = sorted(
    op
    for op in LISTED
    if registered(op) and op not in SKIPPED and op not in CHAINS and LISTED[op].name != "unscaled"
)


@pytest.mark.parametrize("op", RUN)
def test_a_factor_comes_out_as_the_table_says(op):
    case = Scaling(op)
    rule, slots = case.rule, case.floats() if case.rule.slots is None else case.rule.slots
    before = case.outputs(())
    if rule.name in ("none", "compared"):
        terms = [homogeneity.Term(0, slots)]
    elif rule.name == "each":
        terms = [homogeneity.Term(1, slots)]
    else:
        terms = rule.terms(slots)
    assert terms and all(term.slots for term in terms)
    for term in terms:
        for output, value in case.outputs(term.slots).items():
            power = term.power if rule.outputs is None or output in rule.outputs else 0
            expect(value, before[output], FACTOR**power)


@pytest.mark.parametrize("op", sorted(CHAINS))
def test_a_factor_comes_out_of_lists_and_complex_numbers(op):
    assert LISTED[op].name == "linear" and LISTED[op].slots is None
    value = normal(4, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        before, after = session.run(
            [CHAINS[op](tf.constant(value)), CHAINS[op](tf.constant(FACTOR * value))]
        )
    expect(after, before, FACTOR)


@pytest.mark.parametrize(
    "op", sorted(op for op in LISTED if LISTED[op].name == "unscaled" and op not in SKIPPED)
)
def test_empty_segments_have_no_factor(op):
    case = Scaling(op)
    before, after = case.outputs(())[0], case.outputs((0,))[0]
    assert (before[3] == after[3]).all() and (np.abs(before[3]) > 1e38).all()


@pytest.mark.parametrize("op", ["ReluGrad", "TanhGrad", "MatMul", "Svd", "Sqrt"])
def test_a_wrong_row_is_seen(op, monkeypatch):
    wrong = {
        "ReluGrad": homogeneity.Rule("linear", (1,)),
        "TanhGrad": homogeneity.Rule("linear"),
        "MatMul": homogeneity.Rule("linear"),
    }
    monkeypatch.setitem(LISTED, op, wrong.get(op, homogeneity.Rule("linear")))
    with pytest.raises(AssertionError):
        test_a_factor_comes_out_as_the_table_says(op)


@pytest.mark.unit
def test_what_is_not_run_is_listed():
    assert (
        not SKIPPED & CHAINS.keys()
        and SKIPPED | CHAINS.keys() <= LISTED.keys()
        and WITH.keys() <= LISTED.keys()
    )


@pytest.mark.unit
def test_no_op_stands_twice():
    assert len(OPS) == len(set(OPS))


@pytest.mark.unit
def test_slots_are_of_what_carries_a_factor():
    for op, rule in LISTED.items():
        if registered(op) and rule.slots is not None:
            arguments = internals.op_def(op).input_arg
            kinds = [{a.type} if a.type else {BY_ATTRIBUTE} for a in arguments]
            assert all(
                kinds[slot] & {*FLOATS, *COMPLEX, VARIANT, BY_ATTRIBUTE} for slot in rule.slots
            ), op


BY_ATTRIBUTE = -1


@pytest.mark.unit
def test_a_name_says_nothing():
    assert homogeneity.rule("FancyGrad").name == "" and traits.homogeneity("FancyGradV2") == ""


# Ops of this kind that read no gradient, or aren't linear in it.
NO_GRADIENTS = {
    "IgammaGradA",
    "RandomGammaGrad",
    "TensorArrayGrad",
    "BroadcastGradientArgs",
    "UnbatchGrad",
}


@pytest.mark.unit
def test_gradient_ops_of_this_tensorflow_are_listed():
    ops = {
        op
        for op in dir(RAW)
        if "Grad" in op and not op.startswith(("_", "Xla", "Load", "Retrieve", "Send"))
    }
    assert len(ops) > 70
    named = {
        op
        for op in ops
        if not any(word in op for word in ("Apply", "Accumulator", "SymbolicGradient"))
    }
    assert named - LISTED.keys() - NO_GRADIENTS == set()
