"""The rules behind the reasons of painting, one sentence each."""

from __future__ import annotations

from graphmp.policy import reason

RULES = {
    reason.ALLOW: "ops on the allow list compute in half precision",
    reason.CLEAR: (
        "ops on the clear list, and sums of nothing or that nothing reads, take the dtype of "
        "their neighbours, whichever moves fewer bytes, with the launch of a cast as 262 kB"
    ),
    reason.DENY: "ops on the deny list compute in float32",
    reason.FETCHED: (
        "what a signature or a collection names keeps its dtype, for whoever fetches it"
    ),
    reason.FLOW: "a TensorArray's flow is float32: it orders operations and holds no data",
    reason.GRADIENT: "the gradient of a denied op that isn't linear computes in float32 too",
    reason.GROUP: "the nodes of a loop variable, or that share a handle, have one dtype",
    reason.HANDLE: "a handle that other ops use too keeps the dtype of what it holds",
    reason.INFER: (
        "ops on the infer list compute in half precision between such ops, and in float32 "
        "downstream of a denied one, up to what is bounded"
    ),
    reason.LAST_ACTIVATION: "a model's last Softmax, LogSoftmax or Sigmoid computes in float32",
    reason.LOOK_UP: (
        "a look-up reads a variable as it is; the rows that it gives are cast, not the table, "
        "unless they are known to be the larger by far"
    ),
    reason.LOSS: "a loss computes in float32, and so does a last matmul that gives one number",
    reason.MAGNIFIED: (
        "what a sine, a floor or a matrix's inverse is computed from is float32, up to the layer "
        "that gives it, and so are products whose logarithm is taken"
    ),
    reason.MEASURED: (
        "with --costs the dtypes are those whose measured times, casts included, add up to the "
        "shortest step"
    ),
    reason.NO_KERNEL: "half precision is for ops that have a kernel of it, on CPU and GPU",
    reason.LOSS_SCALE: (
        "a scaled loss, what it is multiplied into, what scaled gradients are compared with, "
        "and what gives them unscaled, is float32"
    ),
    reason.OWN_CAST: "casts of the model's own stay as they are",
    reason.RANGE_GUARD: (
        "what half precision can't hold keeps the ops that use it in float32; so do positions, "
        "constants near 1, sums over a loop and small differences, for which it has too few digits"
    ),
    reason.STATISTICS: "batch normalisation keeps its statistics in float32",
    reason.READS_RESOURCE: "what reads a resource keeps the dtype of what is in it",
    reason.SUM: "the gradients of one variable add up in float32",
    reason.UNLISTED: "ops on no list compute in float32",
    reason.UPDATE: "clips, norms and optimizers, behind the gradients, compute in float32",
    reason.USER_RULE: "a flag of the conversion says so",
    reason.VARIABLE: (
        "variables keep their dtype, and so does what reads or defines them, or hands a value on "
        "to a write"
    ),
}
UNPAINTED = "--compute_dtype=float32 changes no dtype: such a conversion scales and clips alone"
