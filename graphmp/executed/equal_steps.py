"""Claims that steps of a conversion in float32 leave the values that the original's steps leave.

Of two graphs: the original converted again in float32, and the given graph with its half precision
widened to float32.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, Mapping, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.executed import same
from graphmp.executed.again import SCALES, Again
from graphmp.executed.ranges import out_of_range
from graphmp.executed.scales import FoundScales
from graphmp.executed.widened import plain, widened
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim
from graphmp.wording import first_line, some

AGAIN = "same steps again"
_GIVEN = "same steps"
# a scale, a graph with it, and values of variables
_Trial = Tuple[float, tf.MetaGraphDef, Mapping[str, Any]]


def same_again(
    original: tf.MetaGraphDef, again: Again, first: tf.MetaGraphDef, wanted: same.Expected
) -> Claim:
    """Whether the original's conversion in float32 leaves equal values.

    Args:
        original: the graph before.
        again: converts it.
        first: its conversion in float32 with the first of `SCALES`.
        wanted: the results of the original's steps.
    """
    if again.is_recipe:
        return Claim(
            AGAIN,
            NOT_APPLICABLE,
            "the recipe converts Python code, which is not at hand; see the next claim",
        )

    def trials() -> Iterator[_Trial]:
        for scale in SCALES:
            graph = first if scale == SCALES[0] else again.in_float32(scale).meta_graph
            yield scale, graph, {}

    text = "converted again in float32, without a clip, the loss scaled by %g"
    return _same(original, AGAIN, text, trials(), wanted)


def same_given(
    original: tf.MetaGraphDef,
    converted: tf.MetaGraphDef,
    found: FoundScales,
    wanted: same.Expected,
    checkpoint: str,
) -> Claim:
    """Whether the given graph, widened to float32 and without its clip, leaves equal values.

    Args:
        original: the graph before.
        converted: the graph after it.
        found: its scales.
        wanted: the results of the original's steps.
        checkpoint: has the values with which the steps begin; may be empty.
    """
    wide = plain(widened(original, converted, found), found)
    interval = min([scale.interval for scale in found.dynamic], default=wanted.steps.number)
    if wanted.steps.number > interval >= 1:  # the scale would grow, maybe not by a power of two
        wanted = same.expected(original, wanted.steps._replace(number=interval), checkpoint)
    trials = (
        (scale, wide, _state(found, scale)) for scale in (SCALES if found.dynamic else SCALES[:1])
    )
    text = "the given graph, its half precision widened to float32%s, the loss scaled %s" % (
        " and its clip taken out" if found.clips else "",
        "by %g" if found.dynamic else "as it is",
    )
    return _same(original, _GIVEN, text, trials, wanted)


def _state(found: FoundScales, scale: float) -> Mapping[str, np.ndarray]:
    """Values of the scales' variables in the middle of a training."""
    state: Dict[str, Any] = {}
    for each in found.dynamic:
        state.update(zip(each.variables, (np.float32(scale), np.int64(0), np.int64(1))))
    return state


def _same(
    original: tf.MetaGraphDef,
    name: str,
    text: str,
    trials: Iterable[_Trial],
    wanted: same.Expected,
) -> Claim:
    """Whether one of some graphs with different scales leaves the original's values."""
    if not wanted.steps.number:
        return Claim(
            name,
            NOT_PROVED,
            "the original's first step on this data leaves variables that are not finite: give"
            " batches with --data",
        )
    if not same.moved(wanted):
        return Claim(
            name,
            NOT_PROVED,
            "%d steps of the original change no variable on this data" % wanted.steps.number,
        )
    for scale, graph, given in trials:
        label = text % scale if "%" in text else text
        try:
            differing = same.differing(graph, wanted, given)
        except Exception as error:  # TensorFlow raises errors of any type
            return Claim(name, NOT_PROVED, "%s, does not run: %s" % (label, first_line(error)))
        if not differing:
            return Claim(name, PROVED, "%s: %s" % (label, _equal(wanted)))
    excuse = out_of_range(original, graph, wanted, given, scale)
    if excuse.explains:
        why = "%s: %s differ behind values that overflow or are subnormal, in %s" % (
            label,
            some(differing),
            some(excuse.nodes),
        )
        return Claim(name, NOT_PROVED, why, tuple(excuse.nodes))
    why = "%s: %d steps leave %s with other values than the original" % (
        label,
        wanted.steps.number,
        some(differing),
    )
    return Claim(name, FAILED, why, tuple(differing))


def _equal(wanted: same.Expected) -> str:
    text = "%d steps leave all %d variables bit-equal to the original's" % (
        wanted.steps.number,
        len(wanted.end),
    )
    return text + (
        "; two runs of the original differ in %s, which is compared within that"
        % some(sorted(wanted.apart))
        if wanted.apart
        else ""
    )
