"""Families of interrupted writes: errors of the file system, and signals, at every call.

`counted` wraps the calls that change a file system, and acts at the one with a given number.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import random
import signal
import subprocess
from typing import Any, Callable, Dict, Iterator, List

from fuzzing import seeds
from fuzzing.runner import Case
from graphmp.cli import main
from graphmp.errors import GraphmpError
from graphmp.files import exchange, folder, staging
from graphmp.files.folder import PENDING, is_half_replaced, write_files

CALLS = (
    (os, "open"),
    (os, "mkdir"),
    (os, "rename"),
    (os, "replace"),
    (os, "link"),
    (os, "unlink"),
    (os, "rmdir"),
    (os, "fsync"),
    (os, "fdopen"),
    (folder, "exchange"),
    (exchange, "sync"),
    (staging, "removed"),
)
_NOTES = b"notes of the user"


@contextlib.contextmanager
def counted(number: int, act: Callable[[], None], after: bool) -> Iterator[List[int]]:
    """Act before or after the call with this number; yields a list that holds the count.

    Args:
        number: of the call, from 0; no call has -1.
        act: what happens then.
        after: whether it happens after the call.
    """
    count = [0]
    originals = [(owner, name, getattr(owner, name)) for owner, name in CALLS]

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            mine = count[0] == number
            count[0] += 1
            if mine and not after:
                act()
            result = original(*args, **options)
            if mine and after:
                act()
            return result

        return call

    for owner, name, original in originals:
        setattr(owner, name, wrapped(original))
    try:
        yield count
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def of_signals(rng: random.Random) -> Case:
    """A write of a conversion over another one that is ended by a signal, then one that isn't."""
    return _write(rng, rng.choice([signal.SIGKILL] * 4 + [signal.SIGTERM, signal.SIGINT]))


def of_faults(rng: random.Random) -> Case:
    """A write that fails: an error of some call, or a file system of a few pages."""
    if rng.random() < 0.3 and os.geteuid() == 0 and _mounted(rng):
        return Case(["convert", "g.meta", "-o", "small/out"], _of_small)
    return _write(rng, 0)


def _mounted(rng: random.Random) -> bool:
    """Mount a small tmpfs, with a graph beside it; False if that isn't allowed."""
    os.mkdir("small")
    pathlib.Path("g.meta").write_bytes(seeds.graphs()[0])
    size = rng.choice([4, 8, 40, 80, 160, 200, 400, 100000])
    command = ["mount", "-t", "tmpfs", "-o", "size=%dk" % size, "tmpfs", "small"]
    if rng.random() < 0.2:
        command[4] += ",nr_inodes=%d" % rng.randint(2, 12)
    with open(os.devnull, "wb") as nowhere:
        return not subprocess.call(command, stderr=nowhere)


def _of_small(status: int) -> str:
    if not status:
        return ""
    left = os.listdir("small")
    return "left behind: %s" % left if left else ""


def _write(rng: random.Random, ending: int) -> Case:
    """A case that has been run already: its command only says what it was."""
    names = list(seeds.conversions())
    rng.shuffle(names)
    old, new = (seeds.conversions()[name] for name in names)
    where = rng.choice(["beside", "beside", "missing", "inside"])
    target = pathlib.Path("out")
    if where != "missing":
        _set(target, old)
    if where == "inside":  # the working folder isn't exchanged
        os.chdir("out")
        target = pathlib.Path("../out")
    verdict = _ended(rng, target, new, ending)
    verdict = verdict or _state(target, {} if where == "missing" else old, new, ending)
    if not verdict:
        write_files(target, new)
        verdict = _state(target, new, new, 0, where != "missing") or _left(target)
    return Case(["--version"], lambda status: verdict)


def _set(target: pathlib.Path, contents: Dict[str, bytes]) -> None:
    (target / "mine").mkdir(parents=True)
    for name, data in {**contents, "notes.txt": _NOTES, "mine/notes.txt": _NOTES}.items():
        (target / name).write_bytes(data)


def _ended(rng: random.Random, target: pathlib.Path, new: Dict[str, bytes], ending: int) -> str:
    """Write in a fork that ends, or fails, at a random call. Returns what is wrong with its end."""
    number, after = rng.randrange(70), rng.random() < 0.5
    fault = rng.choice([errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT])
    pid = os.fork()
    if pid:
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
            return "signal: ended by %d" % os.WTERMSIG(status)
        return "traceback: of the write" if os.WEXITSTATUS(status) == 99 else ""
    signal.signal(signal.SIGTERM, main._end)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def act() -> None:
        if not ending:
            raise OSError(fault, os.strerror(fault))
        os.kill(os.getpid(), ending)

    try:
        with counted(number, act, after and bool(ending)):
            write_files(target, new)
        os._exit(0)
    except GraphmpError:
        os._exit(2)
    except (SystemExit, KeyboardInterrupt):
        os._exit(130)
    except BaseException:
        os._exit(99)


def _state(
    target: pathlib.Path,
    old: Dict[str, bytes],
    new: Dict[str, bytes],
    ending: int,
    noted: bool = False,
) -> str:
    """The fault of a folder that should have the old or the new files."""
    found = {name: (target / name).read_bytes() for name in new if (target / name).is_file()}
    if found not in (old, new):
        if not is_half_replaced(target):
            return "mixed: %s" % sorted(found)
        pending = {path.name: path.read_bytes() for path in (target / PENDING).iterdir()}
        if {**found, **pending} != new:
            return "mixed: %s and %s" % (sorted(found), sorted(pending))
    if (noted or old) and ending != signal.SIGKILL:
        lost = [n for n in ("notes.txt", "mine/notes.txt") if not (target / n).is_file()]
        if lost and noted:
            return "wrong success: %s is lost" % lost[0]
    return _left(target) if ending in (signal.SIGTERM, signal.SIGINT) else ""


def _left(target: pathlib.Path) -> str:
    beside = os.listdir(str(target.resolve().parent))
    inside = os.listdir(str(target)) if target.is_dir() else []
    left = [name for name in beside + inside if name.startswith(".graphmp-")]
    return "left behind: %s" % left[0] if left else ""
