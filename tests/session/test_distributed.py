"""Clusters of real processes on this machine.

Parameter servers, workers, converted in every way, killed and started again.

Each process has a deadline of its own (tests/support/forks.py), and each cluster ends all that it
started.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from tests.support.clusters import SOON, START, Cluster
from tests.support.forks import PATIENCE
from tests.support.places import EXAMPLES

NEWEST = tf.__version__ > "2"
HALF = (
    "bfloat16" if NEWEST else "float16"
)  # 1.15.5's CPU has no bfloat16 convolutions, and emulates float16 slowly
RUN = ["--compute_dtype=" + HALF]
SMALL = ["--smoke", "--width=16", "--image_size=8", "--batch_size=24", "--log_every=100"]
STEP = re.compile(r"^worker \d  step +(\d+)  loss (\S+)$", re.MULTILINE)
SHARED = "graphmp/loss_scale/"
SIZES = [pytest.param(1, 2, marks=pytest.mark.slow), (2, 3)]  # servers and workers


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder, in which the cluster keeps its checkpoints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return tmp_path


@pytest.fixture
def example(monkeypatch):
    """The example's module and its flags for an argument list."""
    module = importlib.import_module("ps_cluster")

    def flags(*argv):
        monkeypatch.setattr(sys, "argv", ["ps_cluster.py", *argv])
        return module.training.start("", module.SIZES, data_format=True)

    module.flags = flags
    return module


def train(forks, ps, workers, *argv, flags=None, steps=200):
    """Trains a cluster to the end; how its workers ended."""
    argv = (*SMALL, "--steps=%d" % steps, "--checkpoint_dir=state", *argv)
    with Cluster(forks, ps, workers, *argv, flags=flags) as cluster:
        cluster.start_workers()
        ended = cluster.wait()
    assert [each.status for each in ended] == [0] * workers, "\n".join(each.err for each in ended)
    return ended


def loss_of(example, argv, weights=None, steps=0):
    """The mean loss on 20 batches that nothing was trained on, of one process in float32.

    Args:
        example: the example's module.
        argv: its flags.
        weights: a checkpoint's prefix to start from.
        steps: how many steps to train with the whole batch before.
    """
    flags = example.flags(*SMALL, *argv)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        optimizer = tf.train.MomentumOptimizer(flags.learning_rate, example.MOMENTUM)
        *inputs, loss, train_op = example.build_training_model(
            *example.placeholders(flags), optimizer, flags
        )
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            if weights:
                for variable in tf.trainable_variables():
                    variable.load(tf.train.load_variable(weights, variable.op.name), session)
            for _, batch in zip(range(steps), example.batches(flags)):
                session.run(train_op, dict(zip(inputs, batch)))
            return float(
                np.mean(
                    [
                        session.run(loss, dict(zip(inputs, batch)))
                        for batch in unseen(example, flags)
                    ]
                )
            )


def unseen(example, flags):
    """Batches like those trained on: the same patterns or rules, from further on."""
    return [batch for number, batch in zip(range(40), example.batches(flags)) if number >= 20]


def assert_whole(ended):
    """That all workers converted the same graph, and all that Tensor Cores compute in it."""
    found = {
        re.search(r"(\d+) of (\d+) matmuls and convolutions", each.err).groups() for each in ended
    }
    assert len(found) == 1 and all(some == every for some, every in found)


@pytest.mark.slow
@pytest.mark.parametrize("ps, workers", SIZES)
def test_synchronised_workers_train_as_one_process_with_the_whole_batch(
    ps, workers, forks, example
):
    """As the partitioned embedding does below, which has sparse gradients besides dense ones."""
    argv = ["--model=cnn", "--learning_rate=0.002"]
    assert_whole(train(forks, ps, workers, *argv, "--updates=sync", flags=RUN))
    latest = tf.train.latest_checkpoint("state")
    assert tf.train.load_variable(latest, "global_step") >= 200
    first, alone = (loss_of(example, argv, START, steps) for steps in (0, 200))
    assert alone < 0.9 * first
    assert loss_of(example, argv, latest) == pytest.approx(alone, rel=0.01)


