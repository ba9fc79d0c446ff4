"""Steps of several graphs in turns: temporary slowness of the machine affects all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, List, Sequence

from graphmp.bench.bench import BenchRun
from graphmp.bench.options import BenchOptions
from graphmp.bench.processes.processes import Process, Trouble
from graphmp.bench.timing import schedule
from graphmp.timings import order

_Rounds = Dict[str, List[List[float]]]
Left = Callable[[float], None]


def timed(
    runs: Sequence[BenchRun],
    path: str,
    process: Process,
    options: BenchOptions,
    share: float,
    tell: Left,
) -> List[BenchRun]:
    """The runs of one batch size, with their seconds.

    Args:
        runs: those that have the memory to run alone.
        path: of the batches.
        process: runs them.
        options: steps and rounds.
        share: seconds available, if the options let the time decide.
        tell: receives the number of seconds left.
    """
    turns = _Turns(runs, path, process, options, share, tell)
    apart = False
    try:
        try:
            rounds = turns.together()
        except Trouble:
            process.close()
            apart = True
            rounds = turns.apart()
    except Trouble as trouble:
        process.close()
        return [
            replace(
                run,
                status=trouble.status,
                message="alone it runs; beside the others: " + trouble.message,
            )
            for run in runs
        ]
    return [
        replace(run, rounds=rounds[run.variant], apart=apart, warmup=turns.warmup) for run in runs
    ]


class _Turns:
    """The turns of one batch size.

    Attributes:
        warmup: steps of each variant before its turns.
    """

    def __init__(
        self,
        runs: Sequence[BenchRun],
        path: str,
        process: Process,
        options: BenchOptions,
        share: float,
        tell: Left,
    ):
        self._seconds = {run.variant: max(run.alone, 1e-6) for run in runs}
        self._path = path
        self._process = process
        self._options = options
        self._ends = schedule.now() + share
        self._tell = tell
        self.warmup = schedule.warmup(options, sum(self._seconds.values()), share)

    def together(self) -> _Rounds:
        """All sessions stay open, for other batch sizes too."""
        for name in self._seconds:
            self._open(name)
        return self._rounds(self._steps)

    def apart(self) -> _Rounds:
        """Each session is opened for its turn, and warmed up again."""

        def steps(name: str, count: int) -> List[float]:
            self._open(name)
            found = self._steps(name, count)
            self._process.ask("close", name)
            return found

        return self._rounds(steps)

    def _rounds(self, steps: Callable[[str, int], List[float]]) -> _Rounds:
        names, seconds = list(self._seconds), list(self._seconds.values())
        began = schedule.now()
        plan = schedule.schedule(self._options, seconds, max(0.0, self._ends - began))
        rounds: _Rounds = {name: [] for name in names}
        number = 0
        self._tell(plan.left(0, began, plan.steps * sum(seconds)))
        while plan.goes_on(rounds, began):
            for name in order(names, number):
                rounds[name].append(steps(name, plan.steps))
            number += 1
            self._tell(plan.left(number, began, 0.0))
        return rounds

    def _open(self, name: str) -> None:
        self._process.ask("open", name, self._path, self.warmup)

    def _steps(self, name: str, count: int) -> List[float]:
        found = self._process.ask("steps", name, self._path, count, self._options.clock)
        return [float(seconds) for seconds in found]
