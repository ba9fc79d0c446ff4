#!/usr/bin/env python3
"""Measure the programs in examples/, and write the results into the table of examples/README.md.

usage: gallery.py measure [NAME...] [-o FILE] [--seeds N,N,...] [--no_bench] [--again]
       gallery.py table [-o FILE] [--readme FILE]

    python tools/gallery.py measure
    python tools/gallery.py measure lstm vgg --seeds=1 --no_bench
    python tools/gallery.py table

`measure` runs the programs one at a time, at --smoke size, with the TensorFlow of this Python, and
records for each:

- whether it converts by the recipe and by the rewrite, and with how many casts;
- whether it trains under `graphmp run`, and how far its last losses are from float32's, for each
  seed. The dtype is bfloat16; on TensorFlow 1, whose CPU kernels have no bfloat16 convolutions,
  float16;
- on TensorFlow 2, the ratio of the step times in float32 and bfloat16, by `graphmp bench`.

Each program's results are merged into FILE (default examples/gallery.json) as soon as they are
measured. A program is not measured again while its source and the seeds are unchanged.

Exit status: 0; 1 if a program doesn't train in float32 or a graph contradicts its report; 2 for bad
usage.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional, Sequence, Tuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import graphmp
from graphmp.cli.terminal import progress
from graphmp.errors import GraphmpError
from graphmp.files.single import write_atomic
from graphmp.gate.reading import read_graph
from graphmp.policy.dtypes import FLOAT32, HALF
from graphmp.report.facts import nodes_of

# isort: split
import numpy as np
import tensorflow.compat.v1 as tf
from parts import gallery_table

Row = Dict[str, Any]
ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
RESULTS = EXAMPLES / "gallery.json"
COMPUTE_DTYPE = "bfloat16" if tf.__version__ > "2" else "float16"
SHARE = 0.25  # the share of the last steps whose mean loss is compared
TIMED = (32, "--smoke")  # batch size and arguments of a program for `graphmp bench`
TIMED_LARGER = {  # for programs whose steps take less than a second at larger sizes
    "dqn": (32, ""),
    "fully_connected": (64, ""),
    "lstm": (32, "--smoke --length=32 --width=256 --vocabulary=1000"),
    "resnet50": (16, "--smoke --width=32 --image_size=64"),
    "transformer": (16, "--smoke --length=64 --heads=8 --head_width=32 --vocabulary=1000"),
    "unet": (2, "--smoke --image_size=188 --depth=3 --width=32"),
    "vae": (100, ""),
    "vgg": (16, "--smoke --width=32 --image_size=64"),
    "word2vec": (128, ""),
}
STEP = re.compile(r"^step +\d+((?:  \S.*? \S+)+)$", re.MULTILINE)
CONVERTED = re.compile(r"(\d+) of (\d+) matmuls and convolutions in \w+, (\d+) casts")
REFUSED = re.compile(r"^graphmp: error (GMP\d+): (.*)$", re.MULTILINE)


class Failed(Exception):
    """A program can't be measured; the text says which, and why."""


def main(argv: Optional[List[str]] = None) -> int:
    """Measure, or write the table. Return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    args = parse(argv)
    try:
        if args.action == "table":
            text = args.readme.read_text(encoding="utf-8")
            write_atomic(args.readme, gallery_table.replaced(text, read(args.output)).encode())
        else:
            measure(args, " ".join(map(shlex.quote, ["python", "tools/gallery.py", *argv])))
    except (Failed, GraphmpError, OSError, ValueError) as error:
        print("gallery: %s" % error, file=sys.stderr)
        return 1
    return 0


def parse(argv: List[str]) -> argparse.Namespace:
    """The parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", metavar="measure|table")
    actions.required = True
    measuring = actions.add_parser(
        "measure", help="measure programs and merge the results into FILE"
    )
    measuring.add_argument(
        "names", nargs="*", metavar="NAME", help="program, without .py (default: all)"
    )
    measuring.add_argument(
        "--seeds",
        type=numbers,
        default=[1, 2, 3],
        metavar="N,N,...",
        help="seeds of the training runs (default 1,2,3)",
    )
    measuring.add_argument("--no_bench", action="store_true", help="don't time steps")
    measuring.add_argument(
        "--again", action="store_true", help="also measure programs whose results are in FILE"
    )
    writing = actions.add_parser("table", help="write the table of the results in FILE")
    writing.add_argument(
        "--readme",
        type=pathlib.Path,
        default=EXAMPLES / "README.md",
        help="file with the table (default examples/README.md)",
    )
    for action in (measuring, writing):
        action.add_argument(
            "-o",
            "--output",
            type=pathlib.Path,
            default=RESULTS,
            metavar="FILE",
            help="default examples/gallery.json",
        )
    args = parser.parse_args(argv)
    unknown = sorted(set(getattr(args, "names", ())) - set(programs()))
    if unknown:
        parser.error("found %s, accepted are %s" % (", ".join(unknown), ", ".join(programs())))
    return args


