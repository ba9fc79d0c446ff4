#!/usr/bin/env python3
"""Compile and time training steps lowered by export_hlo.py, interleaved in one run.

usage: time_hlo.py FILE.hlo... [--programs] [--platform cpu|gpu] [--rounds N] [--steps N]
                   [--losses N] [--jobs N] [--seed N] [--json]

    python tools/time_hlo.py train.float32.hlo train.tf32.hlo train.float16.hlo
    python tools/time_hlo.py --json train.float32.hlo train.bfloat16.hlo
    python tools/time_hlo.py --programs --jobs=8 --losses=20 --json lowered/*.hlo > rows.jsonl

Needs JAX and this folder, but no TensorFlow; graphmp/ must lie beside it to classify kernels by
name. The first file is the baseline. Each file's .json lies beside it; parameters of one name start
with the same values in all files. After a warm-up of each, the files take turns for --rounds rounds
of --steps steps (default: as many as take a tenth of a second); each step starts from the variables
of the step before. For each file:

    ms/step      the median of the rounds, with the distances of the quartiles
    times        the speedup over the first file: the median of the ratios within a round
    GFLOP/s      of matmuls and convolutions, by their shapes
    of rate      the same as a share of this device's rate in a large matmul of the column's dtype,
                 measured in this run
    loss         of the last step; a loss that isn't finite doesn't change the time, but such a step
                 can't train

    memory       on the device while a step runs, by XLA: variables, batch, and what it reserves

then the matmuls and convolutions of the compiled program (op and dtype of the result), and on a GPU
its kernels with their time; * marks those that use Tensor Cores. The time of steps below about a
millisecond is mostly launch overhead: the kernels' time says more then. The products of a float32
file have full precision; a GPU since Ampere computes those of a tf32 file in TensorFloat-32; a CPU
computes both the same way.

--programs takes files of several programs, PROGRAM.COLUMN.hlo, and prints a table of each as soon
as it is measured, with its float32 file as the baseline. The files of a program are compiled first,
--jobs at once; stderr says how long each took, and which can't be compiled and is left out.

Exit status: 0; 2 if a file can't be read, compiled or run, or JAX is missing.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import pathlib
import statistics
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence

from hlo.arguments import positive
from hlo.shown import shown

Row = Dict[str, Any]
ENOUGH = 0.1  # seconds of a program's turn


def main(argv: Optional[List[str]] = None) -> int:
    """Measure and print. Return the exit status."""
    args = parse(argv)
    os.environ.setdefault(
        "TF_CPP_MIN_LOG_LEVEL", "3"
    )  # XLA logs the errors that are printed here in one line
    try:
        import jax  # so that a missing JAX is reported in one line
        from hlo.program import ProgramError
    except ImportError as error:
        print(
            "time_hlo: %s: pip install 'graphmp[hlo]', on a GPU jax[cuda13]" % error,
            file=sys.stderr,
        )
        return 2
    jax.config.update("jax_enable_x64", True)  # labels are int64
    try:
        for found in measure(args):
            print(printed(found, args), flush=True)
    except (ProgramError, RuntimeError) as error:  # JAX has no such platform
        print("time_hlo: %s" % " ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


def printed(found: Row, args: argparse.Namespace) -> str:
    """The text of a program's results."""
    return json.dumps(found, indent=None if args.programs else 1) if args.json else shown(found)


def parse(argv: Optional[List[str]]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files",
        nargs="+",
        type=pathlib.Path,
        metavar="FILE.hlo",
        help="output of export_hlo.py, the baseline first",
    )
    parser.add_argument(
        "--platform", choices=("cpu", "gpu"), help="the device (default: JAX's own choice)"
    )
    parser.add_argument(
        "--rounds", type=positive, default=20, metavar="N", help="turns of each file (default 20)"
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=0,
        metavar="N",
        help="steps per turn (default: as many as take a tenth of a second)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the first values of parameters (default 0)",
    )
    parser.add_argument(
        "--programs",
        action="store_true",
        help="the files are PROGRAM.COLUMN.hlo of several programs",
    )
    parser.add_argument(
        "--losses",
        type=positive,
        default=1,
        metavar="N",
        help="first steps whose losses are recorded in --json (default 1)",
    )
    parser.add_argument(
        "--jobs", type=positive, default=1, metavar="N", help="files compiled at once (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object for each program")
    args = parser.parse_args(argv)
    for name, paths in by_program(args.files).items() if args.programs else ():
        if not paths[0].stem.endswith(".float32"):
            parser.error("found %s, and no %s.float32.hlo to compare it with" % (paths[0], name))
    return args