ONCE = """
import numpy as np
import ps_cluster
def batches(flags):
    random = np.random.RandomState(3)
    while True:
        part = np.arange(flags.vocabulary, dtype="i").reshape(-1, ps_cluster.LENGTH - 1)
        words = part.repeat(flags.workers, 0)  # each worker takes its own of equal rows
        yield words, (words * 7 + random.randint(3, size=words.shape)) % flags.vocabulary
ps_cluster.batches = batches
if __name__ == "__main__":
    ps_cluster.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ps, workers", SIZES)
def test_a_partitioned_embedding_trains_as_one_process(
    ps, workers, forks, folder, example, monkeypatch
):
    """Each worker's part of a batch has every word once, in order.

    TensorFlow's accumulators add up no other rows rightly.
    """
    monkeypatch.setattr(example, "batches", None)  # for the script sets it, here too
    (folder / "once.py").write_text(ONCE)
    runpy.run_path("once.py")
    words = [
        "--model=embedding",
        "--vocabulary=88",
        "--learning_rate=0.05",
        "--workers=%d" % workers,
    ]
    argv = [
        *SMALL,
        "--steps=200",
        "--checkpoint_dir=state",
        "--updates=sync",
        "--partitions=2",
        *words,
    ]
    with Cluster(forks, ps, workers, *argv, flags=RUN, script="once.py") as cluster:
        cluster.start_workers()
        ended = cluster.wait()
    assert [each.status for each in ended] == [0] * workers, "\n".join(each.err for each in ended)
    assert_whole(ended)
    latest = tf.train.latest_checkpoint("state")
    first, alone = (loss_of(example, words, START, steps) for steps in (0, 200))
    assert alone < 0.9 * first
    assert loss_of(example, words, latest) == pytest.approx(alone, rel=0.01)


@pytest.mark.slow
def test_a_partitioned_embedding_trains_as_in_float32(forks, example):
    """Not as one process.

    TensorFlow's accumulators don't merge rows that occur several times in a worker's batch.
    """
    argv = ["--model=embedding", "--vocabulary=20", "--batch_size=96"]
    found = []
    for flags in (None, RUN):
        ended = train(
            forks,
            2,
            3,
            *argv,
            "--updates=sync",
            "--partitions=2",
            "--checkpoint_dir=%s" % bool(flags),
            flags=flags,
        )
        found.append(loss_of(example, argv, tf.train.latest_checkpoint(str(bool(flags)))))
    assert_whole(ended)
    first = loss_of(example, argv, "False/model.ckpt-0")
    assert found[0] < 0.1 * first
    assert found[1] == pytest.approx(
        found[0], abs=0.02 * first
    )  # who takes part in the first steps, and how often, is chance


@pytest.mark.parametrize("kind", [pytest.param("reference", marks=pytest.mark.slow), "resource"])
def test_workers_at_their_own_pace_by_the_decorator(kind, forks, example):
    argv = [
        "--model=cnn",
        "--mixed_precision",
        "--compute_dtype=" + HALF,
        "--loss_scale=dynamic",
        "--variables=" + kind,
    ]
    argv.append(
        "--learning_rate=0.01"
    )  # at 0.05 late updates make gradients that a scale of 2^15 is too large for, now and then
    train(forks, 2, 2, *argv, steps=60)
    latest = tf.train.latest_checkpoint("state")
    assert loss_of(example, argv[:1], latest) < 0.9 * loss_of(example, argv[:1], START)
    steps = tf.train.load_variable(
        latest, SHARED + "good_steps"
    )  # counted by both workers, who may write it at once
    assert 60 / 2 <= steps <= tf.train.load_variable(latest, "global_step")
    state = [tf.train.load_variable(latest, SHARED + name) for name in ("scale", "skipped_steps")]
    assert 0 < state[0] <= 2.0**15 and state[1] == 0  # the first step shows where to start


META = """
import json, sys
import tensorflow.compat.v1 as tf
import cluster, ps_cluster
import graphmp
flags = ps_cluster.training.start("", ps_cluster.SIZES, data_format=True)
addresses, job, task = cluster.own_role()
server = tf.train.Server(tf.train.ClusterSpec(addresses), job, task)
if job == "ps":
    server.join()
