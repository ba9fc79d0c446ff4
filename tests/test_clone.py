"""The tests of a clone with nothing beside it.

None fails for want of the corpus, and one line says what was skipped.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.data import make
from tests.support.corpus import VARIABLE, own_graphs
from tests.support.places import ROOT


@pytest.mark.slow
def test_without_the_corpus_its_tests_are_skipped_and_one_line_says_so(tmp_path):
    """All modules are collected: none looks for the corpus when it is imported."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-m",
        "corpus",
        "--slow",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        command,
        cwd=str(ROOT),
        env={**os.environ, VARIABLE: str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out = done.stdout.decode()
    assert done.returncode == 0, out[-2000:]
    (said,) = [line for line in out.splitlines() if VARIABLE in line]
    count = re.match(
        r"skipped (\d+) tests on recorded graphs of others, .* set %s to the folder with"
        r" corpus/meta$" % VARIABLE,
        said,
    ).group(1)
    assert int(count) > 20 and re.match(r"\d+ skipped, \d+ deselected in", out.splitlines()[-1]), (
        out[-500:]
    )


@pytest.mark.unit
def test_graphs_of_our_own_are_there_and_small():
    assert [path.stem for path in own_graphs()] == sorted(make.GRAPHS)
    assert all(path.stat().st_size < 150000 for path in own_graphs())


@pytest.mark.unit
@pytest.mark.parametrize("name", make.made_here())
def test_a_recorded_graph_is_what_its_script_makes(name):
    assert (
        make.built(name).SerializeToString(deterministic=True)
        == (make.FOLDER / (name + ".meta")).read_bytes()
    )


@pytest.mark.unit
@pytest.mark.parametrize("path", own_graphs(), ids=lambda path: path.stem)
def test_a_recorded_graph_loads_in_either_tensorflow(path):
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(str(path))
        assert graph.get_operations()
