"""The claims made by running an original and its conversion, added to the proof's."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.audit.options import AuditOptions
from graphmp.audit.run import chosen_arithmetic
from graphmp.config import Config
from graphmp.conversion.built_graph import Identity, convert_graph
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.stages import Stages
from graphmp.errors import GraphmpError
from graphmp.executed import same
from graphmp.executed.agreement import AGREES, agreement
from graphmp.executed.allowed import Allowed
from graphmp.executed.order import open_order
from graphmp.executed.ranges import out_of_range
from graphmp.executed.scales import FoundScales, find_scales
from graphmp.executed.skips import SkipFindings, SkipTrial
from graphmp.executed.variables import VariableSession
from graphmp.executed.widened import plain, widened
from graphmp.feeds.asked import asked_batches
from graphmp.graph.edit.mark import read_mark
from graphmp.graph.io.stored import stored
from graphmp.graph.state.state import State
from graphmp.graph.structure.view import GraphView
from graphmp.policy.half_kernels import DEVICES
from graphmp.tf_hooks.op_defs import OpDefs
from graphmp.verify.proof import FAILED, NOT_APPLICABLE, NOT_PROVED, PROVED, Claim, Proof
from graphmp.verify.prove import prove
from graphmp.wording import first_line, some

_SCALES = (
    4.0**7,
    4.0**4,
    4.0,
)  # a wrong power of the scale appears with each; an overflow or subnormal value may only with one
_AGAIN, _GIVEN, _SKIPS = "same steps again", "same steps", "skips when run"

_Trial = Tuple[
    float, tf.MetaGraphDef, Mapping[str, Any]
]  # a scale, a graph with it, and values of variables


def proof_with_steps(
    original: tf.MetaGraphDef,
    converted: tf.MetaGraphDef,
    options: AuditOptions,
    tolerance: float,
    report: Optional[Mapping[str, Any]],
    begin: Callable[[str], None],
    expected: Optional[Mapping[str, Any]] = None,
    devices: Sequence[str] = DEVICES,
) -> Proof:
    """The proof of a conversion, followed by claims from running it, unless the graph is broken.

    Args:
        original: the graph before.
        converted: the graph after it.
        options: data and steps.
        tolerance: of the audit.
        report: of the conversion, if available.
        begin: receives each stage as it begins.
        expected: as for `graphmp.verify.prove.prove`.
        devices: likewise.

    Raises:
        GraphmpError: GMP002, GMP003, GMP024 if the original can't be run on the data.
    """
    begin("proving")
    proof = prove(original, converted, expected, devices)
    if proof.is_broken:
        return proof
    claims = Executed(original, converted, options, tolerance, report, begin).claims()
    return proof._replace(claims=(*proof.claims, *claims))


class Executed:
    """One original and its conversion, to be run."""

    def __init__(
        self,
        original: tf.MetaGraphDef,
        converted: tf.MetaGraphDef,
        options: AuditOptions,
        tolerance: float,
        report: Optional[Mapping[str, Any]] = None,
        begin: Callable[[str], None] = lambda stage: None,
    ):
        """Runs nothing yet.

        Args:
            original: the graph before.
            converted: the graph after it.
            options: data and steps.
            tolerance: of the audit.
            report: of the conversion, if available: writes of a skipped step must be in it.
            begin: receives each stage as it begins.
        """
        self._original, self._converted, self._options, self._tolerance, self._report = (
            original,
            converted,
            options,
            tolerance,
            report,
        )
        self._begin = begin
        self._mark = read_mark(converted) or {}

    def claims(self) -> List[Claim]:
        """All claims.

        Raises:
            GraphmpError: GMP002, GMP003, GMP024 if the original can't be run on the data.
        """
        self._begin("converting again")
        try:
            again = self._again(_SCALES[0])
        except GraphmpError as error:
            return [
                Claim(name, NOT_PROVED, "the original can't be converted again: %s" % error.message)
                for name in (_AGAIN, _SKIPS, AGREES)
            ]
        train = _train(again)
        if not train:
            return [Claim(_AGAIN, NOT_APPLICABLE, "no training step was found in the original")]
        self._begin("running the original")
        self._steps = same.Steps(
            train, self._batches(train), self._options.steps, open_order(self._original, train)
        )
        self._wanted = self._expected()
        self._begin("running the conversion")
        found = find_scales(self._original, self._converted)
        return [
            self._same_again(again),
            self._same_given(found),
            self._skips(found),
            self._agrees(),
        ]

    def _again(self, scale: float) -> Conversion:
        return self._convert(in_float32(self._config(), scale))

    def _convert(self, config: Config) -> Conversion:
        return convert_graph(
            stored(self._original),
            Identity("", "", "verify"),
            config,
            Stages(lambda stage: None),
            [],
        )

    def _config(self) -> Config:
        """The options that the converted graph claims.

        Defaults if it claims none or Python-only ones.
        """
        flags = dict(self._mark.get("flags", {}), engine="rewrite", engine_strict=False)
        if str(flags.get("loss_scale", "")).startswith("<"):
            flags["loss_scale"] = _SCALES[0]
        return Config.make(**flags)

    def _batches(self, train: Sequence[str]) -> Any:
        view, options = GraphView(self._original.graph_def), self._options
        with _of_original(options), VariableSession(
            self._original, train, checkpoint=options.checkpoint, on_gpu=True
        ) as session:
            return asked_batches(
                session.session,
                view,
                train,
                session.targets,
                options.data,
                options.batch_size,
                options.seed,
            )

    def _expected(self) -> same.Expected:
        with _of_original(self._options):
            return same.expected(self._original, self._steps, self._options.checkpoint)

    def _same_again(self, again: Conversion) -> Claim:
        if self._is_recipe:
            return Claim(
                _AGAIN,
                NOT_APPLICABLE,
                "the recipe converts Python code, which is not at hand; see the next claim",
            )

        def trials() -> Iterator[_Trial]:
            for scale in _SCALES:
                yield scale, (again if scale == _SCALES[0] else self._again(scale)).meta_graph, {}

        return self._same(
            _AGAIN,
            "converted again in float32, without a clip, the loss scaled by %g",
            trials(),
            self._wanted,
        )

    def _same_given(self, found: FoundScales) -> Claim:
        wide = plain(widened(self._original, self._converted, found), found)
        interval = min([scale.interval for scale in found.dynamic], default=self._steps.number)
        few = (
            self._wanted.steps.number > interval >= 1
        )  # the scale would grow, maybe by another factor than two
        wanted = (
            same.expected(
                self._original, self._steps._replace(number=interval), self._options.checkpoint
            )
            if few
            else self._wanted
        )
        trials = (
            (scale, wide, _state(found, scale))
            for scale in (_SCALES if found.dynamic else _SCALES[:1])
        )
        text = "the given graph, its half precision widened to float32%s, the loss scaled %s" % (
            " and its clip taken out" if found.clips else "",
            "by %g" if found.dynamic else "as it is",
        )
        return self._same(_GIVEN, text, trials, wanted)

    def _same(self, name: str, text: str, trials: Iterator[_Trial], wanted: same.Expected) -> Claim:
        """Whether one of some graphs with different scales gives the original's variables."""
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
        excuse = out_of_range(self._original, graph, wanted, given, scale)
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

    def _skips(self, found: FoundScales) -> Claim:
        if not found.dynamic:
            if self._config().loss_scale != "dynamic":
                return Claim(_SKIPS, NOT_APPLICABLE, "the graph has no dynamic loss scale")
            where = "in what the recipe builds" if self._is_recipe else "outside of functions"
            return Claim(
                _SKIPS,
                NOT_PROVED,
                "the graph claims a dynamic loss scale, and the proof finds none %s" % where,
            )
        train = _with_adaptions(found, self._steps.train)
        allowed = Allowed(
            found, train, bool(self._mark.get("flags", {}).get("count_skipped_steps"))
        )
        steps = self._steps._replace(train=train)
        simulates = chosen_arithmetic(self._options.arithmetic) == "simulated"
        try:
            seen = SkipTrial(
                found, allowed, steps, self._wanted.start, self._listed(), simulates
            ).run()
            if simulates and not seen.faults:
                wide = widened(self._original, self._converted, found)
                others = SkipTrial(
                    found.of(wide), allowed, steps, self._wanted.start, self._listed()
                ).run()
                seen = others._replace(unsettled=seen.unsettled or others.unsettled)
        except Exception as error:  # TensorFlow raises errors of any type
            return Claim(_SKIPS, NOT_PROVED, "the given graph does not run: %s" % first_line(error))
        return _skipped(seen, simulates and self._is_half)

    @property
    def _is_recipe(self) -> bool:
        return bool(self._mark.get("engine") == "recipe")

    @property
    def _is_half(self) -> bool:
        return bool(self._mark.get("flags", {}).get("compute_dtype") != "float32")

    def _listed(self) -> Optional[Set[str]]:
        if self._report is None:
            return None
        return {
            row["node"] for loss in self._report["losses"] for row in loss.get("not_skipped", ())
        }

    def _agrees(self) -> Claim:
        if not self._is_half:
            return Claim(AGREES, NOT_APPLICABLE, "nothing is in half precision")
        if self._is_recipe:
            return Claim(
                AGREES,
                NOT_PROVED,
                "the recipe built a graph of its own, whose gradients can't be compared node by"
                " node",
            )
        self._begin("auditing")
        try:
            report = self._convert(self._config()).report
        except GraphmpError as error:
            return Claim(AGREES, NOT_PROVED, error.message)
        conversion = Conversion(self._original, self._converted, report)
        return agreement(conversion, self._exact, self._steps.train, self._options, self._tolerance)

    def _exact(self) -> Conversion:
        return self._convert(
            Config.make(**dict(in_float32(self._config(), 1.0).as_flags(), loss_scale="none"))
        )


