"""`graphmp verify`: what it prints, its exit status, its JSON, and what it says of bad input."""

from __future__ import annotations

import json
import re
import shlex

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli.main import run_command
from graphmp.config import Config
from graphmp.graph.io.messages import serialize
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from tests.support.classifiers import training_graph
from tests.support.executed import graphs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An original, its conversion, its flags, and a conversion whose optimizer learns at another
    rate.
    """
    path = tmp_path_factory.mktemp("verify")
    original, config = training_graph(), Config.make(clip_norm=1.0)
    converted = rewrite(original, config, Policy.default("float16")).meta_graph
    (path / "original.meta").write_bytes(serialize(original))
    (path / "converted.meta").write_bytes(serialize(converted))
    (path / "flags.txt").write_text("".join(line + "\n" for line in config.flagfile_lines()))
    spoilt = tf.MetaGraphDef.FromString(serialize(converted))
    rate = next(
        node
        for node in spoilt.graph_def.node
        if node.op == "Const" and "learning_rate" in node.name
    )
    rate.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(7.0))
    (path / "spoilt.meta").write_bytes(serialize(spoilt))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The same of a graph whose steps are finite on made-up data."""
    path = tmp_path_factory.mktemp("trained")
    original, converted = graphs(clip_norm=1.0)
    (path / "original.meta").write_bytes(serialize(original))
    (path / "converted.meta").write_bytes(serialize(converted))
    spoilt = tf.MetaGraphDef.FromString(serialize(converted))
    rate = next(
        node
        for node in spoilt.graph_def.node
        if node.op == "Const" and "learning_rate" in node.name
    )
    rate.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(7.0))
    (path / "spoilt.meta").write_bytes(serialize(spoilt))
    return path


def run(capsys, *arguments):
    """Exit status, stdout and stderr of a command."""
    status = run_command(["graphmp", "verify", *map(str, arguments)])
    return (status, *capsys.readouterr())


@pytest.mark.unit
def test_proved(folder, capsys):
    """Every claim has a line with its verdict; then the verdict, and what to do next."""
    status, out, _ = run(capsys, folder / "original.meta", folder / "converted.meta")
    assert status == 0
    lines = out.splitlines()
    assert [re.split(r"  +|: ", line)[0] for line in lines[:6]] == ["proved"] * 6
    assert "parameters: as claimed by the graph's mark" in lines[5]
    assert lines[7] == "verify       every claim is proved"
    assert lines[8].startswith("next         graphmp diff ")


@pytest.mark.unit
def test_fault(folder, capsys):
    """What is wrong is said by claim and node."""
    status, out, _ = run(capsys, folder / "original.meta", folder / "spoilt.meta")
    assert status == 1
    assert re.search(
        r"^failed +same graph: \S*learning_rate\S* has another value than in the original$",
        out,
        re.M,
    )
    assert re.search(r"^verify +same graph: look at these first$", out, re.M)
    assert re.search(r"^next +graphmp diff .*--node=\S*learning_rate", out, re.M)


@pytest.mark.unit
def test_the_next_command_quotes_names(folder, capsys):
    (folder / "my copy.meta").write_bytes((folder / "converted.meta").read_bytes())
    _, out, _ = run(capsys, folder / "original.meta", folder / "my copy.meta")
    names = [str(folder / name) for name in ("original.meta", "my copy.meta")]
    assert shlex.split(out.splitlines()[8])[:5] == ["next", "graphmp", "diff", *names]


@pytest.mark.unit
def test_json(folder, capsys):
    """All claims with all nodes, and the parameters."""
    status, out, _ = run(capsys, folder / "original.meta", folder / "spoilt.meta", "--json")
    found = json.loads(out)
    assert status == 1 and found["schema"] == "graphmp.verify/1" and found["proved"] is False
    assert {claim["name"]: claim["verdict"] for claim in found["claims"]}["same graph"] == "failed"
    assert (
        found["parameters"]["clip_norm"] == 1.0
        and found["parameters"]["loss_scale_growth_interval"] == 2000
    )


@pytest.mark.unit
def test_expected(folder, capsys):
    """Parameters are compared with what was asked for."""
    assert (
        run(
            capsys,
            folder / "original.meta",
            folder / "converted.meta",
            "--expect=%s" % (folder / "flags.txt"),
        )[0]
        == 0
    )
    (folder / "others.txt").write_text("--clip_norm=5\n--loss_scale_backoff_factor=0.25\n")
    status, out, _ = run(
        capsys,
        folder / "original.meta",
        folder / "converted.meta",
        "--expect=%s" % (folder / "others.txt"),
    )
    assert status == 1
    assert (
        "loss_scale_backoff_factor is 0.5, asked for is 0.25; clip_norm is 1, asked for is 5" in out
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "text, said",
    [
        ("--no_such_flag=1\n", "no_such_flag"),
        ("clip\n", "'clip' is no flag"),
        (None, "No such file"),
    ],
)
def test_bad_flags(folder, capsys, text, said):
    """One line, exit 2."""
    path = folder / "bad.txt"
    path.unlink() if path.exists() else None
    if text is not None:
        path.write_text(text)
    status, out, err = run(
        capsys, folder / "original.meta", folder / "converted.meta", "--expect=%s" % path
    )
    assert status == 2 and out == "" and said in err and len(err.splitlines()) == 1


