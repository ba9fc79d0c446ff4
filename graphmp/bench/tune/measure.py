"""Measuring the operations of a step: traces in both types, in turns, one op at a time."""

from __future__ import annotations

from typing import Callable

from graphmp.bench.bench import TOO_SLOW
from graphmp.bench.processes.processes import Process, Trouble
from graphmp.bench.timing import schedule
from graphmp.errors import GraphmpError
from graphmp.rewrite.traces import Traces
from graphmp.tuning.assemble import Ran, TracedStep
from graphmp.tuning.costs import FLOAT32, HALF

_ROUNDS = (3, 40)  # of traces: at least, if there is time; at most
_CASTS = 0.1  # of the time
_PATIENCE = (20.0, 0.6)  # seconds for the first step in half precision: at least; of the time
Tell = Callable[[float], None]


def measure(
    traces: Traces, process: Process, path: str, dtype: str, ends: float, tell: Tell
) -> None:
    """Measure until the time is up.

    Args:
        traces: what is measured is put into them at once.
        process: runs the graphs FLOAT32 and HALF.
        path: of the batches.
        dtype: the half precision.
        ends: when the time is up, by `schedule.now`.
        tell: receives the number of seconds left.

    Raises:
        GraphmpError: GMP024 if the float32 step doesn't run.
    """
    seconds = ends - schedule.now()
    traces.start, rows = process.ask("casts", dtype, traces.sizes(), _CASTS * seconds)
    for to, elements, times in rows:
        traces.casts.append((to, elements, times))
    number = 0
    while number < _ROUNDS[1]:
        began = schedule.now()
        for variant in (FLOAT32, HALF)[:: 1 if number % 2 == 0 else -1]:
            if not _traced(traces, process, variant, path, ends, number):
                return
        number += 1
        tell(max(0.0, ends - schedule.now()))
        took = schedule.now() - began
        if schedule.now() + took > ends + (took if number < _ROUNDS[0] else 0.0):
            break
    traces.complete = True


def _traced(
    traces: Traces, process: Process, variant: str, path: str, ends: float, number: int
) -> bool:
    """Add a traced step; False if the half-precision step is given up."""
    least, share = _PATIENCE
    limit = max(least, share * (ends - schedule.now())) if variant == HALF and not number else None
    try:
        nodes = process.ask("trace", variant, path, limit=limit)
    except Trouble as trouble:
        if variant == FLOAT32 or limit is None or trouble.status != TOO_SLOW:
            raise GraphmpError(
                "GMP024", "the step in %s does not run: %s" % (variant, trouble.message)
            ) from None
        traces.given_up = limit
        traces.complete = True
        return False
    traces.steps[variant].append(
        TracedStep({name: Ran(row[0], row[2]) for name, row in nodes.items()})
    )
    return True