def measure(args: argparse.Namespace) -> Iterator[Row]:
    """The results of each program, with the device's matmul rates in GFLOP/s."""
    import jax

    device = jax.devices(args.platform)[0]
    rates: Dict[str, float] = {}
    for paths in by_program(args.files).values() if args.programs else [args.files]:
        programs = compiled(paths, device, args)
        if programs:
            found = rows(programs, rates_of(programs, device, rates), args)
            yield {
                "device": device.device_kind,
                "platform": device.platform,
                "jax": jax.__version__,
                "xla_flags": os.environ.get("XLA_FLAGS", ""),
                "matmul_gflops": {column: rate / 1e9 for column, rate in sorted(rates.items())},
                "files": found,
            }


def compiled(paths: Sequence[pathlib.Path], device: Any, args: argparse.Namespace) -> List[Any]:
    """The files of a program, compiled; none if the baseline can't be."""
    from hlo.program import Program, ProgramError

    def load(path: pathlib.Path) -> Any:
        try:
            program = Program(path, device, args.seed, args.losses)
        except ProgramError as error:
            if not args.programs:
                raise
            print("time_hlo: %s" % error, file=sys.stderr, flush=True)
            return None
        if args.programs:
            text = "%s: compiled in %.0f s" % (path, program.compile_seconds)
            print(text, file=sys.stderr, flush=True)
        return program

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        found = list(pool.map(load, paths))
    return [program for program in found if program] if found[0] else []


def rates_of(programs: List[Any], device: Any, known: Dict[str, float]) -> Dict[str, float]:
    """The device's rates in the dtypes of programs; those that are new are measured and added."""
    from hlo.machine import matmul_rate

    for program in programs:
        for dtype in program.sidecar["flops"]:
            column = dtype if program.column != "tf32" else "tf32"
            if column not in known:
                known[column] = matmul_rate(column, device)
    return known


def by_program(paths: Sequence[pathlib.Path]) -> Dict[str, List[pathlib.Path]]:
    """The files of each program, the float32 one first."""
    found: Dict[str, List[pathlib.Path]] = {}
    for path in sorted(paths, key=lambda path: not path.stem.endswith(".float32")):
        found.setdefault(path.stem.rpartition(".")[0], []).append(path)
    return found


def rows(programs: List[Any], rates: Dict[str, float], args: argparse.Namespace) -> List[Row]:
    """The results of the files of a program, timed by turns."""
    from hlo.machine import share
    from hlo.seen import kernels, products

    seconds = turns(programs, args.rounds, args.steps)
    found = []
    for program, times in zip(programs, seconds):
        median = statistics.median(times)
        flops = program.sidecar["flops"]
        row = {
            "file": str(program.path),
            "column": program.column,
            "ms": 1e3 * median,
            "rounds": [1e3 * value for value in times],
            "ms_quartiles": [1e3 * value for value in quartiles(times)],
            "times": statistics.median([first / time for first, time in zip(seconds[0], times)]),
            "gflops": sum(flops.values()) / median / 1e9,
            "of_rate": share(flops, program.column, median, rates),
            "memory": program.memory(),
            "compile_s": program.compile_seconds,
            "trained": program.trained,
            "losses": program.losses(),
            "products": products(program.text),
            "kernels": [kernel._asdict() for kernel in kernels(program)]
            if program.platform != "cpu"
            else [],
        }
        found.append(row)
    return found


def turns(programs: List[Any], rounds: int, steps: int) -> List[List[float]]:
    """Seconds per step of each program in each round; in a round, programs run in turn."""
    counts = [steps or max(1, int(ENOUGH / program.seconds(2))) for program in programs]
    for program, count in zip(programs, counts):
        program.seconds(count)
    found: List[List[float]] = [[] for _ in programs]
    for _ in range(rounds):
        for program, count, times in zip(programs, counts, found):
            times.append(program.seconds(count))
    return found


def quartiles(times: List[float]) -> List[float]:
    """The first and the third quartile."""
    ordered = sorted(times)
    return [ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4 if len(ordered) > 1 else 0]]


if __name__ == "__main__":
    sys.exit(main())
