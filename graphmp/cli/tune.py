"""`graphmp tune`: the time of each operation of a training step in both types on this machine."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import pathlib
import shlex
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence

from graphmp.bench.options import CLOCKS, PROCESSOR, WALL
from graphmp.bench.tune.options import SECONDS, TuneOptions
from graphmp.cli.flags import conversion_flags, options_of
from graphmp.cli.sources import add_source, convert_source, input_files, say_what_is_amiss
from graphmp.cli.steps import MADE_UP, add_batch_size, add_step_timeout
from graphmp.cli.tables import Line, section, show, write
from graphmp.cli.terminal import reporter
from graphmp.cli.together import refuse_idle
from graphmp.conversion.quiet import quiet_stderr
from graphmp.environment import prepare_training
from graphmp.errors import GraphmpError
from graphmp.files.outputs import check_file
from graphmp.wording import labelled, plural

if TYPE_CHECKING:
    from graphmp.bench.tune.tuned import Tuned
    from graphmp.timings import Ratio

HELP = (
    "time each operation of a training step in float32 and in half precision on this machine, for"
    " --costs=FILE"
)
EXAMPLE = """  graphmp tune model.ckpt.meta -o machine.costs
  graphmp tune model.py -o machine.costs --data feeds.py:batches -- --learning_rate 0.1
  graphmp convert model.ckpt.meta --costs=machine.costs --compute_dtype=bfloat16

Run it on the machine that trains, with the batch size that it trains with. Steps of both types are
traced in turns, in a process of their own; then whole steps of float32 and of the conversions by
bytes and by times are timed in turns. --data is as for `graphmp audit`; by default batches are made
up. The default --compute_dtype is bfloat16 on a CPU that multiplies bfloat16 in hardware, else
float16. Ctrl-C ends it early; the file then has what was measured. Exit status: 0 written, 1 it
can't be measured, 2 bad input, 130 interrupted."""
FLAGS = conversion_flags()
EVERYDAY = ("output", "data", "batch_size", "compute_dtype", "seconds", "json")
_INTERRUPTED = 130
_WIDE, _APART = 0.1, 0.02  # of a speed-up
_OPERATIONS, _FEW = ("float32_operations", "half_operations"), 6  # traced steps of each


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command, besides the conversion flags."""
    add_source(parser)
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the file of costs, by habit .costs"
    )
    data = parser.add_mutually_exclusive_group()
    data.add_argument(
        "--data",
        default="",
        metavar="FEEDS",
        help="batches: an .npz file, or file.py:FUNCTION (default: made up)",
    )
    data.add_argument(
        "--random_data",
        action="store_true",
        help="made-up batches that suit each placeholder's use (the default)",
    )
    add_batch_size(parser)
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="N",
        help="time for measuring (default %.0f)" % SECONDS,
    )
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default=WALL,
        help="by which whole steps are compared: processor, the time of all threads, tells more"
        " while the machine has other work (default wall)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of made-up batches")
    add_step_timeout(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Measure, write the file, print what was found."""
    began, options = time.monotonic(), _options(args)
    prepare_training()
    check_file(pathlib.Path(args.output), input_files(args, options_of(FLAGS)))
    found: Optional[Tuned] = None
    with contextlib.suppress(KeyboardInterrupt):
        found = _tuned(args, options, began)
    if found is None or found.costs is None:
        sys.stderr.write("graphmp: interrupted; nothing was written to %s\n" % args.output)
        return _INTERRUPTED
    _present(args, found)
    return _INTERRUPTED if found.interrupted else 0


def _tuned(args: argparse.Namespace, options: TuneOptions, began: float) -> Tuned:
    """Convert, measure and write the file."""
    with quiet_stderr():  # suppress TensorFlow's messages while it is imported
        from graphmp.bench.device import find
        from graphmp.bench.tune.tune import tune
    device = find()
    with reporter(began) as tell:
        conversion = convert_source(
            args, _conversion_options(device.default_dtype), lambda stage: tell(stage, None)
        )
        say_what_is_amiss(conversion)
        return tune(conversion, device, options, pathlib.Path(args.output), tell)


