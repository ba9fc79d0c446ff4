"""Half-precision kernels of each device, by tables that `tools/kernel_table.py` writes.

The tool reads them off TensorFlow's registry.
"""

from __future__ import annotations

import functools
from typing import Dict, FrozenSet, List, Mapping

import tensorflow.compat.v1 as tf

from graphmp.policy import tables
from graphmp.policy.dtypes import BFLOAT16, FLOATS

DEVICES = ("CPU", "GPU")
_OLD, _NEW = "1.15.5", "2.21"

_Row = Mapping[str, FrozenSet[int]]


def has_kernel(op: str, types: Mapping[str, int], device: str, here: bool = False) -> bool:
    """Whether a device has a kernel for an op with these type attributes.

    Kernels are those of the running TensorFlow; for bfloat16 the tables of 2.21 count, as 1.15.5
    lacks most, unless the question is what runs here.

    Args:
        op: the op's type.
        types: numbers of the DataType enum by attribute.
        device: one of DEVICES; of 1.15.5 also XLA_CPU.
        here: whether the graph is to run on this TensorFlow.
    """
    is_old = tf.__version__.startswith("1.") and (here or BFLOAT16 not in types.values())
    version = _OLD if is_old else _NEW
    rows = _table(version, device).get(op, ())
    return any(
        all(
            types.get(name) not in FLOATS or types[name] in allowed for name, allowed in row.items()
        )
        for row in rows
    )


def types_of(node: tf.NodeDef) -> Dict[str, int]:
    """The type attributes of a node."""
    attributes = node.attr.items()
    return {key: value.type for key, value in attributes if value.WhichOneof("value") == "type"}


@functools.lru_cache(maxsize=None)
def _table(version: str, device: str) -> Dict[str, List[_Row]]:
    found: Dict[str, List[_Row]] = {}
    for op, *words in tables.rows("half_kernels/%s-%s.txt" % (version, device)):
        found.setdefault(op, []).append(
            {name: _numbers(names) for name, _, names in (word.partition("=") for word in words)}
        )
    return found


def _numbers(names: str) -> FrozenSet[int]:
    return frozenset(tf.as_dtype(name).as_datatype_enum for name in names.split(","))
