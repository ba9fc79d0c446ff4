"""The TensorFlow version that a program is written for, however it is started."""

from __future__ import annotations

import pathlib
import runpy
import sys
import types

import pytest
import tensorflow.compat.v1 as tf

from graphmp import legacy
from graphmp.legacy import installation
from graphmp.legacy.script import Program

ON_1 = tf.VERSION.startswith("1.")
SESSION = "import tensorflow as tf\ntf.Session\n"
TREE = {
    "pack/__init__.py": "",
    "pack/__main__.py": "from pack.task import main",
    "pack/task.py": "from . import net\ndef main(): pass",
    "pack/net.py": SESSION,
    "plain.py": "import json",
    "adapted.py": "import pack.net\nimport tensorflow.compat.v1 as tf",
    "launch.py": "import runpy",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder with a package, which is the working folder."""
    for name, text in TREE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.unit
@pytest.mark.parametrize(
    "module, needs",
    [("pack.task", True), ("pack.net", True), ("pack", True), ("plain", False), ("none", False)],
)
def test_a_module(tree, module, needs):
    assert Program(None, module).facts.needs_version_1 == (needs and not ON_1)


@pytest.mark.unit
def test_a_module_of_an_installed_package(tree, monkeypatch, tmp_path):
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (tmp_path / "pack").rename(installed / "pack")
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed)])
    assert Program(None, "pack.task").facts.needs_version_1 is not ON_1
    (tmp_path / "script.py").write_text("import pack.task")
    assert not Program(tmp_path / "script.py").facts.needs_version_1  # a library


@pytest.fixture
def commands(tree, monkeypatch):
    """Installs a distribution of the package with a command, and says what pip recorded."""
    scripts, installed = tree / "bin", tree / "site-packages"
    scripts.mkdir()
    installed.mkdir()
    (tree / "pack").rename(installed / "pack")
    monkeypatch.setattr(sys, "path", [*sys.path, str(installed)])

    def record(files, entries):
        distribution = types.SimpleNamespace(
            files=[pathlib.PurePosixPath(file) for file in files],
            entry_points=[
                types.SimpleNamespace(name=name, group="console_scripts", value=value)
                for name, value in entries
            ],
            read_text=lambda name: None,
        )
        monkeypatch.setattr(installation.metadata, "distributions", lambda: [distribution])
        return scripts

    return record


@pytest.mark.unit
def test_a_command_of_an_entry_point(commands):
    scripts = commands(["pack/task.py"], [("train-pack", "pack.task:main")])
    (scripts / "train-pack").write_text("import sys\nsys.exit()")
    assert Program(scripts / "train-pack").facts.needs_version_1 is not ON_1


@pytest.mark.unit
def test_a_command_that_was_copied(commands):
    scripts = commands(["pack/task.py", "../../../bin/train-pack"], [])
    (scripts / "train-pack").write_text("from pack.task import main\nmain()")
    (scripts / "other").write_text("from pack.task import main\nmain()")
    assert Program(scripts / "train-pack").facts.needs_version_1 is not ON_1
    assert not Program(scripts / "other").facts.needs_version_1


@pytest.mark.unit
@pytest.mark.parametrize("installed", [False, True])
def test_a_folder_of_installed_packages_on_the_path(tree, monkeypatch, installed):
    """`pip install --target` makes one, beside a folder with what it knows of each package."""
    (tree / "far").mkdir()
    (tree / "far" / "script.py").write_text("import pack.task")
    monkeypatch.setattr(sys, "path", ["", str(tree), *sys.path])
    if installed:
        (tree / "pack-1.0.dist-info").mkdir()
    found = Program(tree / "far" / "script.py").facts.needs_version_1
    assert found is (not ON_1 and not installed)


@pytest.mark.unit
def test_an_editable_package_by_a_finder(tree, monkeypatch):
    (tree / "far").mkdir()
    (tree / "far" / "script.py").write_text("import pack.task")
    finder = types.ModuleType("__editable___pack_finder")
    finder.MAPPING = {"pack": str(tree / "pack")}
    assert not Program(tree / "far" / "script.py").facts.needs_version_1
    monkeypatch.setitem(sys.modules, finder.__name__, finder)
    assert Program(tree / "far" / "script.py").facts.needs_version_1 is not ON_1


@pytest.fixture
def watched(tree, monkeypatch):
    """Watches a script of the folder; returns what `install` was called for."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("run_path", "run_module"):
        monkeypatch.setattr(runpy, name, getattr(runpy, name))
    monkeypatch.setattr(sys, "path", [str(tree), *sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def watch(script):
        calls = []
        legacy.watch(Program(tree / script), lambda: calls.append(script))
        return calls

    return watch


STARTS = {
    "run_path": lambda: runpy.run_path("pack/net.py"),
    "run_module": lambda: runpy.run_module("pack.net"),
    "import": lambda: __import__("pack.net"),
}


@pytest.mark.unit
@pytest.mark.skipif(ON_1, reason="TensorFlow 1 needs no legacy imports")
@pytest.mark.parametrize("start", STARTS)
def test_what_a_launcher_starts_is_found_before_it_runs(watched, tree, start):
    # It imports TensorFlow, and uses none of it while it is imported.
    (tree / "pack" / "net.py").write_text("import tensorflow\ndef f(): tensorflow.Session\n")
    calls = watched("launch.py")
    STARTS[start]()
    assert calls == ["launch.py"]
    STARTS[start]()
    assert calls == ["launch.py"]


@pytest.mark.unit
@pytest.mark.skipif(ON_1, reason="TensorFlow 1 needs no legacy imports")
def test_a_launcher_that_selects_its_version_is_left_alone(watched, tree):
    (tree / "pack" / "net.py").write_text("import tensorflow\ndef f(): tensorflow.Session\n")
    calls = watched("adapted.py")
    __import__("plain")
    assert calls == []


RUN = """
import numpy as np
import tensorflow as tf
def main(_=None):
    x = tf.placeholder(tf.float32, [4, 8])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("w", [8, 4]))))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: np.ones((4, 8))})
    print("trained")
"""


@pytest.mark.parametrize(
    "launcher",
    ["import runpy\nrunpy.run_module('pack.task', run_name='__main__')\n", "module"],
    ids=["runpy", "module"],
)
def test_a_run(forks, tree, launcher):
    (tree / "pack" / "net.py").write_text(RUN)
    (tree / "pack" / "task.py").write_text("from pack.net import main\nmain()\n")
    (tree / "launch.py").write_text(launcher)
    module = launcher == "module"
    ended = forks.run("pack.task" if module else "launch.py", flags=["-m"] if module else [])
    assert (ended.status, ended.out) == (0, "trained\n"), ended.err
    assert any("3 of 3 matmuls and convolutions in float16" in line for line in ended.said)
