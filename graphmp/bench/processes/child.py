"""The processes that run graphs for a bench: orders and answers are lines of JSON.

`main` imports TensorFlow once, and forks a process for each specification that it reads; that
process takes orders until one tells it to end. How a process ended is an answer too, since one
without memory may be killed. All end with their parent, whose end closes their standard input.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
import traceback
from typing import IO, Any, Dict, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.bench.bench import FAILED, FLOAT32, OUT_OF_MEMORY, TOO_SLOW
from graphmp.bench.kernels.shares import other_ops, shares
from graphmp.bench.options import WALL
from graphmp.bench.processes import accumulation, feeds, memory, pipeline, resident
from graphmp.bench.processes.processes import END, ENDED, says_no_memory
from graphmp.bench.processes.timed_session import (
    AS_THEY_ARE,
    ONE_BY_ONE,
    TimedSession,
    TrainingFile,
)
from graphmp.errors import GraphmpError
from graphmp.feeds.batches import Batch
from graphmp.session.steps import casts
from graphmp.session.steps.step_stats import peak_bytes, runs_by_node, seconds_between
from graphmp.session.steps.traced_tensors import casts_in, tensors_in
from graphmp.time_limit import TOO_LONG, limited_runs
from graphmp.wording import first_line

_STDOUT = 1
_TRACES = 3  # the quickest step is the least disturbed one


class Child:
    """Sessions of the graphs, by variant; each method except `answer` is an order."""

    def __init__(self, spec: Dict[str, Any]):
        """Nothing runs yet; `spec` is a result of `processes.spec`."""
        self._trainings = {
            name: TrainingFile(*values) for name, values in spec["trainings"].items()
        }
        self._gpu_memory = spec["memory_limit"] if spec["on_gpu"] else 0
        self._resident = spec["resident"]
        self._open: Dict[str, TimedSession] = {}
        self._batches: Dict[str, List[Batch]] = {}
        self._fed: Dict[str, Batch] = {}  # by variant, what a step is still fed

    def answer(self, order: Dict[str, Any]) -> Dict[str, Any]:
        """Carry out an order.

        Returns {"value": ...}, {"trouble": [status, message]}, or {"error": [code, message, exit
        status]}.
        """
        try:
            return {"value": getattr(self, order["order"])(*order["arguments"])}
        except GraphmpError as error:
            if error.code == TOO_LONG:
                return {"trouble": [TOO_SLOW, error.message]}
            return {"error": [error.code, error.message, error.exit_status]}
        except (tf.errors.ResourceExhaustedError, MemoryError) as error:
            return {"trouble": [OUT_OF_MEMORY, first_line(error)]}
        except Exception as error:  # TensorFlow raises errors of any type
            return {
                "trouble": [
                    OUT_OF_MEMORY if says_no_memory(str(error)) else FAILED,
                    first_line(error),
                ]
            }

    def make_batches(self, data: str, sizes: List[int], seed: int, folder: str) -> List[Any]:
        """Write the batches; return their sizes, and the wait for the graph's own input."""
        original = TimedSession(self._trainings[FLOAT32], self._gpu_memory)
        made = feeds.make(original, data, sizes, seed, pathlib.Path(folder))
        return [made, pipeline.measure(original, feeds.read(made[0].path, 1)[0])]

    def accumulation(self, dtype: str) -> Dict[str, Optional[float]]:
        """The errors of sums in half precision."""
        return accumulation.errors(dtype)

    def fit(self, variant: str, path: str, seconds: float) -> List[Any]:
        """Run a variant alone: its memory, its step's shares and other ops, the time of a step.

        It takes about `seconds`: fewer steps are traced if they are long. The session stays open
        for other batches.
        """
        ends = time.monotonic() + seconds
        try:
            training, (batch,) = self._opened(variant), feeds.read(path, 1)
            training.step(batch)  # the first step optimises the graph
            alone = training.timed([batch], 1)
            traces = [training.traced(batch)]
            while len(traces) < _TRACES and time.monotonic() + alone[0] < ends:
                traces.append(training.traced(batch))
            peak = max(sum(peak_bytes(trace).values()) for trace in traces)
            found = [(shares(trace, training.view.graph_def), trace) for trace in traces]
            parts, quickest = min(found, key=lambda pair: pair[0].total)
            return [memory.measured(peak), parts, other_ops(quickest), alone[0]]
        except Exception:
            self.close(variant)
            raise

    def open(self, variant: str, path: str, warmup: int) -> None:
        """Prepare a variant for timing; an open session is reused."""
        if path not in self._batches:
            self._batches = {path: feeds.read(path)}
        if self._resident and variant not in self._open:
            first = self._batches[path][0]
            self._open[variant], self._fed[variant] = resident.opened(
                self._trainings[variant], first, self._gpu_memory
            )
        training, batches = self._opened(variant), self._batches_of(variant, path)
        for number in range(warmup):
            training.step(batches[number % len(batches)])

    def steps(self, variant: str, path: str, count: int, clock: str = WALL) -> List[float]:
        """Times steps of a variant that is open."""
        return self._open[variant].timed(self._batches_of(variant, path), count, clock)

    def tensors(self, variant: str, path: str) -> Dict[str, Any]:
        """Runs of each node in a step; slot, dtype, shape of its outputs.

        The step is one that nothing optimises. Nodes that run in another one only are added: 1.15
        doesn't inline functions in the first.
        """
        found: Dict[str, Any] = {}
        for way in (ONE_BY_ONE, AS_THEY_ARE):
            training = TimedSession(self._trainings[variant], self._gpu_memory, way)
            try:
                found.update(tensors_in(training.traced(feeds.read(path, 1)[0])))
            finally:
                training.close()
        return found

    def open_for_traces(self, variant: str) -> None:
        """Prepare a variant whose ops run one at a time."""
        self._open[variant] = TimedSession(self._trainings[variant], self._gpu_memory, ONE_BY_ONE)

    def first_step(self, variant: str, path: str) -> float:
        """Seconds of the first step of a variant that is open."""
        return self._open[variant].timed(feeds.read(path, 1), 1)[0]

    def trace(self, variant: str, path: str, seconds: float) -> List[Any]:
        """Traced steps: nanoseconds between kernels, runs of kernels, nodes, inserted casts.

        A node has its nanoseconds and the op that ran.

        Steps are traced for about `seconds`, at least one. The variant is open for traces.
        """
        batch = feeds.read(path, 1)[0]
        ends = time.monotonic() + seconds
        found: List[Any] = []
        while not found or time.monotonic() < ends:
            trace = self._open[variant].traced(batch)
            runs = runs_by_node(trace)
            nodes = {name: [1e9 * each.seconds, each.op] for name, each in runs.items()}
            count = sum(each.runs for each in runs.values())
            found.append([1e9 * seconds_between(trace), count, nodes, casts_in(trace)])
        return found

    def casts(self, dtype: str, sizes: List[int], seconds: float) -> List[Any]:
        """Nanoseconds to start an op, and of casts by size: dtype, size, samples."""
        return casts.measure(dtype, sizes, seconds)

    def close(self, variant: str) -> None:
        """Free a variant's resources."""
        session = self._open.pop(variant, None)
        if session is not None:
            session.close()

    def _batches_of(self, variant: str, path: str) -> List[Batch]:
        return [self._fed[variant]] if self._resident else self._batches[path]

    def _opened(self, variant: str) -> TimedSession:
        if variant not in self._open:
            self._open[variant] = TimedSession(self._trainings[variant], self._gpu_memory)
        return self._open[variant]


