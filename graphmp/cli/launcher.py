"""The process that `graphmp run` becomes: an unmodified script with mixed-precision sessions.

The script runs as `__main__` with its own command line, and with stdin, signals, working folder and
exit status as under `python`. graphmp only writes to stderr: a line at the start, one at each
conversion and one at the end.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing.spawn
import os
import pathlib
import runpy
import sys
import threading
import traceback
import warnings
import weakref
from types import TracebackType
from typing import Any, Dict, Optional, Tuple, Type

import tensorflow.compat.v1 as tf

import graphmp
from graphmp import legacy
from graphmp.cli import children
from graphmp.cli.announced import announced
from graphmp.cli.children.started import Started
from graphmp.cli.closing import Closing
from graphmp.compare.api import compare
from graphmp.config import Config
from graphmp.conversion import python_2
from graphmp.conversion.contents import CONVERTED, ORIGINAL
from graphmp.conversion.conversion import Conversion
from graphmp.conversion.script import prepare_main, run_main
from graphmp.conversion.source import Source
from graphmp.errors import GraphmpError
from graphmp.executed.apart import verified_apart
from graphmp.graph.io.stored import stored
from graphmp.legacy import internals, unfit
from graphmp.report.report import make_report, sha256
from graphmp.session.live.live_conversion import LiveConversion
from graphmp.session.live.live_graph import LiveGraph
from graphmp.session.live.not_finite.finite import NotFinite
from graphmp.session.live.not_finite.words import Words
from graphmp.session.live.observer import Fate, Observer
from graphmp.session.live.run_key import fed_tensor
from graphmp.session.session import convert_every_session
from graphmp.session.tuned.verdict import Verdict, in_words
from graphmp.tf_hooks import patch, sessions
from graphmp.verify.proof import FAILED
from graphmp.wording import FRAMES, printable, shell_word

_WORDS = Words(python=False)
_NOT_PROVED = (
    "a proof that fails is a fault of graphmp: of its conversion, and then what is named may train"
    " wrongly, or of the proof alone. The script runs on. Please report it with the two graphs; to"
    " see where they differ: graphmp diff --check %s %s"
)
_ROOT = str(pathlib.Path(graphmp.__file__).resolve().parent)


class Run(Observer):
    """Messages and files of a run."""

    def __init__(self, spec: Dict[str, Any]):
        self.config = Config.from_json(spec["config"])
        self._spec = spec
        self._process = os.getpid()
        self._program = legacy.Program(
            pathlib.Path(spec["path"]) if spec["path"] else None, spec["module"]
        )
        if spec["imported"]:
            self._program.runs(spec["imported"])
        self._written = self._program.facts
        self._digest = sha256(pathlib.Path(spec["path"])) if spec["path"] else ""
        self._as_version_1 = False
        self._raised = False
        self._closing = Closing(_WORDS)
        self._started = Started()
        self._by_hand: Dict[int, Fate] = {}  # of graphs that train by gradients of their own
        self._left: weakref.WeakSet[Any] = weakref.WeakSet()  # graphs that the decorator converted
        self._reports = 0
        self._converted = False
        self._unverified: Dict[
            int, Tuple[Any, Any]
        ] = {}  # conversions without a step so far, by the number of their graph

    def begin(self) -> None:
        """Announce the run, and listen to sessions."""
        if self._written.eagerly and self._spec["legacy_imports"] in legacy.WHERE_NEEDED:
            text = (
                "warning GMP120: %s executes eagerly (%s) and runs as under python, in float32; %s"
            )
            self._say(text % (self._spec["name"], self._written.eagerly, unfit.POLICY))
        else:
            self._say(
                "%s in %s, loss scale %s"
                % (self._spec["name"], self.config.compute_dtype, self._scale())
            )
        for note in self._spec["notes"]:
            self._say(note)
        self.listen()
        sessions.install(self._closing.ran)
        sessions.before_close(self._note)
        if not self._spec["children"]:
            self._started.listen()
        atexit.register(self.end)

    def listen(self) -> None:
        """Prepare a process, this one or one that the script spawns."""
        wanted = self._spec["legacy_imports"]
        if wanted != "off":
            legacy.serve_what_left()
        if wanted == "on" or (wanted in legacy.WHERE_NEEDED and self._written.needs_version_1):
            self._run_as_version_1()
        elif wanted in legacy.WHERE_NEEDED and not self._written.eagerly:
            legacy.watch(self._program, self._run_as_version_1)
        convert_every_session(
            self.config,
            self,
            self._spec["debug_overflow"],
            self._spec["tune"],
            self._spec["tune_file"],
        )
        patch.wrap(multiprocessing.spawn, "get_preparation_data", self._prepared)

    def _run_as_version_1(self) -> None:
        self._as_version_1 = True
        self._written = self._program.facts
        legacy.install(strict=self._spec["legacy_imports"] == "strict")

    def _prepared(self, original: Any, name: str) -> Any:
        """The orders of a spawned process.

        Reading them prepares it before it imports the script.
        """
        return dict(original(name), graphmp=_Setup(self._spec))

    def _scale(self) -> str:
        scale = self._spec["config"]["loss_scale"]
        return scale if isinstance(scale, str) else "%g" % scale

    def converted(self, live: LiveGraph) -> None:
        found = live.converted
        assert found is not None  # this is what is reported
        if not found.record.left_as_it_is:
            for text in announced(found, self.config, first=not self._converted):
                self._say(text)
            self._converted = True
        self._after_conversion(live, found)

    def _after_conversion(self, live: LiveGraph, found: LiveConversion) -> None:
        for row in found.warnings:
            self._say(
                "warning %s: %s%s"
                % (row["code"], row["node"] + ": " if row["node"] else "", row["message"])
            )
        if self._spec["report"]:
            self._write(live)
        if self._spec["verify"] and found.record.left_as_it_is:
            self._say("nothing to verify: the graph trains as it is")
        elif self._spec["verify"]:
            self._unverified[live.number] = found.original, found.meta_graph

    def trains_by_hand(self, live: LiveGraph) -> None:
        self._by_hand[live.number] = live.fate

    def begins(self, live: LiveGraph, feeds: Dict[Any, Any]) -> None:
        graphs = self._unverified.pop(live.number, None)
        if graphs is not None:
            self._say(
                verified_apart(
                    *graphs, {fed_tensor(key).name: value for key, value in feeds.items()}
                )
            )

    def left(self, graph: Any) -> None:
        if graph not in self._left:
            self._left.add(graph)
            self._say(
                "@graphmp.mixed_precision converted the graph while it was built: it trains as that"
                " made it"
            )

    def went_on(self, live: LiveGraph, flags: Optional[Tuple[str, str]]) -> None:
        text = "this graph was trained in mixed precision before"
        if flags is not None:
            text += ", with %s; now with %s" % flags if any(flags) else ", with the same flags"
        self._say(text)

    def failed(self, error: Exception) -> bool:
        if self._spec["on_error"] != "float32":
            return False
        self._say("not converted, trains in float32: %s" % error)
        return True

    def not_finite(self, live: LiveGraph, step: NotFinite) -> None:
        self._closing.not_finite(live, step)
        for text in _WORDS.said(step):
            self._say(text)

    def tuned(self, live: LiveGraph, verdict: Verdict) -> None:
        self._say(in_words(verdict, self.config.compute_dtype))

    def kept(self, text: str, is_written: bool) -> None:
        self._say(text)

    def end(self) -> None:
        """Print the closing lines. A forked process prints none: it lacks TensorFlow's threads."""
        if os.getpid() != self._process:
            return
        trained = self._closing.lines()
        by_hand = [fate.by_hand for fate in self._by_hand.values() if not fate.converted]
        for text in by_hand:
            self._say("warning GMP120: %s, in float32: %s" % (text, unfit.BY_HAND))
        for text in trained:
            self._say(text)
        if not trained and not by_hand and not self._left and not self._written.eagerly:
            self._say_that_nothing_was_trained()
        if self._started.in_words():
            self._say(self._started.in_words())

    def _say_that_nothing_was_trained(self) -> None:
        why = unfit.why_nothing_trained(
            self._written.imports, internals.executed_eagerly(), self._closing.had_sessions
        )
        if why and not self._raised:
            self._say("warning GMP120: " + why)
        self._say("nothing was trained in mixed precision in this process")

    def raised(
        self, kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]
    ) -> None:
        """Python's own traceback, without the frames that started the script.

        For graphmp's errors, and for scripts unsuited to it, only one line.
        """
        self._raised = True
        while trace is not None and _is_ours(trace):
            trace = trace.tb_next
        place = (
            "%s:%d" % (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            if trace is not None
            else self._spec["name"]
        )
        refusal = (
            error
            if isinstance(error, GraphmpError)
            else unfit.without_estimator(error, place) or python_2.syntax_error(error)
        )
        if refusal is not None:
            print("graphmp: error %s" % refusal, file=sys.stderr)
            return
        traceback.print_exception(kind, error, trace, limit=-FRAMES)
        frames = traceback.extract_tb(trace, limit=-FRAMES)
        hint = python_2.hint(error, frames[-1].filename) if frames else ""
        if hint:
            self._say("%s:%s%s" % (frames[-1].filename, frames[-1].lineno, hint))
        newer = (
            unfit.promoted(error) or unfit.of_listed_names(error)
            if self._as_version_1
            else unfit.of_version_1(error) or unfit.newer_keras(error, self._written.imports)
        )
        if newer:
            self._say(newer)
        if self._as_version_1 and not self._written.asks_for_version_1 and tf.__version__ > "2":
            self._say(unfit.ran_as_version_1(self._spec["name"]))

    def raised_in_thread(self, original: Any, error: Any) -> None:
        """A thread of the script failed: that may be why nothing was trained."""
        self._raised = True
        original(error)

    def _note(self, session: Any) -> None:
        if os.getpid() == self._process:
            self._closing.note(session)

    def _write(self, live: LiveGraph) -> None:
        found = live.converted
        assert found is not None  # this is what is reported
        folder = pathlib.Path(
            self._spec["report"] + ("_%d" % self._reports if self._reports else "")
        )
        if self._reports:
            self._say("the report of this conversion: %s" % folder)
        self._reports += 1
        reason = "the graph that a session trains"
        seconds = {"convert": found.seconds}
        before, after = stored(found.original), stored(found.meta_graph)
        diff = compare(before, after)
        report = make_report(
            before,
            after,
            self.config,
            self._spec["name"],
            self._digest,
            "rewrite",
            reason,
            found.record,
            seconds,
            diff,
        )
        Conversion(before, after, report, self.config.flagfile_lines(), diff).save(folder)
        failed = [row for row in report["checks"] if row["status"] == FAILED]
        for row in failed:
            self._say("the proof failed: %s: %s" % (row["name"], row["text"]))
        if failed:
            graphs = (shell_word(str(folder / name)) for name in (ORIGINAL, CONVERTED))
            self._say(_NOT_PROVED % tuple(graphs))

    def _say(self, text: str) -> None:
        line = "graphmp: %s\n" % "\n".join(map(printable, text.split("\n")))
        try:
            sys.stderr.write(line)  # at once: threads of the script write too
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):  # the script has closed it
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # at its end Python flushes it