tf.train.import_meta_graph("converted%d.meta" % task)
config = graphmp.session_config(server.target)
config.device_filters.extend(["/job:ps", "/job:worker/task:%d" % task])
inputs, loss, train_op = tf.get_collection("inputs"), tf.get_collection("losses")[0], tf.get_collection("train_op")[0]
hooks = [tf.train.StopAtStepHook(last_step=flags.steps)]
saving = dict(checkpoint_dir=flags.checkpoint_dir, save_checkpoint_steps=100, save_checkpoint_secs=None)
with tf.train.MonitoredTrainingSession(server.target, task == 0, hooks=hooks, config=config, stop_grace_period_secs=2, **saving) as session:
    for batch in ps_cluster.batches(flags):
        session.run(train_op, dict(zip(inputs, [array[task :: flags.workers] for array in batch])))
        if session.should_stop():
            break
"""


def write_converted_graphs(example, argv, workers, folder):
    """The graph of each worker, converted: a file each."""
    flags = example.flags(*SMALL, *argv)
    spec = tf.train.ClusterSpec(
        {"ps": ["a:1"], "worker": ["b:%d" % task for task in range(workers)]}
    )
    for task in range(workers):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            inputs, _, train_op, _ = example.build_worker(flags, spec, task)
            for tensor in inputs:
                tf.add_to_collection("inputs", tensor)
            tf.add_to_collection("train_op", train_op)
            graphmp.convert(
                tf.train.export_meta_graph(), compute_dtype=HALF, loss_scale="dynamic"
            ).save(folder / str(task))
        (folder / str(task) / "converted.meta").rename(folder / ("converted%d.meta" % task))


def test_converted_graphs_train(forks, example, folder):
    argv = ["--model=cnn", "--learning_rate=0.002"]
    write_converted_graphs(example, argv, 2, folder)
    (folder / "meta.py").write_text(META)
    with Cluster(
        forks,
        1,
        2,
        *SMALL,
        *argv,
        "--workers=2",
        "--steps=80",
        "--checkpoint_dir=state",
        script="meta.py",
    ) as cluster:
        cluster.start_workers()
        ended = cluster.wait()
    assert [each.status for each in ended] == [0, 0], "\n".join(each.err for each in ended)
    latest = tf.train.latest_checkpoint("state")
    assert loss_of(example, argv, latest) == pytest.approx(
        loss_of(example, argv, START, steps=80), rel=0.1
    )  # of 2.30; not synchronised
    assert tf.train.load_variable(latest, SHARED + "good_steps") > 0


TRACE = """
import json, os
import tensorflow.compat.v1 as tf
import cluster, ps_cluster
flags = ps_cluster.training.start("", ps_cluster.SIZES, data_format=True)
addresses, job, task = cluster.own_role()
spec = tf.train.ClusterSpec(addresses)
server = tf.train.Server(spec, job, task)
if job == "ps":
    server.join()
inputs, loss, train_op, _ = ps_cluster.build_worker(flags, spec, task)
trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
with tf.train.MonitoredTrainingSession(server.target) as session:
    sent = {}
    for step, batch in zip(range(12), ps_cluster.batches(flags)):
        metadata = tf.RunMetadata()
        session.run([loss, train_op], dict(zip(inputs, batch)), options=trace, run_metadata=metadata)
        received = [n for device in metadata.step_stats.dev_stats for n in device.node_stats if n.node_name == "RecvTensor"]
        for node in received if step > 2 else ():
            tensor, target = node.timeline_label.split("] ")[-1].rsplit(" to ", 1)
            size = sum(output.tensor_description.allocation_description.requested_bytes for output in node.output)
            sent.setdefault(target[:8], {})[tensor] = size
    print(json.dumps({side: sum(sizes.values()) for side, sizes in sent.items()}), flush=True)
    os._exit(0)
