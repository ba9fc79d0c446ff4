"""A bench in words: what was timed and how, the result, and what to do next."""

from __future__ import annotations

import shlex
from typing import Callable, Dict, List, Optional, Tuple

from graphmp.bench import causes
from graphmp.bench.bench import (
    FAILED,
    FLOAT32,
    GRAPHMP,
    TENSORFLOW,
    TIMED,
    TUNED,
    Bench,
    BenchRun,
)
from graphmp.timings import Ratio
from graphmp.wording import plural, printable

_MOST_CAUSES = 4


def variant(bench: Bench, name: str) -> str:
    """The name of a variant in tables."""
    return {
        FLOAT32: "float32",
        GRAPHMP: "graphmp " + bench.compute_dtype,
        TUNED: "graphmp tuned",
        TENSORFLOW: "TensorFlow's " + bench.compute_dtype,
    }[name]


def methods(bench: Bench) -> List[str]:
    """How the steps were timed; batch sizes with equal methods are named together."""
    ways: Dict[Tuple[int, int, int], List[str]] = {}
    for run in bench.runs:
        if run.status == TIMED:
            sizes = ways.setdefault((len(run.rounds), len(run.rounds[0]), run.warmup), [])
            sizes += [size for size in [batch(run.batch_size)] if size not in sizes]
    return [
        ("batch size %s: " % ", ".join(sizes) if len(ways) > 1 else "") + _way(*way)
        for way, sizes in ways.items()
    ]


def _way(rounds: int, steps: int, warmup: int) -> str:
    counted = "%s of %s a graph, in turn" % (plural(rounds, "round"), plural(steps, "step"))
    return "%s; %s before, not counted" % (counted, plural(warmup, "warm-up step"))


ESTIMATOR = (
    (
        "ms/step: the geometric mean of the rounds' medians; speed-up: its quotient, so it is the"
        " mean of the rounds' own ratios,"
    ),
    (
        "whose spread the 95% interval tells (Student's t of their logarithms); quartiles and"
        " range: of single steps, all rounds"
    ),
)


def milliseconds(seconds: float) -> str:
    """Three digits: `0.123`, `12.3`, `1,230`."""
    value = 1000 * seconds
    return (
        format(value, ",.0f") if value >= 100 else "%.3g" % value if value < 10 else "%.1f" % value
    )


def ratio(value: Optional[Ratio]) -> List[str]:
    """A speed-up and its interval."""
    if value is None:
        return ["", ""]
    return [
        "%.2fx" % value.value,
        "" if value.low is None else "%.2f-%.2f" % (value.low, value.high or 0.0),
    ]


def batch(size: Optional[int]) -> str:
    """A batch size; a dash if nothing is fed."""
    return "-" if size is None else format(size, ",")


def missing(bench: Bench) -> List[str]:
    """The variants missing in the table, and why."""
    return [
        "%s: not timed: %s" % (variant(bench, name), why)
        for name, why in bench.variants.items()
        if why
    ]


def trouble(run: BenchRun) -> str:
    """Words in place of a run's missing times."""
    return "%s: %s" % (run.status, printable(run.message)) if run.message else run.status


def memory_lines(bench: Bench) -> List[str]:
    """Batch sizes that only the conversion can run."""
    if not bench.only_converted:
        return []
    sizes = ", ".join(format(size, ",") for size in bench.only_converted)
    return ["batch size %s: float32 runs out of memory, the converted graph runs" % sizes]


def cause_lines(bench: Bench, size: Optional[int]) -> List[str]:
    """The likely causes of a small speed-up, with their share of the step."""
    found = bench.causes(size)
    return [
        "%3.0f%%  %s: %s" % (100 * cause.share, cause.kind, cause.text)
        for cause in (found or [])[:_MOST_CAUSES]
    ]


