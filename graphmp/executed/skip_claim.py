"""The claim that a step with an infinite gradient is skipped whole, and that training goes on."""

from __future__ import annotations

import functools
from typing import Callable, List, Optional, Sequence, Set, Tuple

import tensorflow.compat.v1 as tf

from graphmp.executed.again import Again
from graphmp.executed.allowed import Allowed
from graphmp.executed.same import Steps
from graphmp.executed.scales import FoundScales
from graphmp.executed.skips import SkipFindings, SkipTrial
from graphmp.executed.variables import Values
from graphmp.executed.widened import widened
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim
from graphmp.wording import first_line, some

SKIPS = "skips when run"
_LONGEST = 0.5  # seconds of a step in float32; emulated half precision takes up to minutes for it


def skips(
    original: tf.MetaGraphDef,
    again: Again,
    found: FoundScales,
    steps: Steps,
    start: Values,
    listed: Optional[Set[str]],
    simulates: bool,
) -> Claim:
    """Whether infinities in gradients leave all variables as they were.

    Args:
        original: the graph before the conversion.
        again: what the converted graph claims.
        found: the converted graph, with its scales.
        steps: how to run steps.
        start: values of variables.
        listed: the writes of skipped steps in the report; None without a report.
        simulates: whether half precision is slow here: then only the first gradient of each loss is
            made infinite in it, and the others in the graph widened to float32; all of them there
            if a step in float32 is long already.
    """
    if not found.dynamic:
        if not again.is_marked or again.config.loss_scale != "dynamic":
            return Claim(SKIPS, NOT_APPLICABLE, "the graph has no dynamic loss scale")
        if found.is_inside:
            return Claim(
                SKIPS,
                NOT_APPLICABLE,
                "steps are skipped in a function or a loop, into which nothing can be fed",
            )
        where = "in what the recipe builds" if again.is_recipe else "in it"
        return Claim(
            SKIPS,
            NOT_PROVED,
            "the graph claims a dynamic loss scale, and the proof finds none %s" % where,
        )
    steps = steps._replace(train=_with_adaptions(found, steps.train))
    allowed = Allowed(found, steps.train, again.counts_skipped)
    try:
        trial = functools.partial(
            SkipTrial, allowed=allowed, steps=steps, start=start, listed=listed
        )
        if simulates:
            seen, how = _simulated(original, found, trial)
        else:
            seen, how = trial(found).run(), ""
    except Exception as error:  # TensorFlow raises errors of any type
        return Claim(SKIPS, NOT_PROVED, "the given graph does not run: %s" % first_line(error))
    return _claim(seen, how if again.is_half else "")


def _with_adaptions(found: FoundScales, train: Sequence[str]) -> List[str]:
    """The ops of a step, and those that adapt a scale if no step waits for them."""
    view, state = found.after.view, found.after.state
    step = [name for name in train if name in view.nodes]
    own = {name for scale in found.dynamic for name in scale.variables}
    behind = view.descendants(
        {port.node for scale in found.dynamic for port in scale.checked}, control=False
    )
    ahead = view.ancestors(step)
    return step + [
        name
        for name in state.writes
        if state.written(name) & own and name in behind and name not in ahead
    ]


def _simulated(
    original: tf.MetaGraphDef, found: FoundScales, trial: Callable[..., SkipTrial]
) -> Tuple[SkipFindings, str]:
    """The findings where half precision is slow, and in words what ran in float32."""
    in_float32 = trial(found.of(widened(original, found.after.meta_graph, found)))
    seen = in_float32.run()
    if seen.unsettled:
        return seen, ""  # nor is a step good in half precision
    if in_float32.seconds > _LONGEST:
        how = " (half precision widened to float32, in which a step takes %.2g s)"
        return seen, how % in_float32.seconds
    first = trial(found, first_alone=True).run()
    how = " (half precision widened to float32 but for the first gradient of each loss)"
    if first.faults:
        return first, how
    return seen._replace(unsettled=first.unsettled), how


def _claim(seen: SkipFindings, how: str) -> Claim:
    if seen.faults:
        more = " and %d more" % (len(seen.faults) - 1) if len(seen.faults) > 1 else ""
        first = seen.faults[0]
        return Claim(
            SKIPS,
            FAILED,
            "the input of %s %s%s" % (first.node, first.text, more),
            tuple(fault.node for fault in seen.faults),
        )
    if seen.unsettled:
        return Claim(
            SKIPS,
            NOT_PROVED,
            "no step on this data is good: each is skipped, or changes no variable",
        )
    if not seen.gradients:
        return Claim(
            SKIPS,
            NOT_PROVED,
            "a step on this data reaches no division by a dynamic scale",
            tuple(seen.idle),
        )
    text = (
        "with infinity in each of %d gradients in turn%s%s nothing is written%s, and the next step"
        " trains%s"
        % (
            seen.gradients,
            " and in %s" % some(seen.activations) if seen.activations else "",
            how,
            " but %s" % some(sorted(seen.written)) if seen.written else "",
            "; the step does not reach %s" % some(seen.idle) if seen.idle else "",
        )
    )
    return Claim(SKIPS, PROVED, text)
