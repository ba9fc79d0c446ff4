"""Cases in forks of a process that has imported TensorFlow, with limits, and their verdicts."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from graphmp.cli.main import main, run_command

CPU, WALL = 10, 300  # seconds; the wall clock is for waits, which use no processor time
MEMORY = 1 << 30  # bytes above what the imports take

# Verdicts. All but the first two are faults of graphmp.
ONE_LINE, SUCCESS = "one line", "success"
BAD = (
    "traceback",
    "signal",
    "hang",
    "memory",
    "wrong success",
    "not one line",
    "control character",
    "left behind",
    "mixed",
)
BROKEN = "broken case"  # a fault of the fuzzer
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_TRACEBACK = re.compile(r"^Traceback \(most recent call last\)", re.MULTILINE)
_PROGRESS = re.compile(r"\[\d+:\d\d\] ")
_OF_SCRIPT = "graphmp: error GMP013: "  # the error of a script
_OF_TENSORFLOW = re.compile(r"^(\d{4}-\d\d-\d\d |WARNING:|[IWEF]\d{4} |To enable )")


class Case(NamedTuple):
    """A command line, to be run in a folder that is prepared, and what must come of it.

    Attributes:
        argv: the arguments of graphmp.
        judge: gets the exit status; returns one of BAD, or nothing. It runs after the command, in
            its process, without limits.
        processor: seconds that it may take, with the processes that it starts.
        prints: whether stdout is shown to a person; JSON isn't, nor is Markdown.
        apart: whether the command runs like the installed one, in a process of its own.
        traces: whether a traceback may be printed: a script's own.
    """

    argv: List[str]
    judge: Callable[[int], str] = lambda status: ""
    prints: bool = True
    processor: int = CPU
    apart: bool = False
    traces: bool = False


Family = Callable[[random.Random], Case]


class Verdict(NamedTuple):
    """The outcome of a case: a verdict, and its last words."""

    kind: str
    words: str
    argv: str
    seconds: float


def run_case(family: Family, name: str, seed: int, number: int, keep: str = "") -> Verdict:
    """Prepare a case in a fresh folder, run it in a fork, and judge it.

    Args:
        family: makes the case.
        name: the family's name.
        seed: of the run.
        number: of the case: the same case for the same name, seed and number.
        keep: a folder to leave the case in, for a look at it.
    """
    place = pathlib.Path(keep or tempfile.mkdtemp(prefix="graphmp_fuzz_"))
    work = place / "work"
    work.mkdir(parents=True, exist_ok=True)
    pid = os.fork()
    if not pid:
        _child(family, random.Random("%s %d %d" % (name, seed, number)), place)
    try:
        return _judged(place, *_waited(pid))
    finally:
        if not keep:
            _unmount(work)
            shutil.rmtree(str(place), ignore_errors=True)


def _child(family: Family, rng: random.Random, place: pathlib.Path) -> None:
    """Run a case as the process's whole work."""
    os.setpgid(0, 0)
    status, verdict = 70, BROKEN
    try:
        os.chdir(str(place / "work"))
        for number, kind in enumerate(("in", "out", "err")):
            flags = os.O_RDWR | os.O_CREAT
            os.dup2(os.open(str(place / kind), flags, 0o600), number)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        case = family(rng)
        (place / "argv").write_bytes(ascii(case.argv).encode())
        (place / "prints").write_text("yes" if case.prints else "")
        (place / "traces").write_text("yes" if case.traces else "")
        _limit(case.processor)
        argv = ["graphmp", *case.argv]
        if case.apart:
            status = in_fork(lambda: main(argv))
        else:
            status = exit_status(lambda: run_command(argv))
        sys.stdout.flush()
        sys.stderr.flush()
        _unlimit()
        verdict = case.judge(status) or "ok"
        if verdict == "ok" and _leftovers("."):
            verdict = "left behind: %s" % _leftovers(".")[0]
    except BaseException:
        with contextlib.suppress(Exception):
            traceback.print_exc()
            sys.stderr.flush()
    with contextlib.suppress(Exception):
        _unlimit()
        (place / "verdict").write_text(verdict)
    os._exit(status)


