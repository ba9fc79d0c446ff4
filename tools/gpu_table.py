#!/usr/bin/env python3
"""Print what time_hlo.py measured on a GPU as Markdown: a table, its means, and the kernels.

usage: gpu_table.py RESULTS.jsonl [--kernels NAME...]

    python tools/gpu_table.py examples/gpu.jsonl
    python tools/gpu_table.py examples/gpu.jsonl --kernels resnet50 transformer

RESULTS.jsonl is the output of `time_hlo.py --programs --json`: for each program float32, tf32,
float16, maybe bfloat16, and own: TensorFlow's own pass. --kernels prints the slowest kernels of
these programs in place of the table.

Exit status: 0; 2 for bad usage.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from graphmp.timings import Ratio, speedup

# isort: split
from hlo.shown import kernel_lines, on_tensor_cores
from parts.measured_text import geometric_mean, said, table

Row = Dict[str, Any]
Program = Dict[str, Row]  # the rows of a program, by column
FLOAT32, TF32, HALF, BFLOAT16, OWN = "float32", "tf32", "float16", "bfloat16", "own"
OTHERS = (TF32, HALF, BFLOAT16, OWN)
HEADINGS = (
    "program",
    "float32",
    "TF32",
    "float16",
    "bfloat16",
    "TensorFlow's own",
    "float16 over TF32",
    "on Tensor Cores",
    "memory",
    "loss apart",
    "loss apart, TensorFlow's own",
)
MOST = 6  # kernels


def main(argv: Optional[List[str]] = None) -> int:
    """Print. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path, metavar="RESULTS.jsonl")
    parser.add_argument("--kernels", nargs="+", default=(), metavar="NAME")
    args = parser.parse_args(argv)
    lines = [json.loads(line) for line in args.results.read_text("utf-8").splitlines()]
    found = programs(lines)
    unknown = sorted(set(args.kernels) - set(found))
    if unknown:
        parser.error("found %s, accepted: %s" % (", ".join(unknown), ", ".join(found)))
    for name in args.kernels:
        print("\n".join([*kernels_of(name, found[name]), ""]))
    if not args.kernels:
        print("\n".join(text(found, lines)))
    return 0


def programs(lines: Sequence[Row]) -> Dict[str, Program]:
    """The rows by program and column."""
    found: Dict[str, Program] = {}
    for row in (row for line in lines for row in line["files"]):
        program, column = pathlib.Path(row["file"]).stem.rsplit(".", 1)
        found.setdefault(program, {})[column] = row
    return found


def text(found: Dict[str, Program], lines: Sequence[Row]) -> List[str]:
    """The table, the means and the conditions of the measurement."""
    cells = [HEADINGS, *(cells_of(name, found[name]) for name in sorted(found))]
    return [*table(cells), "", *table(list(means(found.values()))), "", *conditions(lines)]


def cells_of(name: str, program: Program) -> List[str]:
    """The cells of a program."""
    half = program[HALF]
    return [
        name,
        "%.2f ms" % program[FLOAT32]["ms"],
        *(compared(program, FLOAT32, column) for column in OTHERS),
        compared(program, TF32, HALF),
        "%.0f%%" % (100 * on_tensor_cores(half["kernels"])) if half["kernels"] else "-",
        "%.2f" % (half["memory"] / program[FLOAT32]["memory"]),
        *("%.1e" % apart(program[FLOAT32], program[column]) for column in (HALF, OWN)),
    ]


def compared(program: Program, first: str, other: str) -> str:
    """The speed-up of a column over another one, as text."""
    return said(against(program, first, other) if {first, other} <= set(program) else None)


def against(program: Program, first: str, other: str) -> Ratio:
    """The speed-up of a column over another one, with its interval."""
    return speedup(*([[each] for each in program[column]["rounds"]] for column in (first, other)))


def apart(first: Row, other: Row) -> float:
    """How far the losses of the last of the first steps are apart, relatively."""
    pairs = list(zip(first["trained"][-1], other["trained"][-1]))
    return max(abs(b - a) / max(abs(a), 1e-6) for a, b in pairs)


def means(found: Sequence[Program]) -> Iterator[Sequence[str]]:
    """Cells: the geometric means."""
    yield ["float16, geometric mean", "of float32", "of TF32", "of TensorFlow's own"]
    whole = [program for program in found if {TF32, HALF, OWN} <= set(program)]
    yield [
        "speed-up of %d" % len(whole),
        *(
            "%.3f" % geometric_mean([against(program, first, HALF).value for program in whole])
            for first in (FLOAT32, TF32, OWN)
        ),
    ]


def conditions(lines: Sequence[Row]) -> Iterator[str]:
    """Where and how it was measured."""
    yield "- device: %s." % ", ".join(sorted({line["device"] for line in lines}))
    yield "- JAX: %s." % ", ".join(sorted({line["jax"] for line in lines}))
    for flags in sorted({line["xla_flags"] for line in lines} - {""}):
        rows = [line["files"][0] for line in lines if line["xla_flags"] == flags]
        yield "- with `%s`: %s." % (flags, ", ".join(programs([{"files": rows}])))
    rates: Dict[str, List[float]] = {}
    for line in lines:
        for column, rate in line["matmul_gflops"].items():
            rates.setdefault(column, []).append(rate / 1e3)
    yield "- large matmuls, TFLOP/s: %s." % ", ".join(
        "%s %.0f" % (column, max(rates[column])) for column in sorted(rates)
    )


def kernels_of(name: str, program: Program) -> Iterator[str]:
    """The slowest kernels of a program in each column."""
    for column in (column for column in (FLOAT32, *OTHERS) if column in program):
        yield "%s, %s:" % (name, column)
        yield from kernel_lines(program[column]["kernels"], MOST)


if __name__ == "__main__":
    sys.exit(main())
