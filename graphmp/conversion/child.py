"""The process of one build of a script: `main(path of a JSON file)`.

The file runs as `__main__`. At its first call that trains, from any thread and by any method, the
graph of that session is written and the process ends at once: no `finally`, `except` or exit hook
of the script runs.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import pathlib
import random
import sys
import threading
import traceback
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp import legacy
from graphmp.config import Config
from graphmp.conversion import python_2
from graphmp.conversion.arguments import make_arguments
from graphmp.conversion.export import exported
from graphmp.conversion.script import look_up, prepare_main, run_main
from graphmp.conversion.source import Source, names_in, read_tree
from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import serialize
from graphmp.legacy import internals, unfit
from graphmp.policy import policy as policies
from graphmp.recipe import decorator, observe
from graphmp.recipe.inputs import flat
from graphmp.recipe.plan import Plan
from graphmp.recipe.record import record
from graphmp.recipe.refusal import first_line
from graphmp.session import training
from graphmp.session.decorator import leave_plain
from graphmp.tf_hooks import sessions
from graphmp.tf_hooks.autograph_files import delete_autograph_files, note_autograph_files
from graphmp.tf_hooks.gradient_calls import noted
from graphmp.wording import FRAMES

# Keras draws the seeds of its initialisers from Python's generator and those of its dropout from
# NumPy's, and scripts make constants with both: all builds of a conversion must draw alike.
_SEED = 0


class ScriptBuild:
    """One build of a script.

    Of the original, observed or plain; or of the conversion, by the original's plans.
    """

    def __init__(self, spec: Dict[str, Any]):
        self.spec = spec
        self.start = os.getcwd()  # the script may leave it
        self.source = Source(pathlib.Path(spec["path"]), spec["function"])
        self.config = Config.from_json(spec["config"])
        self.policy = policies.load(self.config.compute_dtype, self.config.op_policy)
        self.graph: Optional[Any] = None
        self.calls = 0
        self.running = 0
        self.decorated: Dict[
            str, List[str]
        ] = {}  # options of the script's own decorators, as flags that the conversion lacks
        self.plans: Dict[str, Any] = {}  # by the number of the call, as text like the keys of JSON
        self._lock = threading.Lock()
        self._depth = threading.local()

    def decorate(self, function: Any) -> Any:
        """The decorator for the build function."""
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(self.decorate(function.__func__))

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._depth, "inside", False):
                return function(*args, **kwargs)
            self._depth.inside = True
            self.running += 1
            try:
                return self._call(function, args, kwargs)
            except GraphmpError as error:  # the script must not catch it
                traceback.print_exc()
                return self.end(failure(error))
            finally:
                self._depth.inside = False
                self.running -= 1

        return wrapper

    def _others(self) -> str:
        functions = [
            name
            for name in names_in(read_tree(self.source.path))[0]
            if name != self.source.function
        ]
        return "name a function that builds the graph and returns%s" % (
            ", of " + ", ".join(functions[:8]) if functions else ""
        )

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if tf.executing_eagerly():
            raise GraphmpError(
                "GMP011",
                "%s is called while TensorFlow executes eagerly: call tf.disable_v2_behavior()"
                " first" % self.source.function,
            )
        self.graph = tf.get_default_graph()
        with self._lock:
            index, self.calls = self.calls, self.calls + 1
        if self.spec["plain"]:
            return function(*args, **kwargs)
        if self.spec["converted"]:
            plan = self.spec["plans"].get(str(index))
            return decorator.build(
                function,
                self.config,
                (args, kwargs),
                None if plan is None else Plan.from_json(plan),
            )
        result, plan = observe.observed(
            lambda: function(*args, **kwargs), flat((args, kwargs)), self.policy, self.config
        )
        self.plans[str(index)] = plan.as_json()
        return result

    def note_decorated(self, name: str, config: Config) -> None:
        """Called when a function that the script itself decorates runs."""
        lines = (
            config.flagfile_lines()
            if isinstance(config.loss_scale, (str, float))
            else ["a loss scale that is a tensor or function"]
        )
        options = set(lines) - set(self.config.flagfile_lines())
        if options:
            self.decorated[name] = sorted(options)

    def before_run(self, session: Any, fetches: Any) -> None:
        """Called before each run of a session.

        If it would train, captures the graph and ends the process.
        """
        if not training.trains(session.graph, fetches):
            return
        if self.running and not self.spec["plain"]:
            self.end(
                failure(
                    GraphmpError(
                        "GMP019",
                        "%s: %s trains inside itself; %s"
                        % (self.source.path, self.source.function, self._others()),
                    )
                )
            )
        with self._lock:  # another thread that trains waits here for the end
            self.finish(session.graph)

    def finish(self, graph: Any) -> None:
        """Write the graph and the facts about it, and end the process."""
        self.end(self._captured(graph))

    def _captured(self, graph: Any) -> Dict[str, Any]:
        try:
            if not graph.get_operations():
                why = unfit.why_nothing_trained(
                    set(self.spec["imports"]), internals.executed_eagerly(), False
                )
                raise GraphmpError(
                    "GMP017", "%s built no graph%s" % (self.source.path, ": " + why if why else "")
                )
            meta_graph = exported(graph)
            pathlib.Path(self.spec["output"], "graph.meta").write_bytes(serialize(meta_graph))
            result: Dict[str, Any] = {
                "calls": self.calls,
                "plans": self.plans,
                "decorated": self.decorated,
                "gradients": [call.as_json() for call in noted(graph)],
            }
            if self.spec["converted"]:
                result["record"] = record(graph, self.config).as_json()
            return result
        except GraphmpError as error:
            return failure(error)
        except (
            Exception
        ) as error:  # TensorFlow raises errors of any type on a graph that it can't export
            traceback.print_exc()
            return failure(
                GraphmpError(
                    "GMP017",
                    "%s: its graph cannot be exported: %s" % (self.source.path, first_line(error)),
                )
            )

    def end(self, result: Dict[str, Any]) -> None:
        """Write the result and end the process immediately."""
        path = pathlib.Path(self.spec["output"], "result.json")
        path.write_text(json.dumps(result))
        delete_autograph_files()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def run(self) -> None:
        """Run the file to its first training step, or to its end."""
        module = prepare_main(self.source, self.spec["arguments"])
        note_autograph_files()
        random.seed(_SEED)
        np.random.seed(_SEED)
        if self.spec["converted"]:
            decorator.install()
        sessions.install(self.before_run)
        leave_plain(self.note_decorated)
        sessions.place_softly()
        try:
            namespace = run_main(module, self.source, self.decorate)
        except SystemExit as error:
            if error.code not in (None, 0):
                raise GraphmpError(
                    "GMP013",
                    "%s: the file exits with %s before it trains" % (self.source.path, error.code),
                ) from None
            namespace = vars(module)
        graph = tf.get_default_graph()
        if self.source.function and not self.calls:
            if tf.executing_eagerly():  # as TensorFlow 2 does unless it is told otherwise
                graph = tf.Graph()
            with graph.as_default():
                self._call_it(look_up(namespace, self.source.function))
        self.finish(self.graph or graph)

    def _call_it(self, function: Any) -> None:
        label = "%s in %s" % (self.source.function, self.source.path)
        if not callable(function):
            raise GraphmpError(
                "GMP006",
                "%s: the file ended without defining %s" % (self.source.path, self.source.function),
            )
        function(**make_arguments(function, label, self.spec["inputs"], self.spec["args"]))


def failure(error: GraphmpError) -> Dict[str, Any]:
    """The result of a failed build."""
    return {
        "error": {"code": error.code, "message": error.message, "exit_status": error.exit_status}
    }


def main(path: str) -> None:
    """Run one build by the spec in a JSON file."""
    faulthandler.enable()
    build = ScriptBuild(json.loads(pathlib.Path(path).read_text()))
    tf.logging.set_verbosity(tf.logging.ERROR)
    if build.spec["legacy_imports"]:
        legacy.install(strict=build.spec["strict"])
    elif build.spec["served"]:
        legacy.serve_what_left()
        install = functools.partial(legacy.install, strict=build.spec["strict"])
        legacy.watch(legacy.Program(build.source.path), install)
    try:
        build.run()
    except GraphmpError as error:
        traceback.print_exc(limit=-FRAMES)
        build.end(failure(error))
    except BaseException as error:  # any error of the script, KeyboardInterrupt included
        traceback.print_exc(limit=-FRAMES)
        build.end(failure(_raised(error, build)))


def _raised(error: BaseException, build: ScriptBuild) -> GraphmpError:
    """GMP013 for an error of the script, with advice if the script isn't one for graphmp."""
    place = _place(error, build)
    # BaseException serves
    text = "%s: %s: %s" % (place, type(error).__name__, first_line(error))  # type: ignore[arg-type]
    as_version_1 = build.spec["legacy_imports"] and not build.spec["asks_for_version_1"]
    hint = (
        "; " + unfit.ran_as_version_1(str(build.source.path))
        if as_version_1 and not internals.on_tensorflow_1()
        else ""
    )
    promoted = unfit.promoted(error) if build.spec["legacy_imports"] else ""
    newer = promoted or unfit.of_version_1(error) or unfit.of_listed_names(error)
    hint = "; " + newer if newer else hint
    hint = python_2.hint(error, place.rpartition(":")[0]) or hint
    return (
        unfit.without_estimator(error, place)
        or python_2.syntax_error(error)
        or GraphmpError("GMP013", text + hint)
    )


def _place(error: BaseException, build: ScriptBuild) -> str:
    """`model.py:12`: the innermost line in one of the user's own files."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__, limit=-FRAMES)
        if _is_users(frame.filename, build)
    ]
    return "%s:%s" % (frames[-1].filename, frames[-1].lineno) if frames else str(build.source.path)


def _is_users(name: str, build: ScriptBuild) -> bool:
    """Whether a frame's file is there, in the script's folder or below.

    Cython's frames name files by paths relative to where they were compiled.
    """
    script, path = (
        os.path.realpath(os.path.join(build.start, each)) for each in (str(build.source.path), name)
    )
    is_below = path.startswith(os.path.dirname(script) + os.sep)
    return is_below and "site-packages" not in name and os.path.isfile(path)