def input_line(bench: Bench) -> str:
    """Lines on the wait for input."""
    parts = []
    if bench.input.seconds_a_batch is not None:
        parts.append(
            "%s ms a batch, made while no step is timed" % milliseconds(bench.input.seconds_a_batch)
        )
    if bench.input.waiting is not None:
        parts.append(
            "a float32 step with the graph's own pipeline waits %.0f%% of its time for it"
            % (100 * bench.input.waiting)
        )
    if bench.input.message:
        parts.append("the graph's own pipeline wasn't timed: %s" % printable(bench.input.message))
    return "; ".join(parts)


def sums(bench: Bench) -> str:
    """The precision in which half-precision products are added up, and its cause.

    Nothing without half precision.
    """
    if not bench.accumulation:
        return ""
    said = ", ".join(
        "%ss add up in %s" % (kind, dtype or "nothing: there is no kernel")
        for kind, dtype in bench.accumulation.items()
    )
    if not bench.device.on_gpu or bench.compute_dtype != "float16":
        return "%s %s, as measured; %s are for float16 on a GPU" % (
            bench.compute_dtype,
            said,
            " and ".join(bench.environment),
        )
    values = ", ".join(
        "%s %s" % (name, "is not set" if value is None else "is %s" % printable(value))
        for name, value in bench.environment.items()
    )
    return "float16 %s, as measured; %s; TensorFlow's default is 1, float32" % (said, values)


def next_step(bench: Bench, is_graph: bool) -> str:
    """The next command to try. A Python file must be converted before it can be inspected."""
    source = shlex.quote(printable(bench.source))
    ours = [run for run in bench.runs if run.variant == GRAPHMP]
    if not any(run.status == TIMED for run in ours):
        return (
            "graphmp audit %s --random_data" % source
            if any(run.status == FAILED for run in ours)
            else "smaller --batch_sizes"
        )
    ratios = [value for value in map(bench.speedup, ours) if value]
    convert = "graphmp convert %s --compute_dtype=%s" % (source, bench.compute_dtype)
    if bench.only_converted or any(
        value.value >= causes.ENOUGH and value.shows_a_difference for value in ratios
    ):
        return convert
    if not bench.device.on_gpu and bench.compute_dtype == "float16":
        better = (
            ", or: graphmp bench %s --compute_dtype=bfloat16" % source
            if bench.device.fast_bfloat16
            else ""
        )
        return "run this on a GPU of compute capability 7.0 or later" + better
    if not all(map(bench.tells_enough, ratios)):
        longer = (
            "--seconds=%.0f" % (4 * bench.seconds)
            if bench.seconds
            else "--rounds=%d" % (4 * bench.rounds)
        )
        return "graphmp bench %s %s, for intervals that tell more" % (source, longer)
    found = [cause for size in bench.batch_sizes for cause in bench.causes(size) or []]
    worst = max(found, key=lambda cause: cause.share, default=None)
    inspect = (
        "graphmp inspect %s" % source
        if is_graph
        else "graphmp convert %s, and graphmp inspect its original.meta" % source
    )
    return _ADVICE[worst.kind](bench, inspect) if worst else inspect


def _larger(bench: Bench, inspect: str) -> str:
    """Larger batches, if they can be requested."""
    return inspect if bench.fixed else "larger --batch_sizes, or: %s" % inspect


_Advice = Callable[[Bench, str], str]
_ADVICE: Dict[str, _Advice] = {
    causes.INPUT: lambda bench, inspect: "make the input faster, then run this again",
    causes.IDLE: lambda bench, inspect: _larger(bench, inspect),
    causes.KERNELS: lambda bench, inspect: "graphmp doctor says what this machine computes fast",
    causes.FEW_PRODUCTS: lambda bench, inspect: _larger(bench, inspect),
    causes.CASTS: lambda bench, inspect: "%s, which lists what keeps the casts" % inspect,
    causes.SCALING: lambda bench, inspect: (
        "a fixed --loss_scale=128 needs no check of each gradient"
    ),
    causes.SHAPES: lambda bench, inspect: "%s, which lists the dimensions" % inspect,
    causes.SLOWER: lambda bench, inspect: (
        "graphmp tune %s -o machine.costs, then --costs=machine.costs"
        % shlex.quote(printable(bench.source))
    ),
}
