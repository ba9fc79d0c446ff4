"""`graphmp tune`: the costs of a training step on this machine, and whether they pay.

1. The graph is converted with everything in half precision that may be, and both graphs are traced
   in turns, in a process of their own: `measure`.
2. The graph is converted by the costs. Steps of float32, of the conversion by bytes and of the one
   by costs are timed in turns, in another process: the fastest is noted, and a conversion by these
   costs becomes that one.
"""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

import tensorflow.compat.v1 as tf

from graphmp.bench import graphs
from graphmp.bench.bench import TIMED, BenchRun
from graphmp.bench.options import Options as BenchOptions
from graphmp.bench.processes import processes
from graphmp.bench.processes.feeds import BatchFile
from graphmp.bench.processes.processes import Process, Starter, Trouble
from graphmp.bench.processes.timed_session import TrainingFile
from graphmp.bench.timing import schedule, turns
from graphmp.bench.tune.measure import measure
from graphmp.bench.tune.options import Options
from graphmp.config import Config
from graphmp.conversion.conversion import Conversion
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError
from graphmp.files.single import write_atomic
from graphmp.graph.structure.view import GraphView
from graphmp.policy import policy as policies
from graphmp.rewrite.decisions import in_half
from graphmp.rewrite.pipeline import rewrite
from graphmp.rewrite.traces import Traces
from graphmp.timings import Ratio, Rounds, speedup
from graphmp.tuning import files
from graphmp.tuning.costs import (
    BYTES,
    FLOAT32,
    HALF,
    OPERATIONS,
    TUNED,
    Costs,
    Time,
    median_time,
    quickest,
)
from graphmp.tuning.machine import this_machine

_MEASURING = 0.6  # of the time; the rest is for whole steps
Tell = Callable[[str, Optional[float]], None]


class Tuned:
    """The result of a tuning, whenever it ends.

    Attributes:
        costs: those that were written; None if it ended before there were any.
        rounds: seconds of whole steps in turns, by FLOAT32, BYTES, TUNED.
        interrupted: whether it ended early, by Ctrl-C.
        report: the report's section of the conversion by costs; empty if there was none.
    """

    def __init__(self) -> None:
        """Nothing is measured yet."""
        self.costs: Optional[Costs] = None
        self.rounds: Dict[str, Rounds] = {}
        self.interrupted = False
        self.report: Dict[str, Any] = {}

    def speedup(self, name: str) -> Optional[Ratio]:
        """The speed-up of BYTES or TUNED against float32; None if it wasn't timed."""
        both = FLOAT32 in self.rounds and name in self.rounds
        return speedup(self.rounds[FLOAT32], self.rounds[name]) if both else None


def tune(
    conversion: Conversion,
    device: Device,
    options: Options,
    output: pathlib.Path,
    tell: Tell = lambda what, ends: None,
) -> Tuned:
    """Measure the costs of a conversion's step, and write them.

    Args:
        conversion: of the graph, by bytes.
        device: the machine's.
        options: data and time.
        output: the file; it is written as soon as there is something to write.
        tell: receives each stage as it begins, and the expected end by `schedule.now()`.

    Raises:
        GraphmpError: GMP023 if the graph doesn't train, GMP024 if its step doesn't run, others for
            data as for an audit.
    """
    found = Tuned()
    with tempfile.TemporaryDirectory(prefix="graphmp_") as name:
        tuner = _Tuner(conversion, device, options, output, pathlib.Path(name), tell, found)
        with tuner.starter:
            try:
                tuner.measured()
                tuner.compared()
            except KeyboardInterrupt:
                found.interrupted = True
            tuner.write()
    return found


