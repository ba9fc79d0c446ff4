"""Public TensorFlow 1 projects under `graphmp run`, beside float32, by the recipes in scripts.json.

    python tools/scripts.py measure --repos=DIR --results=FILE      with the TensorFlow to measure
    python tools/scripts.py table FILE...                           writes docs/scripts.md

DIR holds clones, as `OWNER/NAME` or `OWNER+NAME`. A recipe names the commit, the command, small
made-up data, and edits, which may concern data paths and Python 2 only (`python_2`: the files that
are written for it). Each script runs twice, in
a copy of its own, until it ends or `--limit` processor seconds are over: in float32, on 2.x with
the same imports of TensorFlow 1, and in float16. Packages of the projects are found by PYTHONPATH.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Sequence

import script_data

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "scripts.md"
FLOAT32 = ("--compute_dtype=float32", "--loss_scale=none")
PATIENCE = 30  # processor seconds for a script to end after it was interrupted
IDLE = 20  # times the limit, for a script that waits without computing
_COVERED = re.compile(r"(\d+) of (\d+) matmuls and convolutions in float16")
_STEPS = re.compile(r"(\d+) training steps?;.*?(\d+) skipped")
HEAD = """\
# Public projects

Scripts of public TensorFlow 1 projects, as they are, under `graphmp run`. `tools/scripts.py` makes
this table from clones of the repositories, by the recipes in `tools/scripts.json`: small made-up
data, a few seconds of training on a CPU, in float32 and in float16. Seeds are the scripts' own, and
most set none: losses are to be of one size, not equal. A run that takes longer than the limit is
interrupted, so that its last loss may be an earlier step's. Seconds are of processor time, imports
included, on cores that emulate float16; where they are called elapsed, the machine was busy.
Packages are the newest for each Python, but gym 0.17.3, and Keras 2.3.1 beside 1.15.5; a
script for which they are too new counts as one that doesn't run. "2to3" among the edits: that tool
of Python made Python 3 of the files. Those with 0 steps were interrupted before their first one and
count as not running. 1.15.5 itself can't run draw and facenet, which have no row there.
The rows were made on several days, while graphmp was being changed, the last ones on %s, on
2.21 with NumPy 2.4 and at most 60 processor seconds a run, but

- rows from GAT to rnn-text-classification-tf: NumPy 2.3, at most 50 seconds
- on 1.15.5 EAST, GAT, text-classification-cnn-rnn, tensorflow-deeplab-resnet and
  improved_wgan_training: at most 120; tacotron: 150, with librosa 0.8; OpenSeq2Seq: 110
- UGATIT, a graph of 36,000 nodes: 300 on 1.15.5, 110 on 2.21

The float16 runs of EAST, tacotron and draw on 2.21 are older than their float32 runs.

"""


class Ran(NamedTuple):
    """A run of a script: its exit status, seconds, losses, and what it and graphmp wrote."""

    status: int
    stopped: bool
    seconds: float
    losses: List[float]
    text: str


def main() -> int:
    """Measure the recipes, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measured = commands.add_parser("measure", help="run the scripts on this TensorFlow")
    measured.add_argument("--repos", type=pathlib.Path, required=True, help="the folder of clones")
    measured.add_argument("--results", type=pathlib.Path, required=True, help="a JSON file")
    measured.add_argument("--limit", type=float, default=60, help="processor seconds of each run")
    measured.add_argument("--only", help="a part of the projects' names")
    table = commands.add_parser("table", help="write docs/scripts.md")
    table.add_argument("results", type=pathlib.Path, nargs="+", help="results of `measure`")
    args = parser.parse_args()
    if args.command == "table":
        PAGE.write_text(page([json.loads(path.read_text()) for path in args.results]))
        return 0
    return measure(args)


def measure(args: Any) -> int:
    """Run the recipes, one after the other; the results are kept after each."""
    import tensorflow.compat.v1 as tf  # not for `table`

    recipes = the_recipes(tf.VERSION)
    results: Dict[str, Any] = {"tensorflow": tf.__version__, "rows": {}}
    if args.results.exists():
        results = json.loads(args.results.read_text())
    for recipe in recipes:
        if args.only and args.only not in recipe["project"]:
            continue
        row = measured_row(recipe, args.repos, args.limit)
        results["rows"][recipe["project"]] = row
        results["made"] = datetime.date.today().isoformat()
        args.results.write_text(json.dumps(results, indent=1))
        print(recipe["project"], json.dumps(row), flush=True)
    return 0


