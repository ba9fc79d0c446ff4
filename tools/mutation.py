"""Mutation testing: which small faults, planted in the rules of conversion, the tests find.

    python tools/mutation.py cover FOLDER       run the tests once: coverage and time of each
    python tools/mutation.py run FOLDER         plant 300 faults, one at a time, and run the tests
                                                that cover the line
    python tools/mutation.py show FOLDER        counts, and the faults that no test found
    python tools/mutation.py run FOLDER --again --budget=300   the survivors once more
    python tools/mutation.py run FOLDER --again=tests/rewrite  with these tests
    python tools/mutation.py run FOLDER --first=EARLIER        first the tests that killed a mutant
                                                               in the results in EARLIER

Cosmic Ray makes the mutants, one per place in the source; a seed draws 300 of them. Mutants that
only change annotations are left out, as annotations are not evaluated. Each mutant is planted in a
copy of the project and tested in a fork of a process that has imported TensorFlow, nearest and
quickest tests first, until a test fails or the time is up. `run` resumes an interrupted run. Needs
Python 3.9 and the extras `test` and `strength`; `cover` passes the arguments after `--` to pytest.
"""

from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import contextlib
import difflib
import importlib
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from parts.covered import covered

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = (
    "rewrite/placement/placement.py",
    "rewrite/painting/paint.py",
    "scaling",
    "loss_scale",
    "recipe/creation.py",
)
SEED = 20161123
STAGES = (8, 40, 10_000)  # tests at a time: most mutants die in the first stage
REPORT = "MUTATION_FAILED_TEST"


class Mutant(NamedTuple):
    """A fault: an operator of Cosmic Ray at one of the places where it applies."""

    path: str
    operator: str
    occurrence: int
    line: int

    @property
    def name(self) -> str:
        """The place of the fault, in words."""
        return "%s:%d %s %d" % (self.path, self.line, self.operator.split("/")[-1], self.occurrence)


def _operators() -> Iterator[Tuple[str, Any]]:
    import cosmic_ray.plugins

    for name in sorted(cosmic_ray.plugins.operator_names()):
        operator = cosmic_ray.plugins.get_operator(name)
        if not operator.arguments():
            yield name, operator()


def _mutated(mutant: Mutant) -> str:
    import cosmic_ray.plugins
    from cosmic_ray.mutating import mutate_code

    text = mutate_code(
        (ROOT / mutant.path).read_text(),
        cosmic_ray.plugins.get_operator(mutant.operator)(),
        mutant.occurrence,
    )
    assert text is not None, mutant.name
    return text


class _Unannotated(ast.NodeTransformer):
    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # the name that ast calls
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)


def _meaning(text: str) -> str:
    return ast.dump(_Unannotated().visit(ast.parse(text)))


def _is_fault(mutant: Mutant) -> bool:
    """Whether a mutant changes the meaning; False if Python can't parse it."""
    try:
        return _meaning(_mutated(mutant)) != _meaning((ROOT / mutant.path).read_text())
    except SyntaxError:
        return False


