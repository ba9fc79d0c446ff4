"""`graphmp run --children`: Python processes that a script starts."""

from __future__ import annotations

import json
import os
import sys

import pytest

from graphmp.cli import children
from graphmp.cli.children.started import Started

NET = """
import sys
import numpy as np
import tensorflow as tf
def main():
    x = tf.placeholder(tf.float32, [4, 8])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, tf.get_variable("w", [8, 4]))))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: np.ones((4, 8))})
    print("trained", sys.argv[1:], flush=True)
if __name__ == "__main__":
    main()
"""
LAUNCHER = """
import subprocess, sys
%s
print(subprocess.call([sys.executable, "-c", "import json; print(json.__name__)"]))
"""
STARTS = {
    "a file": ("subprocess.call([sys.executable, 'net.py', '3'])", "net.py", "['3']"),
    "a module": ("subprocess.call([sys.executable, '-m', 'net', '3'])", "-m net", "['3']"),
    "a command": ("subprocess.call([sys.executable, '-c', 'import net; net.main()'])", "-c", "[]"),
    "a shell": ("import os; os.system(sys.executable + ' -W ignore net.py 3')", "net.py", "['3']"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("start", STARTS)
def test_a_child_trains_in_half(forks, folder, start):
    call, name, arguments = STARTS[start]
    (folder / "launch.py").write_text(LAUNCHER % call)
    ended = forks.run("launch.py", flags=["--children"], env={"PYTHONPATH": str(folder)})
    assert ended.out == "trained %s\njson\n0\n" % arguments, ended.err
    assert any(line.endswith(name + " in float16, loss scale dynamic") for line in ended.said)
    assert sum("3 of 3 matmuls and convolutions in float16" in line for line in ended.said) == 1


@pytest.mark.parametrize("start", STARTS)
def test_a_child_that_is_not_prepared_is_said(forks, folder, start):
    call, name, _ = STARTS[start]
    (folder / "net.py").write_text("def main():\n    pass\n")
    (folder / "launch.py").write_text(LAUNCHER % call)
    ended = forks.run("launch.py", env={"PYTHONPATH": str(folder)})
    said = [line for line in ended.said if "--children" in line]
    assert len(said) == (name != "-c"), ended.err
    assert all(
        "not converted: what the script started by" in line and name in line for line in said
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "command, is_noted",
    [
        (["/usr/bin/python3.7", "-u", "train.py", "--lr=1"], True),
        ("cd work && python -m pack.train", True),
        ([b"python", b"a.py"], True),
        (["python", "-c", "import a.py"], False),
        (["python", "-m", "graphmp", "run", "train.py"], False),
        (["graphmp", "run", "train.py"], False),
        (["ls", "train.py"], False),
        (["grep", "python", "notes.txt"], False),
    ],
)
def test_what_counts_as_a_program_of_python(command, is_noted):
    started = Started()
    started._note(command if isinstance(command, list) else [command])
    assert bool(started.in_words()) == is_noted


@pytest.mark.unit
def test_the_environment(monkeypatch):
    monkeypatch.setattr(os, "environ", {"PYTHONPATH": "elsewhere"})
    for _ in range(2):
        children.prepare({"report": "out"})
    first, second = os.environ["PYTHONPATH"].split(os.pathsep)
    assert os.path.exists(os.path.join(first, "sitecustomize.py")) and second == "elsewhere"
    told = json.loads(os.environ[children.VARIABLE])
    assert told["spec"] == {"report": "out"} and told["prefix"] == sys.prefix


@pytest.mark.unit
@pytest.mark.parametrize(
    "attributes, path, module, name",
    [
        ({"__file__": "a/b.py"}, "a/b.py", "", "a/b.py"),
        ({"__spec__": "pack.task"}, "", "pack.task", "-m pack.task"),
        ({"__spec__": "pack.__main__"}, "", "pack", "-m pack"),
        ({}, "", "", "-c"),
    ],
)
def test_what_a_child_runs(monkeypatch, attributes, path, module, name):
    main = type(sys)("__main__")
    for key, value in attributes.items():
        found = type(sys)("spec")
        found.name = value
        setattr(main, key, found if key == "__spec__" else value)
    monkeypatch.setitem(sys.modules, "__main__", main)
    spec = children.spec_of_main({"report": "out", "loss_scale": 3})
    assert (spec["path"], spec["module"], spec["name"]) == (path, module, name)
    assert spec["report"] == "out_%d" % os.getpid() and spec["loss_scale"] == 3
