"""`graphmp run`: a script behaves as under plain Python, and trains in mixed precision."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli.main import run_command
from graphmp.environment import FAST_BATCH_NORM
from tests.support.commands import refused
from tests.support.run_scripts import LOOP, TRAIN, command, finished, forked, run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_cudnn_normalizes_batches_without_transposes(folder):
    text = "import os; print(os.environ['%s'])" % FAST_BATCH_NORM
    assert run(folder, text)[1].split() == ["1"]


def test_the_first_step_is_verified(forks, folder):
    """In one line, on its batch; the script trains as without."""
    status, out, err = forked(forks, TRAIN + LOOP, flags=["--verify"])
    assert status == 0 and len(out.split()) == 2
    assert [line for line in err if "verified" in line] == [
        "graphmp: verified on the first step's batch: all 9 claims that apply are proved"
    ]


def test_tuning_keeps_what_is_faster_and_remembers(forks, folder):
    """Whatever that is here; the losses are those of the script, and the next run times nothing."""
    text = TRAIN + LOOP.replace("range(20)", "range(100)")
    plain = forked(forks, text, flags=None)
    flags = ["--tune_file=script.costs"]
    status, out, err = forked(forks, text, flags=flags)
    assert status == 0
    losses = list(map(float, plain[1].split()))
    assert list(map(float, out.split())) == pytest.approx(losses, rel=5e-2, abs=1e-2)
    kept = [line for line in err if " is kept: a step takes " in line]
    assert len(kept) == 2 and kept[1].startswith("graphmp: 100 training steps; ")
    assert (
        "graphmp: the next run takes what was measured from %s" % (folder / "script.costs") in err
    )
    assert json.loads((folder / "script.costs").read_text())["schema"] == "graphmp.costs/1"
    _, out, err = forked(forks, text, flags=flags)
    assert list(map(float, out.split())) == pytest.approx(losses, rel=5e-2, abs=1e-2)
    assert err[-1].endswith(" is kept, by %s" % (folder / "script.costs"))


def test_tuning_that_does_not_end_is_said(forks, folder):
    _, _, err = forked(forks, TRAIN + LOOP, flags=["--tune"])
    text = "not tuned: it ended after 20 training steps; 51 to 87 that are alike are needed"
    assert err[-1].endswith(text)


SHOWN = """
import os, sys
print(sys.argv, __name__, __file__ == sys.argv[0] or os.path.isabs(__file__), os.getcwd(), sys.stdin.read())
"""


def test_trains_and_says_so(forks, folder):
    """In a process of its own: what TensorFlow says first is not shown.

    Command line and exit status are the script's.
    """
    text = SHOWN + TRAIN + LOOP + "sys.exit(3)\n"
    status, out, err = run(folder, text, "--steps=20", "--", "x", stdin="hello")
    plain = forked(forks, text, "--steps=20", "--", "x", flags=None, stdin="hello")
    assert (status, plain[0]) == (3, 3)
    assert (
        out.splitlines()[0]
        == "['train.py', '--steps=20', '--', 'x'] __main__ True %s hello" % os.getcwd()
    )
    first, last = map(float, out.splitlines()[1].split())
    expected = list(map(float, plain[1].splitlines()[1].split()))
    assert [first, last] == pytest.approx(expected, rel=2e-2)
    assert err[0] == "graphmp: train.py in float16, loss scale dynamic"
    assert "6 of 6 matmuls and convolutions in float16" in err[1]
    other = "; --compute_dtype=bfloat16 may be faster" if tf.__version__ > "2" else ""
    assert err[2] == "graphmp: no GPU here: this CPU emulates float16, slowly" + other
    assert err[3:] == ["graphmp: 20 training steps; loss scale 1024; 0 skipped"]


def test_the_first_matmul_that_stays_float32_is_said_with_its_reason(forks, folder):
    for rule, more in (
        ("/MatMul$", r" \(and \d more; --report=DIR lists all\)"),
        ("^nothing$", None),
    ):
        _, _, err = forked(forks, TRAIN + LOOP, flags=["--keep_float32=" + rule])
        lines = [line for line in err if "GMP102" in line]
        if more is None:
            assert not lines
        else:
            reason = r"computes in float32: user rule: --keep_float32=/MatMul\$"
            assert len(lines) == 1 and re.search(
                r"GMP102: \S*MatMul: %s%s$" % (reason, more), lines[0]
            )


@pytest.mark.parametrize("loss_scale", ["none", "128", "dynamic"])
def test_steps_of_all_sessions_are_counted(forks, folder, loss_scale):
    _, _, err = forked(forks, TRAIN + LOOP + LOOP, flags=["--loss_scale=" + loss_scale])
    assert "graphmp: 40 training steps" in err[-1]


def test_the_script_sees_its_own_command_line(forks, folder):
    argv = ["--loss_scale=1", "-o", "--", "x"]
    status, out, err = forked(
        forks, SHOWN + "sys.exit(3)\n", *argv, flags=["--loss_scale=64"], stdin="hello"
    )
    assert status == 3
    assert (
        out
        == "['train.py', '--loss_scale=1', '-o', '--', 'x'] __main__ True %s hello\n" % os.getcwd()
    )
    assert err == [
        "graphmp: train.py in float16, loss scale 64",
        "graphmp: nothing was trained in mixed precision in this process",
    ]


def test_modules_beside_the_script(forks, folder):
    (folder / "near.py").write_text("WORD = 'near'\n")
    assert forked(forks, "import near; print(near.WORD)")[:2] == (0, "near\n")


def test_a_script_that_raises(forks, folder):
    status, _, err = forked(forks, "def main():\n    raise ValueError('no data')\nmain()\n")
    assert status == 1
    assert [line for line in err if not line.startswith("graphmp: ")] == finished(
        [sys.executable, "train.py"]
    )[2]


def heeds_interrupts():
    """What runs in a shell's background ignores them, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_module_that_is_interrupted(forks, folder):
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "package" / "beside.py").write_text("WORD = 'found'\n")
    text = (
        "import sys, time\nfrom package.beside import WORD\nprint(WORD, __name__, sys.argv[1:],"
        " flush=True)\n"
    )
    (folder / "package" / "main.py").write_text(text + "time.sleep(60)\n")
    argv = [sys.executable, "-m", "package.main", "--steps", "1"]
    plain = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=heeds_interrupts
    )
    assert plain.stdout.readline() == b"found __main__ ['--steps', '1']\n"
    plain.send_signal(signal.SIGINT)
    mixed = forks.start("package.main", "--steps", "1", flags=["-m"])
    mixed.until("\n")
    ended = mixed.kill(signal.SIGINT)
    assert (ended.status, ended.out) == (plain.wait(20), "found __main__ ['--steps', '1']\n")