@contextlib.contextmanager
def _of_original(options: AuditOptions) -> Iterator[None]:
    """Turn TensorFlow's errors in a run of the original into one of ours."""
    try:
        yield
    except (tf.errors.OpError, ValueError, TypeError) as error:
        text = "the original does not run%s: %s"
        batches = "" if options.data else " on made-up batches (--data gives others)"
        raise GraphmpError("GMP024", text % (batches, first_line(error))) from None


def in_float32(config: Config, scale: float) -> Config:
    """The options of the same conversion in float32, with a scale and without a clip."""
    options = dict(
        config.as_flags(),
        compute_dtype="float32",
        clip_norm=0.0,
        keep_float32=(),
        force_compute=(),
        op_policy="",
        ranges="",
    )
    if config.loss_scale == "dynamic":
        options.update(
            loss_scale_initial=scale,
            loss_scale_min=min(1.0, scale),
            loss_scale_growth_interval=Config.loss_scale_growth_interval,
        )
    else:
        options.update(loss_scale=scale)
    return Config.make(**options)


def _train(again: Conversion) -> List[str]:
    """The ops of a step of the original, in order of creation.

    Among ops that write the same, or less, only one is kept.
    """
    named = {name for loss in again.report["losses"] for name in loss["train_ops"]}
    view = GraphView(again.original.graph_def)
    state = State(again.original, view, OpDefs(again.original).get)
    writes = {
        name: view.ancestors([name]) & set(state.writes) for name in view.nodes if name in named
    }
    largest = sorted(writes, key=lambda name: len(writes[name]), reverse=True)
    kept = [
        name
        for place, name in enumerate(largest)
        if not any(writes[name] <= writes[other] for other in largest[:place])
    ]
    return [name for name in writes if name in kept]


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


