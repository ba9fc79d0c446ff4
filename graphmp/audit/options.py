"""Options of an audit, without TensorFlow, for use by the command line."""

from __future__ import annotations

from dataclasses import dataclass

ARITHMETIC = ("auto", "native", "simulated")


@dataclass(frozen=True)
class AuditOptions:
    """Data and steps of an audit.

    Attributes:
        data: an .npz file, or `file.py:function`; empty for made-up batches.
        steps: the number of training steps.
        batch_size: of dimensions that the graph leaves open.
        seed: of made-up batches.
        checkpoint: prefix of a checkpoint to start from; empty for the initial values.
        arithmetic: one of ARITHMETIC: half precision by the machine's kernels or simulated; auto
            simulates without a GPU.
    """

    data: str = ""
    steps: int = 20
    batch_size: int = 8
    seed: int = 0
    checkpoint: str = ""
    arithmetic: str = "auto"
