"""Minimum-cut problems, and their colourings."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st

from graphmp.rewrite.placement import placement
from graphmp.rewrite.placement.placement import SINK, SOURCE

INFINITE = float("inf")


MOST_FREE = 8


often = settings(max_examples=150)


def colourings(vertices):
    return (
        set(half)
        for size in range(len(vertices) + 1)
        for half in itertools.combinations(vertices, size)
    )


@st.composite
def problems(draw, capacities):
    """Arcs among up to MOST_FREE free vertices.

    An infinite arc never starts at the source, so that all float32 is a solution.
    """
    vertices = list(range(2, 2 + draw(st.integers(1, MOST_FREE))))
    starts, ends = st.sampled_from([SOURCE, *vertices]), st.sampled_from([SINK, *vertices])
    finite = draw(st.lists(st.tuples(starts, ends, capacities), min_size=1, max_size=24))
    infinite = draw(
        st.lists(st.tuples(st.sampled_from(vertices), ends, st.just(INFINITE)), max_size=5)
    )
    return list(placement._merged(iter(finite + infinite)))
