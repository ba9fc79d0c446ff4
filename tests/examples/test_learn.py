"""The examples in float16: losses fall as in float32, and a dynamic loss scale skips no step."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.support.forks import EMULATED
from tests.support.places import EXAMPLES

FOLDER = EXAMPLES
SHARED = sorted(path.stem for path in FOLDER.glob("*.py") if "training.train" in path.read_text())
FAST = ["dcgan", "fully_connected"] + ["simple_cnn"] * (
    tf.__version__ > "2"
)  # the others, emulated, take up to minutes
NAMES = [
    pytest.param(name, marks=[] if name in FAST else pytest.mark.slow)
    for name in ["simple_cnn", *SHARED]
]
AGAINST = {
    "dcgan",
    "progressive_gan",
    "dqn",
}  # against each other, or towards a moving target: in 20 steps such losses go up and down
CLOSE = 0.1  # the largest distance from float32's, of the mean of twenty losses
STEP = re.compile(r"^step +\d+((?:  \w*loss \S+)+)", re.MULTILINE)
LAYOUT = {
    "simple_cnn": ["--data_format=channels_last"]
}  # its default is channels first, which 1.15.5's CPU doesn't support


def losses(ended):
    """An array of steps by losses."""
    assert ended.status == 0, ended.err
    return np.array(
        [[float(text) for text in found.split()[1::2]] for found in STEP.findall(ended.out)]
    )


@pytest.mark.parametrize("name", NAMES)
def test_twenty_steps_in_float16(name, forks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argv = [
        str(FOLDER / (name + ".py")),
        "--smoke",
        "--steps=20",
        *(["--log_every=1"] if name in SHARED else LAYOUT[name]),
    ]
    exact = losses(forks.run(*argv, flags=None))
    ended = forks.run(*argv, flags=["--compute_dtype=float16"], patience=EMULATED)
    half = losses(ended)
    assert ended.err.splitlines()[-1].endswith("; 0 skipped"), ended.err
    assert half.shape == exact.shape and len(exact) == 20
    for found in (exact, half):
        assert np.all(np.isfinite(found))
        assert name in AGAINST or found[-5:].mean() < found[0].mean(), found
    scale = np.abs(exact).mean(axis=0).max()
    assert np.abs(half.mean(axis=0) - exact.mean(axis=0)).max() < CLOSE * scale


@pytest.mark.skipif(
    tf.__version__ < "2", reason="1.15.5's CPU has no channels-first convolutions, and no bfloat16"
)
def test_the_first_example_as_it_stands(forks, tmp_path, monkeypatch):
    """Without --smoke, in the sizes and the layout of the README's conversion."""
    monkeypatch.chdir(tmp_path)
    argv = [str(FOLDER / "simple_cnn.py")]
    exact = losses(forks.run(*argv, flags=None))
    half = losses(forks.run(*argv, flags=["--compute_dtype=bfloat16"]))
    assert len(exact) == len(half) == 20
    assert exact[-1] < 0.1 * exact[0] and half[-1] < 0.1 * half[0]
    assert (np.diff(exact[:, 0]) < 0).all() and (np.diff(half[:, 0]) < 0).all()
