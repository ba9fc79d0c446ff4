"""Which matmuls and convolutions ran on Tensor Cores, by a step's profile, and advice."""

from __future__ import annotations

from typing import Iterable, List, Mapping, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.bench.kernels.names import uses_tensor_cores
from graphmp.bench.kernels.profile import Kernel, kernels_of_run, shapes_in
from graphmp.graph.shapes.shapes import recorded_dimensions, with_inferred_shapes
from graphmp.graph.structure.gradient_names import differentiated
from graphmp.graph.structure.view import GraphView
from graphmp.inspect.tensor_cores import MULTIPLE, misfit
from graphmp.policy.dtypes import FLOAT32, HALF, compute_dtype
from graphmp.policy.policy import tensor_core_ops

ALL_ON, SOME_OFF, NOTHING_SEEN = 0, 1, 2  # exit statuses

_HALF = tuple(tf.as_dtype(dtype).name for dtype in HALF)
# prefix of ops into which TensorFlow fuses a product and its consumers, named like the last one
_FUSED = "_Fused"
_FUSED_BEHIND = 3


class KernelRow(NamedTuple):
    """A matmul or convolution of the graph.

    Attributes:
        node: its name.
        op: its op.
        shape: of its operands, `64x784 * 784x512`, by the profile.
        kernels: the names of its kernels, the longest-running first.
        tensor_core: whether one of them multiplied on Tensor Cores.
        advice: what to do if none did; else empty.
        dtype: its compute dtype.
        microseconds: the total time of its kernels.
    """

    node: str
    op: str
    shape: str
    kernels: Tuple[str, ...]
    tensor_core: bool
    advice: str
    dtype: str = ""
    microseconds: float = 0.0


class TensorCoreUse(NamedTuple):
    """All matmuls and convolutions, the longest-running first.

    Attributes:
        rows: one for each node.
        exit_status: ALL_ON if all half-precision ones ran on Tensor Cores; SOME_OFF if one did not,
            or if there were none; NOTHING_SEEN if the profile shows no GPU kernel for any of them.
    """

    rows: List[KernelRow]
    exit_status: int


Kernels = Mapping[str, Sequence[Kernel]]


def verify(graph_def: tf.GraphDef, run_metadata: tf.RunMetadata) -> TensorCoreUse:
    """Compare a graph's matmuls and convolutions with a step's profile; not those inside functions.

    Args:
        graph_def: the executed graph, with the names used in the run.
        run_metadata: of a step under FULL_TRACE.
    """
    return judged(_with_shapes_of(graph_def, run_metadata), kernels_of_run(run_metadata))


def judged(graph_def: tf.GraphDef, kernels: Kernels) -> TensorCoreUse:
    """Like `verify`, for kernels read before and recorded shapes."""
    view = GraphView(with_inferred_shapes(graph_def))
    worth = set(tensor_core_ops())
    rows = [
        _row(view, name, _kernels_of(view, name, kernels))
        for name, node in view.nodes.items()
        if node.op in worth
    ]
    rows.sort(key=lambda row: -row.microseconds)
    half = [row.tensor_core for row in rows if row.kernels and row.dtype in _HALF]
    status = ALL_ON if half and all(half) else SOME_OFF
    return TensorCoreUse(rows, status if any(row.kernels for row in rows) else NOTHING_SEEN)


def text(verdict: TensorCoreUse) -> str:
    """A verdict for people: totals, then each node that did not run on Tensor Cores, and why."""
    seen = [row for row in verdict.rows if row.kernels]
    if not seen:
        return (
            "tensor cores: the profile shows no GPU kernel of %d matmuls and convolutions\n"
            % len(verdict.rows)
        )
    on = [row for row in seen if row.tensor_core]
    spent, total = (sum(row.microseconds for row in rows) for rows in (on, seen))
    lines = [
        "tensor cores: %d of %d matmuls and convolutions that ran, %.1f%% of their time"
        % (len(on), len(seen), 100 * spent / max(total, 1e-9))
    ]
    lines += [
        "  not: %s  %s %s  %s  %s; %s"
        % (row.node, row.dtype, row.op, row.shape, row.kernels[0], row.advice)
        for row in seen
        if row not in on
    ]
    missing = len(verdict.rows) - len(seen)
    return (
        "\n".join(
            lines
            + ["  not in the profile: %d others, folded, or not run in this step" % missing]
            * bool(missing)
        )
        + "\n"
    )


def _kernels_of(view: GraphView, name: str, kernels: Kernels) -> Sequence[Kernel]:
    """A node's own kernels, else those of the op into which it was fused."""
    waiting = [name]
    for _ in range(_FUSED_BEHIND if name not in kernels else 0):
        waiting = [consumer.node for node in waiting for consumer in view.consumers(node)]
        fused = [
            node
            for node in waiting
            if any(kernel.op.startswith(_FUSED) for kernel in kernels.get(node, ()))
        ]
        if fused:
            return kernels[fused[0]]
    return kernels.get(name, ())


def _row(view: GraphView, name: str, kernels: Iterable[Kernel]) -> KernelRow:
    node = view.nodes[name]
    dtype = tf.as_dtype(compute_dtype(node)).name if compute_dtype(node) else ""
    ordered = sorted(kernels, key=lambda kernel: -kernel.microseconds)
    names = tuple(kernel.name for kernel in ordered)
    on = any(uses_tensor_cores(kernel, dtype in _HALF) for kernel in names)
    advice = "" if on else _advice(view, name, bool(names))
    return KernelRow(
        name,
        node.op,
        _shape(view, name),
        names,
        on,
        advice,
        dtype,
        sum(kernel.microseconds for kernel in ordered),
    )


def _advice(view: GraphView, name: str, ran: bool) -> str:
    if not ran:
        return "not in the profile: folded, or not run in this step"
    if compute_dtype(view.nodes[name]) == FLOAT32:
        return "it computes in float32: `graphmp explain` says why"
    found = misfit(view, name) or misfit(view, differentiated(name, view.nodes.keys()) or name)
    if found is None:
        return (
            "its dimensions are multiples of %d or unknown: the library chose a kernel without"
            % MULTIPLE
        )
    return "make %s" % ", ".join(
        "%s %d of %d" % (dimension.name, dimension.next, dimension.size)
        for dimension in found.dimensions
    )


def _shape(view: GraphView, name: str) -> str:
    """The operands' dimensions; inputs that are shapes aren't operands."""
    shapes = [
        recorded_dimensions(view.nodes[port.node], port.output, -1) for port in view.inputs(name)
    ]
    return " * ".join(
        "x".join("?" if size < 0 else str(size) for size in shape)
        for shape in shapes
        if shape is not None and len(shape) > 1
    )


def _with_shapes_of(graph_def: tf.GraphDef, run_metadata: tf.RunMetadata) -> tf.GraphDef:
    """A copy with the recorded shapes of the profile."""
    copy = tf.GraphDef()
    copy.CopyFrom(with_inferred_shapes(graph_def))
    nodes = {node.name: node for node in copy.node}
    for node, slot, shape in shapes_in(run_metadata):
        recorded = nodes[node].attr["_output_shapes"].list.shape if node in nodes else ()
        if slot < len(recorded):
            recorded[slot].CopyFrom(shape)
    return copy
