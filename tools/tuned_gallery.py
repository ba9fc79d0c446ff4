#!/usr/bin/env python3
"""Measure what tuning gains on the programs in examples/, enlarged until a step takes 50 ms.

usage: tuned_gallery.py sizes [NAME...] [--again]
       tuned_gallery.py measure [NAME...] [--seconds N] [--limit N] [--again]
                                [--clock wall|processor] [--folder FOLDER]
                                [--graphs FOLDER --batch_size N --results FILE]
                                [--compute_dtype float16|bfloat16]
       tuned_gallery.py table [--results FILE]

    python tools/tuned_gallery.py sizes
    python tools/tuned_gallery.py measure
    python tools/tuned_gallery.py table

`sizes` enlarges each program from its --smoke size: --width and --batch_size are doubled by turns
(--batch_size alone in a program without --width), until a float32 step takes 50 ms: by the wall
clock or the processor's, whichever says less, so that other work doesn't make a step look long. A
program that has sizes already is enlarged from these.

`measure` tunes each program with `graphmp tune`. Then, in another process, float32, the conversion
by bytes, the one by costs without the fallback on a whole graph, and TensorFlow's own pass train in
interleaved rounds, until the interval of each speed-up against float32 is within 3%, or --limit
seconds have passed; a later call adds rounds to those. Wall-clock and processor times of a step are
recorded: on a machine with other work the latter tell more.

`table` prints the results as Markdown.

With --graphs the training graphs (.meta) in a folder are measured in place of the programs, as they
are; their names are those of the files without the suffix.

Sizes are in examples/tuned_sizes.json, results in examples/tuned.json: a row is written as soon as
it is measured. FOLDER has the files of costs.

Exit status: 0; 1 if a program can't be measured; 2 for bad usage.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import graphmp
from graphmp.bench import graphs
from graphmp.bench.options import CLOCKS
from graphmp.bench.processes import feeds, processes
from graphmp.bench.processes.processes import Process, Starter, Trouble
from graphmp.bench.processes.timed_session import TimedSession
from graphmp.errors import GraphmpError
from graphmp.files.single import write_atomic
from graphmp.gate.reading import read_graph
from graphmp.graph.structure.view import GraphView
from graphmp.timings import order
from graphmp.tuning.files import dumps, read

# isort: split
import gallery
import tensorflow.compat.v1 as tf
from parts import tuned_table
from parts.timed_turns import WARM_UP, turn

Row = Dict[str, Any]
Sizes = Dict[str, int]  # flags of a program, by name
Step = Callable[[], None]
SIZES = gallery.EXAMPLES / "tuned_sizes.json"
RESULTS = gallery.EXAMPLES / "tuned.json"
ENOUGH = 0.050  # seconds of a float32 step
ORDER = ("width", "batch_size")  # doubled by turns
DTYPE = "bfloat16"
_STEPS = 8  # of which the quickest counts
_MOST = 16  # doublings
_GROWTH = 1.5  # doublings of a step's time by a doubling: two by the width, one by the batch
_FLAG = re.compile(r"--(\w+)=(\d+)")
_SMOKE = re.compile(r"--(width|batch_size) [A-Z_]+\s[^-]*?smoke\s+(\d+)\)")


def main(argv: Optional[List[str]] = None) -> int:
    """Find sizes, measure, or print the table. Return the exit status."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        args.do(args)
    except (gallery.Failed, GraphmpError, Trouble, OSError, ValueError) as error:
        print("tuned_gallery: %s" % error, file=sys.stderr)
        return 1
    return 0


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", metavar="sizes|measure|table")
    actions.required = True
    sizing = actions.add_parser("sizes", help="find the size of each program")
    measuring = actions.add_parser("measure", help="tune and time each program")
    table = actions.add_parser("table", help="print the results as Markdown")
    for action, do in ((sizing, find_sizes), (measuring, measure)):
        action.add_argument("names", nargs="*", metavar="NAME", help="program (default: all)")
        action.add_argument("--again", action="store_true", help="also those that have a row")
        action.set_defaults(do=do)
    table.set_defaults(do=print_table)
    for action in (measuring, table):
        action.add_argument("--results", type=pathlib.Path, default=RESULTS, metavar="FILE")
    measuring.add_argument(
        "--graphs", type=pathlib.Path, metavar="FOLDER", help="in place of the programs"
    )
    measuring.add_argument("--batch_size", type=int, default=8, help="of --graphs (default 8)")
    measuring.add_argument(
        "--folder",
        type=pathlib.Path,
        default=gallery.ROOT / "build" / "tuned",
        help="for the files of costs (default build/tuned)",
    )
    measuring.add_argument("--clock", choices=CLOCKS, default="wall", help="as for `graphmp tune`")
    measuring.add_argument(
        "--compute_dtype", choices=("float16", "bfloat16"), default=DTYPE, help="default " + DTYPE
    )
    for flag, default, text in (
        ("--seconds", 75, "for each tuning"),
        ("--limit", 300, "seconds for the rounds of a program"),
    ):
        measuring.add_argument(
            flag, type=float, default=default, metavar="N", help="%s (default %g)" % (text, default)
        )
    args = parser.parse_args(argv)
    accepted = [size["program"] for size in of_graphs(args)] or gallery.programs()
    unknown = sorted(set(getattr(args, "names", ())) - set(accepted))
    if unknown:
        parser.error("found %s, accepted: %s" % (", ".join(unknown), ", ".join(accepted)))
    return args


