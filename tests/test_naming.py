"""Paths of nodes and functions, and names and numbers in a sentence."""

from __future__ import annotations

import pytest

from graphmp import wording
from graphmp.naming import function_of, in_body, of_function, places
from graphmp.wording import more, nearest, plural, some

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("body, node, path", [("", "a/x", "a/x"), ("f", "a/x", "library/f/a/x")])
def test_a_path_leads_back_to_its_node(body, node, path):
    assert in_body(body, node) == path
    assert (body, node) in list(places(path, ["", "f", "g"]))


def test_places():
    assert list(places("library/f/g/x", ["", "f", "f/g", "g"])) == [
        ("", "library/f/g/x"),
        ("f", "g/x"),
        ("f/g", "x"),
    ]


def test_functions():
    assert of_function("f") == "library/f"
    assert function_of("library/f") == function_of("f") == "f"


def test_some():
    assert some([]) == ""
    assert some(["a", "b"]) == "a, b"
    assert some(["a"] * 1205, 1) == "a and 1,204 more"
    assert (more(0), more(3)) == ("", "and 3 more")


def test_names_like_a_wrong_one(monkeypatch):
    names = ["a/dense", "b/conv", "b/convs", "c/convs"]
    assert nearest("a/denze", names) == ["a/dense"]
    monkeypatch.setattr(wording, "_MOST_COMPARED", 3)
    assert nearest("b/conv_", names) == ["b/conv", "b/convs"]
    assert nearest("d/convs", names) == ["c/convs", "b/convs"]


def test_plural():
    assert plural(1, "loss", "losses") == "1 loss"
    assert plural(2000, "loss", "losses") == "2,000 losses"
    assert plural(0, "node") == "0 nodes"