"""


@pytest.mark.parametrize("way", [pytest.param("run", marks=pytest.mark.slow), "decorator"])
def test_half_the_bytes_are_sent_both_ways(way, forks, folder):
    """As traces have it: each tensor that a side received in any of nine steps, once.

    A trace may lack some, which come with the next one.
    """
    (folder / "trace.py").write_text(TRACE)
    mixed = ["--mixed_precision", "--loss_scale=dynamic"] if way == "decorator" else []
    sent = []
    for argv, flags in (([], None), (mixed, ["--compute_dtype=float16"] if way == "run" else None)):
        with Cluster(
            forks, 1, 1, "--smoke", "--workers=1", *argv, flags=flags, script="trace.py"
        ) as cluster:
            cluster.start_workers()
            (ended,) = cluster.wait()
        assert ended.status == 0, ended.err
        sent.append(json.loads(ended.out))
    assert set(sent[0]) == {"/job:ps/", "/job:wor"}
    for side, before in sent[0].items():
        assert before > 100000 and sent[1][side] <= 0.51 * before


POISON = """
import sys
import numpy as np
import ps_cluster
clean = ps_cluster.batches
def batches(flags):
    role = ps_cluster.cluster.own_role()
    for number, (features, labels) in enumerate(clean(flags)):
        if role[1:] == ("worker", 1) and number == 3:
            features = np.full_like(features, np.inf)
        yield features, labels
ps_cluster.batches = batches
ps_cluster.main()
"""


@pytest.mark.parametrize("updates", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_an_overflow_on_one_worker(updates, forks, folder, example):
    """In step, it skips the step of all, and the shared scale is halved once.

    Else its worker's own, and the other may write the scale meanwhile.
    """
    (folder / "poison.py").write_text(POISON)
    argv = [
        *SMALL,
        "--steps=60",
        "--learning_rate=0.002",
        "--checkpoint_dir=state",
        "--updates=" + updates,
        "--workers=2",
    ]
    with Cluster(
        forks,
        1,
        2,
        *argv,
        flags=[*RUN, "--loss_scale=dynamic", "--loss_scale_initial=1024"],
        script="poison.py",
    ) as cluster:
        cluster.start_workers()
        ended = cluster.wait()
    assert [each.status for each in ended] == [0, 0], ended[1].err
    latest = tf.train.latest_checkpoint("state")
    state = {
        name: tf.train.load_variable(latest, SHARED + name) for name in ("scale", "skipped_steps")
    }
    assert state == {"scale": 512, "skipped_steps": 1} or (
        updates == "async" and state["scale"] == 1024
    )
    assert np.isfinite(loss_of(example, argv, latest)) and loss_of(example, argv, latest) < loss_of(
        example, argv, START
    )


def test_a_chief_that_dies_before_it_has_made_the_variables_is_waited_for(forks, example):
    with Cluster(forks, 1, 2, *SMALL, "--steps=40", "--checkpoint_dir=state", flags=RUN) as cluster:
        cluster.start("worker", 1)
        cluster.start("worker", 0)
        cluster.kill("worker0")
        cluster.start("worker", 0)
        assert [each.status for each in cluster.wait()] == [0, 0]
    assert tf.train.load_variable(tf.train.latest_checkpoint("state"), "global_step") >= 40


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 5])  # each kind of process once, or more
def test_nothing_is_lost_over_kills_at_random_times(kills, forks, example):
    """Workers, the chief among them, and the servers.

    Each comes back and goes on, the scale with it.
    """
    random = np.random.RandomState(5)
    argv = [
        *SMALL,
        "--log_every=10",
        "--learning_rate=0.002",
        "--steps=400",
        "--checkpoint_dir=state",
        "--updates=async",
    ]
    victims = ["worker1", "ps0", "worker0", "ps0", "worker1"][:kills]
    with Cluster(
        forks, 1, 2, *argv, flags=[*RUN, "--loss_scale=dynamic", "--loss_scale_initial=1024"]
    ) as cluster:
        cluster.start_workers()
        cluster.until_any(
            STEP
        )  # which step is another matter: a worker that goes its own pace sees some of the numbers
        for victim in victims:
            time.sleep(random.uniform(0.2, 1.0))
            cluster.kill(victim)
            cluster.start(victim[:-1], int(victim[-1]))
        ended = cluster.wait()
    assert [each.status for each in ended] == [0, 0], "\n".join(each.err[-2000:] for each in ended)
    latest = tf.train.latest_checkpoint("state")
    assert tf.train.load_variable(latest, "global_step") >= 400
    assert (
        tf.train.load_variable(latest, SHARED + "scale") == 1024
        and tf.train.load_variable(latest, SHARED + "good_steps") > 0
    )
    assert loss_of(example, argv, latest) < 0.9 * loss_of(example, argv)


# Starts ps_cluster.py, whose processes were forked before: it looks for devices, and TensorFlow has
# threads from then on.
FORKING = """
import json, os, signal, traceback
import ps_cluster
def spare():
    heard, said = os.pipe()
    process = os.fork()
    if process:
        return process, said
    signal.alarm({patience})
    sys.argv, env = json.loads(os.fdopen(heard).readline())
    os.environ.update(env)
    try:
        ps_cluster.main()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
