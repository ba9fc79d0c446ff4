"""How runs of `graphmp run` end, and go on: in mixed precision, in float32 and back."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from tests.support.forks import NET

# A run skips its fourth step where it is to be killed.
MONITORED = """
from net import *
x, loss, train = build()
steps, waits, step = int(sys.argv[1]), sys.argv[2:] == ["wait"], tf.train.get_global_step()
with tf.train.MonitoredTrainingSession(
    checkpoint_dir="model", save_checkpoint_steps=5, save_summaries_steps=None, save_summaries_secs=None, log_step_count_steps=None
) as session:
    for number in range(steps):
        at, bad = session.run(step), number == 3 and waits
        value = session.run([loss, train], {x: X * np.inf if bad else X})[0]
        print("" if bad else "model %d %.6f" % (at, value))
    if waits:
        print("ready", flush=True)
        time.sleep(60)
"""
SAVERS = """
from net import *
def run(folder, steps, waits):
    with tf.Graph().as_default():
        x, loss, train = build()
        init, saver, step = tf.global_variables_initializer(), tf.train.Saver(), tf.train.get_global_step()
        session = tf.Session()
        session.run(init)
        if folder == "late":
            session.run(train, {x: X})
            saver = tf.train.Saver()
        last = tf.train.latest_checkpoint(folder)
        saver.restore(session, last) if last else session.run(init)
        for number in range(steps):
            at, bad = session.run(step), number == 3 and waits
            value = session.run([loss, train], {x: X * np.inf if bad else X})[0]
            print("" if bad else "%s %d %.6f" % (folder, at, value))
            if number > steps - 3:
                saver.save(session, folder + "/model", step)
for folder in ("early", "late"):
    run(folder, int(sys.argv[1]), sys.argv[2:] == ["wait"])
if sys.argv[2:] == ["wait"]:
    print("ready", flush=True)
    time.sleep(60)
"""
pytestmark = pytest.mark.usefixtures("net_folder")
GROWS = [
    "--loss_scale_initial=64",
    "--loss_scale_growth_interval=4",
    "--loss_scale_growth_factor=4",
]


def losses(ended):
    """The loss before each step, by folder and step."""
    rows = [line.split() for line in ended.out.splitlines() if line and line != "ready"]
    return {(folder, int(step)): float(loss) for folder, step, loss in rows}


def state(folder, name=""):
    """Of a checkpoint, the latest or one by name: the step.

    And the scale, the good steps since it changed, the skipped ones.
    """
    path = "%s/%s" % (folder, name) if name else tf.train.latest_checkpoint(folder)
    found = {
        name: tf.train.load_variable(path, name)
        for name, _ in tf.train.list_variables(path)
        if name == "global_step" or "graphmp" in name
    }
    return tuple(
        found.pop(name, None)
        for name in ["global_step"]
        + ["graphmp/loss_scale/" + n for n in ("scale", "good_steps", "skipped_steps")]
    )


@pytest.mark.parametrize(
    "script, killed, resumed, folders",
    [
        pytest.param(
            MONITORED,
            (10, 128, 3, 1),
            (15, 2048, 0, 1),
            ["model"],
            id="monitored",
            marks=pytest.mark.slow,
        ),
        pytest.param(SAVERS, (11, 512, 0, 1), (16, 2048, 1, 1), ["early", "late"], id="savers"),
    ],
)
def test_a_killed_run_goes_on_and_changes_precision(
    forks, tmp_path, monkeypatch, script, killed, resumed, folders
):
    """Losses are those of one float32 run, whatever was killed and whoever wrote the checkpoint."""
    for folder in ("reference", "run"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text(NET)
        (tmp_path / folder / "train.py").write_text(script)
    monkeypatch.chdir(tmp_path / "reference")
    reference = forks.start("train.py", "22", flags=None)
    monkeypatch.chdir(tmp_path / "run")
    first = forks.start("train.py", "12", "wait", flags=GROWS)
    first.until("ready")
    ended = [first.kill(signal.SIGKILL)]
    assert ended[0].status == -signal.SIGKILL
    assert not any("training steps" in line for line in ended[0].said)
    assert [state(folder) for folder in folders] == [killed] * len(folders)

    ended.append(forks.run("train.py", "5", flags=GROWS))
    assert [state(folder) for folder in folders] == [resumed] * len(folders)
    assert ended[1].said[-1].endswith("loss scale 2048; 1 skipped")

    ended.append(forks.run("train.py", "3", flags=None))
    assert [state(folder) for folder in folders] == [(resumed[0] + 3, None, None, None)] * len(
        folders
    )

    ended.append(forks.run("train.py", "3", flags=GROWS))
    assert [state(folder) for folder in folders] == [(resumed[0] + 6, 64, 3, 0)] * len(folders)
    assert ended[3].said[-1].endswith("loss scale 64; 0 skipped")

    expected = losses(reference.end())
    assert [one.status for one in ended[1:]] == [0] * 3
    assert {at for one in ended for at in losses(one)} == {
        (folder, step) for folder in folders for step in range(resumed[0] + 6)
    }
    for one in ended:
        assert losses(one) == pytest.approx({at: expected[at] for at in losses(one)}, rel=1e-2)


def test_a_checkpoint_without_the_scale_starts_it_afresh_in_mid_run(forks):
    """Restoring a float32 checkpoint when the scale has moved already."""
    script = """
