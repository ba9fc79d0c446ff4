"""`graphmp bench`: the speed of a conversion, its original and TensorFlow's own rewrite.

It also shows likely causes of a small speed-up.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import pathlib
import re
import shlex
import time
from typing import TYPE_CHECKING, Any, Dict, Tuple

from graphmp.bench.options import SECONDS, BenchOptions
from graphmp.cli.benched import present
from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.sources import add_source, convert_source, input_files, say_what_is_amiss
from graphmp.cli.steps import MADE_UP, add_step_timeout
from graphmp.cli.tables import show, write
from graphmp.cli.terminal import progress, reporter
from graphmp.cli.together import refuse_idle
from graphmp.config import Config
from graphmp.conversion.quiet import quiet_stderr
from graphmp.environment import prepare_training
from graphmp.errors import GraphmpError
from graphmp.files.outputs import check_file
from graphmp.wording import labelled

if TYPE_CHECKING:
    from graphmp.doctor.devices import Device

HELP = (
    "time a training graph, its conversion and TensorFlow's own rewrite in one run, and say why it"
    " isn't faster"
)
EXAMPLE = """  graphmp bench model.ckpt.meta --batch_sizes 32,64,128
  graphmp bench model.py --data feeds.py:batches --plot bench.svg -- --learning_rate 0.1
  graphmp bench model.ckpt.meta --batch_sizes 64 --memory_limit 2GB --json > bench.json
  graphmp bench model.ckpt.meta --costs=machine.costs --format=markdown
  graphmp bench out/converted.meta --verify_tensor_cores