def main(spec: Dict[str, Any]) -> None:
    """Run a script or module by a spec of `graphmp run`.

    What to run, its arguments, and the flags.
    """
    run = _begun(spec)
    if spec["children"]:
        children.prepare(spec)
    try:
        _run(spec)
    except GraphmpError as error:
        run.raised(type(error), error, None)
        sys.exit(error.exit_status)


def adopt(spec: Dict[str, Any]) -> None:
    """Prepare this process, whose main program is running and now imports TensorFlow."""
    _begun(children.spec_of_main(spec))


def _begun(spec: Dict[str, Any]) -> Run:
    if not spec["verbose"]:
        tf.logging.set_verbosity(tf.logging.ERROR)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message="`tf[.].*is deprecated")
    run = Run(spec)
    sys.excepthook = run.raised
    if sys.version_info >= (3, 8):
        patch.wrap(threading, "excepthook", run.raised_in_thread)
    run.begin()
    return run


def _run(spec: Dict[str, Any]) -> None:
    """Run the script or module as the main program."""
    if spec["module"]:
        sys.argv = [spec["module"]] + spec["arguments"]
        sys.path[0] = ""
        runpy.run_module(spec["module"], run_name="__main__", alter_sys=True)
    else:
        source = Source(pathlib.Path(spec["path"]), "")
        run_main(prepare_main(source, spec["arguments"]), source, lambda function: function)


class _Setup:
    """Prepares the process that unpickles it."""

    def __init__(self, spec: Dict[str, Any]):
        self._spec = spec

    def __reduce__(self) -> Any:
        return _set_up, (self._spec,)


def _set_up(spec: Dict[str, Any]) -> None:
    Run(spec).listen()


def _is_ours(trace: TracebackType) -> bool:
    name = trace.tb_frame.f_code.co_filename
    return (
        name in ("<string>", "<frozen runpy>") or name == runpy.__file__ or name.startswith(_ROOT)
    )


def start(text: str) -> None:
    """Entry point of the process: the spec as JSON."""
    main(json.loads(text))
