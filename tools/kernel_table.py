"""The half-precision kernels of the installed TensorFlow, for `graphmp/policy/half_kernels/`.

    python tools/kernel_table.py        writes VERSION-CPU.txt and VERSION-GPU.txt there

A device that the wheel was built without is left out: install `tensorflow-gpu==1.15.5` for the GPU
kernels of 1.15.5. Needs no GPU. 1.15.5 also has a device XLA_CPU, with kernels of its own.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any, Dict, FrozenSet, Iterable, List, Set, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import kernels

from graphmp.policy.dtypes import FLOATS, HALF, dtype_text
from graphmp.tf_hooks.op_definitions import registered

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "graphmp" / "policy" / "half_kernels"
# Kernels of a device; a wheel built without it has fewer.
ENOUGH = {"CPU": 1000, "GPU": 1000, "XLA_CPU": 300}
HEAD = """\
# Kernels of TensorFlow %s on the %s that take half precision: an op, and what floating-point \
types each attribute may be that the kernel
# restricts. Read off the registry by tools/kernel_table.py.
"""
Types = Tuple[
    Tuple[str, FrozenSet[int]], ...
]  # the floating-point types of each restricted attribute


def main() -> None:
    """Write the tables."""
    tf.Session().close()  # XLA registers its kernels with the first session
    found = list(kernels.get_all_registered_kernels().kernel)
    version = tf.__version__[:-2] if tf.__version__.endswith(".0") else tf.__version__
    for device, enough in ENOUGH.items():
        if sum(kernel.device_type == device for kernel in found) < enough:
            print("TensorFlow was built without the %s: nothing is written" % device)
            continue
        rows = spelled(kernel for kernel in found if kernel.device_type in (device, "DEFAULT"))
        path = FOLDER / ("%s-%s.txt" % (version, device))
        path.write_text(
            HEAD % (version, device) + "".join(row + "\n" for row in rows), encoding="utf-8"
        )
        print("%s: %d rows" % (path.name, len(rows)))


def spelled(found: Iterable[Any]) -> List[str]:
    """The rows of a table. Kernels that restrict one attribute share a row."""
    rows: Set[Tuple[str, Types]] = set()
    single: Dict[Tuple[str, str], FrozenSet[int]] = {}
    for kernel in found:
        types = restricted(kernel)
        if len(types) == 1:
            ((name, allowed),) = types
            single[kernel.op, name] = single.get((kernel.op, name), frozenset()) | allowed
        elif types or is_open(kernel):
            rows.add((kernel.op, types))
    rows.update((op, ((name, allowed),)) for (op, name), allowed in single.items())
    return sorted(
        spell(op, types)
        for op, types in rows
        if not types or any(allowed & set(HALF) for _, allowed in types)
    )


def restricted(kernel: Any) -> Types:
    """The floating-point types of each attribute that a kernel restricts."""
    types = (
        (each.name, frozenset(each.allowed_values.list.type) & set(FLOATS))
        for each in kernel.constraint
    )
    return tuple(sorted((name, allowed) for name, allowed in types if allowed))


def is_open(kernel: Any) -> bool:
    """Whether a kernel that restricts no floating-point type leaves one open."""
    definition, known = registered(kernel.op), {each.name for each in kernel.constraint}
    return definition is not None and any(
        each.type == "type" and each.name not in known for each in definition.attr
    )


def spell(op: str, types: Types) -> str:
    """A row such as `FusedBatchNormV3 T=float16 U=float32`."""
    return " ".join(
        [
            op,
            *(
                "%s=%s" % (name, ",".join(map(dtype_text, sorted(allowed))))
                for name, allowed in types
            ),
        ]
    )


if __name__ == "__main__":
    main()