The graphs run in turns, a few steps each, in processes of their own; a step runs all updates of
the graph, on the same batches. --data is as for `graphmp audit`; by default batches are made up
to suit each placeholder. The default --compute_dtype is bfloat16 on a CPU that multiplies
bfloat16 in hardware, else float16. A batch size that exceeds a graph's memory is a result. Peak
tensors are those of one step, by TensorFlow's run metadata, without variables; on a GPU all of
its allocator's. Exit status: 0 timed, 1 the converted graph ran at no batch size, 2 bad input.
With --verify_tensor_cores: 0 all matmuls and convolutions ran on Tensor Cores, 1 some did not, 2
there is no GPU with Tensor Cores."""
FLAGS = conversion_flags()
EVERYDAY = ("batch_sizes", "data", "compute_dtype", "plot", "memory_limit", "json")

_OF_TIMES = ("steps", "warmup", "rounds", "seconds", "plot", "format")
_BYTES = re.compile(r"(\d+(?:\.\d+)?)(B|kB|MB|GB)")
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, besides the conversion flags."""
    add_source(parser)
    parser.add_argument(
        "--data",
        default="",
        metavar="FEEDS",
        help="batches: an .npz file, or file.py:FUNCTION (default: made up)",
    )
    parser.add_argument(
        "--batch_sizes",
        default="32",
        metavar="N,N,...",
        help="for dimensions that the graph leaves open (default 32)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="N",
        help="time for the command, from which default steps and rounds follow (default %.0f)"
        % SECONDS,
    )
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help="timed steps of a graph in each round (default: by --seconds)",
    )
    parser.add_argument(
        "--warmup",
        type=int,
        metavar="N",
        help="steps of each graph before, which don't count (default 3, fewer if long)",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=(
            "turns of each graph (default: until --seconds are up, or speed-ups are known within"
            " 1%%)"
        ),
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of made-up batches")
    parser.add_argument(
        "--memory_limit",
        default="",
        metavar="SIZE",
        help="memory of a graph's process, or its share of a GPU: 1500MB, 2GB (default: no limit)",
    )
    parser.add_argument(
        "--plot",
        default="",
        metavar="FILE",
        help="draw times, speed-up and memory by batch size: .png or .svg; needs matplotlib",
    )
    parser.add_argument(
        "--verify_tensor_cores",
        action="store_true",
        help="run one step on a GPU and list which matmuls ran on Tensor Cores",
    )
    parser.add_argument(
        "--format",
        default="text",
        choices=("text", "markdown"),
        help="form of the output (default text)",
    )
    add_step_timeout(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Time and print; or examine the kernels of one step."""
    began, options = time.monotonic(), _options(args)
    picture = _picture_format(args)
    prepare_training()
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.bench.device import find
        from graphmp.bench.graphs import by_costs, check_costs
        from graphmp.bench.run import bench
    device = find()
    if args.verify_tensor_cores:
        return _verify(args, options, device)
    with reporter(began) as tell:
        until = began + options.seconds if options.fits_the_time else None
        flags = _conversion_options(device)
        costs = flags["costs"]
        check_costs(flags)
        conversion = convert_source(args, dict(flags, costs=""), lambda stage: tell(stage, until))
        say_what_is_amiss(conversion)
        tuned = by_costs(conversion, costs) if costs else None
        found = bench(conversion, device, options, dict(os.environ), tell, began, tuned)
    present(args, found, picture)
    return 0 if any(each.spread for each in found.runs if each.variant == "graphmp") else 1


def _options(args: argparse.Namespace) -> BenchOptions:
    """The options of the bench, checked."""
    numbers = {name: getattr(args, name) for name in ("steps", "warmup", "rounds", "seconds")}
    for name, number in numbers.items():
        if number is not None and not 0 < number < math.inf:
            raise GraphmpError(
                "GMP002", "--%s=%g: accepted are numbers above zero" % (name, number)
            )
    if args.data:
        refuse_idle(args, ["seed"], MADE_UP)
    if args.json:
        refuse_idle(args, ["format"], "without --json")
    if args.verify_tensor_cores:
        refuse_idle(args, _OF_TIMES, "without --verify_tensor_cores")
    given = {name: number for name, number in numbers.items() if number is not None}
    return BenchOptions(
        args.data,
        _batch_sizes(args.batch_sizes),
        seed=args.seed,
        memory_limit=_bytes(args.memory_limit),
        **given,
    )


def _batch_sizes(text: str) -> Tuple[int, ...]:
    """`64,32` as (32, 64)."""
    if not re.fullmatch(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*", text):
        raise GraphmpError(
            "GMP002",
            "--batch_sizes=%s: accepted are numbers above zero with commas between, such as 32,64"
            % text,
        )
    return tuple(sorted(set(map(int, text.split(",")))))


def _bytes(text: str) -> int:
    """`2GB` in bytes; 0 for no text."""
    found = _BYTES.fullmatch(text)
    if text and (found is None or not float(found.group(1))):
        raise GraphmpError(
            "GMP002",
            "--memory_limit=%s: accepted is a number above zero with a unit, such as 1500MB or 2GB"
            % text,
        )
    return int(float(found.group(1)) * _UNITS[found.group(2)]) if found else 0


def _picture_format(args: argparse.Namespace) -> str:
    """The format of a picture by its name, which must be supported and writable; or empty."""
    name = args.plot
    if not name:
        return ""
    check_file(pathlib.Path(name), input_files(args, options_of(FLAGS)))
    if importlib.util.find_spec("matplotlib") is None:
        raise GraphmpError(
            "GMP020",
            "--plot=%s: matplotlib, which draws it, is not installed: pip install 'graphmp[plot]'"
            % name,
        )
    form = pathlib.Path(name).suffix[1:]
    if form not in ("png", "svg"):
        raise GraphmpError(
            "GMP002", "--plot=%s: accepted are names that end in .png or .svg" % name
        )
    return form


def _conversion_options(device: Device) -> Dict[str, Any]:
    """The conversion flags; by default the compute dtype is the one that is fast here."""
    options = options_of(FLAGS)
    return (
        options
        if FLAGS["compute_dtype"].present
        else dict(options, compute_dtype=device.default_dtype)
    )


def _verify(args: argparse.Namespace, options: BenchOptions, device: Device) -> int:
    """Print which matmuls and convolutions of one step ran on Tensor Cores."""
    from graphmp.bench.kernels import products, tensor_cores
    from graphmp.gate.reading import read_graph

    tensor_cores.check(device)
    if not args.python and tensor_cores.is_converted(args.source, args.tag):
        meta_graph = read_graph(args.source, args.tag)
        training = tensor_cores.losses(meta_graph, Config.make(**_conversion_options(device)))
    else:
        with progress(3) as begin:
            conversion = convert_source(args, _conversion_options(device), begin)
        meta_graph, training = conversion.meta_graph, conversion.report["losses"]
    verdict = products.verify(*tensor_cores.traced(meta_graph, training, args.source, options))
    following = (
        "graphmp bench %s" % shlex.quote(args.source)
        if not verdict.exit_status
        else "change what is listed, then run this again"
    )
    if args.json:
        found = {
            "schema": "graphmp.tensor_cores/1",
            "rows": [row._asdict() for row in verdict.rows],
            "exit_status": verdict.exit_status,
            "next": following,
        }
        write(json.dumps(found, indent=1, sort_keys=True) + "\n")
    else:
        show(
            [
                *(("row", line) for line in products.text(verdict).splitlines()),
                ("row", ""),
                ("next", labelled("next", following)),
            ]
        )
    return int(verdict.exit_status)
