"""Half-precision kernels that end the process or give wrong values for some shapes.

The table is written by `tools/kernel_faults.py`, from runs of each kernel. A graph is converted for
any TensorFlow: a node with such shapes stays float32, whatever version the fault belongs to. Only
kernels that add up in half precision count up to their version, as later ones add up in float32.
"""

from __future__ import annotations

import functools
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.policy import tables
from graphmp.policy.layout import Dimensions

FAULTS = "kernel_faults.txt"

# Cases of shapes, the most particular first. The shapes are those of an op's float inputs, with the
# channels last.
CASES = (
    "empty",  # an input has no elements
    "one_per_channel",  # the first input is of images that have one value for each channel in all
    "one_element",  # every input has one element
    "one_row",  # the first input's first dimension is 1
    "one_column",  # the first input's last dimension is 1
    "many_per_channel",  # the first input has more than MANY numbers for each of its channels
    "many_elements",  # the first input has more than MANY elements
    "always",
)
# A bfloat16 sum of equal numbers stops growing at 256 of them.
MANY = 64
_SUMS = ("many_per_channel", "many_elements")
WORDS = {
    "empty": "for inputs without elements",
    "one_per_channel": "for one value per channel",
    "one_element": "for inputs of one element",
    "one_row": "for inputs of one row",
    "one_column": "for inputs of one column",
    "many_per_channel": "for more than %d values per channel" % MANY,
    "many_elements": "for more than %d elements" % MANY,
    "always": "for some shapes",
}
# A batch normalisation is float32 where its gradient has to be: they share what they reserve.
_ALIKE = {
    "FusedBatchNorm": "FusedBatchNormGradV2",
    "FusedBatchNormGrad": "FusedBatchNormGradV2",
    "FusedBatchNormV2": "FusedBatchNormGradV2",
    "FusedBatchNormV3": "FusedBatchNormGradV3",
}


class ShapeFault(NamedTuple):
    """A kernel's fault: where it was seen, what happens, and for which case of shapes."""

    version: str
    device: str
    op: str
    case: str
    does: str

    def __str__(self) -> str:
        return "TensorFlow %s's %s kernel of %s %s %s" % (
            self.version,
            self.device,
            self.op,
            self.does.replace("_", " "),
            WORDS[self.case],
        )


def faults(op: str, dtype: str) -> List[ShapeFault]:
    """The faults of an op's half-precision kernels, "float16" or "bfloat16"."""
    table = _faults(dtype)
    return [*table.get(op, ()), *table.get(_ALIKE.get(op, ""), ())]


def fault(op: str, dtype: str, shapes: Sequence[Optional[Dimensions]]) -> Optional[ShapeFault]:
    """The fault that a half-precision node of these shapes may meet; None if none is known.

    Args:
        op: its type.
        dtype: "float16" or "bfloat16".
        shapes: of its float inputs, channels last; None for an unknown rank.
    """
    return next((each for each in faults(op, dtype) if holds(each.case, shapes)), None)


def holds(case: str, shapes: Sequence[Optional[Dimensions]]) -> bool:
    """Whether shapes are of a case, or may be.

    An unknown dimension may be 1 if others are known to be: a batch of images of one pixel is, but
    not images of unknown size. It isn't 0, and may be large. An input of unknown rank is of no case
    but those of large inputs.
    """
    known = [shape for shape in shapes if shape is not None]
    first = shapes[0] if shapes else None
    if case == "always":
        return True
    if case == "empty":
        return any(0 in shape for shape in known)
    if case == "one_element":
        return bool(shapes) and len(known) == len(shapes) and all(map(_is_one, known))
    if case in _SUMS:
        return first is None or _may_be_many(first if case == "many_elements" else first[:-1])
    if first is None or not first:
        return False
    if case == "one_per_channel":
        return len(first) >= 4 and _is_one(first[:-1])
    return first[0 if case == "one_row" else -1] == 1


def _is_one(dimensions: Dimensions) -> bool:
    """Whether the product may be 1; that of unknown dimensions alone counts as larger."""
    known = [size for size in dimensions if size is not None]
    return all(size == 1 for size in known) and (bool(known) or not dimensions)


def _may_be_many(dimensions: Dimensions) -> bool:
    product = 1
    for size in dimensions:
        product *= MANY + 1 if size is None else size
    return product > MANY


def _counts(case: str, version: str) -> bool:
    """Whether a fault of this version counts for the TensorFlow that runs."""
    return case not in _SUMS or _minor(tf.__version__) <= _minor(version)


def _minor(version: str) -> Tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


@functools.lru_cache(maxsize=None)
def _faults(dtype: str) -> Dict[str, List[ShapeFault]]:
    found: Dict[str, List[ShapeFault]] = {}
    for version, device, half, op, case, does in tables.rows(FAULTS):
        if half == dtype and _counts(case, version):
            found.setdefault(op, []).append(ShapeFault(version, device, op, case, does))
    return found
