"""`graphmp audit` from its command line: data, files that are written, exit statuses, and errors of one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.main import run_command
from graphmp.graph.messages import serialize
from graphmp.policy.policy import Policy
from graphmp.runtime.audit.fix import half_nodes
from tests.support.commands import graphmp as command
from tests.support.commands import refused
from tests.support.places import environment
from tests.support.planted import BATCH, WIDTH, batches, planted

STEPS = "--steps=2"
FUNCTIONS = """
import numpy as np

def generated():
    while True:
        yield {"x": np.ones((%d, %d), np.float32), "labels": np.zeros(%d, np.int32)}

def by_step(step):
    return next(generated())

def incomplete():
    return {"x": np.ones((%d, %d))}

def failing(step):
    raise ValueError("no data today")
""" % (BATCH, WIDTH, BATCH, BATCH, WIDTH)


@pytest.fixture(scope="module")
def files():
    """What is in the folder, made once."""
    with tf.Graph().as_default():
        tf.layers.dense(tf.placeholder(tf.float32, [2, 4], "x"), 3)
        untrained = tf.train.export_meta_graph()
    return {"good.meta": planted("nothing"), "bad.meta": planted("long_sum"), "tiny.meta": planted("tiny_gradients"), "untrained.meta": untrained}


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """The working folder, with graphs and data in it."""
    for name, meta_graph in files.items():
        (tmp_path / name).write_bytes(serialize(meta_graph))
    np.savez(str(tmp_path / "data.npz"), **batches())
    np.savez(str(tmp_path / "missing.npz"), x=batches()["x"])
    np.savez(str(tmp_path / "shape.npz"), x=batches()["x"][:, :, :5], labels=batches()["labels"])
    np.savez(str(tmp_path / "labels.npz"), x=batches()["x"], labels=batches()["labels"] + 1000)
    (tmp_path / "feeds.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audited(capfd, *arguments, status=0):
    """The JSON that is printed."""
    found, out, err = command(capfd, "audit", *arguments, STEPS, "--json")
    assert found == status and err == "", err
    return json.loads(out)


# -- data ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["--data=data.npz", "--data=feeds.py:generated", "--data=feeds.py:by_step", "--random_data"])
def test_each_kind_of_data(folder, capfd, data):
    value = audited(capfd, "good.meta", data)
    assert value["agrees"] is True and value["steps"] == value["measured_steps"] == 2
    assert value["data"] == ("random, seed 0" if data == "--random_data" else data.split("=")[1])


def test_json_has_what_it_is_to_have(folder, capfd):
    value = audited(capfd, "good.meta", "--data=data.npz")
    assert set(value) == {
        "agrees", "arithmetic", "compute_dtype", "data", "disagreeing", "first_not_finite", "flags", "left_out", "losses", "measured_steps",
        "overflowed", "roles", "schema", "seconds", "source", "steps", "tensors", "tolerance",
    }  # fmt: skip
    assert (value["schema"], value["source"], value["compute_dtype"], value["tolerance"]) == ("graphmp.audit/1", "good.meta", "float16", 0.1)
    assert set(value["losses"][0]) == {"advice", "converted", "difference", "loss", "original", "scales", "skipped"}
    assert set(value["losses"][0]["advice"]) == {
        "flushed", "flushed_now", "flushed_scaled", "largest", "powers", "scale", "smallest", "unused_above", "used",
    }  # fmt: skip
    assert set(value["roles"]) == {"activation", "activation gradient", "weight gradient", "weight"}
    assert set(value["tensors"][0]) == {
        "counted", "elements", "exponents", "first_exponent_field", "flag", "flushed", "flushed_share", "half", "largest", "name", "not_finite",
        "op", "order", "original_not_finite", "overflow", "overflow_share", "reason", "relative_error", "role", "subnormal", "subnormal_share",
    }  # fmt: skip


def test_the_seed_decides_on_random_data(folder, capfd):
    losses = [audited(capfd, "good.meta", "--random_data", "--seed=%d" % seed)["losses"][0]["original"] for seed in (1, 1, 2)]
    assert losses[0] == pytest.approx(losses[1]) and losses[0] != pytest.approx(losses[2])


def test_a_checkpoint_is_where_it_starts(folder, capfd, files):
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        saver = tf.train.import_meta_graph(files["good.meta"])
        session.run([variable.assign(tf.zeros_like(variable)) for variable in tf.global_variables()])
        saver.save(session, "./zeros", write_meta_graph=False)
    value = audited(capfd, "good.meta", "--data=data.npz", "--checkpoint=zeros")
    assert value["losses"][0]["original"][0] == pytest.approx(np.log(10))


def test_conversion_flags_are_taken(folder, capfd):
    value = audited(capfd, "good.meta", "--data=data.npz", "--compute_dtype=bfloat16", "--loss_scale=256", "--keep_float32=^before/MatMul$")
    assert value["compute_dtype"] == "bfloat16" and value["losses"][0]["scales"] == [256.0, 256.0]
    tensors = {row["name"]: row for row in value["tensors"]}
    assert tensors["before/MatMul"]["half"] is False and tensors["before/MatMul"]["reason"] == "user rule: --keep_float32=^before/MatMul$"
    assert tensors["after/MatMul"]["half"] is True


# -- what is written -----------------------------------------------------------------------------------------------------


def test_text(folder, capfd):
    status, out, err = command(capfd, "audit", "good.meta", "--data=data.npz", STEPS)
    assert (status, err) == (0, "") and "\x1b" not in out
    lines = out.splitlines()
    assert lines[0].startswith("good.meta ") and lines[-1] == "next         nothing to repair: graphmp convert good.meta"
    assert any(line.startswith("advice ") for line in lines)


def test_files_are_written(folder, capfd):
    status, out, _ = command(capfd, "audit", "bad.meta", "--data=data.npz", STEPS, "-o", "audit.json", "--html=audit.html")
    assert status == 1 and "fault/MatMul" in out
    value = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert value["agrees"] is False and "fault/MatMul" in value["overflowed"]
    page = (folder / "audit.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "fault/MatMul" not in half_nodes(graphmp.convert("bad.meta", ranges="audit.json"))


def test_fix_writes_a_policy_with_which_it_agrees(folder, capfd):
    status, out, err = command(capfd, "audit", "bad.meta", "--data=data.npz", STEPS, "--fix=model.policy")
    assert (status, err) == (0, "")
    assert out.splitlines()[-1] == "next         graphmp convert bad.meta --op_policy=model.policy"
    text = (folder / "model.policy").read_text()
    assert text.startswith("keep_float32 ^fault/MatMul$") and Policy.from_text(text).keep_float32 == ("^fault/MatMul$",)
    assert audited(capfd, "bad.meta", "--data=data.npz", "--op_policy=model.policy")["agrees"] is True


def test_fix_keeps_the_lines_of_the_policy_that_was_used(folder, capfd):
    (folder / "own.policy").write_text("deny Tanh\n")
    status, _, _ = command(capfd, "audit", "bad.meta", "--data=data.npz", STEPS, "--fix=model.policy", "--op_policy=own.policy")
    assert status == 0 and (folder / "own.policy").read_text() == "deny Tanh\n"
    assert (folder / "model.policy").read_text().startswith("deny Tanh\nkeep_float32 ^fault/MatMul$")


def test_fix_may_advise_a_loss_scale_instead(folder, capfd):
    status, out, _ = command(capfd, "audit", "tiny.meta", "--data=data.npz", STEPS, "--loss_scale=none", "--fix=model.policy")
    next_line = out.splitlines()[-1]
    assert status == 0 and next_line.startswith("next         graphmp convert tiny.meta --loss_scale=")
    assert audited(capfd, "tiny.meta", "--data=data.npz", next_line.split()[-1])["agrees"] is True


def test_fix_of_what_agrees_writes_nothing(folder, capfd):
    status, out, _ = command(capfd, "audit", "good.meta", "--data=data.npz", STEPS, "--fix=model.policy")
    assert status == 0 and "nothing to repair" in out and not (folder / "model.policy").exists()


@pytest.mark.parametrize("source, status", [("good.meta", 0), ("bad.meta", 1), ("tiny.meta", 1), ("gone.meta", 2)])
def test_exit_statuses(folder, capfd, source, status):
    assert command(capfd, "audit", source, "--data=data.npz", STEPS, "--loss_scale=none")[0] == status


def test_tolerance_decides(folder, capfd):
    assert audited(capfd, "good.meta", "--data=data.npz", "--tolerance=1e-9", status=1)["agrees"] is False
    assert audited(capfd, "good.meta", "--data=data.npz", "--tolerance=0.5")["agrees"] is True


# -- trouble -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["good.meta"], "GMP001: "),
        (["good.meta", "--data=data.npz", "--random_data"], "GMP001: "),
        (["--random_data"], "GMP001: "),
        (["gone.meta", "--random_data"], "GMP003: gone.meta"),
        (["good.meta", "--data=gone.npz"], "GMP003: --data=gone.npz: cannot be read"),
        (["good.meta", "--data=feeds.py"], "GMP002: --data=feeds.py: accepted are"),
        (["good.meta", "--data=feeds.py:gone"], "GMP002: --data=feeds.py:gone: the file has no function gone"),
        (["good.meta", "--data=feeds.py:incomplete"], "GMP002: --data=feeds.py:incomplete: nothing for labels"),
        (["good.meta", "--data=missing.npz"], "GMP002: --data=missing.npz: nothing for labels"),
        (["good.meta", "--data=shape.npz"], "GMP002: --data=shape.npz: "),
        (["good.meta", "--data=labels.npz"], "GMP024: step 0 does not run: "),
        (["untrained.meta", "--random_data"], "GMP023: untrained.meta: no training step was found"),
        (["good.meta", "--random_data", "--steps=0"], "GMP002: --steps, --batch_size and --tolerance: found 0, 8, 0.1"),
        (["good.meta", "--random_data", "--batch_size=0"], "GMP002: --steps"),
        (["good.meta", "--random_data", "--tolerance=0"], "GMP002: --steps"),
        (["good.meta", "--random_data", "--tolerance=nan"], "GMP002: --steps"),
        (["good.meta", "--random_data", "--steps=many"], "GMP001: "),
        (["good.meta", "--random_data", "--engine=recipe"], "GMP020: --engine=recipe: "),
        (["good.meta", "--random_data", "--arithmetic=exact"], "GMP001: "),
        (["good.meta", "--random_data", "--checkpoint=gone"], "GMP003: --checkpoint=gone"),
        (["good.meta", "--random_data", "-o", "file.txt/audit.json"], "GMP004: file.txt: cannot be written"),
        (["good.meta", "--random_data", "--html=."], "GMP004: .: cannot be written: it is a folder"),
        (["good.meta", "--random_data", "--fix=file.txt/model.policy"], "GMP004: file.txt: cannot be written"),
        (["good.meta", "--random_data", "--op_policy=gone.policy"], "GMP003: --op_policy=gone.policy"),
        (["good.meta", "--random_data", "--ranges=data.npz"], "GMP003: --ranges=data.npz"),
    ],
)  # fmt: skip
def test_trouble_is_one_line(folder, capfd, arguments, message):
    (folder / "file.txt").write_text("")
    status, err = refused(capfd, "audit", *arguments)
    assert err.startswith("graphmp: error " + message), err
    assert "Graph execution error" not in err, err
    assert status in (1, 2) and (status == 2 or "GMP024" in err)


def test_a_function_that_fails_is_named(folder, capfd):
    status, err = refused(capfd, "audit", "good.meta", "--data=feeds.py:failing")
    assert status == 2 and "--data=feeds.py:failing: step 0" in err and "no data today" in err


@pytest.mark.parametrize("arguments", [["good.meta", "--data=labels.npz"], ["untrained.meta", "--random_data"], ["gone.meta", "--random_data"]])
def test_good_files_are_not_replaced_where_it_fails(folder, capfd, arguments):
    names = ["audit.json", "audit.html", "model.policy"]
    for name in names:
        (folder / name).write_text("of an audit before")
    before = sorted(path.name for path in folder.iterdir())
    refused(capfd, "audit", *arguments, "-o", names[0], "--html=" + names[1], "--fix=" + names[2])
    assert [(folder / name).read_text() for name in names] == ["of an audit before"] * 3
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == before


def test_a_file_is_replaced_whole_or_not_at_all(folder, capfd, monkeypatch):
    (folder / "audit.json").write_text("of an audit before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    refused(capfd, "audit", "good.meta", "--data=data.npz", STEPS, "-o", "audit.json")
    assert (folder / "audit.json").read_text() == "of an audit before"
    assert [path.name for path in folder.iterdir() if "audit.json" in path.name] == ["audit.json"]


# -- a process of its own ------------------------------------------------------------------------------------------------


def test_nothing_but_the_result_in_a_process_of_its_own(folder):
    arguments = [sys.executable, "-m", "graphmp", "audit", "good.meta", "--random_data", STEPS, "--json"]
    done = subprocess.run(arguments, env=environment(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode())["agrees"] is True


def test_help_has_examples(capfd):
    with pytest.raises(SystemExit) as ended:
        run_command(["graphmp", "audit", "--help"])
    assert ended.value.code == 0
    out = capfd.readouterr().out
    assert "graphmp audit model.ckpt.meta --data batches.npz" in out and "--keep_float32" in out and "Exit status" in out
