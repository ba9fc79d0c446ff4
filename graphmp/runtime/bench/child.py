"""The process that runs graphs for a bench: `main(path of a JSON file)`. Orders come as lines of JSON, answers go back so.

It ends with its parent, whose end closes its standard input. A process without memory may be killed: that is an answer too.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf

from graphmp.errors import GraphmpError
from graphmp.performance.bench import FAILED, FLOAT32, OUT_OF_MEMORY
from graphmp.performance.shares import shares
from graphmp.performance.step_stats import peak_bytes
from graphmp.runtime.bench import accumulation, feeds, memory, pipeline
from graphmp.runtime.bench.processes import says_no_memory
from graphmp.runtime.bench.session import Training, TrainingSession
from graphmp.runtime.feeds.attempts import first_line

_STDOUT = 1
_TRACES = 3  # the quickest step is the one that others disturbed least


class Child:
    """Sessions of the graphs, by variant; each method but `answer` is an order."""

    def __init__(self, spec: Dict[str, Any]):
        """Nothing is run yet; `spec` is what `processes.spec` makes."""
        self._trainings = {name: Training(*values) for name, values in spec["trainings"].items()}
        self._gpu_memory = spec["memory_limit"] if spec["on_gpu"] else 0
        self._open: Dict[str, TrainingSession] = {}
        self._batches: Dict[str, List[Dict[str, Any]]] = {}

    def answer(self, order: Dict[str, Any]) -> Dict[str, Any]:
        """Carries out an order: {"value": ...}, or {"trouble": [status, message]}, or {"error": [code, message, exit status]}."""
        try:
            return {"value": getattr(self, order["order"])(*order["arguments"])}
        except GraphmpError as error:
            return {"error": [error.code, error.message, error.exit_status]}
        except (tf.errors.ResourceExhaustedError, MemoryError) as error:
            return {"trouble": [OUT_OF_MEMORY, first_line(error)]}
        except Exception as error:  # TensorFlow raises what it likes
            return {"trouble": [OUT_OF_MEMORY if says_no_memory(str(error)) else FAILED, first_line(error)]}

    def make_batches(self, data: str, sizes: List[int], seed: int, folder: str) -> List[Any]:
        """Writes the batches; returns what was made, and the wait for the graph's own input."""
        original = TrainingSession(self._trainings[FLOAT32], self._gpu_memory)
        made = feeds.make(original, data, sizes, seed, pathlib.Path(folder))
        return [made, pipeline.measure(original, feeds.read(made[0].path, 1)[0])]

    def accumulation(self, dtype: str) -> Dict[str, Optional[float]]:
        """The errors of sums in half precision."""
        return accumulation.errors(dtype)

    def fit(self, variant: str, path: str, warmup: int) -> List[Any]:
        """Runs a variant alone: what memory it takes, and where its step spends its time."""
        try:
            training, (batch,) = self._opened(variant), feeds.read(path, 1)
            for _ in range(warmup):
                training.step(batch)
            traces = [training.traced(batch) for _ in range(_TRACES)]
            peak = max(sum(peak_bytes(trace).values()) for trace in traces)
            found = [shares(trace, training.view.graph_def) for trace in traces]
            return [memory.measured(peak), min(found, key=lambda parts: parts.total)]
        finally:
            self.close(variant)

    def open(self, variant: str, path: str, warmup: int) -> None:
        """Makes a variant ready to be timed."""
        if path not in self._batches:
            self._batches = {path: feeds.read(path)}
        training = self._opened(variant)
        for number in range(warmup):
            training.step(self._batches[path][number % len(self._batches[path])])

    def steps(self, variant: str, path: str, count: int) -> List[float]:
        """Times steps of a variant that is open."""
        return self._open[variant].timed(self._batches[path], count)

    def close(self, variant: str) -> None:
        """Gives back what a variant holds."""
        session = self._open.pop(variant, None)
        if session is not None:
            session.close()

    def _opened(self, variant: str) -> TrainingSession:
        self._open[variant] = TrainingSession(self._trainings[variant], self._gpu_memory)
        return self._open[variant]


def main(path: str) -> None:
    """Serves until its standard input is closed."""
    spec = json.loads(pathlib.Path(path).read_text())
    answers = os.fdopen(os.dup(_STDOUT), "w")
    os.dup2(sys.stderr.fileno(), _STDOUT)  # what TensorFlow and others print is no answer
    if tf.__version__ > "2":
        tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    memory.be_killed_first()
    if spec["memory_limit"] and not spec["on_gpu"]:
        memory.limit(spec["memory_limit"])
    child = Child(spec)
    for line in sys.stdin:
        answers.write(json.dumps(child.answer(json.loads(line))) + "\n")
        answers.flush()