def _places(path: pathlib.Path) -> Dict[Any, List[Mutant]]:
    """The mutants of a file by their place in it."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path

    tree = get_ast_from_path(path)
    places: Dict[Any, List[Mutant]] = collections.defaultdict(list)
    for name, operator in _operators():
        positions = (
            place for node in ast_nodes(tree) for place in operator.mutation_positions(node)
        )
        for occurrence, (start, end) in enumerate(positions):
            places[start, end].append(
                Mutant(str(path.relative_to(ROOT)), name, occurrence, start[0])
            )
    return places


def sample(count: int, seed: int = SEED) -> List[Mutant]:
    """`count` mutants of the tested rooms, at different places, determined by source and seed."""
    files = [
        path
        for room in ROOMS
        for path in sorted((ROOT / "graphmp" / room).rglob("*.py")) or [ROOT / "graphmp" / room]
    ]
    places = [found for path in files for _, found in sorted(_places(path).items())]
    chance = random.Random(seed)
    chance.shuffle(places)
    drawn: List[Mutant] = []
    for found in places:
        mutant = chance.choice(found)
        if len(drawn) < count and _is_fault(mutant):
            drawn.append(mutant)
    return drawn


class Seconds:
    """A pytest plugin that records the time of each test, and the first failure."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seconds: Dict[str, float] = collections.defaultdict(float)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed and not os.path.exists(self._path):
            pathlib.Path(self._path).write_text(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not os.path.exists(self._path):
            pathlib.Path(self._path).write_text("collection of " + report.nodeid)


class SecondsOfAll(Seconds):
    """The same for a whole run."""

    def pytest_terminal_summary(self) -> None:
        pathlib.Path(self._path).write_text(json.dumps(self._seconds))


def pytest_configure(config: Any) -> None:
    """Register the plugin if pytest loaded this file for `cover`."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondsOfAll(os.environ[REPORT]), "seconds of tests")


def cover(folder: pathlib.Path, arguments: Sequence[str]) -> int:
    """Run pytest with coverage by test. Return its exit status."""
    environment = dict(
        os.environ,
        COVERAGE_FILE=str(folder / "coverage"),
        PYTHONPATH=os.pathsep.join([str(ROOT / "tools"), str(ROOT)]),
    )
    environment[REPORT] = str(folder / "seconds.json")
    command = [
        "-q",
        "-p",
        "mutation",
        "--cov=graphmp",
        "--cov-context=test",
        "--cov-report=",
        *arguments,
    ]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *command], cwd=ROOT, env=environment
    ).returncode


def _covering(folder: pathlib.Path) -> Dict[str, Dict[int, Set[str]]]:
    """The tests that cover each line of each file; under line 0, all tests that cover the file.

    A line counts only if it runs within a test.
    """
    found: Dict[str, Dict[int, Set[str]]] = {}
    for path, line, test in covered(folder / "coverage"):
        if test:
            tests = found.setdefault(path[path.rindex("graphmp/") :], collections.defaultdict(set))
            tests[line].add(test)
            tests[0].add(test)
    return found


class Choice:
    """The tests to run for a mutant, and their order."""

    def __init__(
        self, folder: pathlib.Path, budget: float, earlier: Optional[pathlib.Path]
    ) -> None:
        self._covering = _covering(folder)
        self._seconds = json.loads((folder / "seconds.json").read_text())
        self._budget = budget
        self._killers = (
            {name: row["killed by"] for name, row in _read(earlier / "mutants.jsonl").items()}
            if earlier
            else {}
        )

    def tests(self, mutant: Mutant) -> List[str]:
        """The tests that cover its line, or its file if none does.

        Half of the time goes to the tests in the nearest folder, half to the others, quickest
        first.
        """
        lines = self._covering.get(mutant.path, {})
        near = "tests/" + str(pathlib.PurePath(mutant.path).parent.relative_to("graphmp"))
        covering = lines.get(mutant.line) or lines.get(0, set())
        by_nearness = [
            sorted(test for test in covering if test.startswith(near) == is_near)
            for is_near in (True, False)
        ]
        killer = self._killers.get(mutant.name)
        first = [killer] if killer in self._seconds else []
        return list(
            dict.fromkeys(
                [*first, *(test for tests in by_nearness for test in self._quickest(tests))]
            )
        )

    def _quickest(self, tests: Sequence[str]) -> List[str]:
        """As many tests as the time allows: of each file in turn, its quickest three."""
        seconds = {
            test: self._seconds.get(test, 0.003) for test in tests
        }  # times below 5 ms are not recorded
        spent, chosen = 0.0, []
        for test in sorted(tests, key=lambda test: (seconds[test], test)):
            spent += seconds[test]
            if spent <= self._budget / 2:
                chosen.append(test)
        ranks: Dict[str, int] = collections.Counter()
        order = {}
        for number, test in enumerate(chosen):
            path = test.split("::")[0]
            order[test] = (ranks[path] // 3, number)
            ranks[path] += 1
        return sorted(chosen, key=order.__getitem__)


def _import_all_but_ours() -> None:
    """Import all that the project imports, but not the project, which a fork imports itself."""
    sys.path.insert(0, str(ROOT))
    from graphmp.conversion.quiet import quiet_stderr

    with quiet_stderr():
        for name in ("audit", "bench", "convert", "launcher"):
            importlib.import_module("graphmp.cli." + name)
        import tensorflow.compat.v1 as tf

        tf.layers.dense  # noqa: B018  # loads Keras
    for name in list(sys.modules):
        if name.split(".")[0] == "graphmp":
            del sys.modules[name]
    sys.path.remove(str(ROOT))


def _test_in_fork(tree: str, tests: Sequence[str], report: str, limit: int) -> None:
    """Run tests on a tree in this forked process, without output, and exit."""
    os.setsid()
    signal.alarm(limit)
    os.chdir(tree)
    sys.path.insert(0, tree)
    os.environ["PYTHONPATH"] = tree
    with open(os.devnull, "r+") as nothing:
        for number in range(3):
            os.dup2(nothing.fileno(), number)
    import pytest

    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--basetemp=%s" % (report + ".tmp")]
    done, rest = 0, list(tests)
    for size in STAGES:
        now, rest = rest[:size], rest[size:]
        if now and not done:
            done = pytest.main([*options, *now], plugins=[Seconds(report)])
    os._exit(1 if done else 0)


def _write(path: pathlib.Path, text: str) -> None:
    """Write a source file with a new modification time, in whole seconds.

    Python recognises stale bytecode by this time and the size.
    """
    later = path.stat().st_mtime + 1
    path.write_text(text)
    os.utime(path, (later, later))


def _failed(tests: Sequence[str], tree: pathlib.Path, limit: int) -> str:
    """The first of some tests that fails on a tree, or how its process ended; empty if none."""
    report = tree.parent / (tree.name + ".failed")
    with contextlib.suppress(FileNotFoundError):
        report.unlink()
    process = multiprocessing.get_context("fork").Process(
        target=_test_in_fork, args=(str(tree), tests, str(report), limit)
    )
    process.start()
    process.join()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # includes processes started by the tests
    return (
        report.read_text()
        if report.exists()
        else "its end by signal %d" % -process.exitcode
        if process.exitcode < 0
        else ""
    )


def _outcome(
    mutant: Mutant, tests: Sequence[str], tree: pathlib.Path, limit: int
) -> Dict[str, Any]:
    """Plant a mutant in a tree, test it, and remove it again."""
    path = tree / mutant.path
    text = path.read_text()
    start = time.time()
    _write(path, _mutated(mutant))
    try:
        by = _failed(tests, tree, limit)
    finally:
        _write(path, text)
    return {
        "mutant": mutant._asdict(),
        "killed by": by,
        "tests": len(tests),
        "seconds": round(time.time() - start, 1),
    }


@contextlib.contextmanager
def _trees(count: int) -> Iterator[List[pathlib.Path]]:
    """Copies of the project, one per mutant tested in parallel."""
    with tempfile.TemporaryDirectory() as folder:
        trees = [pathlib.Path(folder) / str(number) / "project" for number in range(count)]
        for tree in trees:
            shutil.copytree(
                ROOT,
                tree,
                ignore=shutil.ignore_patterns(".git", "build", "__pycache__", "*.egg-info"),
            )
        yield trees


def _read(path: pathlib.Path) -> Dict[str, Dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {Mutant(**row["mutant"]).name: row for row in rows}


def run(
    folder: pathlib.Path,
    count: int,
    budget: float,
    again: Optional[str],
    earlier: Optional[pathlib.Path],
) -> int:
    """Test the mutants without a result; with `again`, the survivors too. Return 0."""
    results = folder / "mutants.jsonl"
    known = _read(results)
    choice = Choice(folder, budget, earlier)
    left = [
        mutant
        for mutant in sample(count)
        if mutant.name not in known or (again is not None and not known[mutant.name]["killed by"])
    ]
    _import_all_but_ours()
    with _trees(os.cpu_count() or 1) as trees, concurrent.futures.ThreadPoolExecutor(
        len(trees)
    ) as pool:
        free = list(trees)
        known_to_fail: Dict[str, bool] = {}

        def fails_anyway(test: str, tree: pathlib.Path, limit: int) -> bool:
            """Whether a test fails in such a process without any fault."""
            if test not in known_to_fail:
                known_to_fail[test] = bool(_failed([test], tree, limit))
            return known_to_fail[test]

        def test(mutant: Mutant) -> None:
            tree, limit = free.pop(), int(60 + 5 * budget)
            tests = again.split() if again else choice.tests(mutant)
            row = _outcome(mutant, tests, tree, limit)
            while row["killed by"] in tests and fails_anyway(row["killed by"], tree, limit):
                tests = [test for test in tests if test != row["killed by"]]
                row = _outcome(mutant, tests, tree, limit)
            free.append(tree)
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                "%-60s %5.1f s  %s" % (mutant.name, row["seconds"], row["killed by"] or "SURVIVED"),
                flush=True,
            )

        list(pool.map(test, left))
    return 0


def show(folder: pathlib.Path) -> int:
    """Print how many mutants were killed, and the changes of the others. Return 0."""
    rows = _read(folder / "mutants.jsonl").values()
    survivors = [Mutant(**row["mutant"]) for row in rows if not row["killed by"]]
    for mutant in sorted(survivors):
        print("\n" + mutant.name)
        before, after = (ROOT / mutant.path).read_text().splitlines(), _mutated(mutant).splitlines()
        for line in list(difflib.unified_diff(before, after, lineterm="", n=2))[3:]:
            print("    " + line)
    print(
        "\n%d mutants: %d killed, %d survived"
        % (len(rows), len(rows) - len(survivors), len(survivors))
    )
    return 0


def main() -> int:
    """Run one of the three commands. Return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["cover", "run", "show"])
    parser.add_argument("folder", type=pathlib.Path, help="folder of the results")
    parser.add_argument("--count", type=int, default=300, help="total number of mutants")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests per mutant")
    parser.add_argument(
        "--again",
        nargs="?",
        const="",
        help="also test the survivors, with these tests if any are given",
    )
    parser.add_argument(
        "--first",
        type=pathlib.Path,
        metavar="EARLIER",
        help="a folder with results whose killers are tried first",
    )
    options, rest = parser.parse_known_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.command == "cover":
        return cover(options.folder.resolve(), [argument for argument in rest if argument != "--"])
    if options.command == "run":
        return run(
            options.folder.resolve(), options.count, options.budget, options.again, options.first
        )
    return show(options.folder)


if __name__ == "__main__":
    sys.exit(main())