def numbers(text: str) -> List[int]:
    """Integers separated by commas."""
    return [int(part) for part in text.split(",")]


def programs() -> List[str]:
    """The programs of the gallery, without .py: those that examples/training.py trains."""
    return sorted(
        path.stem
        for path in EXAMPLES.glob("*.py")
        if "training.train" in path.read_text(encoding="utf-8")
    )


def read(path: pathlib.Path) -> List[Row]:
    """The rows of a file of results; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8"))["programs"] if path.exists() else []


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Write a file of results atomically, one row per line."""
    ordered = sorted(rows, key=lambda row: (row["program"], row["tensorflow"]))
    write_atomic(
        path,
        (
            '{"programs": [\n%s\n]}\n'
            % ",\n".join(json.dumps(row, allow_nan=False) for row in ordered)
        ).encode(),
    )


def measure(args: argparse.Namespace, command: str) -> None:
    """Measure the requested programs that have no results yet; write the file after each."""
    bench = not args.no_bench and COMPUTE_DTYPE == "bfloat16"
    names = args.names or programs()
    with progress(len(names)) as begin:
        for name in names:
            begin(name)
            rows = {(row["program"], row["tensorflow"]): row for row in read(args.output)}
            old = rows.get((name, tf.__version__), {})
            known = old.get("digest") == digest(name, args.seeds) and not args.again
            if known and (old["speed"] or not bench):
                continue
            row = dict(
                about(name, args.seeds, command),
                **(old if known else train_and_convert(name, args.seeds)),
            )
            if bench:
                row["speed"] = dict(row["speed"], **speed(name))
            rows[name, tf.__version__] = row
            write(args.output, list(rows.values()))
            print(gallery_table.one_line(row), flush=True)


def digest(name: str, seeds: Sequence[int]) -> str:
    """A digest that identifies the measurements of a program.

    It covers the sources of the program and of the code shared by the programs, the seeds, and the
    share of steps compared.
    """
    sources = b"".join((EXAMPLES / (file + ".py")).read_bytes() for file in (name, "training"))
    return hashlib.sha256(sources + repr([*seeds, SHARE]).encode()).hexdigest()[:12]


def about(name: str, seeds: Sequence[int], command: str) -> Row:
    """The program, versions, date and machine of a measurement."""
    row = {
        "program": name,
        "tensorflow": tf.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    row.update(graphmp=graphmp.__version__, cpu=cpu(), command=command, digest=digest(name, seeds))
    return dict(row, date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))


def cpu(path: str = "/proc/cpuinfo") -> str:
    """The processor's name, from `path` or, without that file, from Python."""
    text = pathlib.Path(path).read_text() if os.path.exists(path) else ""
    names = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return names[0] if names else platform.processor() or platform.machine()


def train_and_convert(name: str, seeds: Sequence[int]) -> Row:
    """Convert a program both ways, and train it in float32 and by `graphmp run`."""
    with tempfile.TemporaryDirectory() as folder:
        row: Row = {
            engine: converted(name, engine, pathlib.Path(folder, engine))
            for engine in ("recipe", "rewrite")
        }
    trained = {seed: (losses(name, seed), mixed(name, seed)) for seed in seeds}
    failed = [found for _, (found, _) in trained.values() if "failed" in found]
    row["run"] = (failed or [trained[seeds[0]][1][0]])[0]
    parity = (
        {}
        if failed
        else {str(seed): compared(exact, half) for seed, (exact, (_, half)) in trained.items()}
    )
    return dict(
        row, parity={"compute_dtype": COMPUTE_DTYPE, "share": SHARE, "seeds": parity}, speed={}
    )


def python(*arguments: str) -> Tuple[int, str, str]:
    """Exit status, stdout and stderr of `python ARGUMENTS` in the project's folder.

    The path of this checkout is removed from stderr.
    """
    env = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
    )
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=env, cwd=str(ROOT)
    )
    return done.returncode, done.stdout, done.stderr.replace(str(ROOT) + os.sep, "")


def failure(status: int, err: str) -> Row:
    """The reason of a failed command: graphmp's error code if there is one, and its message."""
    found = REFUSED.search(err)
    code, text = (
        found.groups()
        if found
        else ("exit status %d" % status, (err.strip().splitlines() or [""])[-1])
    )
    return {"failed": code, "text": text}