def exit_status(function: Callable[[], Any]) -> int:
    """The exit status of a process that calls a function, which may raise SystemExit."""
    try:
        result = function()
    except SystemExit as ended:
        result = ended.code
    if isinstance(result, int):
        return result
    return 0 if result is None else 1


def in_fork(function: Callable[[], Any]) -> int:
    """The exit status of a fork that calls a function, as a shell counts it.

    A traceback is printed, as Python prints it.
    """
    pid = os.fork()
    if not pid:
        status = 1
        try:
            status = exit_status(function)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status & 255)
    ended = os.waitpid(pid, 0)[1]
    return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)


def _leftovers(folder: str) -> List[str]:
    return [
        os.path.join(root, name)
        for root, folders, files in os.walk(folder)
        for name in folders + files
        if name.startswith(".graphmp-")
    ]


def _limit(seconds: int) -> None:
    size = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MEMORY, resource.RLIM_INFINITY))
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    resource.setrlimit(resource.RLIMIT_CPU, (int(used) + seconds, resource.RLIM_INFINITY))


def _unlimit() -> None:
    for what in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
        resource.setrlimit(what, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def _waited(pid: int) -> Tuple[int, Any, bool]:
    """The end of a child: status, resources, and whether it had to be ended."""
    until = time.monotonic() + WALL
    pause, ended = 0.001, False
    while True:
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)  # what it started and left
            return status, used, ended
        if time.monotonic() > until:
            ended = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)


def _judged(place: pathlib.Path, status: int, used: Any, ended: bool) -> Verdict:
    out, err = (_read(place / kind) for kind in ("out", "err"))
    verdict = _read(place / "verdict")
    lines = [line for line in err.splitlines() if not _OF_TENSORFLOW.match(line)]
    words = (lines or out.splitlines() or [""])[-1]
    seconds = used.ru_utime + used.ru_stime
    grown = used.ru_maxrss * 1024 - _baseline() > MEMORY

    def found(kind: str) -> Verdict:
        return Verdict(kind, words, _read(place / "argv"), seconds)

    if ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return found("hang")
    lacked = "MemoryError" in err or "bad_alloc" in err
    if (lacked and not (_read(place / "traces") or _OF_SCRIPT in err)) or grown:
        return found("memory")
    if os.WIFSIGNALED(status):
        return found("signal")
    if verdict == BROKEN:
        return found(BROKEN)
    traced = _TRACEBACK.search(err + out) and not _read(place / "traces")
    if traced or "error GMP099" in err:
        return found("traceback")
    shown = err + (out if _read(place / "prints") else "")
    if _CONTROL.search(shown) and not _read(place / "traces"):
        return found("control character")
    if verdict != "ok":
        return Verdict(verdict.split(":")[0], verdict, _read(place / "argv"), seconds)
    errors = [line for line in lines if line.startswith("graphmp: error GMP")]
    if _read(place / "traces"):
        return found(SUCCESS)  # the lines are a script's
    if len(errors) > 1 or len(lines) > len(errors) + sum(map(_is_note, lines)):
        return found("not one line")
    return found(ONE_LINE if errors else SUCCESS)


def _is_note(line: str) -> bool:
    own = line.startswith("graphmp: ") and not line.startswith("graphmp: error")
    return own or bool(_PROGRESS.match(line))


_measured: List[int] = []


def _baseline() -> int:
    """The peak memory of this process, which its forks' counts include."""
    if not _measured:
        _measured.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return _measured[0]


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _unmount(folder: pathlib.Path) -> None:
    """Unmount what a case has mounted."""
    mounts = pathlib.Path("/proc/mounts").read_text().splitlines()
    for line in mounts:
        target = line.split()[1]
        if target.startswith(str(folder)):
            os.system("umount -l '%s'" % target)


def table(counts: Dict[str, Dict[str, int]]) -> List[str]:
    """Lines of a table: a row for each family, a column for each verdict that some family has."""
    kinds = [ONE_LINE, SUCCESS, *BAD, BROKEN]
    kinds = [kind for kind in kinds if any(row.get(kind) for row in counts.values())]
    rows: List[Sequence[str]] = [["family", *kinds]]
    rows += [[name, *(str(row.get(kind, 0)) for kind in kinds)] for name, row in counts.items()]
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
