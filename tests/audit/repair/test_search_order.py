"""The order in which the search keeps nodes in float32."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmp.audit.repair.search import by_scope
from tests.support.searched import often

pytestmark = pytest.mark.unit

names = st.lists(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join), unique=True, max_size=30
)


@given(names)
@often
def test_scopes_stand_together(nodes):
    ordered = by_scope(nodes)
    assert sorted(ordered) == sorted(nodes)
    for scope in {"/".join(name.split("/")[:depth]) for name in nodes for depth in range(1, 5)}:
        places = [
            place for place, name in enumerate(ordered) if (name + "/").startswith(scope + "/")
        ]
        assert places == list(range(places[0], places[0] + len(places)))


@given(names)
@often
def test_scopes_stand_where_their_first_node_stood(nodes):
    ordered = by_scope(nodes)

    def firsts(listed):
        """Top scopes in the order of their first nodes."""
        return list(dict.fromkeys(name.split("/")[0] for name in listed))

    assert firsts(ordered) == firsts(nodes)
    for scope in {name.rpartition("/")[0] for name in nodes}:
        inside = [name for name in nodes if name.rpartition("/")[0] == scope]
        assert [name for name in ordered if name in inside] == sorted(
            inside, key=lambda name: first_below(nodes, name)
        )


def first_below(nodes, name):
    """Where the first node of the scope that a name is stands."""
    return next(place for place, node in enumerate(nodes) if (node + "/").startswith(name + "/"))


def test_an_order():
    nodes = ["a/x", "b", "c/d/x", "a/y", "c/z", "b/x", "c/d/y"]
    assert by_scope(nodes) == ["a/x", "a/y", "b", "b/x", "c/d/x", "c/d/y", "c/z"]
    assert by_scope(["alone", "alone_too", "alone/x"]) == ["alone", "alone/x", "alone_too"]