def _state(found: FoundScales, scale: float) -> Mapping[str, np.ndarray]:
    """Values of the scales' variables in the middle of a training."""
    state: Dict[str, Any] = {}
    for each in found.dynamic:
        state.update(zip(each.variables, (np.float32(scale), np.int64(0), np.int64(1))))
    return state


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


def _skipped(seen: SkipFindings, simulated: bool) -> Claim:
    if seen.faults:
        more = " and %d more" % (len(seen.faults) - 1) if len(seen.faults) > 1 else ""
        first = seen.faults[0]
        return Claim(
            _SKIPS,
            FAILED,
            "the input of %s %s%s" % (first.node, first.text, more),
            tuple(fault.node for fault in seen.faults),
        )
    if seen.unsettled:
        return Claim(
            _SKIPS,
            NOT_PROVED,
            "no step on this data is good: each is skipped, or changes no variable",
        )
    if not seen.gradients:
        return Claim(
            _SKIPS,
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
            (
                " (half precision widened to float32 but for the first gradient of each loss)"
                if simulated
                else ""
            ),
            " but %s" % some(sorted(seen.written)) if seen.written else "",
            "; the step does not reach %s" % some(seen.idle) if seen.idle else "",
        )
    )
    return Claim(_SKIPS, PROVED, text)
