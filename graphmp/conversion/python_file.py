"""Converting a Python file: the recipe around its build function, or the rewrite of its graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

import tensorflow.compat.v1 as tf

from graphmp import environment, legacy
from graphmp.compare.api import compare
from graphmp.compare.claims import OF_REPORT
from graphmp.config import Config
from graphmp.conversion import built_graph
from graphmp.conversion.arguments import parse_arg, parse_input
from graphmp.conversion.builds import build
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.source import LEGACY_IMPORTS, Source
from graphmp.conversion.stages import Stages
from graphmp.errors import GraphmpError, warning
from graphmp.graph.edit.mark import mark
from graphmp.graph.io.stored import stored
from graphmp.graph.structure.gradient_record import RecordedCall
from graphmp.legacy import unfit
from graphmp.report.record import Record
from graphmp.report.report import check_variables, make_report, sha256
from graphmp.time_limit import LONGEST
from graphmp.verify import FAILED, NOT_PROVED
from graphmp.wording import printable, shell_word

# Why the recipe may not serve a correct file: the rewrite is used then.
RECIPE_REFUSES = ("GMP012", "GMP014", "GMP015", "GMP016", "GMP019")


class Script(NamedTuple):
    """A Python file and how to run it.

    Attributes:
        source: the file and its build function.
        arguments: the file's own command line.
        inputs: `name=dtype[dimensions]` for tensors of a build function that the file never calls.
        args: `name=value` for its other arguments.
        legacy_imports: one of LEGACY_IMPORTS.
        timeout: seconds in which it must come to its first training step.
    """

    source: Source
    arguments: Sequence[str]
    inputs: Sequence[str]
    args: Sequence[str]
    legacy_imports: str
    timeout: float

    def check(self) -> None:
        """Raise GraphmpError if the file can't be run: GMP001, GMP002, GMP009, GMP025."""
        _check_keras()
        if self.legacy_imports not in LEGACY_IMPORTS:
            raise GraphmpError(
                "GMP002",
                "legacy_imports=%s: accepted are %s"
                % (self.legacy_imports, ", ".join(LEGACY_IMPORTS)),
            )
        if not 0 < self.timeout <= LONGEST:
            raise GraphmpError(
                "GMP002",
                "script_timeout=%g: accepted are seconds above zero, at most %d"
                % (self.timeout, LONGEST),
            )
        for text in self.inputs:
            parse_input(text)
        for text in self.args:
            parse_arg(text)
        eagerly = legacy.written(self.source.path).eagerly if self._where_needed else ""
        if eagerly:
            raise unfit.executes_eagerly(str(self.source.path), eagerly)

    @property
    def _where_needed(self) -> bool:
        return self.legacy_imports in legacy.WHERE_NEEDED

    def spec(self, config: Config) -> Dict[str, Any]:
        """The spec of the child process."""
        written = legacy.written(self.source.path)
        as_version_1 = self._where_needed and written.needs_version_1
        return {
            "path": str(self.source.path),
            "function": self.source.function,
            "arguments": list(self.arguments),
            "inputs": list(self.inputs),
            "args": list(self.args),
            "config": asdict(config),
            "legacy_imports": self.legacy_imports == "on" or as_version_1,
            "strict": self.legacy_imports == "strict",
            "served": self.legacy_imports != "off",
            "asks_for_version_1": written.asks_for_version_1,
            "imports": sorted(written.imports),
            "timeout": self.timeout,
            "plain": False,
            "converted": False,
        }


def convert_file(
    script: Script, config: Config, stages: Stages, log: Callable[[str], None]
) -> Conversion:
    """Convert by the chosen engine; `auto` uses the recipe if it fits and its result is proved.

    Raises:
        GraphmpError: with exit_status 2 for bad input, 1 if the model itself fails or can't be
            converted.
    """
    script.check()
    named = config.for_built_graphs
    if named and config.engine == "recipe":
        raise GraphmpError(
            "GMP002",
            "--%s with --engine=recipe: it is for built graphs; accepted are --engine=auto and"
            " rewrite" % named,
        )
    if named or config.engine == "rewrite" or not script.source.function:
        reason = (
            "asked for"
            if config.engine == "rewrite"
            else "--%s is for built graphs" % named
            if named
            else "no build function"
        )
        return _by_rewrite(script, config, stages, log, reason)
    strict = config.engine == "recipe" or config.engine_strict
    try:
        conversion = _by_recipe(script, config, stages, log)
        refused = "" if strict else _unproved(conversion)
    except GraphmpError as error:
        if strict or error.code not in RECIPE_REFUSES:
            raise
        refused = "the recipe does not fit: %s" % error
    if not refused:
        return conversion
    log(refused + "\n")
    return _by_rewrite(script, config, stages, log, refused)