@pytest.mark.unit
def test_no_graph(folder, capsys):
    """A file that is none is named."""
    status, out, err = run(capsys, folder / "original.meta", folder / "nowhere.meta")
    assert status == 2 and out == "" and "nowhere.meta" in err


@pytest.mark.unit
@pytest.mark.parametrize("devices, status", [("cpu", 0), ("CPU,GPU", 0), ("TPU", 2), ("", 2)])
def test_devices(folder, capsys, devices, status):
    """Kinds of device, in any case; others are refused in one line."""
    found, _, err = run(
        capsys, folder / "original.meta", folder / "converted.meta", "--devices=%s" % devices
    )
    assert found == status
    assert (status == 2) == ("accepted are CPU and GPU" in err)


def test_with_steps(trained, capsys):
    """With data the claims of running both graphs follow those of the proof."""
    status, out, _ = run(
        capsys, trained / "original.meta", trained / "converted.meta", "--random_data", "--steps=2"
    )
    assert status == 0
    lines = out.splitlines()
    assert [line.split(": ")[0].split(None, 1)[1] for line in lines[6:10]] == [
        "same steps again",
        "same steps",
        "skips when run",
        "agrees in half",
    ]
    assert {line.split()[0] for line in lines[:10]} == {"proved"}
    assert (
        "2 steps leave all" in lines[6]
        and "its clip taken out" in lines[7]
        and "in each of 2 gradients in turn" in lines[8]
    )


def test_with_steps_of_a_fault(trained, capsys):
    """Running finds it too; the batches are those of a file."""
    random = np.random.RandomState(0)
    np.savez(str(trained / "batches.npz"), x=random.normal(size=(8, 8)).astype(np.float32))
    arguments = [
        trained / "original.meta",
        trained / "spoilt.meta",
        "--data=%s" % (trained / "batches.npz"),
        "--steps=1",
    ]
    status, out, _ = run(capsys, *arguments, "--json")
    found = {claim["name"]: claim for claim in json.loads(out)["claims"]}
    assert status == 1 and found["same steps again"]["verdict"] == "proved"
    assert (
        found["same steps"]["verdict"] == "failed" and "net/first" in found["same steps"]["nodes"]
    )


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--data=gone.npz"], "GMP003: --data=gone.npz: cannot be read"),
        (["--data=feeds.py"], "GMP002: --data=feeds.py: accepted are"),
        (["--random_data", "--steps=0"], "GMP002: --steps"),
        (["--random_data", "--checkpoint=gone"], "GMP003: --checkpoint=gone"),
        (["--random_data", "--data=gone.npz"], "GMP001"),
    ],
)
def test_bad_data(trained, capsys, arguments, said):
    """One line, exit 2."""
    status, out, err = run(
        capsys, trained / "original.meta", trained / "converted.meta", *arguments
    )
    assert status == 2 and out == "" and said in err and len(err.splitlines()) == 1


def test_an_original_that_refuses_made_up_batches(tmp_path, capsys):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 8], "x")
        small = tf.Assert(tf.reduce_sum(x) > 1e6, ["the sum is small"])
        with tf.control_dependencies([small]):
            loss = tf.reduce_mean(tf.layers.dense(x, 8) ** 2)
        tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        tf.train.export_meta_graph(str(tmp_path / "a.meta"))
    source, where = str(tmp_path / "a.meta"), str(tmp_path / "out")
    assert run_command(["graphmp", "convert", source, "-o", where]) == 0
    capsys.readouterr()
    pair = [tmp_path / "out" / name for name in ("original.meta", "converted.meta")]
    status, out, err = run(capsys, *pair, "--random_data")
    assert status == 2 and out == "" and len(err.splitlines()) == 1
    assert "GMP024" in err and "made-up batches" in err and "--data" in err


def test_convert_and_verify(trained, tmp_path, capsys):
    """The claims follow the summary; what is printed for machines has them too."""
    source, where = str(trained / "original.meta"), str(tmp_path / "out")
    assert run_command(["graphmp", "convert", source, "-o", where, "--verify"]) == 0
    out = capsys.readouterr().out
    assert (
        "wrote " in out
        and out.endswith("verify       every claim is proved\n")
        and "proved         skips when run: " in out
    )
    assert json.loads((tmp_path / "out" / "report.json").read_text()).get("verify") is None


@pytest.mark.slow
def test_convert_and_verify_for_machines(trained, tmp_path, capsys):
    """The report that is printed has the claims, that of the file doesn't."""
    assert (
        run_command(
            [
                "graphmp",
                "convert",
                str(trained / "original.meta"),
                "-o",
                str(tmp_path / "out"),
                "--verify",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)["verify"]
    assert found["schema"] == "graphmp.verify/1" and found["proved"] and len(found["claims"]) == 10


@pytest.mark.unit
@pytest.mark.parametrize("flags", [["--data=x.npz"], ["--verify", "--check"]])
def test_convert_takes_data_to_verify(trained, capsys, flags):
    """One line, exit 2."""
    assert run_command(["graphmp", "convert", str(trained / "original.meta"), *flags]) == 2
    assert "GMP001: --data is accepted with --verify" in capsys.readouterr().err