def find_sizes(args: argparse.Namespace) -> None:
    """Find and write the sizes of programs that have none yet."""
    for name in args.names or gallery.programs():
        rows = {row["program"]: row for row in gallery.read(SIZES)}
        if name in rows and not args.again:
            continue
        smoke = smoke_sizes(name)
        known = dict(_FLAG.findall(rows[name]["flags"])) if name in rows else {}
        start = {flag: int(known.get(flag, value)) for flag, value in smoke.items()}
        found, seconds = enlarged(smoke, start, lambda sizes, name=name: step(name, sizes))
        flags = "--smoke " + " ".join("--%s=%d" % pair for pair in sorted(found.items()))
        rows = {row["program"]: row for row in gallery.read(SIZES)}  # another process may add some
        rows[name] = {
            "program": name,
            "flags": flags,
            "batch_size": found["batch_size"],
            "float32_ms": round(1e3 * seconds, 1),
        }
        write(SIZES, list(rows.values()))
        print("%s  %s  %.0f ms" % (name, flags, 1e3 * seconds), flush=True)


def enlarged(smoke: Sizes, start: Sizes, step_of: Callable[[Sizes], float]) -> Tuple[Sizes, float]:
    """Sizes doubled by turns until a step takes 50 ms, and its seconds.

    Args:
        smoke: the sizes of --smoke.
        start: these, or some that were doubled already.
        step_of: seconds of a step in some sizes.

    Raises:
        gallery.Failed: it doesn't take 50 ms after 16 doublings.
    """
    names = [name for name in ORDER if name in smoke]
    first = sum(int(math.log2(start[name] / smoke[name])) for name in names)
    tried: Dict[int, float] = {}
    number = first
    while number <= _MOST:
        sizes = doubled(start, names, range(first, number))
        seconds = tried[number] = step_of(sizes)
        short = max((each for each in tried if tried[each] < ENOUGH), default=first - 1)
        enough = min((each for each in tried if tried[each] >= ENOUGH), default=None)
        if enough == short + 1:
            return doubled(start, names, range(first, enough)), tried[enough]
        if enough is not None:
            number = (short + enough) // 2
        else:
            number += max(1, int(math.log2(ENOUGH / seconds) / _GROWTH))
    raise gallery.Failed("a step takes %.3f s with %s" % (seconds, sizes))


def doubled(start: Sizes, names: Sequence[str], numbers: Sequence[int]) -> Sizes:
    """Sizes after some doublings; the number of each tells whose turn it is."""
    sizes = dict(start)
    for number in numbers:
        sizes[names[number % len(names)]] *= 2
    return sizes


