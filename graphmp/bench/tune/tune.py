"""`graphmp tune`: the costs of a training step on this machine, and whether they pay.

1. The graph is converted with everything in half precision that may be, and both graphs are traced
   in turns, in a process of their own: `measure`.
2. The graph is converted by the costs. Steps of float32, of the conversion by bytes and of the one
   by costs are timed in turns, in other processes: the fastest is noted, and a conversion by these
   costs becomes that one.
3. Where the steps aren't as predicted, or none is shown to be faster than float32, regions of the
   faster conversion are decided by timed steps: `halving`.
"""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from dataclasses import replace
from typing import Dict, Iterator, Optional, Tuple

import tensorflow.compat.v1 as tf

from graphmp.bench import graphs
from graphmp.bench.timing import schedule
from graphmp.bench.timing.schedule import Tell
from graphmp.bench.tune.halving import Halving, starting_point
from graphmp.bench.tune.measure import measure
from graphmp.bench.tune.options import TuneOptions
from graphmp.bench.tune.steps import StepProcesses
from graphmp.bench.tune.tuned import Tuned
from graphmp.config import Config
from graphmp.conversion.conversion import Conversion
from graphmp.doctor.devices import Device
from graphmp.errors import GraphmpError, said
from graphmp.files.interrupts import deferred
from graphmp.files.single import write_atomic
from graphmp.policy import policy as policies
from graphmp.policy.dtypes import is_in_half
from graphmp.report.training import nothing_trains
from graphmp.rewrite.decisions import decided, in_half
from graphmp.rewrite.pipeline import Solver, rewrite
from graphmp.session.steps.traces import Traces
from graphmp.timings import fastest
from graphmp.tuning import files
from graphmp.tuning.costs import (
    BYTES,
    FLOAT32,
    HALF,
    OPERATIONS,
    REGIONS,
    TUNED,
    WHOLE,
    Costs,
    Time,
    median_time,
    quickest,
)
from graphmp.tuning.machine import this_machine

_MEASURING, _COMPARING = 0.5, 0.25  # of the time; the rest is for regions, where they are timed