def test_report(forks, folder):
    status, _, _ = forked(forks, TRAIN + LOOP, flags=["--report=out", "--clip_norm=5"])
    assert status == 0
    assert {path.name for path in (folder / "out").iterdir()} == {
        "original.meta",
        "converted.meta",
        "report.json",
        "diff.html",
        "flags.txt",
    }
    report = json.loads((folder / "out" / "report.json").read_text())
    assert (report["engine"], report["source"], report["clip_norm"]) == ("rewrite", "train.py", 5)
    assert (
        run_command(["graphmp", "diff", "--check", "out/original.meta", "out/converted.meta"]) == 0
    )


LATE = """
    late = tf.train.MomentumOptimizer(1e-3, 0.9, name="late").minimize(loss)
    slots = [v for v in tf.global_variables() if "/late" in v.name]
    session.run(tf.variables_initializer(slots))
    session.run(late, feed)
"""


def test_a_late_optimizer_is_verified_and_reported(forks, folder):
    """Its slots are exported whole; the init op of before knows neither them nor their scale."""
    text = TRAIN + LOOP[: LOOP.index("print")] + LATE
    _, _, err = forked(forks, text, flags=["--report=out", "--verify"])
    assert len([line for line in err if line.startswith("graphmp: verified on the first")]) == 2
    assert "graphmp: the report of this conversion: %s" % (folder / "out_1") in err
    for name in ("out", "out_1"):
        report = json.loads((folder / name / "report.json").read_text())
        assert "failed" not in [row["status"] for row in report["checks"]]


def test_a_report_whose_proof_fails_is_said(forks, folder):
    fails = """
from graphmp.cli import launcher
made, row = launcher.make_report, {"name": "types", "status": "failed", "text": "w is half"}
launcher.make_report = lambda *args: dict(made(*args), checks=[row])
"""
    _, _, err = forked(forks, fails + TRAIN + LOOP, flags=["--report=out"])
    assert "graphmp: the proof failed: types: w is half" in err
    (cure,) = (line for line in err if "a fault of graphmp" in line)
    assert "graphmp diff --check " in cure and cure.endswith("out/converted.meta")


MONITORED = (
    TRAIN
    + """
hooks = [tf.train.StopAtStepHook(num_steps=int(sys.argv[1]))]
with tf.train.MonitoredTrainingSession(checkpoint_dir="model", hooks=hooks, save_checkpoint_steps=5, log_step_count_steps=None) as session:
    while not session.should_stop():
        value, _ = session.run([loss, train], feed)
print("%.6f" % value)
"""
)


@pytest.mark.slow
def test_monitored_sessions_resume_both_ways(folder):
    def scale_steps():
        import tensorflow.compat.v1 as tf

        path = tf.train.latest_checkpoint("model")
        names = dict(tf.train.list_variables(path))
        value = lambda name: int(tf.train.load_variable(path, name)) if name in names else None  # noqa: E731
        return value("global_step"), value("graphmp/loss_scale/good_steps")

    assert run(folder, MONITORED, "10")[0] == 0
    assert scale_steps() == (10, 10)
    status, _, err = run(folder, MONITORED, "7")
    assert (status, err[-1]) == (0, "graphmp: 7 training steps; loss scale 1024; 0 skipped")
    assert scale_steps() == (17, 17)
    assert finished([sys.executable, "train.py", "5"])[0] == 0
    assert scale_steps()[0] == 22
    assert run(folder, MONITORED, "5")[0] == 0
    assert scale_steps()[0] == 27