def smoke_sizes(name: str) -> Sizes:
    """The --smoke values of the flags that are doubled, as the program's --help says."""
    status, out, err = gallery.python("examples/%s.py" % name, "--help")
    if status:
        raise gallery.Failed("%s: %s" % (name, err.strip()))
    return {flag: int(value) for flag, value in _SMOKE.findall(out)}


def step(name: str, sizes: Sizes) -> float:
    """Seconds of a float32 step: the quickest of a few, by the clock that says less."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        flags = ["--%s=%d" % pair for pair in sizes.items()]
        report = converted(name, ["--smoke", *flags], path)
        original = read_graph(path / "original.meta")
        targets = graphs.step_targets(GraphView(original.graph_def), report["losses"])
        training = graphs.write(original, targets, path / "timed.meta")
        specification = processes.spec({"float32": training}, 0, False)
        with Starter(path) as starter, Process(specification, starter) as process:
            made = process.ask("make_batches", "", [sizes["batch_size"]], 0, folder)[0][0]
            process.ask("open", "float32", made[2], 2)
            return min(
                second
                for clock in CLOCKS
                for second in process.ask("steps", "float32", made[2], _STEPS, clock)
            )


def converted(name: str, flags: Sequence[str], folder: pathlib.Path, *more: str) -> Row:
    """The report of a program's conversion by the rewrite; its graphs are in the folder."""
    source = ["examples/%s.py" % name, "--", *flags]
    return command("convert", DTYPE, "--engine=rewrite", "-o", str(folder), *more, *source)


def command(name: str, dtype: str, *arguments: str) -> Row:
    """The JSON that a command of graphmp prints.

    Raises:
        gallery.Failed: it fails.
    """
    flags = ["--compute_dtype=" + dtype, "--json"]
    status, out, err = gallery.python("-m", "graphmp", name, *flags, *arguments)
    if status:
        raise gallery.Failed("%s: %s" % (" ".join(arguments), gallery.failure(status, err)["text"]))
    return json.loads(out)


def measure(args: argparse.Namespace) -> None:
    """Tune and time programs, and write the row of each.

    Raises:
        gallery.Failed: some couldn't be measured; the others were.
    """
    failed = []
    sizes = {row["program"]: row for row in of_graphs(args) or gallery.read(SIZES)}
    for name in args.names or sorted(sizes):
        rows = {row["program"]: row for row in gallery.read(args.results)}
        has_costs = (args.folder / (name + ".costs")).exists()
        old = rows.get(name, {}) if has_costs and not args.again else {}
        if old and tuned_table.widest(old) <= tuned_table.WIDTH:
            continue
        try:
            timed(args, sizes[name], old, lambda row, rows=rows: keep(args.results, rows, row))
        except (gallery.Failed, GraphmpError, Trouble) as error:
            print("%s: %s" % (name, error), file=sys.stderr, flush=True)
            failed.append(name)
    if failed:
        raise gallery.Failed("not measured: %s" % ", ".join(failed))


def of_graphs(args: argparse.Namespace) -> List[Row]:
    """The rows of sizes of the graphs in a folder; none without --graphs."""
    folder = getattr(args, "graphs", None)
    return [
        {"program": path.stem, "flags": "", "batch_size": args.batch_size, "graph": str(path)}
        for path in sorted(folder.glob("*.meta") if folder else ())
    ]


def keep(results: pathlib.Path, rows: Dict[str, Row], row: Row) -> None:
    """Write a row beside the others."""
    rows[row["program"]] = row
    write(results, list(rows.values()))


def timed(args: argparse.Namespace, size: Row, old: Row, keep_row: Callable[[Row], None]) -> None:
    """Tune a program, unless an earlier call did, and time it until it is known well enough.

    Args:
        args: the command line.
        size: its row of sizes.
        old: its row of results; empty if there is none.
        keep_row: writes its row.
    """
    with tempfile.TemporaryDirectory() as text:
        folder, graph = pathlib.Path(text), str(pathlib.Path(text, "original.meta"))
        if "graph" in size:
            shutil.copy(size["graph"], graph)
        else:
            converted(size["program"], size["flags"].split(), folder)
        row = old or tuned(args, size, graph)
        with contextlib.ExitStack() as sessions:
            variants = opened(read_graph(graph), args, size, folder, sessions)
            ends = time.monotonic() + args.limit
            while tuned_table.widest(row) > tuned_table.WIDTH and time.monotonic() < ends:
                for name, (wall, processor) in one_round(variants, rounds_of(row)).items():
                    found = row["rounds"].setdefault(name, {"wall": [], "processor": []})
                    found["wall"].append(round(1e3 * wall, 3))
                    found["processor"].append(round(1e3 * processor, 3))
                row["load"] = max(row["load"], round(os.getloadavg()[0], 1))
                keep_row(row)
    print(tuned_table.one_line(row), flush=True)


