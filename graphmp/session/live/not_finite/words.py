"""Messages about steps that are not finite: at first, and after 10, 100, ... in a row."""

from __future__ import annotations

from typing import Iterator

from graphmp.config import Config
from graphmp.session.live.not_finite.finite import NotFinite
from graphmp.wording import some

MANY = 10
_NAMED = 10  # nodes to keep in float32
_LOW = 1e-6  # a minimum of the scale that serves losses up to 1e10
# What becomes of a step, and of gradients that a run only adds up, for one run and in a sentence.
_FATES = (
    ("skipped", "step skipped"),
    ("left out of its sum", "left out of the step's sum of gradients"),
)
_APPLIED = "the step is applied all the same, weights may be NaN from here on"


class Words:
    """Messages about steps that are not finite, for one audience.

    Options are written `--loss_scale` on a command line, `loss_scale` in Python.
    """

    def __init__(self, python: bool):
        self._dashes = "" if python else "--"
        look = "graphmp.check_overflow(session, feed_dict)" if python else "--debug_overflow"
        graph = "GRAPH.meta" if python else "DIR/original.meta, after --report=DIR"
        self._finds = "graphmp audit --random_data --fix=FILE " + graph
        self._which = "See which op does it: %s" % look

    def said(self, step: NotFinite) -> Iterator[str]:
        """Messages about a step; empty if all has been said."""
        if step.applied:
            yield from self._harmless(step)
            return
        if step.kind == "dynamic":
            yield from self._skipped(step)
        elif step.in_a_row == 1:
            yield self._applied(step)
        may_turn = step.kind == "dynamic" and step.in_a_row > MANY
        if step.in_a_row == MANY or (may_turn and step.turned):
            yield self._many(step)
        elif may_turn and _is_power_of_ten(step.in_a_row):
            yield "%s. %s" % (self._many(step), self._endless(step))

    def look(self, step: NotFinite) -> str:
        """Advice on finding the cause."""
        keep = "; what to keep in float32: %s" % self._finds if step.audited else ""
        return self._which + keep

    def cure(self, step: NotFinite) -> str:
        """The cure if further steps are like this one."""
        if step.kind != "dynamic":
            again = "Start again from what was good, with %s" % self._scale_that_skips(step)
            return again if step.overflow else "%s. %s" % (again, self.look(step))
        if not step.hopeless:
            lower = max(step.floor, min(Config.loss_scale_initial, step.lowered))
            initial = self._option("loss_scale_initial", lower)
            return "The scale, %g now, is lowered after each of them; start lower: %s" % (
                step.lowered,
                initial,
            )
        if step.overflow is None:
            return self._below_floor(step) + self.look(step)
        if step.overflow.inside:
            text = "Look at the data, lower the learning rate, or keep what computes %s in float32"
            return (text + " (%skeep_float32)") % (step.overflow.node, self._dashes)
        if step.overflow.dtype not in ("float16", "bfloat16"):
            return "%s computes in %s already: look at the data, lower the learning rate" % (
                step.overflow.node,
                step.overflow.dtype,
            )
        keep = "Keep %s in float32, and what reads %s (%skeep_float32)" % (
            some(step.overflow.to_keep, _NAMED),
            "it" if len(step.overflow.to_keep) == 1 else "them",
            self._dashes,
        )
        every = "; all that has to stay float32: %s" % self._finds
        return keep + (every if step.audited else "")

    def _skipped(self, step: NotFinite) -> Iterator[str]:
        if step.overflow is not None:
            if step.in_a_row <= MANY or step.in_a_row % MANY == 0:
                yield "step %d %s: %s" % (step.step, _FATES[step.adds][0], step.overflow)
        elif step.first and step.of_loss:
            yield "step %d: %s, whatever the loss scale; %s. %s" % (
                step.step,
                _what(step),
                _FATES[step.adds][1],
                self.look(step),
            )
        elif step.first and step.scale <= step.floor:
            yield "step %d: %s at loss scale %g, the lowest; %s. %s%s" % (
                step.step,
                _what(step),
                step.scale,
                _FATES[step.adds][1],
                self._below_floor(step),
                self.look(step),
            )
        elif step.first:
            lowered = "%s, scale lowered to %g" % (_FATES[step.adds][1], step.lowered)
            yield "step %d: a gradient of %s overflowed at loss scale %g; %s" % (
                step.step,
                step.loss,
                step.scale,
                lowered,
            )

    def _harmless(self, step: NotFinite) -> Iterator[str]:
        """The message about the first step that is applied by finite gradients."""
        if step.first:
            what = _what(step) if step.overflow is None else str(step.overflow)
            yield "step %d: %s; its gradients are finite, and the step is applied. %s" % (
                step.step,
                what,
                self.look(step),
            )

    def _many(self, step: NotFinite) -> str:
        row = "%d %s in a row" % (step.in_a_row, "runs" if step.in_runs else "steps")
        if step.kind != "dynamic":
            return "%s that are not finite: %s learns nothing any more. %s" % (
                row,
                step.loss,
                self.cure(step),
            )
        whatever = "the loss scale is still too large"
        if step.hopeless:
            lowest = "also at loss scale %g, the lowest" % step.floor
            whatever = lowest if self._below_floor(step) else "whatever the loss scale"
        what = _what(step) if step.of_loss else "the gradients of %s are not finite" % step.loss
        return "%s skipped: %s, %s. %s" % (
            row,
            what,
            whatever,
            self.cure(step),
        )

    def _endless(self, step: NotFinite) -> str:
        """The consequence of many skipped steps, and cures that end a run or train."""
        text = ""
        if step.stands:
            text = (
                "global_step stands still, and a run up to one of its values never ends: %s counts"
            )
            text = text % self._option("count_skipped_steps", True) + " skipped steps too. "
        if step.half == "float16":
            wide = self._option("compute_dtype", "bfloat16")
            return text + "%s, which has the range of float32, may train it" % wide
        return text + "Look at the data, lower the learning rate"

    def _below_floor(self, step: NotFinite) -> str:
        """The use of a lower minimum of the scale; empty where it can do nothing."""
        if step.of_loss or step.floor <= _LOW:
            return ""
        text = "Loss scales below %g may do, for a large loss: %s. "
        return text % (step.floor, self._option("loss_scale_min", _LOW))

    def _applied(self, step: NotFinite) -> str:
        """The message about a step that nothing skips."""
        scale = (
            "the fixed loss scale %g skips nothing" % step.scale
            if step.kind == "fixed"
            else "without a loss scale nothing is skipped"
        )
        found = "step %d: %s; %s: %s. " % (step.step, _what(step), scale, _APPLIED)
        if step.overflow is not None:
            return "%s%s. Take %s" % (found, step.overflow, self._scale_that_skips(step))
        return found + (
            self.look(step) if step.of_loss else "Take %s" % self._scale_that_skips(step)
        )

    def _scale_that_skips(self, step: NotFinite) -> str:
        lower = (
            "a lower %sloss_scale, or " % self._dashes
            if step.kind == "fixed" and step.scale > 1
            else ""
        )
        return lower + self._option("loss_scale", "dynamic") + ", which skips such steps"

    def _option(self, name: str, value: object) -> str:
        if value is True:
            return self._dashes + name if self._dashes else name + "=True"
        text = value if isinstance(value, str) else "%g" % value  # type: ignore[str-format]
        return "%s%s=%s" % (
            self._dashes,
            name,
            repr(text) if isinstance(value, str) and not self._dashes else text,
        )


def _is_power_of_ten(number: int) -> bool:
    return number == 10 ** (len(str(number)) - 1)


def _what(step: NotFinite) -> str:
    if not step.of_loss:
        return "a gradient of %s is not finite" % step.loss
    what = "the value of %s" if step.computed else "a value that %s is computed of"
    return what % step.loss + " is not finite"
