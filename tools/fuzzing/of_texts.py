"""Families of files with text: reports and audits, policies and rules, flagfiles."""

from __future__ import annotations

import json
import os
import pathlib
import random
from typing import Any, List, Optional

from fuzzing import damage, seeds
from fuzzing.of_graphs import converted
from fuzzing.runner import Case
from graphmp.errors import GraphmpError
from graphmp.files import schemas
from graphmp.files.json_file import read_json

_VALUES = (3, -1, 1e300, None, True, [], {}, [[]], ["x"], {"a": 1}, "", 10**30, *damage.NAMES)


def of_reports(rng: random.Random) -> Case:
    """A damaged report or audit, for each command that reads it."""
    _conversion("out")
    if rng.random() < 0.2:
        audit = {"schema": "graphmp.audit/1", "overflowed": ["MatMul:0"], "steps": 1}
        data = of_json(rng, audit)
        pathlib.Path("audit.json").write_bytes(data)
        argv = ["convert", "out/original.meta", "-o", "new", "--ranges=audit.json"]
        return Case(argv, lambda status: _accepted(status, "audit.json", schemas.AUDIT))
    report = pathlib.Path("out/report.json")
    data = of_json(rng, json.loads(report.read_text(encoding="utf-8")))
    report.write_bytes(data)
    graphs = ["out/original.meta", "out/converted.meta"]
    kind = rng.choice(["check", "check", "diff", "form", "explain", "stale"])
    if kind == "check":
        argv = ["diff", "--check", *graphs]
        return Case(argv, lambda status: _accepted(status, str(report), schemas.REPORT))
    if kind == "explain":
        return Case(["explain", graphs[1], rng.choice(["MatMul", "loss", "train"])])
    if kind == "stale":
        return Case(
            ["convert", "out/original.meta", "-o", "out", "--loss_scale=none", "--check"],
            lambda status: (
                "wrong success: another report is today's"
                if not status and data != seeds.conversions()["none"]["report.json"]
                else ""
            ),
        )
    form = rng.choice(["html", "json", "markdown", "dot"]) if kind == "form" else "text"
    nodes = ["--node=MatMul"] if form == "dot" else []
    argv = ["diff", *graphs, "--report=" + str(report), "--format=" + form, *nodes]
    return Case(argv, prints=form == "text")


def _accepted(status: int, path: str, schema: str) -> str:
    """A wrong success if a file that isn't of the schema was taken."""
    if status:
        return ""
    try:
        read_json(path, schema, "")
    except GraphmpError as error:
        return "wrong success: %s" % error.message
    return ""


def _conversion(folder: str) -> None:
    os.mkdir(folder)
    for name, data in seeds.conversions()["none"].items():
        pathlib.Path(folder, name).write_bytes(data)