def _unproved(conversion: Conversion) -> str:
    """The unproved claims on the recipe's graph, in a line; empty if all is proved."""
    of_graphs = (row for row in conversion.report["checks"] if row["name"] not in OF_REPORT)
    found = next((row for row in of_graphs if row["status"] in (FAILED, NOT_PROVED)), None)
    return (
        "the recipe's graph can't be proved: %s: %s" % (found["name"], found["text"])
        if found is not None
        else ""
    )


def _by_recipe(
    script: Script, config: Config, stages: Stages, log: Callable[[str], None]
) -> Conversion:
    """Two builds: of the unchanged file, and with the decorator on its build function."""
    spec, digest = script.spec(config), sha256(script.source.path)
    with stages.stage("original", "building the original graph"):
        original, seen = build(spec, log)
    with stages.stage("converted", "building the converted graph"):
        converted, done = build(dict(spec, converted=True, plans=seen["plans"]), log)
        record = Record.from_json(done["record"])
    with stages.stage("report", "comparing the graphs"):
        check_variables(original, converted)
        mark(converted, config, "recipe")
        reason = "%s is a build function" % script.source.function
        original, converted = stored(original, _recorded(seen)), stored(converted)
        diff = compare(original, converted)
        report = make_report(
            original,
            converted,
            config,
            printable(str(script.source)),
            digest,
            "recipe",
            reason,
            record,
            stages.seconds,
            diff,
        )
    _check_coverage(report, script.source, len(record.left))
    report["seconds"] = stages.rounded()
    report["warnings"] += _other_options(seen)
    return Conversion(original, converted, report, _flagfile(config, script), diff)


def _by_rewrite(
    script: Script, config: Config, stages: Stages, log: Callable[[str], None], reason: str
) -> Conversion:
    """One build, of the unchanged file, whose graph is rewritten."""
    name, digest = printable(str(script.source)), sha256(script.source.path)
    with stages.stage("original", "building the original graph"):
        original, seen = build(dict(script.spec(config), plain=True), log)
    identity = built_graph.Identity(name, digest, reason)
    conversion = built_graph.convert_graph(
        stored(original, _recorded(seen)), identity, config, stages, _flagfile(config, script)
    )
    conversion.report["warnings"] += _other_options(seen)
    return conversion


def _recorded(seen: Dict[str, Any]) -> List[RecordedCall]:
    """The recorded calls of `tf.gradients` of a build."""
    return [RecordedCall.from_json(values) for values in seen["gradients"]]


def _other_options(seen: Dict[str, Any]) -> List[Dict[str, str]]:
    """Warnings for functions that the script decorates with options other than the conversion's."""
    text = (
        "is decorated with %s, and a conversion goes by its own flags: give these to convert it as"
        " it trains"
    )
    return [
        warning("GMP123", name, text % " ".join(options))
        for name, options in sorted(seen["decorated"].items())
    ]


def _flagfile(config: Config, script: Script) -> List[str]:
    """Lines of an absl flagfile that repeats the conversion; the command is its first comment."""
    tail = " -- " + " ".join(map(shell_word, script.arguments)) if script.arguments else ""
    lines = [
        "# graphmp convert --flagfile=flags.txt %s%s" % (shell_word(str(script.source)), tail)
    ] + config.flagfile_lines()
    return (
        lines
        + ["--input=%s" % text for text in script.inputs]
        + ["--arg=%s" % text for text in script.args]
    )


def _check_keras() -> None:
    if (
        tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 16)
        and not environment.asks_for_legacy_keras()
    ):
        raise GraphmpError(
            "GMP009",
            "TensorFlow %s would be without legacy Keras: install tf-keras, and set"
            " TF_USE_LEGACY_KERAS=1 or leave it unset" % tf.__version__,
        )


def _check_coverage(report: Dict[str, Any], source: Source, kept: int) -> None:
    """Refuse a function without part in any matmul or convolution that may be in half precision."""
    coverage = report["coverage"]
    if (
        report["compute_dtype"] != "float32"
        and coverage["tensor_core_ops"] > kept
        and not coverage["converted_ops"]
    ):
        message = (
            "%s: %s makes none of the graph's %d matmuls and convolutions; name the function that"
            " does, as %s:FUNCTION"
        )
        raise GraphmpError(
            "GMP015",
            message % (source.path, source.function, coverage["tensor_core_ops"], source.path),
        )