def opened(
    original: tf.MetaGraphDef,
    args: argparse.Namespace,
    size: Row,
    folder: pathlib.Path,
    sessions: contextlib.ExitStack,
) -> Dict[str, Step]:
    """A function that trains a step in each variant, ready to be timed."""
    by_bytes = graphmp.convert(original, compute_dtype=args.compute_dtype, engine="rewrite")
    by_times = graphs.by_costs(by_bytes, str(path_of(args, size)))
    variants = {}
    for name, training in graphs.make(by_bytes, folder, by_times).trainings.items():
        session = sessions.enter_context(TimedSession(training))
        if not variants:
            made = feeds.make(session, "", [size["batch_size"]], 0, folder)
            batches = feeds.read(made[0].path)
        each = itertools.cycle(batches)
        variants[name] = lambda session=session, each=each: session.step(next(each))
        for _ in range(WARM_UP):
            variants[name]()
    return variants


def rounds_of(row: Row) -> int:
    """The number of rounds in a row."""
    return len(next(iter(row["rounds"].values()), {"wall": []})["wall"])


def one_round(variants: Dict[str, Step], number: int) -> Dict[str, Tuple[float, float]]:
    """Wall-clock and processor seconds of a step of each variant."""
    return {name: turn(variants[name]) for name in order(list(variants), number)}


def path_of(args: argparse.Namespace, size: Row) -> pathlib.Path:
    """The file of a program's costs."""
    return args.folder / (size["program"] + ".costs")


def tuned(args: argparse.Namespace, size: Row, graph: str) -> Row:
    """The row of a program that was tuned, without rounds.

    Its costs are in the folder, without the fallback of the whole graph.
    """
    load, path, dtype = os.getloadavg()[0], path_of(args, size), args.compute_dtype
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = ["--batch_size=%d" % size["batch_size"], "--seconds=%g" % args.seconds]
    flags += ["--clock=" + args.clock]
    found = command("tune", dtype, "-o", str(path), *flags, graph)
    costs = read(str(path))
    path.write_bytes(dumps(replace(costs, faster="")))
    with tempfile.TemporaryDirectory() as out:
        converting = ["--costs=%s" % path, "-o", out, "--engine=rewrite", graph]
        report = command("convert", dtype, *converting)
    return {
        "program": size["program"],
        "flags": size["flags"],
        "tensorflow": tf.__version__,
        "device": costs.machine.device,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "load": round(load, 1),
        "seconds": args.seconds,
        "clock": args.clock,
        "kept": found["faster"],
        "float32_nodes": found["float32_nodes"],
        "coverage": report["coverage"],
        "predicted": {key: round(value, 3) for key, value in speedups(report["costs"]).items()},
        "rounds": {},
    }


def speedups(costs: Row) -> Dict[str, float]:
    """The predicted speed-ups of a report's section on costs."""
    step = costs["measured_step_ns"]["float32"]
    return {name: step / max(1.0, each) for name, each in costs["predicted_step_ns"].items()}


def print_table(args: argparse.Namespace) -> None:
    """Print the results."""
    print("\n".join(tuned_table.text(gallery.read(args.results))))


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Write rows atomically, one per line."""
    lines = [json.dumps(row, allow_nan=False) for row in sorted(rows, key=lambda r: r["program"])]
    write_atomic(path, ('{"programs": [\n%s\n]}\n' % ",\n".join(lines)).encode())


if __name__ == "__main__":
    sys.exit(main())