def of_json(rng: random.Random, value: Any) -> bytes:
    """A JSON value with other values in places, or a text that is hardly JSON."""
    kind = rng.random()
    if kind < 0.1:
        return damage.damaged(rng, json.dumps(value).encode())
    if kind < 0.2:
        return rng.choice(
            [
                b"[" * 100000,
                b'{"changes":' * 50000,
                b"",
                b"\xff\xfe",
                b'{"changes": ' + b"9" * 500000 + b"}",
                b'{"changes": [], "clip_norm": NaN}',
                b'{"changes": [{"node": "\\ud800"}]}',
                b'{"changes": [1' + b",1" * 400000 + b"]}",
                b"null",
            ]
        )
    for _ in range(rng.randint(1, 3)):
        _change(rng, value)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _change(rng: random.Random, value: Any) -> None:
    """Another value somewhere inside."""
    while True:
        keys: List[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.75:
            value = value[key]
            continue
        if rng.random() < 0.2:
            del value[key]
        else:
            value[key] = rng.choice(_VALUES)
        return


_REGEXES = (
    "(a+)+$",
    "(a|a)*b",
    "((((((((((x*)*)*)*)*)*)*)*)*)*)*y",
    "(",
    "[",
    "a{1,100000}{1,100000}",
    "(?P<n>x)(?P=n)",
    "(" * 500 + ")" * 500,
    "x" * 100000,
    ".*.*.*.*.*.*.*.*.*!",
    "\\p{L}",
    "(?i)\u0130",
    "\x1b[31m",
)

_MOST = 900000  # bytes of a policy


def of_policies(rng: random.Random) -> Case:
    """A policy file or rules that are malformed, huge, or slow to match."""
    pathlib.Path("g.meta").write_bytes(rng.choice(seeds.graphs()))
    flags = []
    if rng.random() < 0.7:
        pathlib.Path("p.policy").write_bytes(_policy(rng))
        flags.append("--op_policy=p.policy")
    if rng.random() < 0.5:
        name = rng.choice(["keep_float32", "force_compute"])
        flags.append("--%s=%s" % (name, rng.choice(_REGEXES).replace("\0", "")))
    if rng.random() < 0.3:
        name = rng.choice(["fetch", "loss", "train_op", "gradient_scope", "clip_norm", "engine"])
        flags.append("--%s=%s" % (name, rng.choice(damage.NAMES)))
    argv = ["convert", "g.meta", "-o", "out", *flags]
    return Case(argv, lambda status: converted(status, "g.meta"))


def _policy(rng: random.Random) -> bytes:
    lines = [
        "allow MatMul",
        "deny Gone",
        "-MatMul",
        "infer \x1b[31m",
        "# " + "x" * 1000,
        "keep_float32 " + rng.choice(_REGEXES),
        "allow",
        "a b c",
        "-",
    ]
    text = "\n".join(rng.choice(lines) for _ in range(rng.choice([1, 5, 100])))
    if rng.random() < 0.1:
        line, times = rng.choice(lines) + "\n", rng.choice([20000, 100000])
        text = line * min(times, _MOST // len(line) + 1)
    data = text.encode("utf-8")[:_MOST]
    return damage.damaged(rng, data) if rng.random() < 0.4 else data


def of_flagfiles(rng: random.Random) -> Case:
    """A flagfile that is no text or names itself, or whose place decides."""
    pathlib.Path("g.meta").write_bytes(seeds.graphs()[0])
    if rng.random() < 0.4:
        return _precedence(rng)
    lines = [
        "--loss_scale=none",
        "# a comment",
        "--flagfile=f",
        "--flagfile=gone",
        "--flagfile",
        "--output=out2",
        "--nonsense=1",
        "--keep_float32=" + rng.choice(damage.NAMES),
        "--",
        "--help",
        "positional",
        "--undefok=x",
        "--op_policy=/dev/zero",
        "--clip_norm=" + rng.choice(["1", "-1", "nan", "x"]),
        "",
    ]
    text = "\n".join(rng.choice(lines) for _ in range(rng.choice([1, 3, 8])))
    if rng.random() < 0.1:
        text = (rng.choice(lines) + "\n") * 50000
    data = text.encode("utf-8")
    if rng.random() < 0.3:
        data = damage.damaged(rng, data)
    pathlib.Path("f").write_bytes(data)
    if rng.random() < 0.1:
        os.remove("f")
        os.mkfifo("f")
    argv = ["convert", "g.meta", rng.choice(["--flagfile=f", "-flagfile=f"])]
    return Case([*argv, "-o", "out"] if rng.random() < 0.5 else ["convert", "-o", "out", *argv[1:]])


def _precedence(rng: random.Random) -> Case:
    """The last of several values of a flag wins."""
    given = [["-o", "one"], ["--output=two"], ["--flagfile=f"], ["--flagfile=g"]]
    folders = {"-o": "one", "--output=two": "two", "--flagfile=f": "three", "--flagfile=g": "four"}
    pathlib.Path("f").write_text("--output=three\n")
    pathlib.Path("g").write_text("--loss_scale=none\n--flagfile=h\n")
    pathlib.Path("h").write_text("--output=four\n")
    chosen = rng.sample(given, rng.randint(1, 4))
    expected = folders[chosen[-1][0]]

    def judge(status: int) -> Optional[str]:
        found = sorted(set(os.listdir(".")) - {"f", "g", "h", "g.meta"})
        return "" if not status and found == [expected] else "wrong success: %s" % found

    return Case(["convert", "g.meta", *[word for words in chosen for word in words]], judge)
