"""Verifying a conversion in a process of its own, on one batch, apart from a script's sessions."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Mapping, Union

import numpy as np
import tensorflow.compat.v1 as tf

from graphmp.conversion.contents import CONVERTED, ORIGINAL
from graphmp.environment import without_devices
from graphmp.feeds.sources import is_python
from graphmp.graph.io.messages import serialize
from graphmp.wording import one_line, some

_ROOT = str(pathlib.Path(__file__).resolve().parent.parent.parent)
# finds graphmp where this process did
_START = "import sys; sys.path.append(sys.argv.pop(1)); from graphmp.cli.main import main; main()"
_ERROR = "graphmp: error "
_UNWRITTEN = "its batch has values that a file can't hold"


def verified_apart(
    original: tf.MetaGraphDef, converted: tf.MetaGraphDef, feeds: Mapping[str, np.ndarray]
) -> str:
    """The verdict of `graphmp verify` on a conversion, in one line.

    Args:
        original: the graph before.
        converted: the graph after it.
        feeds: the batch, by tensor; made-up batches are used if it lacks a tensor.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / ORIGINAL).write_bytes(serialize(original))
        (folder / CONVERTED).write_bytes(serialize(converted))
        written = _write(feeds, folder / "feeds.npz")
        found = _verify(folder, ["--data", str(folder / "feeds.npz")]) if written else _UNWRITTEN
        batch = "made-up batches" if isinstance(found, str) else "the first step's batch"
        why = found if isinstance(found, str) else ""
        found = _verify(folder, ["--random_data"]) if why else found
    if isinstance(found, str):
        python = _in_python(original, why)
        text = "not verified: the step doesn't run by itself: %s" % why
        return python or (text if found == why else "%s; on made-up batches: %s" % (text, found))
    still = [claim for claim in found["claims"] if claim["verdict"] in ("failed", "not proved")]
    if not still:
        proved = sum(claim["verdict"] == "proved" for claim in found["claims"])
        return "verified on %s: all %d claims that apply are proved" % (batch, proved)
    more = (
        ""
        if len(still) == 1
        else "; %s too"
        % ", ".join("%s: %s" % (claim["name"], claim["verdict"]) for claim in still[1:])
    )
    return "not verified on %s: %s: %s: %s%s" % (
        batch,
        still[0]["name"],
        still[0]["verdict"],
        still[0]["text"],
        more,
    )


def _write(feeds: Mapping[str, np.ndarray], path: pathlib.Path) -> bool:
    """Write a batch as the only one of a file; False if an array can't be written."""
    try:
        arrays: Dict[str, Any] = {name: _plain(value)[np.newaxis] for name, value in feeds.items()}
        np.savez(str(path), **arrays)
    except (UnicodeError, ValueError, TypeError):
        return False
    return True


def _plain(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array.astype(np.bytes_) if array.dtype == object else array


def _verify(folder: pathlib.Path, data: List[str]) -> Union[Dict[str, Any], str]:
    """The findings of `graphmp verify`, or why there are none."""
    files = [str(folder / ORIGINAL), str(folder / CONVERTED)]
    command = [sys.executable, "-c", _START, _ROOT, "verify", *files, "--json", "--steps=1", *data]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, env=without_devices()
    )
    try:
        return dict(json.loads(done.stdout.decode("utf-8")))
    except ValueError:
        return _reason(done.stderr.decode("utf-8", "replace"), done.returncode)


def _in_python(original: tf.MetaGraphDef, why: str) -> str:
    """The line for a step that lacks the results of Python functions; empty for others."""
    names = [node.name for node in original.graph_def.node if is_python(node)]
    lacking = [name for name in names if " %s:" % name in why]
    if not lacking:
        return ""
    return (
        "not verified: py_func %s: its Python function is only in the script's process; to verify"
        " with values of %s: --report=DIR, then graphmp verify DIR/%s DIR/%s --data=FILE"
        % (some(lacking), " and ".join("%s:0" % name for name in lacking[:3]), ORIGINAL, CONVERTED)
    )


def _reason(err: str, status: int) -> str:
    """The error that a command ended with; else its last words, or its exit status."""
    lines = [line for line in map(str.strip, err.splitlines()) if line]
    refused = [line[len(_ERROR) :] for line in lines if line.startswith(_ERROR)]
    return one_line((refused or lines or ["exit status %d" % status])[-1])