class _Tuner:
    def __init__(
        self,
        conversion: Conversion,
        device: Device,
        options: Options,
        output: pathlib.Path,
        folder: pathlib.Path,
        tell: Tell,
        found: Tuned,
    ):
        self._conversion = conversion
        self._config = _config_of(conversion)
        self._device = device
        self._options = options
        self._output = output
        self._folder = folder
        self._tell = tell
        self._found = found
        self._traces: Optional[Traces] = None
        self._made: Optional[BatchFile] = None
        self.starter = Starter(folder)

    def measured(self) -> None:
        """Trace both graphs."""
        report = self._conversion.report
        if not report["losses"]:
            raise GraphmpError(
                "GMP023", "%s: no training step was found in the graph" % report["source"]
            )
        self._tell("converting to half precision", None)
        half = self._in_half()
        trainings = self._written({FLOAT32: self._conversion.original, HALF: half})
        with self._process(trainings) as process:
            self._tell("making batches", None)
            self._made = self._batches(process)
            tensors = self._ask(process, "tensors", FLOAT32, self._made.path)
            self._traces = Traces(
                self._conversion.original, half, trainings[FLOAT32].targets, tensors
            )
            ends = schedule.now() + _MEASURING * self._options.seconds
            self._say("timing operations", ends)
            measure(
                self._traces,
                process,
                self._made.path,
                self._config.compute_dtype,
                ends,
                lambda left: self._say("timing operations", schedule.now() + left),
            )

    def compared(self) -> None:
        """Convert by the costs, and time whole steps."""
        costs = self._costs()
        if costs is None or costs.faster or self._made is None:
            return
        self._tell("converting by what was measured", None)
        path = self._folder / "measured.costs"
        path.write_bytes(files.dumps(costs))
        by_costs = graphs.by_costs(self._conversion, str(path))
        self._found.report = by_costs.report["costs"]
        trainings = self._written(
            {
                FLOAT32: self._conversion.original,
                BYTES: self._conversion.meta_graph,
                TUNED: by_costs.meta_graph,
            }
        )
        seconds = (1 - _MEASURING) * self._options.seconds
        with self._process(trainings) as process:
            runs = self._timed(process, list(trainings), seconds)
        self._found.rounds = {run.variant: run.rounds for run in runs if run.status == TIMED}

    def write(self) -> None:
        """Write what there is."""
        costs = self._costs()
        if costs is None:
            return
        rounds = self._found.rounds
        steps = {
            name: median_time(quickest([1e9 * second for steps in each for second in steps]))
            for name, each in rounds.items()
        }
        if FLOAT32 in rounds and TUNED in rounds:
            costs = replace(
                costs,
                faster=fastest(rounds),
                placement=self._found.report["placement"],
            )
        self._scale_predictions(costs, steps)
        self._found.costs = replace(
            costs,
            steps={**costs.steps, **steps},
            complete=costs.complete and not self._found.interrupted,
        )
        write_atomic(self._output, files.dumps(self._found.costs))

    def _scale_predictions(self, costs: Costs, steps: Dict[str, Time]) -> None:
        """Predict steps as of the float32 step that was timed, not of its operations' sum."""
        predicted = self._found.report.get("predicted_step_ns", {})
        alone = costs.steps[OPERATIONS % FLOAT32].nanoseconds
        if FLOAT32 in steps and alone:
            scale = steps[FLOAT32].nanoseconds / alone
            predicted.update({name: scale * value for name, value in predicted.items()})

    def _costs(self) -> Optional[Costs]:
        traces = self._traces
        if traces is None or not traces.steps[FLOAT32]:
            return None
        if not traces.steps[HALF] and not traces.given_up:
            return None
        size = self._made.batch_size if self._made is not None else None
        return traces.costs(
            this_machine(self._device),
            self._config.compute_dtype,
            self._conversion.report["source"],
            size,
        )

    def _in_half(self) -> tf.MetaGraphDef:
        """The graph with everything in half precision that may be, and no loss scale."""
        config = replace(self._config, loss_scale="none", clip_norm=0.0)
        policy = policies.load(config.compute_dtype, config.op_policy)
        recorded = self._conversion.before.recorded
        done = rewrite(self._conversion.before, config, policy, recorded, in_half)
        return done.meta_graph

    def _written(self, found: Dict[str, tf.MetaGraphDef]) -> Dict[str, TrainingFile]:
        view = GraphView(self._conversion.original.graph_def)
        targets = graphs.step_targets(view, self._conversion.report["losses"])
        return {
            name: graphs.write(meta_graph, targets, self._folder / (name + ".meta"))
            for name, meta_graph in found.items()
        }

    def _batches(self, process: Process) -> BatchFile:
        options = self._options
        folder = str(self._folder)
        answer = self._ask(
            process, "make_batches", options.data, [options.batch_size], options.seed, folder
        )
        return BatchFile(*answer[0][0])

    def _ask(self, process: Process, order: str, *arguments: Any) -> Any:
        try:
            return process.ask(order, *arguments)
        except Trouble as trouble:
            source = self._conversion.report["source"]
            raise GraphmpError(
                "GMP024",
                "%s: the step does not run: %s: %s" % (source, trouble.status, trouble.message),
            ) from None

    def _timed(self, process: Process, names: Sequence[str], seconds: float) -> List[BenchRun]:
        assert self._made is not None
        self._say("timing steps", schedule.now() + seconds)
        ends = schedule.now() + seconds
        runs = []
        for name in names:
            self._ask(process, "open", name, self._made.path, 1)
            alone = min(self._ask(process, "steps", name, self._made.path, 2))
            runs.append(BenchRun(name, self._made.batch_size, TIMED, alone=alone))
        left = max(0.0, ends - schedule.now())
        return turns.timed(
            runs,
            self._made.path,
            process,
            BenchOptions(),
            left,
            lambda rest: self._say("timing steps", schedule.now() + rest),
        )

    def _process(self, trainings: Dict[str, TrainingFile]) -> Process:
        return Process(processes.spec(trainings, 0, self._device.on_gpu), self.starter)

    def _say(self, what: str, ends: float) -> None:
        self._tell(what, ends)


def fastest(rounds: Mapping[str, Rounds]) -> str:
    """TUNED, unless another is shown to be faster: by the 95% interval of the rounds' ratios."""
    ratios = {name: speedup(rounds[TUNED], each) for name, each in rounds.items() if name != TUNED}
    shown = {name: ratio.value for name, ratio in ratios.items() if (ratio.low or 0.0) > 1.0}
    return max(sorted(shown), key=lambda name: shown[name], default=TUNED)


def _config_of(conversion: Conversion) -> Config:
    return Config.make(**conversion.report["flags"])
