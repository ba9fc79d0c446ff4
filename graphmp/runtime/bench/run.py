"""`graphmp bench`: which graphs have the memory to run, and how long their steps take.

Each variant runs alone first, in a process of its own that takes the batch sizes in rising order: its memory, and where its steps spend
their time. Those that fit are then timed in one process, in turn: in each round every variant runs a few steps, and each round begins
with another one. Where their sessions don't fit into memory beside each other, each is opened for its turn alone.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.performance import device as devices
from graphmp.performance.bench import FAILED, FLOAT32, TIMED, VARIANTS, Bench, Input, Memory, Run
from graphmp.performance.device import Device
from graphmp.performance.shares import Shares
from graphmp.runtime.bench import graphs, processes, turns
from graphmp.runtime.bench.feeds import Made
from graphmp.runtime.bench.options import Options
from graphmp.runtime.bench.processes import Process, Trouble
from graphmp.runtime.conversion import Conversion

_WARMUP = 2  # the first step optimises the graph

Progress = Callable[[int], None]


def parts(options: Options) -> int:
    """How many parts a bench has: for each batch size each graph alone, and the rounds."""
    return len(options.batch_sizes) * (len(VARIANTS) + options.rounds)


def bench(conversion: Conversion, device: Device, options: Options, environment: Mapping[str, str], progress: Progress) -> Bench:
    """Times a conversion beside its original and TensorFlow's own rewrite.

    Args:
        conversion: both graphs, with the report.
        device: what computes.
        options: data and steps.
        environment: the process's variables, for what they say of accumulation.
        progress: told how many of `parts` are done.

    Raises:
        GraphmpError: GMP002, GMP003, GMP005 and GMP013 for data, as an audit's; GMP023 where the graph doesn't train, GMP024 where its
            step doesn't run.
    """
    report = conversion.report
    with tempfile.TemporaryDirectory(prefix="graphmp_") as name:
        bencher = _Bencher(conversion, device, options, progress, pathlib.Path(name))
        made, waiting, sums = bencher.prepared(report["compute_dtype"])
        runs = bencher.timed(made, bencher.fitting(made))
    return Bench(
        source=report["source"],
        compute_dtype=report["compute_dtype"],
        tensorflow=tf.__version__,
        device=device,
        data=options.data or "random, seed %d" % options.seed,
        steps=options.steps,
        warmup=options.warmup,
        rounds=options.rounds,
        seed=options.seed,
        memory_limit=options.memory_limit,
        variants=bencher.variants,
        runs=runs,
        input=waiting,
        accumulation=sums,
        environment={name: environment.get(name) for name in devices.ACCUMULATION.values()},
        notes=[*devices.limits(device, report["compute_dtype"] if report["half_ops"] else "float32"), *_about_sizes(made, options)],
        fixed=_are_fixed(made, options),
        flags=report["flags"],
    )


class _Bencher:
    """The processes of one bench, one after another."""

    def __init__(self, conversion: Conversion, device: Device, options: Options, progress: Progress, folder: pathlib.Path):
        self._options = options
        self._on_gpu = device.on_gpu
        self._progress = progress
        self._folder = folder
        self._source = conversion.report["source"]
        self._trainings, missing = graphs.make(conversion, folder)
        self.variants = dict(dict.fromkeys(self._trainings, ""), **missing)
        self._done = 0

    def prepared(self, dtype: str) -> Tuple[List[Made], Input, Dict[str, Optional[str]]]:
        """The batches; the wait for the graph's own input; what products add up in."""
        options = self._options
        try:
            with self._process(0) as process:
                answer = process.ask("make_batches", options.data, options.batch_sizes, options.seed, str(self._folder))
                errors = {} if dtype == "float32" else process.ask("accumulation", dtype)
        except Trouble as trouble:
            raise GraphmpError("GMP024", "%s: the step does not run: %s: %s" % (self._source, trouble.status, trouble.message)) from None
        made = [Made(*each) for each in answer[0]]
        self._tell(parts(options) - len(made) * (len(self._trainings) + options.rounds))
        seconds = [each.seconds for each in made if each.seconds is not None]
        return made, Input(*answer[1])._replace(seconds_a_batch=max(seconds, default=None)), devices.accumulation(errors, dtype)

    def fitting(self, made: Sequence[Made]) -> List[Run]:
        """Each variant alone; those that fit have status TIMED and no times yet.

        Raises:
            GraphmpError: GMP024 where the original doesn't run.
        """
        found: List[Run] = []
        for variant in self._trainings:
            with self._process(self._options.memory_limit) as process:
                for each in made:
                    found.append(_fit(variant, each, process))
                    self._tell(1)
            if variant == FLOAT32 and all(run.status == FAILED for run in found):
                raise GraphmpError("GMP024", "%s: the step does not run: %s" % (self._source, found[0].message))
        return found

    def timed(self, made: Sequence[Made], fitting: Sequence[Run]) -> List[Run]:
        """All runs, those that fit with their times."""
        found: List[Run] = []
        with self._process(0) as process:
            for each in made:
                found += self._timed_at(each, [run for run in fitting if run.batch_size == each.batch_size], process)
        return found

    def _timed_at(self, made: Made, runs: Sequence[Run], process: Process) -> List[Run]:
        """The same for one batch size."""
        begun = self._done

        def tell(rounds: int) -> None:
            self._tell(begun + rounds - self._done)

        good = [run for run in runs if run.status == TIMED]
        timed = {run.variant: run for run in (turns.timed(good, made.path, process, self._options, tell) if good else [])}
        tell(self._options.rounds)
        return [timed.get(run.variant, run) for run in runs]

    def _process(self, memory_limit: int) -> Process:
        return Process(processes.spec(self._trainings, memory_limit, self._on_gpu), self._folder)

    def _tell(self, more: int) -> None:
        self._done += more
        self._progress(self._done)


def _fit(variant: str, made: Made, process: Process) -> Run:
    try:
        memory, shares = process.ask("fit", variant, made.path, _WARMUP)
    except Trouble as trouble:
        return Run(variant, made.batch_size, trouble.status, trouble.message)
    return Run(variant, made.batch_size, TIMED, memory=Memory(*memory), shares=Shares(*shares))


def _are_fixed(made: Sequence[Made], options: Options) -> bool:
    """Whether batches don't have the sizes that were asked for."""
    return [each.batch_size for each in made] != list(options.batch_sizes)


def _about_sizes(made: Sequence[Made], options: Options) -> List[str]:
    """What to know of batches that don't."""
    if not _are_fixed(made, options):
        return []
    asked = ",".join(map(str, options.batch_sizes))
    if made[0].batch_size is None:
        return ["nothing that is fed has a batch dimension: the graph makes its own batches, and --batch_sizes=%s does nothing" % asked]
    sizes = ", ".join(str(each.batch_size) for each in made)
    return ["the batch size is %s, by the graph or its data: --batch_sizes=%s changes nothing" % (sizes, asked)]
