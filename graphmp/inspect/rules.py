"""The rules behind the reasons of painting, a sentence each."""

from __future__ import annotations

# The rule behind each kind of reason, which is what stands before a reason's colon.
RULES = {
    "allow": "ops on the allow list compute in half precision",
    "clear": "ops on the clear list, and sums of nothing or that nothing reads, take the dtype of their neighbours, whichever moves fewer bytes",
    "deny": "ops on the deny list compute in float32",
    "fetched": "what a signature or a collection names keeps its dtype, for whoever fetches it",
    "flow": "a TensorArray's flow is float32: it orders operations and holds no data",
    "gradient of a denied op": "the gradient of a denied op that isn't linear computes in float32 too",
    "group": "the nodes of a loop variable, or that share a handle, have one dtype",
    "handle": "a handle that other ops use too keeps the dtype of what it holds",
    "infer": "ops on the infer list compute in half precision between such ops, and in float32 downstream of a denied one, up to what is bounded",
    "last activation": "a model's last Softmax, LogSoftmax or Sigmoid computes in float32",
    "look-up": "a look-up reads a variable as it is; the rows that it gives are cast, not the table, unless they are known to be the larger by far",
    "no kernel": "half precision is for ops that have a kernel of it, on CPU and GPU",
    "loss scale": "a scaled loss, what it is multiplied into, what scaled gradients are compared with, and what gives them unscaled, is float32",
    "own cast": "casts of the model's own stay as they are",
    "range guard": "what half precision can't hold keeps the ops that use it in float32",
    "statistics": "batch normalisation keeps its statistics in float32",
    "resource": "what reads a resource keeps the dtype of what is in it",
    "sum of a variable's gradients": "the gradients of one variable add up in float32",
    "unlisted": "ops on no list compute in float32",
    "update math": "clips, norms and optimizers, behind the gradients, compute in float32",
    "user rule": "a flag of the conversion says so",
    "variable": "variables keep their dtype, and so does what reads or defines them",
}
UNPAINTED = "--compute_dtype=float32 changes no dtype: such a conversion scales and clips alone"


def kind_of(reason: str) -> str:
    """What stands before a reason's colon: a key of `RULES`."""
    return reason.split(":")[0]