def _options(args: argparse.Namespace) -> TuneOptions:
    if args.batch_size < 1 or not 0 < args.seconds < math.inf:
        raise GraphmpError(
            "GMP002",
            "--batch_size and --seconds: found %d, %g; accepted are numbers above zero"
            % (args.batch_size, args.seconds),
        )
    if args.data:
        refuse_idle(args, ["seed"], MADE_UP)
    return TuneOptions(args.data, args.batch_size, args.seed, args.seconds, args.clock)


def _conversion_options(dtype: str) -> Dict[str, Any]:
    """The conversion flags; by default the compute dtype is the one that is fast here."""
    options = options_of(FLAGS)
    for name, accepted in (("engine", ("auto", "rewrite")), ("costs", ("",))):
        if options[name] not in accepted:
            raise GraphmpError(
                "GMP020",
                "--%s=%s: tune measures for the rewrite, by bytes; leave the flag out"
                % (name, options[name]),
            )
    if not FLAGS["compute_dtype"].present:
        options = dict(options, compute_dtype=dtype)
    if options["compute_dtype"] == "float32":
        raise GraphmpError(
            "GMP002", "--compute_dtype=float32: accepted by tune are float16 and bfloat16"
        )
    return dict(options, engine="rewrite")


def _present(args: argparse.Namespace, found: Tuned) -> None:
    """Print the findings, as --json or as text."""
    assert found.costs is not None
    following = "graphmp convert %s --costs=%s --compute_dtype=%s" % (
        shlex.quote(args.source),
        shlex.quote(args.output),
        found.costs.compute_dtype,
    )
    if args.json:
        write(json.dumps(_as_json(args, found, following), indent=1, sort_keys=True) + "\n")
        return
    lines: List[Line] = [("head", labelled(args.source.rstrip("/").split("/")[-1], _head(found)))]
    lines += [("row", labelled(*row)) for row in _rows(found)]
    show(
        [
            *lines,
            *_table(found, args.clock),
            ("row", ""),
            ("row", labelled("wrote", args.output)),
            ("next", labelled("next", following)),
        ]
    )
    if found.interrupted:
        sys.stderr.write(
            "graphmp: interrupted; %s has what was measured until then\n" % args.output
        )


def _as_json(args: argparse.Namespace, found: Tuned, following: str) -> Dict[str, Any]:
    costs = found.costs
    assert costs is not None
    return {
        "schema": "graphmp.tune/1",
        "source": args.source,
        "output": args.output,
        "compute_dtype": costs.compute_dtype,
        "complete": costs.complete,
        "machine": dict(costs.machine._asdict()),
        "batch_size": costs.batch_size,
        "clock": args.clock,
        "operations": len(costs.measurements),
        "casts": len(costs.casts),
        "faster": costs.faster,
        "float32_nodes": len(costs.float32_nodes),
        "kept": found.kept,
        "tuned_is_float32": found.is_float32,
        "rounds": {name: [list(steps) for steps in each] for name, each in found.rounds.items()},
        "speedup": {
            name: dict(ratio._asdict())
            for name in ("bytes", "tuned", "regions")
            for ratio in [found.speedup(name)]
            if ratio is not None
        },
        "conversion": found.report,
        "next": following,
    }


def _head(found: Tuned) -> str:
    costs = found.costs
    assert costs is not None
    return "%s against float32, batches of %s" % (
        costs.compute_dtype,
        costs.batch_size or "its own",
    )


