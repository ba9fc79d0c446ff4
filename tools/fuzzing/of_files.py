"""The family of file kinds: what stands where a file is expected, under any name."""

from __future__ import annotations

import os
import pathlib
import random
import socket
from typing import Callable, Dict, List

from fuzzing import damage, seeds
from fuzzing.runner import Case

_RAN = "ran"
_PROGRAM = b"import pathlib\npathlib.Path('ran').write_text('x')\n"
_NAMES = (
    b"g.meta",
    b"g",
    b"evil.txt",
    b"evil.json",
    b"checkpoint",
    b"model.ckpt-1.index",
    b"model.ckpt-1.data-00000-of-00001",
    b"x.META",
    b"\xff\xfe.meta",
    b"new\nline.meta",
    b"\x1b[31m.meta",
    b" .meta",
    b"-x.meta",
    b"a:b",
    "\u202e.meta".encode("utf-8"),
    b"n" * 250 + b".meta",
)


def of_kinds(rng: random.Random) -> Case:
    """Something that isn't the file that is expected, as an input or in the place of an output."""
    return _output(rng) if rng.random() < 0.4 else _input(rng)


def _input(rng: random.Random) -> Case:
    name = os.fsdecode(rng.choice(_NAMES))
    rng.choice(list(_MAKE.values()))(name)
    if rng.random() < 0.1:
        name = rng.choice(["x" * 300 + ".meta", "d/" * 3000 + "g.meta", "", ".", "/", "gone.meta"])
    pathlib.Path("sound.meta").write_bytes(seeds.graphs()[0])
    separated = ["--"] if name.startswith("-") else []
    argvs = [
        ["convert", name, "-o", "out"],
        ["diff", "sound.meta", name],
        ["diff", "sound.meta", "sound.meta", "--report=" + name],
        ["inspect", name],
        ["verify", "sound.meta", name],
        ["verify", "sound.meta", "sound.meta", "--expect=" + name],
        ["convert", "sound.meta", "-o", "out", "--op_policy=" + name],
        ["convert", "sound.meta", "-o", "out", "--ranges=" + name],
        ["convert", "sound.meta", "-o", "out", "--flagfile=" + name],
    ]
    argv = rng.choice(argvs)
    return Case(argv if not separated else [*argv], _not_run)


def _not_run(status: int) -> str:
    return "wrong success: the file was run" if os.path.exists(_RAN) else ""


def _graph(name: str) -> None:
    pathlib.Path(name).write_bytes(seeds.graphs()[0])


def _program(name: str) -> None:
    if not name.endswith(".py"):
        pathlib.Path(name).write_bytes(_PROGRAM)


def _empty(name: str) -> None:
    pathlib.Path(name).write_bytes(b"")


def _json(name: str) -> None:
    pathlib.Path(name).write_bytes(b'{"a": 1}')


def _checkpoint(name: str) -> None:
    pathlib.Path(name).write_bytes(b'model_checkpoint_path: "model.ckpt-1"\n')


def _fifo(name: str) -> None:
    os.mkfifo(name)


def _socket(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        if len(os.fsencode(name)) < 100:
            listening.bind(os.fsencode(name))


def _loop(name: str) -> None:
    os.symlink(name, name)


def _dangling(name: str) -> None:
    os.symlink("gone", name)


def _sparse(name: str) -> None:
    with open(name, "wb") as file:
        file.truncate(1 << 33)


_MAKE: Dict[str, Callable[[str], None]] = {
    "graph": _graph,
    "program": _program,
    "empty": _empty,
    "json": _json,
    "checkpoint": _checkpoint,
    "fifo": _fifo,
    "socket": _socket,
    "loop": _loop,
    "dangling": _dangling,
    "sparse": _sparse,
    "folder": os.mkdir,
    "zero": lambda name: os.symlink("/dev/zero", name),
    "null": lambda name: os.symlink("/dev/null", name),
    "random": lambda name: os.symlink("/dev/urandom", name),
}


def _output(rng: random.Random) -> Case:
    """An output in a hostile place; other files must be as they were."""
    _graph("g.meta")
    pathlib.Path("precious").write_bytes(b"precious")
    os.mkdir("held")
    pathlib.Path("held/notes.txt").write_bytes(b"precious")
    kind = rng.choice(["plain", "made", "into", "link", "self", "name"])
    name = "out"
    if kind == "made":
        rng.choice([*_MAKE.values()])("out")
    elif kind == "into":
        os.mkdir("out")
        rng.choice([*_MAKE.values()])("out/" + rng.choice(list(seeds.conversions()["none"])))
    elif kind == "link":
        os.mkdir("out")
        os.symlink("../precious", "out/" + rng.choice(["report.json", "other", "diff.html"]))
    elif kind == "self":
        name = rng.choice([".", "g.meta", "held", "precious/out", "./held/../held", "/dev/null"])
    elif kind == "name":
        name = rng.choice([*damage.NAMES, "x" * 300, "d/" * 2500, "\udcff", "/proc/out"])
    source = "g.meta"
    if rng.random() < 0.2:
        os.makedirs("done", exist_ok=True)
        for file, data in seeds.conversions()["none"].items():
            pathlib.Path("done", file).write_bytes(data)
        source, name = "done/" + rng.choice(["original.meta", "converted.meta"]), "done"
    command = rng.choice(["convert", "convert", "diff", "explorer"])
    argv = ["convert", source, "-o", name]
    if command == "diff":
        argv = ["diff", "g.meta", "g.meta", "-o", name]
    elif command == "explorer":
        argv = ["diff", "g.meta", "g.meta", "--format=model-explorer", "-o", name]
    return Case(argv, lambda status: _untouched(source))


def _untouched(source: str) -> str:
    expected = {"precious": b"precious", "held/notes.txt": b"precious"}
    expected["g.meta"] = seeds.graphs()[0]
    if source.startswith("done/"):
        name = source.rsplit("/", 1)[1]
        expected[source] = seeds.conversions()["none"][name]
    changed: List[str] = [
        name
        for name, data in expected.items()
        if not os.path.isfile(name) or pathlib.Path(name).read_bytes() != data
    ]
    return "wrong success: %s changed" % changed[0] if changed else ""
