"""`graphmp bench`: which graphs fit into memory, and the time of their steps.

Each variant runs alone first, in a process of its own with ascending batch sizes: its memory, and
the shares of its steps. Those that fit are then timed in one process, in turns: in each round every
variant runs a few steps, and each round begins with another one. If their sessions don't fit into
memory together, each is opened only for its turn.
"""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import replace
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

import tensorflow.compat.v1 as tf

from graphmp.bench import graphs
from graphmp.bench.bench import (
    FAILED,
    FLOAT32,
    NAMES,
    TIMED,
    TOO_SLOW,
    TUNED,
    Bench,
    BenchRun,
    Input,
    ProcessMemory,
)
from graphmp.bench.device import limits
from graphmp.bench.kernels.shares import Shares
from graphmp.bench.options import BenchOptions
from graphmp.bench.processes import accumulation, processes
from graphmp.bench.processes.feeds import BatchFile
from graphmp.bench.processes.processes import Process, Starter, Trouble
from graphmp.bench.timing import schedule, turns
from graphmp.bench.timing.schedule import Tell
from graphmp.conversion.conversion import Conversion
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError
from graphmp.tuning.costs import Machine
from graphmp.tuning.machine import matches_this_machine

_FITS = 0.3  # of the time: limit for the runs alone
_PATIENCE = 30.0  # seconds: minimum for three steps of a variant, however little time there is
_LEAST = 0.3  # of the time: minimum for the bench, however long the conversion took


def bench(
    conversion: Conversion,
    device: Device,
    options: BenchOptions,
    environment: Mapping[str, str],
    tell: Tell = lambda what, ends: None,
    began: Optional[float] = None,
    tuned: Optional[Conversion] = None,
) -> Bench:
    """Time a conversion, its original and TensorFlow's own rewrite.

    Args:
        conversion: both graphs, with the report.
        device: the machine's.
        options: data and steps.
        environment: the process's variables, for settings of accumulation.
        tell: receives each stage as it begins, and the expected end by `schedule.now()`; None if it
            is unknown.
        began: start of the options' time, by `schedule.now()`; None for now.
        tuned: the conversion by costs, if it is to be timed too.

    Raises:
        GraphmpError: GMP002, GMP003, GMP005 and GMP024 for data, as for an audit; GMP023 if the
            graph doesn't train, GMP024 if its step doesn't run.
    """
    report = conversion.report
    with tempfile.TemporaryDirectory(prefix="graphmp_") as name:
        bencher = _Bencher(
            conversion,
            device,
            options,
            tell,
            pathlib.Path(name),
            schedule.now() if began is None else began,
            tuned,
        )
        with bencher.starter:
            made, waiting, sums = bencher.prepared(report["compute_dtype"])
            runs = bencher.timed(made, bencher.fitting(made))
    timed = [run for run in runs if run.status == TIMED]
    return Bench(
        source=report["source"],
        compute_dtype=report["compute_dtype"],
        tensorflow=tf.__version__,
        device=device,
        data=options.data or "random, seed %d" % options.seed,
        steps=min((len(run.rounds[0]) for run in timed), default=0),
        warmup=min((run.warmup for run in timed), default=0),
        rounds=min((len(run.rounds) for run in timed), default=0),
        seconds=options.seconds if options.fits_the_time else 0.0,
        seed=options.seed,
        memory_limit=options.memory_limit,
        variants=bencher.variants,
        runs=runs,
        input=waiting,
        accumulation=sums,
        environment={name: environment.get(name) for name in accumulation.VARIABLES.values()},
        notes=[
            *limits(device, report["compute_dtype"] if report["half_ops"] else "float32"),
            *_about_sizes(made, options),
            *_about_costs(tuned),
        ],
        fixed=_are_fixed(made, options),
        flags=report["flags"],
    )


