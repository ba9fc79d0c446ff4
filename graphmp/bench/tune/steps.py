"""Whole steps of a tuning's graphs, in processes of their own."""

from __future__ import annotations

import pathlib
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.bench import graphs
from graphmp.bench.bench import TIMED, BenchRun
from graphmp.bench.options import BenchOptions
from graphmp.bench.processes import processes
from graphmp.bench.processes.feeds import BatchFile
from graphmp.bench.processes.processes import Process, Starter, Trouble
from graphmp.bench.processes.timed_session import TrainingFile
from graphmp.bench.timing import schedule, turns
from graphmp.bench.tune.options import TuneOptions
from graphmp.conversion.conversion import Conversion
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError
from graphmp.graph.structure.view import GraphView
from graphmp.timings import Rounds

_ROUNDS = 5  # in each of two processes: fewer and longer ones than in a single process
_CHEAP = 0.25  # of the steps' time: to open the graphs in another process


class StepProcesses:
    """The processes that run steps of a tuning.

    Attributes:
        made: the batches; None until they are made.
        starter: the process to fork.
    """

    def __init__(
        self, conversion: Conversion, device: Device, options: TuneOptions, folder: pathlib.Path
    ):
        """Nothing is started yet."""
        self.made: Optional[BatchFile] = None
        self.starter = Starter(folder)
        self._conversion = conversion
        self._on_gpu = device.on_gpu
        self._options = options
        self._folder = folder

    def written(self, found: Mapping[str, tf.MetaGraphDef]) -> Dict[str, TrainingFile]:
        """Write graphs, with the original's targets."""
        view = GraphView(self._conversion.original.graph_def)
        targets = graphs.step_targets(view, self._conversion.report["losses"])
        return {
            name: graphs.write(meta_graph, targets, self._folder / (name + ".meta"))
            for name, meta_graph in found.items()
        }

    def process(self, trainings: Dict[str, TrainingFile]) -> Process:
        """A process for some graphs."""
        specification = processes.spec(trainings, 0, self._on_gpu, resident=self._on_gpu)
        return Process(specification, self.starter)

    def ask(self, process: Process, order: str, *arguments: Any) -> Any:
        """Have an order carried out.

        Raises:
            GraphmpError: GMP024 if it can't be.
        """
        try:
            return process.ask(order, *arguments)
        except Trouble as trouble:
            source = self._conversion.report["source"]
            raise GraphmpError(
                "GMP024",
                "%s: the step does not run: %s: %s" % (source, trouble.status, trouble.message),
            ) from None

    def make_batches(self, process: Process) -> BatchFile:
        """Make the batches that all graphs are fed."""
        options, folder = self._options, str(self._folder)
        sizes = [options.batch_size]
        answer = self.ask(process, "make_batches", options.data, sizes, options.seed, folder)
        self.made = BatchFile(*answer[0][0])
        return self.made

    def timed(
        self,
        meta_graphs: Mapping[str, tf.MetaGraphDef],
        seconds: float,
        tell: Callable[[float], None] = lambda left: None,
    ) -> Dict[str, Rounds]:
        """Seconds of steps of some graphs in turns, in processes of their own.

        In two if opening the graphs is cheap: a graph may be slower in one process than in another.

        Args:
            meta_graphs: the graphs, by name.
            seconds: for the steps, about; opening the graphs takes more.
            tell: receives the number of seconds left, as soon as the graphs are open.

        Raises:
            GraphmpError: GMP024 if a step doesn't run.
        """
        trainings = self.written(meta_graphs)
        rounds, left = self._timed(trainings, seconds, True, tell)
        if not left:
            return rounds
        again, _ = self._timed(trainings, left, False, tell)
        return {name: [*rounds[name], *again[name]] for name in rounds if name in again}

    def _timed(
        self,
        trainings: Dict[str, TrainingFile],
        seconds: float,
        is_first: bool,
        tell: Callable[[float], None],
    ) -> Tuple[Dict[str, Rounds], float]:
        """Seconds of steps in one process, and the time that is left for another.

        Args:
            trainings: the graphs.
            seconds: for the steps; the first process leaves half of it if opening is cheap.
            is_first: whether it is the first process.
            tell: receives the number of seconds left, in both processes.
        """
        assert self.made is not None
        path, runs, began = self.made.path, [], schedule.now()
        with self.process(trainings) as process:
            for name in trainings:
                self.ask(process, "open", name, path, 1)
                alone = min(self.ask(process, "steps", name, path, 2))
                runs.append(BenchRun(name, self.made.batch_size, TIMED, alone=alone))
            opening = schedule.now() - began
            left = seconds / 2 if is_first and opening <= _CHEAP * seconds else 0.0
            tell(seconds + opening if left else seconds)
            rounds = _ROUNDS if left or not is_first else 0
            options = BenchOptions(clock=self._options.clock, rounds=rounds)
            timed = turns.timed(runs, path, process, options, seconds - left, lambda rest: None)
        return {run.variant: run.rounds for run in timed if run.status == TIMED}, left