from net import *
x, loss, train = build()
saver = tf.train.Saver()
with tf.Session() as session:
    if sys.argv[1] == "begin":
        session.run(tf.global_variables_initializer())
        session.run(train, {x: X})
        saver.save(session, "model/float32")
    else:
        saver.restore(session, "model/float32")
        for _ in range(8):
            session.run(train, {x: X})
        saver.save(session, "model/mixed")
        saver.restore(session, "model/float32")
        session.run(train, {x: X})
        saver.save(session, "model/again")
        saver.restore(session, "model/mixed")
        session.run(train, {x: X})
        saver.save(session, "model/last")
"""
    pathlib.Path("train.py").write_text(script)
    assert forks.run("train.py", "begin", flags=None).status == 0
    assert forks.run("train.py", "go_on", flags=GROWS).status == 0
    assert [state("model", name) for name in ("mixed", "again", "last")] == [
        (9, 1024, 0, 0),
        (2, 64, 1, 0),
        (10, 1024, 1, 0),
    ]


ENDS = """
import atexit, os, signal
from net import *
atexit.register(lambda: print("an exit hook ran", flush=True))
how, trains = sys.argv[1], not sys.argv[2:]
if trains:
    x, loss, train = build()
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(train, {x: X})
print("ready", flush=True)
if how == "exit":
    sys.exit(3)
if how == "raise":
    raise KeyError("gone")
if how == "abrupt":
    os._exit(5)
if how == "handle":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print("set", flush=True)
while how == "train":
    session.run(train, {x: X}) if trains else time.sleep(60)
try:
    time.sleep(60 if how in ("wait", "catch", "handle") else 0)
except KeyboardInterrupt:
    if how != "catch":
        raise
    print("caught")
"""


@pytest.mark.parametrize(
    "how, number, closes",
    [
        ("exit", None, True),
        ("raise", None, True),
        ("abrupt", None, False),
        ("wait", signal.SIGINT, True),
        ("catch", signal.SIGINT, True),
        ("handle", signal.SIGTERM, True),
        ("train", signal.SIGTERM, False),
    ],
)
def test_a_run_ends_as_plain_python_does(forks, how, number, closes):
    pathlib.Path("train.py").write_text(ENDS)
    started = [
        forks.start("train.py", how, flags=["--loss_scale_initial=64"]),
        forks.start("train.py", how, "trains nothing", flags=None),
    ]
    for one in started:
        one.until("set" if how == "handle" else "ready")
    mixed, plain = (one.end() if number is None else one.kill(number) for one in started)
    assert (mixed.status, mixed.out) == (plain.status, plain.out)
    assert (
        ("3 training steps; loss scale 64; 0 skipped" in mixed.said)
        == closes
        == ("an exit hook ran\n" in mixed.out)
    )


def test_a_script_of_another_folder_that_never_trains(forks):
    pathlib.Path("elsewhere").mkdir()
    pathlib.Path("elsewhere/beside.py").write_text("WORD = 'found'\n")
    text = """
import os, sys
import beside
print(beside.WORD, sys.argv, os.getcwd(), os.path.realpath(__file__), os.path.realpath(sys.path[0]), sys.stdin.readline(), sys.stdin.read())
"""
    pathlib.Path("elsewhere/never.py").write_text(text)
    plain = subprocess.run(
        [sys.executable, "elsewhere/never.py", "--steps=3"],
        input=b"one\ntwo\n",
        stdout=subprocess.PIPE,
    )
    ended = forks.run("elsewhere/never.py", "--steps=3", stdin="one\ntwo\n")
    assert (ended.status, ended.out) == (plain.returncode, plain.stdout.decode())
    assert ended.said[-1] == "nothing was trained in mixed precision in this process"


def test_a_graph_that_is_refused(forks):
    """A training op that the flags name and the graph lacks."""
    text = """
from net import *
build()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print("started", flush=True)
    losses = [session.run(["loss:0", "train"], {"x:0": X})[0] for _ in range(5)]
print("%.6f %.6f" % (losses[0], losses[-1]))
"""
    pathlib.Path("train.py").write_text(text)
    plain = forks.run("train.py", flags=None)
    assert plain.status == 0, plain.err
    why = "GMP002: --train_op=missing: "
    refused = forks.run("train.py", flags=["--train_op=missing"])
    assert (refused.status, refused.out) == (2, "started\n")
    assert refused.said[1].startswith("error " + why)
    assert refused.said[2:] == ["nothing was trained in mixed precision in this process"]
    ended = forks.run("train.py", flags=["--train_op=missing", "--on_error=float32"])
    assert (ended.status, ended.out) == (0, plain.out)
    assert ended.said[1].startswith("not converted, trains in float32: " + why)
    assert ended.said[2:] == ["5 training steps, in float32"]
