"""The results of time_hlo.py as text: a table, then the products and kernels of each file."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, List, Sequence

Row = Dict[str, Any]
SHORT = " short kernels"  # ends the name of a sum of such
_MOST_KERNELS = 12
_LETTERS = 100  # of a kernel's name


def shown(found: Dict[str, Any]) -> str:
    """The table, then the products and kernels of each file, as text."""
    rates = ", ".join("%s %.0f" % item for item in found["matmul_gflops"].items())
    lines = [
        "%s (%s), JAX %s; large matmuls, GFLOP/s: %s"
        % (found["device"], found["platform"], found["jax"], rates),
        "",
    ]
    width = max([4, *(len(pathlib.Path(row["file"]).name) for row in found["files"])])
    lines.append(
        "%-*s  %-8s %10s %20s %7s %10s %8s %8s  %s"
        % (
            (width, "file", "column", "ms/step", "quartiles", "times", "GFLOP/s", "of rate")
            + ("memory", "loss")
        )
    )
    for row in found["files"]:
        between = "%.3f..%.3f" % tuple(row["ms_quartiles"])
        losses = " ".join("%.4g" % loss for loss in row["losses"])
        values = (
            row["column"],
            row["ms"],
            between,
            row["times"],
            row["gflops"],
            100 * row["of_rate"],
            row["memory"] / 2**20,
            losses,
        )
        lines.append(
            "%-*s  %-8s %10.3f %20s %7.2f %10.1f %7.1f%% %4.0f MiB  %s"
            % ((width, pathlib.Path(row["file"]).name) + values)
        )
    for row in found["files"]:
        lines += [
            "",
            "%s: %s"
            % (
                pathlib.Path(row["file"]).name,
                ", ".join("%d %s" % (n, what) for what, n in row["products"].items())
                or "no products",
            ),
        ]
        lines += kernel_lines(row["kernels"], _MOST_KERNELS)
    return "\n".join(lines) + "\n"


def kernel_lines(kernels: Sequence[Row], most: int) -> List[str]:
    """The slowest kernels, then the sums of short ones; * marks Tensor Cores."""
    if not kernels:
        return []
    total = sum(kernel["milliseconds"] for kernel in kernels)
    sums = [kernel for kernel in kernels if kernel["name"].endswith(SHORT)]
    named = [kernel for kernel in kernels if kernel not in sums][:most]
    return [
        "  %.3f ms of kernels a step, %.1f%% on Tensor Cores"
        % (total, 100 * on_tensor_cores(kernels)),
        *(
            "  %s %8.3f ms  %s"
            % ("*" if k["tensor_core"] else " ", k["milliseconds"], k["name"][:_LETTERS])
            for k in [*named, *sums]
        ),
    ]


def on_tensor_cores(kernels: Sequence[Row]) -> float:
    """The share of the kernels' time that is spent in those that use Tensor Cores."""
    total = sum(kernel["milliseconds"] for kernel in kernels)
    return sum(k["milliseconds"] for k in kernels if k["tensor_core"]) / total
