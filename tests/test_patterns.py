"""Regular expressions of users: limits of length, number and time."""

import threading

import pytest

from graphmp import patterns
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.gate.limits import MOST_NAME
from graphmp.policy import policy
from graphmp.rewrite.without_effect import without_effect

pytestmark = pytest.mark.unit
EXPONENTIAL, NAME = "(a+)+$", "a" * 40 + "!"


@pytest.mark.parametrize(
    "text", ["(", "a{9999999999999}", "(" * 9000 + ")" * 9000, "x" * 30_000], ids=len
)
def test_what_is_no_regular_expression(text):
    with pytest.raises(GraphmpError, match=r"--keep_float32=.* not a regular expression") as error:
        Config.make(keep_float32=[text])
    assert error.value.code == "GMP002" and len(error.value.message) < 500


def test_too_many():
    with pytest.raises(GraphmpError, match=r"found 1,001 regular expressions; accepted .* 1,000"):
        Config.make(force_compute=["x"] * 1001)


def test_an_exponential_expression_ends(monkeypatch):
    monkeypatch.setattr(patterns, "SECONDS", 0.2)
    with pytest.raises(GraphmpError, match=r"the regular expression \(a\+\)\+\$ takes more"):
        patterns.matches([EXPONENTIAL], NAME)
    with pytest.raises(GraphmpError, match="takes more than"):
        without_effect(Config.make(keep_float32=[EXPONENTIAL]), [(NAME, "NoOp")])
    assert patterns.matches(["b$", "^a+!$"], NAME)
    assert not patterns.matches(["b"], NAME)


def test_other_threads_search_without_a_limit():
    found = []
    thread = threading.Thread(target=lambda: found.append(patterns.matches(["a!$"], NAME)))
    thread.start()
    thread.join()
    assert found == [True]


@pytest.mark.parametrize("text", ["# \n" * 30_000, "#" * (2 << 20)], ids=["lines", "characters"])
def test_a_policy_file_of_any_size_is_refused_at_once(text, tmp_path):
    path = tmp_path / "huge.txt"
    path.write_text(text)
    with pytest.raises(GraphmpError, match=r"huge\.txt: found more than") as error:
        policy.load("float16", str(path))
    assert error.value.code == "GMP010"


def test_names_are_found_whole_whatever_their_length():
    """Each expression is accepted, however long the names and however many."""
    names = ["." * MOST_NAME] + ["%s/%d" % ("a-long.scope" * 40, n) for n in range(100)]
    config = Config.make(keep_float32=list(patterns.whole_names(names)))
    assert len(config.keep_float32) == 4
    assert all(patterns.matches(config.keep_float32, name) for name in names)
    others = ["b", names[1][:-1], names[1] + "/b", "c/" + names[1], names[1].replace(".", "_")]
    assert not any(patterns.matches(config.keep_float32, name) for name in others)
    assert list(patterns.whole_names([])) == []
