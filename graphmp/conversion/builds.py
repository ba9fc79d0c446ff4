"""Building a script's graph in a child process that ends at the first call that would train."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import IO, Any, Callable, Dict, List

import graphmp
from graphmp import environment
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph

# The child finds graphmp where this process did; the script's own folder comes first in its path.
CHILD = (
    "import sys; sys.path.append(sys.argv.pop(1)); from graphmp.conversion.child import main;"
    " main(sys.argv[1])"
)
ROOT = str(pathlib.Path(graphmp.__file__).resolve().parent.parent)


def build(spec: Dict[str, Any], log: Callable[[str], None]) -> Any:
    """Run one child process.

    Args:
        spec: the input of `graphmp.conversion.child`, except for the output folder.
        log: receives what the child printed.

    Returns:
        Its MetaGraphDef and its result.

    Raises:
        GraphmpError: the child's error; GMP013 if it died, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="graphmp_") as folder:
        path = pathlib.Path(folder, "spec.json")
        path.write_text(json.dumps(dict(spec, output=folder)))
        printed = pathlib.Path(folder, "printed")  # no pipe: what a script leaves would hold it
        with printed.open("wb") as file:
            returncode = _run([sys.executable, "-c", CHILD, ROOT, str(path)], file, spec)
        output = printed.read_bytes().decode("utf-8", "replace")
        log(output)
        result = _result(pathlib.Path(folder, "result.json"), returncode, spec["path"], output)
        return read_graph(pathlib.Path(folder, "graph.meta")), result


def _run(command: List[str], output: IO[bytes], spec: Dict[str, Any]) -> int:
    """The exit status of a child process.

    Raises:
        GraphmpError: GMP013 if it takes too long.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment.of_builds(),
            timeout=spec["timeout"],
        )
    except subprocess.TimeoutExpired:
        text = "%s: no training step within %g s; accepted is more time, by --script_timeout"
        raise GraphmpError("GMP013", text % (spec["path"], spec["timeout"])) from None
    return done.returncode


def _result(path: pathlib.Path, returncode: int, script: str, output: str) -> Dict[str, Any]:
    if not path.exists():
        last = [line for line in output.splitlines() if line.strip()][-1:]
        how = (
            "was killed by signal %d" % -returncode
            if returncode < 0
            else "exited with status %d" % returncode
        )
        raise GraphmpError(
            "GMP013",
            "%s: its process %s before it trained; it printed last: %s"
            % (script, how, "".join(last) or "nothing"),
        )
    result: Dict[str, Any] = json.loads(path.read_text())
    if "error" in result:
        error = result["error"]
        raise GraphmpError(error["code"], error["message"], error["exit_status"])
    return result
