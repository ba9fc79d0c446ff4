"""HLO as StableHLO that JAX's plugins take, also those of GPUs.

XLA's importer leaves a few ops in its own dialect, MHLO, which the plugins don't take. Needs JAX.
"""

from __future__ import annotations

from typing import Any, List

from jax.extend.mlir import hlo_to_stablehlo
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo


def stablehlo(data: bytes) -> bytes:
    """The module of a serialised HloModuleProto, as text, without ops of MHLO."""
    with make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(hlo_to_stablehlo(data))
        for op in _inner(module.operation):
            if op.name in _VALUES:
                with ir.InsertionPoint(op):
                    op.results[0].replace_all_uses_with(_VALUES[op.name](op.operands[0]))
                op.erase()
        return str(module).encode("utf-8")


_VALUES = {  # of an op of MHLO, made of its operand
    "mhlo.copy": lambda operand: operand,
    "mhlo.erf": lambda operand: chlo.erf(operand),
}


def _inner(op: Any) -> List[Any]:
    """The operations of an operation's regions, all levels, the inner ones first."""
    found: List[Any] = []
    for region in op.regions:
        for block in region:
            for each in block:
                found += [*_inner(each.operation), each.operation]
    return found
