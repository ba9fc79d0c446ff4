"""Recorded training graphs for tests: a few of our own in tests/data, and the corpus.

The corpus has graphs of others. It is read in place, never copied, and not part of a clone: tests
that need it are marked `corpus`, see `conftest.py`.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, List, Optional

import pytest

from tests.support.places import ROOT

VARIABLE = "GRAPHMP_CORPUS"


def corpus_folder() -> pathlib.Path:
    """The folder with `corpus/meta`: GRAPHMP_CORPUS, by default `shared` beside the repository."""
    return pathlib.Path(os.environ.get(VARIABLE) or ROOT.parent / "shared")


def corpus_graphs() -> List[pathlib.Path]:
    """The `.meta` files of the corpus, sorted; none without a corpus."""
    return sorted(corpus_folder().joinpath("corpus", "meta").glob("*.meta"))


def own_graphs() -> List[pathlib.Path]:
    """The `.meta` files of tests/data, sorted; `tests/data/make.py` makes them."""
    return sorted(ROOT.joinpath("tests", "data").glob("*.meta"))


def recorded(
    part: slice = slice(None), slow: Optional[slice] = None, own: slice = slice(None)
) -> Any:
    """Parametrise a test by `paths`: the graphs of tests/data, then some of the corpus.

    Args:
        part: the graphs of the corpus.
        slow: the graphs of the corpus in a slow test of their own.
        own: the graphs of tests/data.
    """
    graphs = corpus_graphs()
    parts = [
        pytest.param(own_graphs()[own], id="own"),
        pytest.param(graphs[part], id="corpus", marks=pytest.mark.corpus),
    ]
    if slow is not None:
        parts.append(
            pytest.param(
                graphs[slow], id="corpus, the rest", marks=[pytest.mark.corpus, pytest.mark.slow]
            )
        )
    return pytest.mark.parametrize("paths", parts)
