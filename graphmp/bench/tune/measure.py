"""Measuring the operations of a step: traces in both types, in turns, one op at a time.

In these turns whole steps are timed too, without a tracer, with as many ops at a time as TensorFlow
likes.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Optional

from graphmp.bench.bench import TOO_SLOW
from graphmp.bench.processes.processes import Process, Trouble
from graphmp.bench.timing import schedule
from graphmp.errors import GraphmpError
from graphmp.session.steps.traces import Traces
from graphmp.tuning.assemble import Ran, RanCast, TracedStep
from graphmp.tuning.costs import FLOAT32, HALF, WHOLE

# Traced steps of a type: at least, unless they take twice the time; at most.
_STEPS = (6, 200)
_TURN = 0.5  # seconds of traced steps of one type before those of the other
# Steps without a tracer in each turn: at most; seconds for them, unless one takes longer.
_WHOLE_STEPS = (4, 1.0)
_CASTS = 0.1  # of the time
# For the first step in half precision on a CPU, which may emulate it, whichever is most: seconds;
# this part of the time; in times that of float32. On a GPU cuDNN tries the algorithms of each
# convolution in a first step: AlexNet's took more than 7 s on an H100, a later one in float32 8 ms.
_PATIENCE = (5.0, 0.25, 5.0)
Tell = Callable[[float], None]


def measure(
    traces: Traces,
    process: Process,
    path: str,
    dtype: str,
    clock: str,
    on_gpu: bool,
    ends: float,
    tell: Tell,
) -> None:
    """Measure until the time is up.

    Args:
        traces: what is measured is put into them at once.
        process: runs the graphs FLOAT32 and HALF, traced, and WHOLE of each.
        path: of the batches.
        dtype: the half precision.
        clock: of whole steps.
        on_gpu: whether a GPU runs them: the time begins after their first steps.
        ends: when the time is up, by `schedule.now`.
        tell: receives the number of seconds left.

    Raises:
        GraphmpError: GMP024 if the float32 step doesn't run.
    """
    seconds = ends - schedule.now()
    traces.start, rows = process.ask("casts", dtype, traces.sizes(), _CASTS * seconds)
    for to, elements, times in rows:
        traces.casts.append((to, elements, times))
    if not _opened(traces, process, path, None if on_gpu else seconds):
        traces.complete = True
        return
    if on_gpu:
        ends = schedule.now() + seconds
    number, late = 0, ends + seconds
    order = (FLOAT32, HALF)
    while True:
        began = schedule.now()
        for variant in order:
            _turn(traces, process, variant, path, clock)
        order = order[::-1]
        number = len(traces.steps[HALF])
        tell(max(0.0, ends - schedule.now()))
        limit = late if number < _STEPS[0] else ends
        if number >= _STEPS[1] or 2 * schedule.now() - began > limit:
            break
    traces.complete = True


def _opened(traces: Traces, process: Process, path: str, seconds: Optional[float]) -> bool:
    """Warm up both types; False if the first step in half precision is given up.

    `seconds`: for all that is measured; None if no first step is given up.
    """
    for variant in (FLOAT32, HALF):
        _ask(process, variant, "open_for_traces", variant)
    limit = _patience(_ask(process, FLOAT32, "first_step", FLOAT32, path), seconds)
    traces.steps[FLOAT32] += _traced(process, FLOAT32, path)
    try:
        process.ask("first_step", HALF, path, limit=limit)
    except Trouble as trouble:
        if trouble.status != TOO_SLOW or limit is None:
            raise _failed(HALF, trouble) from None
        traces.given_up = limit
        return False
    for variant in (FLOAT32, HALF):
        _ask(process, variant, "open", WHOLE % variant, path, 1)
    return True


def _patience(float32: float, seconds: Optional[float]) -> Optional[float]:
    """Seconds for the first step in half precision, if they are limited."""
    if seconds is None:
        return None
    least, part, times = _PATIENCE
    return max(least, part * seconds, times * float32)


def _turn(traces: Traces, process: Process, variant: str, path: str, clock: str) -> None:
    """Measure traced steps of a type, and whole ones."""
    start = schedule.now()
    found = list(_traced(process, variant, path))
    each = (schedule.now() - start) / len(found)
    traces.steps[variant] += found
    most, together = _WHOLE_STEPS
    count = max(1, min(most, int(together / each)))
    seconds = _ask(process, variant, "steps", WHOLE % variant, path, count, clock)
    traces.whole[variant] += [1e9 * second for second in seconds]


def _traced(process: Process, variant: str, path: str) -> Iterator[TracedStep]:
    """A turn of traced steps."""
    for between, runs, nodes, casts in _ask(process, variant, "trace", variant, path, _TURN):
        ran = {name: Ran(*row) for name, row in nodes.items()}
        yield TracedStep(ran, between, runs, [RanCast(*row) for row in casts])


def _ask(process: Process, variant: str, order: str, *arguments: Any) -> Any:
    try:
        return process.ask(order, *arguments)
    except Trouble as trouble:
        raise _failed(variant, trouble) from None


def _failed(variant: str, trouble: Trouble) -> GraphmpError:
    return GraphmpError(
        "GMP024",
        "the step in %s does not run: %s: %s" % (variant, trouble.status, trouble.message),
    )
