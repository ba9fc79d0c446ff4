"""The memory that a conversion may take: `budget` of its graph's file, above the imports."""

import importlib
import sys

import pytest

from graphmp.cli.main import run_command
from graphmp.process_memory import budget
from tests.support import hostile_graphs as hostile
from tests.support.peak import peak_above
from tests.support.places import ROOT

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="measured by Linux's /proc"
)
SMALL = {
    **hostile.TOLERATED,
    **{
        name: hostile.REFUSED[name]
        for name in ("Unpack", "Split", "ShapeN", "huge product of dimensions")
    },
    "outputs": hostile.Hostile(lambda graph: hostile.unpack(graph, 1 << 16)),
    "splat of a training graph": hostile.Hostile(hostile.huge_gradients),
}
FEW = (
    "splat of floats",
    "shape of a Fill",
    "axes of a Sum",
    "Unpack",
    "splat of a training graph",
)


@pytest.mark.unit
def test_the_budget():
    assert budget(0) == 200_000_000
    assert budget(1_000_000) == 240_000_000


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FEW else pytest.mark.slow) for n in SMALL]
)
def test_small_graphs(name, tmp_path):
    path = tmp_path / "small.meta"
    path.write_bytes(hostile.made(SMALL[name]).SerializeToString())
    keeps_the_budget(path, [0, 1, 2])


def test_a_training_graph(tmp_path, monkeypatch):
    keeps_the_budget(training_graph(600, tmp_path, monkeypatch), [0])


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["dynamic", "none"])
def test_a_large_training_graph(scale, tmp_path, monkeypatch):
    keeps_the_budget(training_graph(20000, tmp_path, monkeypatch), [0], "--loss_scale=" + scale)


def training_graph(nodes, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    importlib.import_module("parts.training_graph").write(nodes, folder / "train.meta")
    return folder / "train.meta"


def keeps_the_budget(path, statuses, *flags):
    argv = ["graphmp", "convert", str(path), "-o", str(path.parent / "out"), *flags]
    peak, status = peak_above(lambda: run_command(argv))
    assert status in statuses
    assert 0 < peak < budget(path.stat().st_size)
