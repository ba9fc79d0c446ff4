"""Steps of several graphs in turn: what slows the machine down for a while slows them all down."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, List, Sequence

from graphmp.performance.bench import Run
from graphmp.performance.timings import order
from graphmp.runtime.bench.options import Options
from graphmp.runtime.bench.processes import Process, Trouble

_Rounds = Dict[str, List[List[float]]]


def timed(runs: Sequence[Run], path: str, process: Process, options: Options, tell: Callable[[int], None]) -> List[Run]:
    """The runs of one batch size, with their seconds.

    Args:
        runs: those that have the memory to run alone.
        path: of the batches.
        process: what runs them.
        options: steps and rounds.
        tell: told how many rounds are done.
    """
    names = [run.variant for run in runs]
    apart = False
    try:
        try:
            rounds = _together(names, path, process, options, tell)
        except Trouble:
            process.close()
            apart = True
            rounds = _apart(names, path, process, options, tell)
    except Trouble as trouble:
        process.close()
        return [replace(run, status=trouble.status, message="alone it runs; beside the others: " + trouble.message) for run in runs]
    return [replace(run, rounds=rounds[run.variant], apart=apart) for run in runs]


def _together(names: Sequence[str], path: str, process: Process, options: Options, tell: Callable[[int], None]) -> _Rounds:
    """All sessions stay open."""
    rounds: _Rounds = {name: [] for name in names}
    for name in names:
        process.ask("open", name, path, options.warmup)
    for number in range(options.rounds):
        for name in order(names, number):
            rounds[name].append(process.ask("steps", name, path, options.steps))
        tell(number + 1)
    for name in names:
        process.ask("close", name)
    return rounds


def _apart(names: Sequence[str], path: str, process: Process, options: Options, tell: Callable[[int], None]) -> _Rounds:
    """Each session is opened for its turn, and warmed up again."""
    rounds: _Rounds = {name: [] for name in names}
    for number in range(options.rounds):
        for name in order(names, number):
            process.ask("open", name, path, options.warmup)
            rounds[name].append(process.ask("steps", name, path, options.steps))
            process.ask("close", name)
        tell(number + 1)
    return rounds
