"""Which ops have a kernel for half precision on a device, by tables that `tools/kernel_table.py` reads off TensorFlow's registry."""

from __future__ import annotations

import functools
import pathlib
from typing import Dict, FrozenSet, List, Mapping

import tensorflow.compat.v1 as tf

from graphmp.graph import tables
from graphmp.graph.dtypes import FLOATS

DEVICES = ("CPU", "GPU")
_VERSIONS = {"1": "1.15.5", "2": "2.21"}  # the tables by TensorFlow's first number

_Row = Mapping[str, FrozenSet[int]]


def has_kernel(op: str, types: Mapping[str, int], device: str) -> bool:
    """Whether a device has a kernel for an op whose type attributes are these, by the table of the running TensorFlow.

    Args:
        op: the op's type.
        types: numbers of the DataType enum by attribute.
        device: one of DEVICES.
    """
    return any(all(types.get(name) not in FLOATS or types[name] in allowed for name, allowed in row.items()) for row in _table(device).get(op, ()))


@functools.lru_cache(maxsize=None)
def _table(device: str) -> Dict[str, List[_Row]]:
    found: Dict[str, List[_Row]] = {}
    for op, *words in tables.rows(pathlib.Path(__file__).parent / ("%s-%s.txt" % (_VERSIONS[tf.__version__.split(".")[0]], device))):
        found.setdefault(op, []).append({name: _numbers(names) for name, _, names in (word.partition("=") for word in words)})
    return found


def _numbers(names: str) -> FrozenSet[int]:
    return frozenset(tf.as_dtype(name).as_datatype_enum for name in names.split(","))