UNCONVERTIBLE = (
    TRAIN
    + """
import graphmp.session.live.live_conversion as live
from graphmp.errors import GraphmpError
def fail(*args, **options):
    raise GraphmpError("GMP021", "the node loss is wrong")
live.rewrite = fail
"""
    + LOOP
)


def test_a_graph_that_cannot_be_converted(forks, folder):
    status, out, err = forked(forks, UNCONVERTIBLE)
    assert (status, out) == (1, "")
    assert "graphmp: error GMP021: the node loss is wrong" in err
    status, out, err = forked(forks, UNCONVERTIBLE, flags=["--on_error=float32"])
    assert status == 0
    assert out
    assert err[1:] == [
        "graphmp: not converted, trains in float32: GMP021: the node loss is wrong",
        "graphmp: 20 training steps, in float32",
    ]


@pytest.mark.parametrize(
    "argv, code",
    [
        ([], "GMP001"),
        (["gone.py"], "GMP003"),
        (["--compute_dtype=int8", "train.py"], "GMP002"),
        (["--on_error=skip", "train.py"], "GMP001"),
    ],
)
def test_bad_usage(folder, argv, code, capfd):
    (folder / "train.py").write_text("print('ran')\n")
    status, line = refused(capfd, "run", *argv)
    assert status == 2 and line.startswith("graphmp: error %s: " % code)


def test_a_forked_process_ends_as_it_would(forks, folder):
    text = (
        TRAIN
        + LOOP
        + """
import os
import pathlib
child = os.fork()
if not child:
    sys.exit(4)
print("child", os.waitpid(child, 0)[1] >> 8)
"""
    )
    status, out, err = forked(forks, text)
    assert (status, out.splitlines()[-1]) == (0, "child 4")
    assert [line for line in err if "training steps" in line] == [
        "graphmp: 20 training steps; loss scale 1024; 0 skipped"
    ]


def test_a_spawned_process_is_set_up_too(folder):
    text = """
import tensorflow as tf
x = tf.placeholder(tf.float32, [1])
def work(n):
    return n + 1
if __name__ == "__main__":
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
"""
    assert run(folder, text)[:2] == (0, "[2, 3]\n")


def test_graphs_are_let_go(forks, folder):
    text = (
        TRAIN.split("x, y =")[0]
        + """
import gc, weakref
graphs = []
for _ in range(3):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [4, 2])
        loss = tf.reduce_sum(tf.matmul(x, tf.get_variable("w", [2, 1])))
        train = tf.train.AdamOptimizer().minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([train, loss], {x: np.ones([4, 2])})
        graphs.append(weakref.ref(graph))
    del graph, session, x, loss, train
gc.collect()
print(sum(graph() is not None for graph in graphs))
"""
    )
    status, out, err = forked(forks, text)
    assert (status, out) == (0, forked(forks, text, flags=None)[1])
    assert len([line for line in err if "1 training step" in line]) == 3


def test_an_error_of_a_run_is_the_originals(forks, folder):
    status, _, err = forked(
        forks,
        TRAIN
        + LOOP.replace("range(20)]", "range(2)]\n    session.run(train, {x: X, y: X[:3, :1]})"),
    )
    assert status == 1
    text = "\n".join(err)
    assert "graphmp/clones" not in text.splitlines()[-1]
    assert "InvalidArgumentError" in text


def test_any_tensor_is_fetched(forks, folder):
    text = (
        TRAIN
        + """
v = tf.get_variable("r", [2], use_resource=True)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, feed)
    try:
        print(type(session.run(v.handle)).__name__)
    except Exception as error:
        print(type(error).__name__)
"""
    )
    assert forked(forks, text)[:2] == forked(forks, text, flags=None)[:2]


def test_files_are_those_of_the_folder_where_it_was_started(folder):
    (folder / "elsewhere").mkdir()
    (folder / "own.policy").write_text("deny MatMul\n")
    flags = ("--op_policy=own.policy", "--report=out")
    status, _, lines = run(folder, 'import os; os.chdir("elsewhere")\n' + TRAIN + LOOP, flags=flags)
    assert status == 0 and "0 of 6 matmuls" in "\n".join(lines)
    assert (folder / "out" / "report.json").exists()


def test_a_module_with_a_name_that_is_too_long_ends_as_under_python(folder):
    status, _, lines = finished(command("-m", "x" * 300))
    assert status == 1 and "No module named" in "\n".join(lines)
    assert not any(line.startswith("Traceback") for line in lines)
