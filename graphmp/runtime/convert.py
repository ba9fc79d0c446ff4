"""Converting a Python file: two builds, each in a process of its own, then report and checks."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from typing import Any, Callable, Dict, Iterator, List, Sequence, Union

import tensorflow.compat.v1 as tf

import graphmp
from graphmp import environment
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.graph.files import read_graph
from graphmp.policy import policy as policies
from graphmp.report.report import check_variables, make_report, sha256
from graphmp.runtime import legacy
from graphmp.runtime.arguments import parse_arg, parse_input
from graphmp.runtime.conversion import Conversion
from graphmp.runtime.source import LEGACY_IMPORTS, Source, parse_source

# The child finds graphmp where this process did; the script's own folder takes the first place in its path.
CHILD = "import sys; sys.path.append(sys.argv.pop(1)); from graphmp.runtime.child import main; main(sys.argv[1])"
ROOT = str(pathlib.Path(graphmp.__file__).resolve().parent.parent)


def convert(
    source: Union[str, pathlib.Path],
    *,
    arguments: Sequence[str] = (),
    inputs: Sequence[str] = (),
    args: Sequence[str] = (),
    legacy_imports: str = "auto",
    progress: Callable[[str], None] = lambda stage: None,
    log: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Conversion:
    """Converts the training graph that a Python file builds.

    The file runs twice as `__main__`, each time in a child process that ends at the first call that would train: once
    as it is, once with the recipe around its build function.

    Args:
        source: `model.py` or `model.py:build_fn` (default `build_training_model`).
        arguments: the file's own command line.
        inputs: `name=dtype[dimensions]` for tensors of a build function that the file never calls.
        args: `name=value` for its other arguments.
        legacy_imports: "on" makes `import tensorflow` mean `tensorflow.compat.v1`, "auto" where the file needs it.
        progress: told the stage that begins.
        log: told what the child processes printed.
        **options: fields of `graphmp.config.Config`.

    Returns:
        A Conversion: original and converted MetaGraphDef, and the report.

    Raises:
        GraphmpError: with exit_status 2 for bad input, 1 where the model itself fails or can't be converted.
    """
    config = Config.make(**options)
    _check_served(config)
    _check_keras()
    policies.load(config.compute_dtype, config.op_policy)
    if legacy_imports not in LEGACY_IMPORTS:
        raise GraphmpError("GMP002", "legacy_imports=%s: accepted are %s" % (legacy_imports, ", ".join(LEGACY_IMPORTS)))
    for text in inputs:
        parse_input(text)
    for text in args:
        parse_arg(text)
    parsed = parse_source(str(source))
    spec = {
        "path": str(parsed.path),
        "function": parsed.function,
        "arguments": list(arguments),
        "inputs": list(inputs),
        "args": list(args),
        "config": asdict(config),
        "legacy_imports": legacy_imports == "on" or (legacy_imports == "auto" and legacy.needed(parsed.path)),
    }
    return _convert(parsed, spec, config, progress, log)


def _convert(source: Source, spec: Dict[str, Any], config: Config, progress: Callable[[str], None], log: Callable[[str], None]) -> Conversion:
    seconds: Dict[str, float] = {}
    with _timed(seconds, "original"):
        progress("building the original graph")
        original, seen = _build(dict(spec, converted=False), log)
    with _timed(seconds, "converted"):
        progress("building the converted graph")
        converted, done = _build(dict(spec, converted=True, plans=seen["plans"]), log)
    with _timed(seconds, "report"):
        progress("comparing the graphs")
        check_variables(original, converted)
        reason = "%s is a build function" % source.function
        report = make_report(original, converted, config, str(source), sha256(source.path), "recipe", reason, done["record"], seconds)
    _check_coverage(report, source)
    report["seconds"] = {stage: round(time_, 3) for stage, time_ in seconds.items()}
    return Conversion(original, converted, report, _flagfile(config, spec, source))


def _flagfile(config: Config, spec: Dict[str, Any], source: Source) -> List[str]:
    """Lines of an absl flagfile that repeats the conversion, the command that does so first, as a comment."""
    tail = " -- " + " ".join(map(shlex.quote, spec["arguments"])) if spec["arguments"] else ""
    lines = ["# graphmp convert --flagfile=flags.txt %s%s" % (shlex.quote(str(source)), tail)] + config.flagfile_lines()
    return lines + ["--input=%s" % text for text in spec["inputs"]] + ["--arg=%s" % text for text in spec["args"]]


def _build(spec: Dict[str, Any], log: Callable[[str], None]) -> Any:
    """Runs one child process. Returns its MetaGraphDef and its result."""
    with tempfile.TemporaryDirectory(prefix="graphmp_") as folder:
        path = pathlib.Path(folder, "spec.json")
        path.write_text(json.dumps(dict(spec, output=folder)))
        done = subprocess.run(
            [sys.executable, "-c", CHILD, ROOT, str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output = done.stdout.decode("utf-8", "replace")
        log(output)
        result = _result(pathlib.Path(folder, "result.json"), done.returncode, spec["path"], output)
        return read_graph(pathlib.Path(folder, "graph.meta")), result


def _result(path: pathlib.Path, returncode: int, script: str, output: str) -> Dict[str, Any]:
    if not path.exists():
        last = [line for line in output.splitlines() if line.strip()][-1:]
        how = "was killed by signal %d" % -returncode if returncode < 0 else "exited with status %d" % returncode
        raise GraphmpError("GMP013", "%s: its process %s before it trained; it printed last: %s" % (script, how, "".join(last) or "nothing"))
    result: Dict[str, Any] = json.loads(path.read_text())
    if "error" in result:
        error = result["error"]
        raise GraphmpError(error["code"], error["message"], error["exit_status"])
    return result


def _check_served(config: Config) -> None:
    if config.engine == "rewrite":
        raise GraphmpError("GMP020", "--engine=rewrite: this version converts Python files by the recipe; accepted are auto and recipe")
    if not isinstance(config.loss_scale, (str, float)):
        raise GraphmpError("GMP002", "loss_scale: a tensor or function is for the decorator; accepted here are dynamic, none or a positive number")


def _check_keras() -> None:
    if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 16) and not environment.asks_for_legacy_keras():
        raise GraphmpError(
            "GMP009",
            "TensorFlow %s would be without legacy Keras: install tf-keras, and set TF_USE_LEGACY_KERAS=1 or leave it unset" % tf.__version__,
        )


def _check_coverage(report: Dict[str, Any], source: Source) -> None:
    """Refuses a function that has no part in any of the graph's matmuls and convolutions."""
    coverage = report["coverage"]
    if report["compute_dtype"] != "float32" and coverage["tensor_core_ops"] and not coverage["converted_ops"]:
        message = "%s: %s makes none of the graph's %d matmuls and convolutions; name the function that does, as %s:FUNCTION"
        raise GraphmpError("GMP015", message % (source.path, source.function, coverage["tensor_core_ops"], source.path))


@contextlib.contextmanager
def _timed(seconds: Dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds[stage] = time.perf_counter() - start