def tune(
    conversion: Conversion,
    device: Device,
    options: TuneOptions,
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
        GraphmpError: GMP020 if nothing is converted, GMP023 if the graph doesn't train, GMP024 if
            its step doesn't run, others for data as for an audit.
    """
    found = Tuned()
    with _until_interrupted(found), tempfile.TemporaryDirectory(prefix="graphmp_") as name:
        tuner = _Tuner(conversion, device, options, output, pathlib.Path(name), tell, found)
        with tuner.starter:
            with _until_interrupted(found):
                tuner.measured()
                tuner.compared()
                tuner.halved()
            with _until_interrupted(found), deferred():
                tuner.write()
    return found


@contextlib.contextmanager
def _until_interrupted(found: Tuned) -> Iterator[None]:
    """A block that Ctrl-C ends, which is noted."""
    try:
        yield
    except KeyboardInterrupt:
        found.interrupted = True


class _Tuner:
    def __init__(
        self,
        conversion: Conversion,
        device: Device,
        options: TuneOptions,
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
        self._steps = StepProcesses(conversion, device, options, folder)
        self._tell = tell
        self._found = found
        self._traces: Optional[Traces] = None
        self._graphs: Dict[str, tf.MetaGraphDef] = {}  # that were compared
        self._faster = ""  # after regions were decided
        self._nodes: Tuple[str, ...] = ()
        self.starter = self._steps.starter

    def measured(self) -> None:
        """Trace both graphs."""
        report = self._conversion.report
        if not report["losses"]:
            raise nothing_trains(report["source"])
        left = said("GMP108", report["warnings"])
        if left:
            raise GraphmpError(
                "GMP020", "%s: tune has nothing to time: %s" % (report["source"], left)
            )
        self._tell("converting to half precision", None)
        half = self._in_half()
        trainings = self._steps.written({FLOAT32: self._conversion.original, HALF: half})
        whole = {WHOLE % name: training for name, training in trainings.items()}
        with self._steps.process({**trainings, **whole}) as process:
            self._tell("making batches", None)
            made = self._steps.make_batches(process)
            self._found.batches = made.in_words
            tensors = self._steps.ask(process, "tensors", FLOAT32, made.path)
            self._traces = Traces(
                self._conversion.original, half, trainings[FLOAT32].targets, tensors
            )
            ends = schedule.now() + _MEASURING * self._options.seconds
            self._say("timing operations", ends)
            measure(
                self._traces,
                process,
                made.path,
                self._config.compute_dtype,
                self._options.clock,
                self._device.on_gpu,
                ends,
                lambda left: self._say("timing operations", schedule.now() + left),
            )

    def compared(self) -> None:
        """Convert by the costs, and time whole steps."""
        costs = self._costs()
        if costs is None or costs.faster or self._steps.made is None:
            return
        self._tell("converting by what was measured", None)
        path = self._folder / "measured.costs"
        path.write_bytes(files.dumps(costs))
        by_costs = graphs.by_costs(self._conversion, str(path))
        self._found.report = by_costs.report["costs"]
        self._found.is_float32 = not is_in_half(by_costs.meta_graph.graph_def)
        graphs_of = {
            FLOAT32: self._conversion.original,
            BYTES: self._conversion.meta_graph,
            TUNED: by_costs.meta_graph,
        }
        self._tell("timing steps", None)
        self._found.rounds = self._steps.timed(
            graphs_of,
            _COMPARING * self._options.seconds,
            lambda left: self._say("timing steps", schedule.now() + left),
        )
        self._graphs = graphs_of

    def halved(self) -> None:
        """Decide on regions by timed steps, where that is needed."""
        found, costs = self._found, self._costs()
        if costs is None or not self._graphs:
            return
        base = starting_point(found.rounds, self._predicted(costs), self._is_in_half)
        if base is None:
            return
        seconds = (1 - _MEASURING - _COMPARING) * self._options.seconds
        ends = schedule.now() + seconds
        self._say("timing regions", ends)
        halving = Halving(
            base,
            replace(costs, placement=found.report["placement"]),
            self._graphs,
            self._converted,
            self._steps.timed,
        )
        try:
            halving.search(ends, min(map(min, found.rounds[FLOAT32])))
        except GraphmpError as error:  # what was measured before is kept
            found.note = str(error)
        finally:
            if halving.nodes:
                found.of_regions = halving.rounds
                self._faster, self._nodes = halving.settled()

    def _predicted(self, costs: Costs) -> Dict[str, float]:
        """The predicted speed-ups."""
        step = _float32_step(costs)
        predicted = self._found.report.get("predicted_step_ns", {})
        return {name: step.nanoseconds / max(1.0, each) for name, each in predicted.items()}

    def _is_in_half(self, name: str) -> bool:
        return is_in_half(self._graphs[name].graph_def)

    def _converted(self, costs: Costs) -> tf.MetaGraphDef:
        """The graph by some costs."""
        path = self._folder / "asked.costs"
        path.write_bytes(files.dumps(costs))
        return self._rewritten(replace(self._config, costs=str(path)))

    def write(self) -> None:
        """Write what there is."""
        costs = self._costs()
        if costs is None:
            return
        rounds = self._found.rounds
        timed = dict(rounds)
        if REGIONS in self._found.of_regions:
            timed[REGIONS] = self._found.of_regions[REGIONS]
        steps = {
            name: median_time(quickest([1e9 * second for steps in each for second in steps]))
            for name, each in timed.items()
        }
        if FLOAT32 in rounds and TUNED in rounds:
            costs = replace(
                costs,
                faster=self._faster or fastest(rounds),
                placement=self._found.report["placement"],
                float32_nodes=self._nodes,
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
        before = _float32_step(costs)
        if FLOAT32 in steps and before.nanoseconds:
            scale = steps[FLOAT32].nanoseconds / before.nanoseconds
            predicted.update({name: scale * value for name, value in predicted.items()})

    def _costs(self) -> Optional[Costs]:
        traces = self._traces
        if traces is None or not traces.steps[FLOAT32]:
            return None
        if not traces.steps[HALF] and not traces.given_up:
            return None
        made = self._steps.made
        return traces.costs(
            this_machine(self._device),
            self._config.compute_dtype,
            self._conversion.report["source"],
            None if made is None else made.batch_size,
        )

    def _in_half(self) -> tf.MetaGraphDef:
        """The graph with everything in half precision that may be, and no loss scale."""
        return self._rewritten(replace(self._config, loss_scale="none", clip_norm=0.0), in_half)

    def _rewritten(self, config: Config, solve: Solver = decided) -> tf.MetaGraphDef:
        policy = policies.load(config.compute_dtype, config.op_policy)
        before = self._conversion.before
        return rewrite(before, config, policy, before.recorded, solve).meta_graph

    def _say(self, what: str, ends: float) -> None:
        self._tell(what, ends)


def _float32_step(costs: Costs) -> Time:
    """The float32 step that was timed between traces, or else its operations added up."""
    return costs.steps.get(WHOLE % FLOAT32) or costs.steps[OPERATIONS % FLOAT32]


def _config_of(conversion: Conversion) -> Config:
    return Config.make(**conversion.report["flags"])