class _Bencher:
    """The processes of one bench, one after another."""

    def __init__(
        self,
        conversion: Conversion,
        device: Device,
        options: BenchOptions,
        tell: Tell,
        folder: pathlib.Path,
        began: float,
        tuned: Optional[Conversion],
    ):
        self._options = options
        self._on_gpu = device.on_gpu
        self._tell = tell
        self._folder = folder
        self.starter = Starter(folder)
        self._source = conversion.report["source"]
        self._until = (
            max(began + options.seconds, schedule.now() + _LEAST * options.seconds)
            if options.fits_the_time
            else None
        )
        self._say("TensorFlow's own rewrite")
        self._trainings, missing = graphs.make(conversion, folder, tuned)
        self.variants = dict(dict.fromkeys(self._trainings, ""), **missing)

    def prepared(self, dtype: str) -> Tuple[List[BatchFile], Input, Dict[str, Optional[str]]]:
        """Batches, wait for the graph's own input, and dtypes in which products are added up."""
        options = self._options
        self._say("making batches")
        try:
            with self._process(0) as process:
                answer = process.ask(
                    "make_batches",
                    options.data,
                    options.batch_sizes,
                    options.seed,
                    str(self._folder),
                )
                errors = {} if dtype == "float32" else process.ask("accumulation", dtype)
        except Trouble as trouble:
            raise GraphmpError(
                "GMP024",
                "%s: the step does not run: %s: %s"
                % (self._source, trouble.status, trouble.message),
            ) from None
        made = [BatchFile(*each) for each in answer[0]]
        seconds = [each.seconds for each in made if each.seconds is not None]
        return (
            made,
            Input(*answer[1])._replace(seconds_a_batch=max(seconds, default=None)),
            accumulation.dtypes(errors, dtype),
        )

    def fitting(self, made: Sequence[BatchFile]) -> List[BenchRun]:
        """Each variant alone; those that fit have status TIMED and no times yet.

        Raises:
            GraphmpError: GMP024 if the original doesn't run.
        """
        found: List[BenchRun] = []
        limit = max(_PATIENCE, self._options.seconds) if self._options.fits_the_time else None
        share = _FITS * self._left(self._options.seconds) / (len(self._trainings) * len(made))
        for variant in self._trainings:
            with self._process(self._options.memory_limit) as process:
                for each in made:
                    self._say("%s alone%s" % (NAMES[variant], _at(each)))
                    slower = [
                        run
                        for run in found
                        if run.variant == variant
                        and run.status == TOO_SLOW
                        and _size(run) <= _size(each)
                    ]
                    found.append(
                        replace(slower[0], batch_size=each.batch_size)
                        if slower
                        else _fit(variant, each, process, share, limit, self._on_gpu)
                    )
            if variant == FLOAT32 and all(run.status in (FAILED, TOO_SLOW) for run in found):
                raise GraphmpError(
                    "GMP024", "%s: the step does not run: %s" % (self._source, found[0].message)
                )
        return found

    def timed(self, made: Sequence[BatchFile], fitting: Sequence[BenchRun]) -> List[BenchRun]:
        """All runs, those that fit with their times."""
        runs = [[run for run in fitting if run.batch_size == each.batch_size] for each in made]
        costs = [schedule.cost(self._options, sum(run.alone for run in those)) for those in runs]
        found: List[BenchRun] = []
        with self._process(0) as process:
            for number, each in enumerate(made):
                rest = sum(costs[number:])
                share = self._left(rest) * costs[number] / rest if rest else 0.0
                found += self._timed_at(each, runs[number], process, share, costs[number + 1 :])
        return found

    def _timed_at(
        self,
        made: BatchFile,
        runs: Sequence[BenchRun],
        process: Process,
        share: float,
        later: Sequence[float],
    ) -> List[BenchRun]:
        """Like `timed` for one batch size; `later` has the minimum seconds of each later one."""
        good = [run for run in runs if run.status == TIMED]
        if not good:
            return list(runs)
        others = max(sum(later), self._left(0.0) - share)

        def tell(left: float) -> None:
            self._tell("timing%s" % _at(made), schedule.now() + left + others)

        tell(share or schedule.cost(self._options, sum(run.alone for run in good)))
        timed = {
            run.variant: run
            for run in turns.timed(good, made.path, process, self._options, share, tell)
        }
        return [timed.get(run.variant, run) for run in runs]

    def _left(self, otherwise: float) -> float:
        """Seconds left; or the given number if the time determines nothing."""
        return otherwise if self._until is None else max(0.0, self._until - schedule.now())

    def _say(self, what: str) -> None:
        self._tell(what, self._until)

    def _process(self, memory_limit: int) -> Process:
        return Process(processes.spec(self._trainings, memory_limit, self._on_gpu), self.starter)


def _size(one: Union[BatchFile, BenchRun]) -> int:
    return one.batch_size or 0


def _at(made: BatchFile) -> str:
    return "" if made.batch_size is None else " at batch size %d" % made.batch_size


def _fit(
    variant: str,
    made: BatchFile,
    process: Process,
    seconds: float,
    limit: Optional[float],
    on_gpu: bool,
) -> BenchRun:
    try:
        if on_gpu:  # cuDNN tries the algorithms of each convolution, which may take a minute
            process.ask("open", variant, made.path, 1)
        memory, shares, ops, alone = process.ask("fit", variant, made.path, seconds, limit=limit)
    except Trouble as trouble:
        return BenchRun(variant, made.batch_size, trouble.status, trouble.message)
    return BenchRun(
        variant,
        made.batch_size,
        TIMED,
        memory=ProcessMemory(*memory),
        shares=Shares(*shares),
        ops=ops,
        alone=alone,
    )


def _are_fixed(made: Sequence[BatchFile], options: BenchOptions) -> bool:
    """Whether the batches have sizes other than the requested ones."""
    return [each.batch_size for each in made] != list(options.batch_sizes)


def _about_costs(tuned: Optional[Conversion]) -> List[str]:
    """Remarks on costs of another machine or other batches, and on what is faster as a whole."""
    if tuned is None:
        return []
    costs, path = tuned.report.get("costs"), tuned.report["flags"]["costs"]
    if not costs:
        return ["%s decides nothing: no part of the graph is worth half precision" % path]
    notes = []
    differs = matches_this_machine(Machine(*(costs[name] for name in Machine._fields)))
    if differs:
        notes.append("%s was measured on another machine: %s" % (path, differs))
    if costs["float32_nodes"]:
        text = "tuned has %d nodes in float32, with which steps were faster when %s was measured"
        notes.append(text % (costs["float32_nodes"], path))
    elif costs["kept"] != TUNED:
        what = "float32" if costs["kept"] == FLOAT32 else "the conversion by bytes"
        notes.append("tuned is %s, which was the fastest when %s was measured" % (what, path))
    return notes


def _about_sizes(made: Sequence[BatchFile], options: BenchOptions) -> List[str]:
    """Remarks on batches that don't fit."""
    varied = [each.in_words for each in made if each.sizes]
    if varied or not _are_fixed(made, options):
        return varied
    asked = ",".join(map(str, options.batch_sizes))
    if made[0].batch_size is None:
        return [
            "nothing that is fed has a batch dimension: the graph makes its own batches, and"
            " --batch_sizes=%s does nothing" % asked
        ]
    sizes = ", ".join(str(each.batch_size) for each in made)
    return [
        "the batch size is %s, by the graph or its data: --batch_sizes=%s changes nothing"
        % (sizes, asked)
    ]