spares = [spare() for _ in range(4)]
class Fork:
    returncode = None
    def __init__(self, command, env):
        assert command[0] == sys.executable
        self.pid, said = spares.pop(0)
        os.write(said, json.dumps([command[1:], env]).encode() + b"\\n")
    def poll(self):
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.returncode
    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
ps_cluster.cluster.subprocess.Popen = Fork
ps_cluster.main()
"""
CLUSTER = [*SMALL, "--steps=300", "--log_every=5", "--checkpoint_dir=state"]
STARTED = re.compile(r"^(\w+ \d)  process (\d+)$", re.MULTILINE)


def test_what_dies_in_the_example_is_started_again(forks, folder):
    (folder / "forking.py").write_text(
        (SOON + FORKING).format(folder=str(EXAMPLES), patience=PATIENCE)
    )
    launcher = forks.start("forking.py", *CLUSTER, flags=None)
    end = time.time() + PATIENCE
    while not STEP.search(launcher.out):
        assert time.time() < end, launcher.err
        time.sleep(0.02)
    os.kill(int(dict(STARTED.findall(launcher.out))["worker 1"]), signal.SIGKILL)
    ended = launcher.end()
    assert ended.status == 0, ended.err
    assert [role for role, _ in STARTED.findall(ended.out)] == [
        "ps 0",
        "worker 0",
        "worker 1",
        "worker 1",
    ]
    assert tf.train.load_variable(tf.train.latest_checkpoint("state"), "global_step") >= 300


@pytest.mark.slow
def test_the_example_starts_a_cluster_and_what_dies_in_it_again():
    """As a user starts it. Its processes are a group of their own, which ends whatever happens."""
    command = [sys.executable, str(EXAMPLES / "ps_cluster.py"), *CLUSTER]
    launcher = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = threading.Timer(PATIENCE, os.killpg, (launcher.pid, signal.SIGKILL))
    deadline.start()
    try:
        processes, killed = {}, False
        for line in map(bytes.decode, launcher.stdout):
            processes.update(STARTED.findall(line))
            if not killed and STEP.match(line):
                os.kill(int(processes["worker 1"]), signal.SIGKILL)
                killed = True
        assert killed and launcher.wait() == 0
        assert tf.train.load_variable(tf.train.latest_checkpoint("state"), "global_step") >= 300
    finally:
        deadline.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--workers=0"], "argument --workers: found 0, accepted is a number above 0"),
        (["--updates=never"], "argument --updates: invalid choice: 'never'"),
    ],
)
def test_bad_flags_of_the_example(flags, words, forks):
    ended = forks.run(str(EXAMPLES / "ps_cluster.py"), "--smoke", *flags, flags=None)
    assert (ended.status, ended.out) == (2, "") and words in ended.err.splitlines()[-1]
