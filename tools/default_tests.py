"""Which tests run by default: writes tests/slow_measured.txt, the others.

With an empty tests/slow_measured.txt, so that all are measured:

    python tools/suite_times.py -n 1 --json=TIMES           on each TensorFlow
    python tools/mutation.py cover FOLDER                   on one
    python tools/mutation.py run FOLDER                     there too
    python tools/default_tests.py --measured=FOLDER TIMES...

A test stays in the default set if it takes little, by the limits below, if it is named in
tests/kept.txt, if it was the first to find a planted fault, if it is the quickest case of a test of
rules, or if it runs lines of graphmp/ that no test of the set runs: of these the ones with the most
new lines a second are taken first, until none has as many as FEWEST. A test of which no case stays
is one line. Tests that were not measured are not in the table and run by default. Needs the extras
`test` and `strength`.

    python tools/default_tests.py --measured=FOLDER --since=COMMIT TIMES...

does so for the tests that COMMIT hasn't, with times and coverage of the default tests, and adds to
the table. It needs no planted faults.

    python tools/default_tests.py TIMES...

adds to the table. Of the cases of one test outside of the folders of rules, the CASES quickest and
those that take less than LONG stay.
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import subprocess
import sys
from typing import Dict, Iterable, List, Set, Tuple

from parts.covered import covered

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import slow  # noqa: E402

RULES = ("loss_scale", "policy", "recipe", "rewrite", "scaling")
SECONDS = {**dict.fromkeys(RULES, 0.3), "verify": 0.2}  # of a case, on the slower TensorFlow
OTHERWISE = 0.1
ONE_CASE = 1.0  # seconds of the quickest case of a test of rules
FEWEST = 4  # new lines
CASES, LONG = 2, 0.3  # seconds
HEAD = """\
# Tests, and cases of them, that run with --slow only: made by tools/default_tests.py.
"""
Line = Tuple[str, int]


def read_times(paths: Iterable[pathlib.Path]) -> Dict[str, float]:
    """Seconds of each test on the TensorFlow where it takes longest."""
    found: Dict[str, float] = {}
    for path in paths:
        for test, kinds in json.loads(path.read_text()).items():
            found[test] = max(found.get(test, 0.0), sum(kinds.values()))
    return found


def read_lines(path: pathlib.Path) -> Dict[str, Set[Line]]:
    """The lines that each test runs; those that ran outside of tests by the name ""."""
    found: Dict[str, Set[Line]] = collections.defaultdict(set)
    for file, line, test in covered(path):
        found[test].add((file, line))
    return found


def read_finders(path: pathlib.Path) -> Set[str]:
    """The tests that found a planted fault first."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["killed by"] for row in rows if row["killed by"]}


def is_quick(test: str, seconds: float) -> bool:
    """Whether a test takes so little that it stays."""
    return seconds < SECONDS.get(test.split("/")[1], OTHERWISE)


def quickest_cases(times: Dict[str, float], known: Set[str]) -> Set[str]:
    """The quickest case of each test of rules that isn't known, if it takes at most ONE_CASE."""
    found: Dict[str, str] = {}
    for test in sorted(times, key=lambda test: (times[test], test)):
        name = test.split("[")[0]
        if name not in known and test.split("/")[1] in RULES and times[test] <= ONE_CASE:
            found.setdefault(name, test)
    return set(found.values())


def tests_of(commit: str) -> Set[str]:
    """The functions that are tests in a commit."""
    command = ["git", "grep", "-ohE", r"def test_\w+", commit, "--", "tests"]
    found = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode()
    return {line.split()[-1] for line in found.splitlines()}


def chosen(times: Dict[str, float], lines: Dict[str, Set[Line]], kept: Iterable[str]) -> Set[str]:
    """The tests that run by default."""
    names = set(kept)
    found = {
        test
        for test, seconds in times.items()
        if is_quick(test, seconds) or not names.isdisjoint((test, test.split("[")[0]))
    }
    found |= quickest_cases(times, {test.split("[")[0] for test in found})
    new = {test: lines.get(test, set()) for test in times.keys() - found}
    run = set(lines.get("", ())).union(*(lines.get(test, ()) for test in found))
    while True:
        new = {test: more - run for test, more in new.items() if len(more - run) >= FEWEST}
        if not new:
            return found
        best = min(new, key=lambda test: (-len(new[test]) / times[test], test))
        run |= new.pop(best)
        found.add(best)


def further_cases(times: Dict[str, float], kept: Iterable[str]) -> Set[str]:
    """The cases that leave the default set: tests of rules keep theirs."""
    names = set(kept)
    cases: Dict[str, List[str]] = collections.defaultdict(list)
    for test in sorted(times, key=lambda test: (times[test], test)):
        name = test.split("[")[0]
        if name != test and name.split("/")[1] not in RULES and names.isdisjoint((test, name)):
            cases[name].append(test)
    return {test for each in cases.values() for test in each[CASES:] if times[test] >= LONG}


def table(times: Iterable[str], stay: Set[str]) -> List[str]:
    """The lines of the table."""
    whole = {test.split("[")[0] for test in stay}
    leaving = set(times) - stay
    tests = {test if test.split("[")[0] in whole else test.split("[")[0] for test in leaving}
    return sorted(test.partition("/")[2] for test in tests)


def _write(rows: Iterable[str]) -> None:
    slow.MEASURED.write_text(HEAD + "".join(row + "\n" for row in rows))


def main() -> int:
    """Write the table, or add to it. Return 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("times", type=pathlib.Path, nargs="+", help="files of suite_times.py")
    parser.add_argument("--measured", type=pathlib.Path, help="the folder of mutation.py")
    parser.add_argument("--since", metavar="COMMIT", help="tests that it has stay as they are")
    options = parser.parse_args()
    times = read_times(options.times)
    if options.measured is None:
        leaving = further_cases(times, slow.names(slow.KEPT))
        rows = {name.partition("/")[2] for name in leaving.union(slow.names(slow.MEASURED))}
        _write(sorted(rows))
        seconds = sum(times[test] for test in leaving)
        print("%d cases left the default set, which took %.0f s" % (len(leaving), seconds))
        return 0
    kept = read_finders(options.measured / "mutants.jsonl").union(slow.names(slow.KEPT))
    before: Set[str] = set()
    if options.since:
        old = tests_of(options.since)
        kept |= {test for test in times if test.split("[")[0].split("::")[-1] in old}
        before = {name.partition("/")[2] for name in slow.names(slow.MEASURED)}
    stay = chosen(times, read_lines(options.measured / "coverage"), kept)
    _write(sorted(before.union(table(times, stay))))
    seconds = sum(times[test] for test in stay), sum(times.values())
    print("%d of %d tests run by default, in %.0f of %.0f s" % (len(stay), len(times), *seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