def converted(name: str, engine: str, folder: pathlib.Path) -> Row:
    """Counts from `graphmp convert` on a program.

    They are matmuls and convolutions, those in half precision, casts added, and ops repaired.

    Raises:
        Failed: the number of casts in the graph is not the report's.
    """
    flags = ["--engine=" + engine, "-o", str(folder), "--json"]
    status, out, err = python(
        "-m", "graphmp", "convert", *flags, "examples/%s.py" % name, "--", "--smoke"
    )
    if status:
        return failure(status, err)
    report = json.loads(out)
    row = dict(
        report["coverage"],
        casts=report["graph"]["casts_inserted"],
        repaired=report["graph"]["repaired"],
    )
    before, after = (casts(folder / file) for file in ("original.meta", "converted.meta"))
    if after - before != row["casts"]:
        raise Failed(
            "%s: converted.meta of the %s has %d casts more, its report says %d"
            % (name, engine, after - before, row["casts"])
        )
    return row


def casts(path: pathlib.Path) -> int:
    """The number of casts in a file from float32 to half precision and back."""
    ends = [
        {node.attr["SrcT"].type, node.attr["DstT"].type}
        for node in nodes_of(read_graph(path).graph_def)
        if node.op == "Cast"
    ]
    return sum(FLOAT32 in pair and bool(pair & set(HALF)) for pair in ends)


def losses(name: str, seed: int) -> List[Dict[str, float]]:
    """The losses by name of each step of a program trained in float32.

    Raises:
        Failed: it doesn't train.
    """
    status, out, err = python(
        "examples/%s.py" % name, "--smoke", "--log_every=1", "--seed=%d" % seed
    )
    if status:
        raise Failed("%s: in float32: %s" % (name, failure(status, err)["text"]))
    return printed(out)


def mixed(name: str, seed: int) -> Tuple[Row, List[Dict[str, float]]]:
    """The result of `graphmp run` on a program.

    It is what was converted, or the failure, and the losses by name of each step.
    """
    flags = [
        "--compute_dtype=" + COMPUTE_DTYPE,
        "examples/%s.py" % name,
        "--smoke",
        "--log_every=1",
        "--seed=%d" % seed,
    ]
    status, out, err = python("-m", "graphmp", "run", *flags)
    found = CONVERTED.search(err)
    if status or not found:
        return failure(status, err), []
    return dict(
        zip(("converted_ops", "tensor_core_ops", "casts"), map(int, found.groups()))
    ), printed(out)


def printed(out: str) -> List[Dict[str, float]]:
    """The losses by name, parsed from lines such as `step 3  loss 0.5  penalty 0.1`."""
    return [
        {
            name: float(number)
            for name, number in (pair.rsplit(" ", 1) for pair in line.strip().split("  "))
        }
        for line in STEP.findall(out)
    ]


def compared(exact: Sequence[Dict[str, float]], half: Sequence[Dict[str, float]]) -> Row:
    """The mean of each loss over the last steps, as (float32, mixed); None if not finite."""
    last = math.ceil(SHARE * len(exact))
    means = {
        loss: [float(np.mean([step[loss] for step in steps[-last:]])) for steps in (exact, half)]
        for loss in exact[0]
    }
    return {
        loss: [float("%.6g" % mean) if math.isfinite(mean) else None for mean in pair]
        for loss, pair in means.items()
    }


def speed(name: str) -> Row:
    """The results of `graphmp bench` for bfloat16, by "cpu" or "gpu"; empty if it fails."""
    batch_size, flags = TIMED_LARGER.get(name, TIMED)
    arguments = [
        "--compute_dtype=bfloat16",
        "--batch_sizes=%d" % batch_size,
        "--json",
        "examples/%s.py" % name,
        "--",
        *flags.split(),
    ]
    status, out, _ = python("-m", "graphmp", "bench", *arguments)
    report = json.loads(out) if not status else {"runs": []}
    runs = {run["variant"]: run for run in report["runs"] if run["status"] == "timed"}
    if not {"float32", "graphmp"} <= set(runs):
        return {}
    ratio = {key: round(number, 3) for key, number in runs["graphmp"]["speedup"].items()}
    times = {
        key: round(runs[variant]["milliseconds"]["step"], 3)
        for key, variant in (("float32_ms", "float32"), ("bfloat16_ms", "graphmp"))
    }
    device = report["device"]
    return {
        "gpu" if device["capability"] else "cpu": dict(
            ratio, **times, device=device["name"], batch_size=batch_size, flags=flags
        )
    }


if __name__ == "__main__":
    raise SystemExit(main())
