"""What the rewrite must know of an op besides its list: tables, each with its reason."""

from __future__ import annotations

import pathlib
from typing import Dict, FrozenSet

_KERNELS = pathlib.Path(__file__).resolve().parent / "kernels.txt"

# They hand their input on, or look at its shape alone: nothing is read or written, whatever the dtype.
MOVES_NOTHING = frozenset(
    "Const Enter Exit ExpandDims Identity IdentityN LoopCond Merge NextIteration PreventGradient Rank RefEnter RefExit RefIdentity RefMerge "
    "RefNextIteration RefSwitch Reshape Shape ShapeN Size Squeeze StopGradient Switch _Arg _Retval".split()
)
# A value that half precision rounds may land on the other side of the edge: they never read a cast made for their sake.
DISCONTINUOUS = frozenset(
    "ArgMax ArgMin Ceil DynamicPartition Equal Floor FloorDiv FloorMod Greater GreaterEqual Less LessEqual NotEqual Round Sign TopK TopKV2 Where".split()
)
# They give back their input's values, moved or copied: what half precision can't hold stays so.
KEEPS_VALUES = frozenset(
    "BroadcastTo Concat ConcatV2 Enter Exit ExpandDims Fill Gather GatherV2 Identity IdentityN Merge MirrorPad Neg NextIteration OneHot Pack Pad PadV2 "
    "Reshape Reverse ReverseV2 Select SelectV2 Slice Snapshot Split SplitV Squeeze StopGradient StridedSlice Switch Tile Transpose Unpack".split()
)
# Their result tells nothing of the values that they read.
FORGETS_VALUES = frozenset("OnesLike Rank Shape ShapeN Size ZerosLike".split())
# The last activation of a model: float32 where it leads to a loss or an output.
LAST_ACTIVATIONS = frozenset(("Softmax", "LogSoftmax", "Sigmoid"))
# Sums of gradients, wherever a variable is used more than once.
SUMS = frozenset(("Add", "AddN", "AddV2", "AccumulateNV2"))
BIAS_ADDS = frozenset(("BiasAdd", "BiasAddV1"))
# Up to so many gradients of one variable are added up in float32, and any number in a loop, one after the other. More, those of
# an unrolled network, are added in half: each would need a cast of its own, which costs more bytes than the rest of the step
# saves, for a rounding of 2^-11 an addition. Eight is what one call of AddN's kernel adds.
MOST_SUMMED_IN_FLOAT32 = 8
# Look-ups: the rows are cast, not the table.
LOOK_UPS = frozenset(("Gather", "GatherV2", "GatherNd", "ResourceGather", "ResourceGatherNd"))
# Denied ops that are not linear: their gradient multiplies by what half precision holds badly, and is denied too.
NONLINEAR_DENIED = frozenset("Exp Expm1 Log Log1p Pow Rsqrt Square SquaredDifference".split())
# Ops that carry a handle of a TensorArray, a Stack or a TensorList through control flow.
PASSES_ON = frozenset("AddN Enter Exit Identity Merge NextIteration RefEnter RefIdentity RefSwitch StopGradient Switch ZerosLike".split())
# The ops on such handles; the dtype of all that share a handle is one. Every other user of a handle pins it.
SHARES_DTYPE = (
    "TensorArrayV3 TensorArrayGradV3 TensorArrayGradWithShape TensorArrayReadV3 TensorArrayWriteV3 TensorArrayGatherV3 TensorArrayScatterV3 "
    "TensorArrayConcatV3 TensorArraySplitV3 TensorArraySizeV3 TensorArrayCloseV3 StackV2 StackPushV2 StackPopV2 StackCloseV2 EmptyTensorList "
    "TensorListConcat TensorListConcatLists TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem "
    "TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch TensorListReserve TensorListResize TensorListScatter "
    "TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack"
)
HANDLE_OPS = frozenset(SHARES_DTYPE.split())
# Their attribute U is the dtype of the statistics.
WIDER_STATISTICS = frozenset(
    "FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormV2 FusedBatchNormV3".split()
)
# Integers that float16 and bfloat16 hold exactly, all of them: a cast from these loses nothing.
EXACT_INTEGERS = frozenset((4, 6, 10))  # uint8, int8, bool


def without_kernel(compute_dtype: str) -> FrozenSet[str]:
    """Ops that lack a kernel of a compute dtype on the CPU or the GPU, from `kernels.txt`."""
    return _table().get(compute_dtype, frozenset())


def _table() -> Dict[str, FrozenSet[str]]:
    rows = [line.split("#")[0].split() for line in _KERNELS.read_text().splitlines()]
    dtypes = {row[0] for row in rows if row}
    return {dtype: frozenset(row[1] for row in rows if row and row[0] == dtype) for dtype in dtypes}