def _rows(found: Tuned) -> Iterator[List[str]]:
    """The machine, what was measured, and how well it predicts."""
    from graphmp.rewrite.placement.times_as_reasons import duration

    costs, report = found.costs, found.report
    assert costs is not None
    yield [
        "device",
        "%s, %d threads; TensorFlow %s"
        % (costs.machine.device, costs.machine.threads, costs.machine.tensorflow),
    ]
    yield [
        "measured",
        "%d operations, %d nodes, %d casts%s"
        % (
            len(costs.measurements),
            len(costs.nodes),
            len(costs.casts),
            "" if costs.complete else "; interrupted before the end",
        ),
    ]
    if found.batches:
        yield ["batches", found.batches]
    given_up = [time_ for time_ in costs.steps.values() if math.isinf(time_.high)]
    if given_up:
        text = "float32: the first step in %s takes more than %s, so that no other one was timed"
        yield ["kept", text % (costs.compute_dtype, duration(given_up[0].nanoseconds))]
    if costs.float32_nodes:
        text = "%d nodes are better in float32 than by %s, by timed steps"
        yield ["regions", text % (len(costs.float32_nodes), costs.faster)]
    traced = [costs.steps[name].samples for name in _OPERATIONS if name in costs.steps]
    if min(traced, default=_FEW) < _FEW:
        steps = " and ".join([*map(str, traced[:-1]), plural(traced[-1], "step")])
        yield ["traced", "in %s only, times are rough: give more --seconds" % steps]
    if found.note:
        yield ["regions", "not timed to the end: " + found.note]
    held_back = report.get("held_back")
    if held_back:
        yield [
            "predicts",
            "%d held-back times: half of the time within %.0f%%, nine tenths within %.0f%%"
            % (held_back["measurements"], 100 * held_back["error"], 100 * held_back["worst"]),
        ]


def _table(found: Tuned, clock: str) -> List[Line]:
    """Predicted and measured time of a step, and the speed-up, of each way to place casts.

    Args:
        found: the result.
        clock: of the measured times.
    """
    from graphmp.rewrite.placement.times_as_reasons import duration

    costs = found.costs
    assert costs is not None
    predicted = found.report.get("predicted_step_ns", {})
    rows, ratios = [], [found.speedup(name) for name in ("bytes", "tuned", "regions")]
    for name in ("float32", "half", "bytes", "tuned", "regions"):
        time_ = costs.steps.get(name)
        if time_ is None:
            continue
        ratio = found.speedup(name) if name != "float32" else None
        rows.append(
            [
                name,
                ("> " if math.isinf(time_.high) else "") + duration(time_.nanoseconds),
                duration(predicted[name]) if name in predicted else "",
                _said(ratio),
                _remark(found, name),
            ]
        )
    if not rows:
        return []
    measured = "measured" if clock == WALL else clock
    lines = section("steps", rows, titles=["", measured, "predicted", "speed-up", ""])
    told = [*_apart(costs.steps, found), *_doubt(ratios, clock)]
    return lines + [("note", "  " + line) for line in told]


def _apart(steps: Mapping[str, Any], found: Tuned) -> List[str]:
    """A line on times and speed-ups, where the ones don't follow from the others.

    Args:
        steps: the time of a step by name.
        found: has the speed-ups.
    """
    for name in ("bytes", "tuned", "regions"):
        ratio = found.speedup(name)
        if ratio is None or not {"float32", name} <= set(steps):
            continue
        quotient = steps["float32"].nanoseconds / steps[name].nanoseconds
        if abs(quotient / ratio.value - 1) > _APART:
            return [
                "a time is that of the quickest quarter of all steps, a speed-up the mean of the"
                " rounds' own ratios: other work on the machine sets them apart"
            ]
    return []


def _remark(found: Tuned, name: str) -> str:
    """The remark beside the time of a step."""
    same = "in float32 throughout" if name == "tuned" and found.is_float32 else ""
    return "; ".join(filter(None, ["kept" if name == found.kept else "", same]))


def _doubt(ratios: Sequence[Optional[Ratio]], clock: str) -> List[str]:
    """Advice where speed-ups are known too roughly to choose by."""
    widest = max((ratio.margin for ratio in ratios if ratio is not None), default=0.0)
    if widest <= _WIDE:
        return []
    cures = ["while nothing else runs", "with more --seconds"]
    cures += ["by --clock=%s" % PROCESSOR] if clock != PROCESSOR else []
    return [
        "speed-ups are known within %.0f%% only, so that another run may keep another one: tune %s"
        % (100 * widest, " or ".join(cures))
    ]


def _said(ratio: Optional[Ratio]) -> str:
    if ratio is None:
        return ""
    interval = (
        "" if ratio.low is None or ratio.high is None else " (%.3f-%.3f)" % (ratio.low, ratio.high)
    )
    return "%.3f%s" % (ratio.value, interval)
