"""tools/default_tests.py: which tests run by default."""

from __future__ import annotations

import json
import types

import pytest

from tests.support.places import TOOLS

pytestmark = pytest.mark.unit


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import default_tests

    return default_tests


def lines(*numbers):
    return {("graphmp/one.py", number) for number in numbers}


def test_quick_and_kept_tests_stay_whatever_they_run(tool):
    times = {
        "tests/cli/test_a.py::test_quick": 0.05,
        "tests/cli/test_a.py::test_slow": 0.3,
        "tests/cli/test_a.py::test_kept[one]": 9.0,
        "tests/cli/test_a.py::test_kept[two]": 9.0,
        "tests/rewrite/test_a.py::test_rule": 0.2,
        "tests/rewrite/test_a.py::test_slow_rule": 1.4,
    }
    stay = tool.chosen(times, {}, ["tests/cli/test_a.py::test_kept"])
    assert times.keys() - stay == {
        "tests/cli/test_a.py::test_slow",
        "tests/rewrite/test_a.py::test_slow_rule",
    }


def test_of_slow_tests_the_fewest_seconds_for_new_lines_stay(tool):
    times = {"tests/cli/test_a.py::test_" + name: 1.0 for name in ("a", "b", "c")}
    a, b, c = times
    times[b] = 5.0
    run = {"": lines(1), a: lines(1, 2, 3, 4, 5), b: lines(2, 3, 4, 5, 6, 7), c: lines(1, 8, 9)}
    assert tool.chosen(times, run, []) == {a}  # the others add two lines


def test_a_test_of_which_no_case_stays_is_one_line(tool):
    tests = ["tests/a.py::test_a[1]", "tests/a.py::test_a[2]", "tests/a.py::test_b[1 or 2]"]
    stay = {"tests/a.py::test_b[3]"}
    assert tool.table([*tests, *stay], stay) == ["a.py::test_a", "a.py::test_b[1 or 2]"]


def test_of_long_cases_of_one_test_the_two_quickest_stay(tool):
    times = {"tests/verify/test_a.py::test_a[%d]" % case: case / 10 for case in range(6)}
    times.update({"tests/verify/test_b.py::test_a[%d]" % case: 1.0 for case in range(2)})
    times.update({"tests/scaling/test_a.py::test_a[%d]" % case: 1.0 for case in range(6)})
    leaving = {"tests/verify/test_a.py::test_a[%d]" % case for case in (3, 4, 5)}
    assert tool.further_cases(times, []) == leaving
    assert tool.further_cases(times, ["tests/verify/test_a.py::test_a"]) == set()
    kept = "tests/verify/test_a.py::test_a[3]"
    assert tool.further_cases(times, [kept]) == leaving - {kept}


def test_times_are_those_of_the_slower_run(tool, tmp_path):
    for name, seconds in (("1", 0.5), ("2", 0.25)):
        (tmp_path / name).write_text(json.dumps({"t": {"run": seconds, "other": 0.5}}))
    assert tool.read_times([tmp_path / "1", tmp_path / "2"]) == {"t": 1.0}


def test_what_found_a_planted_fault_is_known(tool, tmp_path):
    rows = [{"killed by": "tests/a.py::test_a"}, {"killed by": ""}]
    (tmp_path / "mutants.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert tool.read_finders(tmp_path / "mutants.jsonl") == {"tests/a.py::test_a"}
    assert tool.read_finders(tmp_path / "none") == set()


def test_one_case_of_a_test_of_rules_stays(tool):
    times = {
        "tests/scaling/test_a.py::test_a[%d]" % number: 0.6 - number / 10 for number in range(3)
    }
    assert tool.chosen(times, {}, []) == {"tests/scaling/test_a.py::test_a[2]"}
    times["tests/scaling/test_a.py::test_a[3]"] = 0.1
    assert tool.chosen(times, {}, []) == {"tests/scaling/test_a.py::test_a[3]"}
    assert tool.quickest_cases({"tests/cli/test_a.py::test_a": 0.6}, set()) == set()


def test_tests_of_an_earlier_commit_stay_as_they_are(tool, tmp_path, monkeypatch):
    tests = ["tests/cli/test_a.py::test_" + name for name in ("old[1]", "new[1]", "new[2]")]
    times, measured = tmp_path / "times", tmp_path / "measured.txt"
    times.write_text(json.dumps({test: {"run": 1.0} for test in tests}))
    measured.write_text("# table\ncli/test_a.py::test_old[2]\n")
    monkeypatch.setattr(tool, "tests_of", {"abc": {"test_old"}}.__getitem__)
    monkeypatch.setattr(tool, "read_lines", lambda path: {tests[1]: lines(1, 2, 3, 4)})
    monkeypatch.setattr(tool.slow, "MEASURED", measured)
    arguments = ["default_tests", str(times), "--measured=%s" % tmp_path, "--since=abc"]
    monkeypatch.setattr("sys.argv", arguments)
    assert tool.main() == 0
    names = measured.read_text().splitlines()
    assert names[1:] == ["cli/test_a.py::test_new[2]", "cli/test_a.py::test_old[2]"]


def test_the_tests_of_a_commit(tool, monkeypatch):
    said = b"def test_a\ndef test_b1\ndef test_a\n"
    done = types.SimpleNamespace(stdout=said)
    monkeypatch.setattr(tool.subprocess, "run", lambda *_, **__: done)
    assert tool.tests_of("HEAD") == {"test_a", "test_b1"}