def main() -> None:
    """Serve until standard input is closed."""
    answers = os.fdopen(os.dup(_STDOUT), "w")
    os.dup2(sys.stderr.fileno(), _STDOUT)  # output of TensorFlow and others is no answer
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    for line in _orders():
        process = os.fork()  # no session was opened here, so no thread of TensorFlow's is lost
        if not process:
            _serve(json.loads(line), answers)
        status = os.waitpid(process, 0)[1]
        _say(
            answers,
            {ENDED: -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)},
        )


def _serve(spec: Dict[str, Any], answers: IO[str]) -> None:
    """Carry out orders until the one to end; does not return."""
    try:
        memory.be_killed_first()
        if spec["memory_limit"] and not spec["on_gpu"]:
            memory.limit(spec["memory_limit"])
        with limited_runs(spec["step_timeout"], ends_process=True):
            _carry_out(Child(spec), answers)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def _carry_out(child: Child, answers: IO[str]) -> None:
    _say(answers, {"value": None})
    for line in _orders():
        order = json.loads(line)
        if order["order"] == END:
            break
        _say(answers, child.answer(order))


def _orders() -> Iterator[str]:
    """Lines, each read on demand: the next one may be for another process."""
    return iter(sys.stdin.readline, "")


def _say(answers: IO[str], answer: Dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