def the_recipes(version: str) -> List[Dict[str, Any]]:
    """The recipes; projects that have a branch for TensorFlow 1 run its commit there.

    Scripts that 1.15.5 itself can't run have `only_on_tensorflow_2`.
    """
    recipes = json.loads((HERE / "scripts.json").read_text())
    if not version.startswith("1."):
        return recipes
    return [
        {**recipe, **recipe.get("on_tensorflow_1", {})}
        for recipe in recipes
        if not recipe.get("only_on_tensorflow_2")
    ]


def measured_row(recipe: Dict[str, Any], repos: pathlib.Path, limit: float) -> Dict[str, Any]:
    """Both runs of a recipe, which may have a lower limit of its own."""
    limit = min(limit, recipe.get("limit", limit))
    plain, mixed = (run(recipe, repos, limit, flags) for flags in (FLOAT32, ()))
    covered, steps = (list(each.finditer(mixed.text)) for each in (_COVERED, _STEPS))
    row: Dict[str, Any] = {
        "float32": _ended(plain),
        "float16": _ended(mixed) or ("" if steps else "nothing was trained"),
        "converted": "%s of %s" % covered[-1].groups() if covered else "",
        "steps": int(steps[-1].group(1)) if steps else 0,
        "skipped": int(steps[-1].group(2)) if steps else 0,
        "losses": [_ends(plain.losses), _ends(mixed.losses)],
        "seconds": [round(plain.seconds, 1), round(mixed.seconds, 1)],
    }
    row["runs"] = bool(
        not row["float16"] and row["steps"] and covered and all(map(math.isfinite, mixed.losses))
    )
    return row


def _ended(ran: Ran) -> str:
    """How a run failed: the last line of its errors; empty if it didn't."""
    if ran.stopped or ran.status == 0:
        return ""
    lines = [line for line in ran.text.splitlines() if line.strip()]
    errors = [
        line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b|graphmp: er", line)
    ]
    return (errors or lines or ["exit status %d" % ran.status])[-1][:200]


def _ends(losses: Sequence[float]) -> List[float]:
    return [losses[0], losses[-1]] if losses else []


