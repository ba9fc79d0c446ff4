"""Real training graphs to test on. They are other people's files: read where they lie, never copied."""

from __future__ import annotations

import os
import pathlib
from typing import List

import pytest

from tests.support.places import ROOT

VARIABLE = "GRAPHMP_CORPUS"


def corpus_folder() -> pathlib.Path:
    """The folder with `corpus/meta`: GRAPHMP_CORPUS, by default `shared` beside the repository."""
    return pathlib.Path(os.environ.get(VARIABLE) or ROOT.parent / "shared")


def corpus_graphs() -> List[pathlib.Path]:
    """The `.meta` files of the corpus, sorted; skips the test where there are none."""
    paths = sorted(corpus_folder().joinpath("corpus", "meta").glob("*.meta"))
    if not paths:
        pytest.skip("no corpus: set %s to the folder with corpus/meta" % VARIABLE)
    return paths
