"""Processor time of the tests by folder, file and kind of work.

    python tools/suite_times.py                        all tests
    python tools/suite_times.py tests/rewrite -k loop  arguments for pytest
    python tools/suite_times.py --files=40             the number of slowest files to list
    python tools/suite_times.py --json=FILE            also the seconds of each test, by kind

Runs pytest with this file as a plugin. Seconds are processor time over all worker processes and the
processes started by tests, so that other load on the machine changes them little. A column doesn't
count time spent in a column to its left that was entered from it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Counter, Dict, Iterator, List

from parts.table import print_table

HERE = pathlib.Path(__file__).resolve()
KINDS = ("import", "process", "session", "run", "convert", "compare", "build", "other")
MEANINGS = (
    "import: of TensorFlow; process: what tests start; session: made and closed; run: steps; "
    "build: ops and gradients made in Python"
)
SPENT = "suite_times"


class Clock:
    """Processor seconds by kind: time counts for the kind that was entered last."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = collections.Counter()
        self._kinds = ["other"]
        self._since = self._here()

    @staticmethod
    def _here() -> float:
        return time.process_time()

    def _count(self) -> None:
        now = self._here()
        self.seconds[self._kinds[-1]] += now - self._since
        self._since = now

    @contextlib.contextmanager
    def at(self, kind: str) -> Iterator[None]:
        """Count the time inside for a kind."""
        self._count()
        self._kinds.append(kind)
        try:
            yield
        finally:
            self._count()
            self._kinds.pop()

    def taken(self) -> Dict[str, float]:
        """The seconds since the last call."""
        self._count()
        seconds, self.seconds = self.seconds, collections.Counter()
        return dict(seconds)


def _timed(clock: Clock, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with clock.at(kind):
            return function(*args, **kwargs)

    return wrapped


def _watch(clock: Clock) -> None:
    """Wrap the entry points of each kind of work."""
    from tensorflow.python.client import session
    from tensorflow.python.framework import importer, op_def_library
    from tensorflow.python.ops import gradients_util

    import graphmp.compare.api
    import graphmp.rewrite.pipeline

    for kind, owner, names in (
        ("session", session.BaseSession, ("__init__", "close")),
        ("run", session.BaseSession, ("_do_run", "_do_call")),
        (
            "build",
            getattr(op_def_library, "OpDefLibrary", op_def_library),
            ("_apply_op_helper",),
        ),  # a method in 1.15.5
        ("build", importer, ("import_graph_def",)),
        ("build", gradients_util, ("_GradientsHelper",)),
    ):
        for name in names:
            setattr(owner, name, _timed(clock, kind, getattr(owner, name)))
    _watch_everywhere(clock, "compare", graphmp.compare.api.compare)
    _watch_everywhere(clock, "convert", graphmp.rewrite.pipeline.rewrite)


def _watch_everywhere(clock: Clock, kind: str, function: Callable[..., Any]) -> None:
    """Wrap a function in every module that has imported it by name."""
    wrapped = _timed(clock, kind, function)
    for name, module in list(sys.modules.items()):
        if name.startswith("graphmp.") and vars(module).get(function.__name__) is function:
            setattr(module, function.__name__, wrapped)


def _of_living_children() -> float:
    """Seconds of the child processes not yet waited for, and of those that they have waited for."""
    ticks = 0
    for children in pathlib.Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread or the child has just ended
            for child in children.read_text().split():
                ticks += sum(
                    map(
                        int,
                        pathlib.Path("/proc", child, "stat")
                        .read_text()
                        .rpartition(")")[2]
                        .split()[11:15],
                    )
                )
    return ticks / os.sysconf("SC_CLK_TCK")


class Plugin:
    """A pytest plugin that adds the seconds of each test to its report, and collects them."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._children = 0.0
        self._by_test: Dict[str, Dict[str, float]] = {}

    def start(self) -> None:
        """Import TensorFlow, counted separately, and start timing."""
        os.environ.setdefault(
            "OPENBLAS_NUM_THREADS", "1"
        )  # as in tests/support/started.py, because TensorFlow imports NumPy
        with self._clock.at("import"):
            import graphmp.environment  # noqa: F401, I001  # first: TensorFlow reads its settings on import
            import tensorflow.compat.v1  # noqa: F401
        _watch(self._clock)

    def _spent(self) -> Dict[str, float]:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        before, self._children = (
            self._children,
            usage.ru_utime + usage.ru_stime + _of_living_children(),
        )
        return {**self._clock.taken(), "process": self._children - before}

    def pytest_runtest_logreport(self, report: Any) -> None:
        spent = dict(report.user_properties).get(SPENT)
        if report.when == "teardown" and spent:
            self._by_test[report.nodeid] = spent

    def pytest_runtest_teardown(self, item: Any) -> None:
        item.user_properties.append((SPENT, self._spent()))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        path = os.environ.get(SPENT)
        if path and self._by_test:
            pathlib.Path(path).write_text(json.dumps(self._by_test))


_plugin = Plugin()
if __name__ != "__main__":
    _plugin.start()  # before tests/support/started.py imports TensorFlow


def pytest_configure(config: Any) -> None:
    """Add the clock if pytest has loaded this file as a plugin."""
    config.pluginmanager.register(_plugin, "clock of " + SPENT)


def _folder(path: str) -> str:
    return str(pathlib.PurePath(path).parent)


def _rows(spent: Dict[str, Dict[str, float]], names: List[str]) -> List[List[str]]:
    return [
        [
            name,
            "%.0f" % sum(spent[name].values()),
            *("%.0f" % spent[name].get(kind, 0) for kind in KINDS),
        ]
        for name in names
    ]


def _show(spent: Dict[str, Dict[str, float]], most: int) -> None:
    def longest(rows: Dict[str, Any]) -> List[str]:
        return sorted(rows, key=lambda name: -sum(rows[name].values()))

    files: Dict[str, Counter[str]] = collections.defaultdict(collections.Counter)
    folders: Dict[str, Counter[str]] = collections.defaultdict(collections.Counter)
    for test, seconds in spent.items():
        path = test.split("::")[0]
        for counter in (files[path], folders[_folder(path)], folders["all"]):
            counter.update(seconds)
    print_table(["folder", "seconds", *KINDS], _rows(dict(folders), longest(dict(folders))))
    print()
    print_table(["file", "seconds", *KINDS], _rows(dict(files), longest(dict(files))[:most]))
    print("\nprocessor seconds; " + MEANINGS)


def main() -> int:
    """Run pytest in another process and show where its time went. Return pytest's exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=20, help="the number of files to show")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the seconds of each test")
    options, arguments = parser.parse_known_args()

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "spent.json"
        environment = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join([str(HERE.parent), str(HERE.parent.parent)]),
            **{SPENT: str(path)},
        )
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", HERE.stem, *arguments], env=environment
        )
        if path.exists():
            _show(json.loads(path.read_text()), options.files)
            if options.json:
                options.json.write_bytes(path.read_bytes())
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