def run(recipe: Dict[str, Any], repos: pathlib.Path, limit: float, flags: Sequence[str]) -> Ran:
    """Run a recipe's script in a copy of its repository."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        checked_out(recipe, repos, root / recipe.get("package", "."))
        place = root / recipe.get("folder", ".")
        for kind, folder in recipe.get("data", ()):
            for parent in {place, root}:
                (parent / folder).mkdir(parents=True, exist_ok=True)
                script_data.KINDS[kind](parent / folder)
        path = [str(HERE.parent), *(str(root / each) for each in recipe.get("path", ()))]
        path += [text for text in [os.environ.get("PYTHONPATH", "")] if text]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path), MPLBACKEND="Agg")
        command = [sys.executable, "-m", "graphmp", "run", *flags]
        command += [*recipe.get("flags", ()), *recipe["command"]]
        return watched(command, place, environment, limit, recipe.get("loss", ""))


def checked_out(recipe: Dict[str, Any], repos: pathlib.Path, root: pathlib.Path) -> None:
    """Copy a commit of a clone, and edit it: by 2to3 if it is for Python 2, then by the recipe."""
    clones = [repos / recipe["project"], repos / recipe["project"].replace("/", "+")]
    clone = next((each for each in clones if each.exists()), None)
    if clone is None:
        raise SystemExit("%s: no such folder; clone https://github.com/%s there" % (
            clones[0], recipe["project"]
        ))  # fmt: skip
    leave = [":(exclude)" + path for path in recipe.get("leave_out", ())]  # large and unused
    root.mkdir(exist_ok=True)
    archive = subprocess.run(
        ["git", "-C", str(clone), "archive", recipe["commit"], ".", *leave], stdout=subprocess.PIPE
    )
    if archive.returncode:
        raise SystemExit("%s: it lacks commit %s, or a file of it" % (clone, recipe["commit"]))
    subprocess.run(["tar", "-x", "-C", str(root)], input=archive.stdout, check=True)
    if "python_2" in recipe:
        paths = [str(path) for name in recipe["python_2"] for path in sorted(root.glob(name))]
        fix = [sys.executable, "-m", "lib2to3", "-w", "-n", "--no-diffs", *paths]
        subprocess.run(fix, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name, old, new in recipe.get("edits", ()):
        path = root / name
        text = path.read_text()
        if old not in text:
            raise SystemExit("%s %s: it lacks %r, which is to be edited" % (clone, name, old))
        path.write_text(text.replace(old, new))


def watched(
    command: Sequence[str],
    place: pathlib.Path,
    environment: Dict[str, str],
    limit: float,
    loss: str,
) -> Ran:
    """Run a command; after a limit in processor seconds it is interrupted, as by a user."""
    seconds = 0.0
    with tempfile.TemporaryFile("w+") as written:
        child = subprocess.Popen(
            list(command), cwd=str(place), env=environment, stdin=subprocess.DEVNULL,
            stdout=written, stderr=subprocess.STDOUT, start_new_session=True,
            preexec_fn=_heeds_interrupts,
        )  # fmt: skip
        stopped, start = False, time.time()
        for more, number in ((0, signal.SIGINT), (PATIENCE, signal.SIGKILL)):
            while child.poll() is None and seconds < limit + more:
                time.sleep(min(0.5, limit / 10))
                seconds = max(seconds, processor_seconds(child.pid))
                if time.time() - start > IDLE * (limit + more):
                    break
            if child.poll() is None:
                stopped = True
                os.killpg(child.pid, number)
        status = child.wait()
        written.seek(0)
        text = written.read()
    losses = [float(each) for each in re.findall(loss, text, re.MULTILINE)] if loss else []
    return Ran(status, stopped, seconds, losses, text)


def _heeds_interrupts() -> None:
    """Undo what a shell's background jobs inherit: they ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def processor_seconds(pid: int) -> float:
    """Processor time that a process has used, as Linux tells; zero if it has ended."""
    try:
        text = pathlib.Path("/proc/%d/stat" % pid).read_text()
    except OSError:
        return 0.0
    used = text.rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def page(measured: Sequence[Dict[str, Any]]) -> str:
    """The page with the table."""
    recipes = json.loads((HERE / "scripts.json").read_text())
    text = HEAD % max(each["made"] for each in measured)
    for each in measured:
        rows = each["rows"].values()
        text += "- TensorFlow %s: %d of %d run.\n" % (
            each["tensorflow"], sum(row["runs"] for row in rows), len(rows),
        )  # fmt: skip
    text += (
        "\n| project | kind | TensorFlow | matmuls and convolutions in float16 | steps, skipped "
        "| losses in float32 | in float16 | processor seconds, with the imports | edits |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    for recipe in recipes:
        for each in measured:
            if recipe["project"] in each["rows"]:
                text += _row(recipe, each["tensorflow"], each["rows"][recipe["project"]])
    return text


def _row(recipe: Dict[str, Any], version: str, row: Dict[str, Any]) -> str:
    script = recipe["command"][: 2 if recipe["command"][0] == "-m" else 1]
    run_as = " ".join([*recipe.get("flags", ()), *script])
    link = "[%s](https://github.com/%s), `%s`" % (recipe["project"], recipe["project"], run_as)
    losses = [" to ".join("%.4g" % loss for loss in pair) if pair else "" for pair in row["losses"]]
    result = row["converted"] or row["float16"].replace("|", "\\|")
    edited = {edit[0] for edit in recipe.get("edits", ())}
    edits = ", ".join(["2to3"] * ("python_2" in recipe) + sorted(edited)) or "none"
    cells = [
        link, recipe["kind"], version, result, "%d, %d" % (row["steps"], row["skipped"]),
        *losses, "%s, %s" % tuple(row["seconds"]), edits,
    ]  # fmt: skip
    return "| %s |\n" % " | ".join(cells)


if __name__ == "__main__":
    sys.exit(main())
