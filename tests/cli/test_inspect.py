"""`graphmp inspect`: what a conversion would do to a graph and why, as text and as JSON."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from graphmp.cli.main import run_command
from graphmp.cli.tables import section, size
from graphmp.config import Config
from graphmp.errors import GraphmpError
from graphmp.gate.reading import read_graph
from graphmp.graph.io.messages import serialize
from graphmp.inspect import overview, traffic
from graphmp.inspect.rules import RULES
from graphmp.policy.policy import Policy
from graphmp.rewrite.painting.paint import HALF
from graphmp.rewrite.pipeline import decide, rewrite
from tests.support import tiny
from tests.support.classifiers import training_graph
from tests.support.commands import Terminal
from tests.support.corpus import recorded
from tests.support.memory_of_steps import printed
from tests.support.places import ROOT, environment

SECTIONS = [
    "nodes by op",
    "kept float32",
    "constants that float16 can't hold",
    "float32 between half precision",
    "dimensions that are no multiple of 8",
]


@pytest.fixture(scope="module")
def trained():
    return training_graph()


@pytest.fixture
def folder(tmp_path, monkeypatch, trained):
    """The working folder, with model.meta in it."""
    (tmp_path / "model.meta").write_bytes(serialize(trained))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inspected(capsys, *argv):
    return json.loads(printed(capsys, *argv, "--json").out)


@pytest.mark.unit
def test_text(folder, capsys):
    out, err = printed(capsys, "model.meta")
    lines = out.splitlines()
    assert err == "" and "\x1b" not in out
    assert lines[0].startswith("model.meta ") and lines[0].endswith(
        "0 functions, TensorFlow %s, 20 variables" % tf.__version__
    )
    assert lines[1] == "gradients    scope gradients"
    assert lines[2].startswith("bytes moved  ") and " -> " in lines[2]
    found = [next(line for line in lines if line.startswith(name)) for name in SECTIONS]
    assert [lines.index(line) for line in found] == sorted(map(lines.index, found))
    assert (
        lines[-1] == "next         graphmp convert model.meta, or: graphmp explain model.meta exp"
    )


@pytest.mark.unit
def test_json_is_stable_and_sorted(folder, capsys):
    first = printed(capsys, "model.meta", "--json").out
    assert printed(capsys, "model.meta", "--json").out == first
    value = json.loads(first)
    assert json.dumps(value, indent=1, sort_keys=True) + "\n" == first
    assert (value["schema"], value["source"], value["compute_dtype"]) == (
        "graphmp.inspect/1",
        "model.meta",
        "float16",
    )
    assert set(value) == {
        "compute_dtype", "constants", "facts", "flags", "islands", "kept", "leave", "next", "notes", "ops", "schema", "shapes", "source",
        "traffic", "traffic_error",
    }  # fmt: skip
    assert value["facts"]["gradient_scopes"] == {"gradients": True}


@pytest.mark.unit
def test_ops_by_colour(folder, capsys, trained):
    value = inspected(capsys, "model.meta")
    ops = {row["op"]: row for row in value["ops"]}
    assert (ops["Conv2D"]["listed"], ops["Conv2D"]["half"], ops["Conv2D"]["float32"]) == (
        "allow",
        1,
        0,
    )
    assert (ops["Exp"]["half"], ops["Exp"]["float32"], ops["Exp"]["reason"]) == (0, 1, "deny")
    assert ops["Softmax"]["reason"] == "infer: downstream of what computes in float32"
    decided = decide(trained, Config.make(), Policy.default("float16"))[""]
    half = {decided.graph.units[n].node for n, p in enumerate(decided.placed) if p.colour == HALF}
    assert sum(row["half"] for row in value["ops"]) == len(half)
    assert sum(row["units"] for row in value["kept"]) == sum(
        p.colour != HALF for p in decided.placed
    )
    assert {row["kind"].split(":")[0] for row in value["kept"]} <= set(RULES)


@pytest.mark.unit
def test_constants_that_do_not_fit(folder, capsys):
    value = inspected(capsys, "model.meta")
    mask = next(row for row in value["constants"] if row["node"] == "far/y")
    assert (abs(mask["value"]), mask["kept"]) == (1e9, ["far"])
    assert next(row for row in value["constants"] if row["node"] == "Adam/epsilon")["kept"] == []
    out = printed(capsys, "model.meta").out
    assert "without effect, as all their consumers are float32: Adam/epsilon" in out
    assert inspected(capsys, "model.meta", "--compute_dtype=bfloat16")["constants"] == []


@pytest.mark.unit
def test_a_float32_island_and_the_flag_that_changes_it(folder, capsys):
    island = inspected(capsys, "model.meta")["islands"][0]
    assert (island["node"], island["op"], island["nodes"], island["flag"]) == (
        "exp",
        "Exp",
        1,
        "--force_compute='^exp$'",
    )
    assert island["bytes"] == 6 * (8 * 16 + 8 * 16)
    after = inspected(capsys, "model.meta", "--force_compute=^exp$")
    assert "exp" not in [row["node"] for row in after["islands"]]
    assert next(row for row in after["ops"] if row["op"] == "Exp")["half"] == 1


@pytest.mark.unit
def test_islands_that_differ_in_numbers_are_one_row(tmp_path, capsys):
    lines = ["w Const", "x Placeholder dtype=float32", "block_1/before/MatMul MatMul x w T=float32"]
    for i in range(1, 13):
        lines += [
            "block_%d/exp_1 Exp block_%d/before/MatMul T=float32" % (i, i),
            "block_%d/before/MatMul MatMul block_%d/exp_1 w T=float32" % (i + 1, i),
        ]
    graph = tiny.meta_graph(*lines, w=np.eye(4, dtype=np.float32))
    (tmp_path / "blocks.meta").write_bytes(serialize(graph))
    rows = inspected(capsys, str(tmp_path / "blocks.meta"))["islands"]
    assert [(row["node"], row["nodes"], row["flag"]) for row in rows] == [
        ("block_1/exp_1", 12, r"--force_compute='^block_\d+/exp_1$'")
    ]
    assert "block_1/exp_1 (and 11 like it)" in printed(capsys, str(tmp_path / "blocks.meta")).out


@pytest.mark.unit
def test_shapes_that_tensor_cores_do_not_take(folder, capsys):
    value = inspected(capsys, "model.meta")
    found = {
        row["node"]: [tuple(d[key] for key in ("name", "size", "next")) for d in row["dimensions"]]
        for row in value["shapes"]
    }
    assert found == {
        "conv": [("input channels", 3, 8), ("output channels", 12, 16)],
        "dense": [("K", 972, 976)],
        "logits": [("N", 5, 8)],
    }
    assert [row["node"] for row in value["shapes"]] == ["conv", "dense", "logits"]  # by work


@pytest.mark.unit
@pytest.mark.parametrize(
    "line, shapes, expected",
    [
        ("m MatMul a b transpose_a transpose_b", ((7, 5), (9, 7)), {"M": 5, "N": 9, "K": 7}),
        ("m BatchMatMulV2 a b adj_y", ((2, 3, 8), (2, 9, 8)), {"M": 3, "N": 9}),
        ("m Conv2DBackpropInput a a b", ((3, 3, 4, 8), (1, 2, 2, 8)), {"output channels": 4}),
        ("m MatMul a b", ((-1, 8), (8, 16)), {}),
        ("m Relu a b", ((7, 7), (7, 7)), None),
    ],
)
def test_dimensions(line, shapes, expected):
    flags = [word for word in line.split() if "_" in word]
    graph = tiny.meta_graph(
        "a Placeholder", "b Placeholder", " ".join(word for word in line.split() if "_" not in word)
    )
    for node, shape in zip(graph.graph_def.node, shapes):
        node.attr["_output_shapes"].list.shape.add().CopyFrom(
            tf.TensorShape([None if d < 0 else d for d in shape]).as_proto()
        )
    for flag in flags:
        graph.graph_def.node[2].attr[flag].b = True
    found = overview.tensor_cores.misfit(overview.GraphView(graph.graph_def), "m")
    assert {d.name: d.size for d in found.dimensions} == expected if found else not expected


@pytest.mark.unit
def test_float32_changes_no_dtype(folder, capsys):
    value = inspected(capsys, "model.meta", "--compute_dtype=float32")
    assert (
        value["leave"] is True
        and value["ops"] == []
        and value["notes"][-1]["message"].startswith("--compute_dtype=float32 changes no dtype")
    )
    lines = printed(capsys, "model.meta", "--compute_dtype=float32").out.splitlines()
    assert (
        lines[2].startswith("note         --compute_dtype=float32 changes no dtype")
        and len(lines) == 5
    )


@pytest.mark.unit
def test_traffic_of_a_graph_that_cannot_be_converted(folder, capsys, monkeypatch):
    def fail(*args):
        raise GraphmpError("GMP021", "node x is not what it was")

    monkeypatch.setattr(traffic, "rewrite", fail)
    assert (
        "bytes moved  unknown: the graph can't be converted: GMP021: node x is not what it"
        " was\n" in printed(capsys, "model.meta").out
    )
    assert inspected(capsys, "model.meta")["traffic"] == []


@pytest.mark.unit
def test_flags_of_a_conversion_are_taken(folder, capsys):
    kept = inspected(
        capsys, "model.meta", "--keep_float32=^conv$", "--loss_scale=128", "--fetch=dense:0"
    )
    assert {
        "kind": "user rule",
        "units": 2,
        "node": "conv",
        "reason": "user rule: --keep_float32=^conv$",
    } in kept["kept"]
    (folder / "ops.txt").write_text("infer Exp\n")
    assert (
        next(
            row
            for row in inspected(capsys, "model.meta", "--op_policy=ops.txt")["ops"]
            if row["op"] == "Exp"
        )["half"]
        == 1
    )


@pytest.mark.unit
@pytest.mark.parametrize("lines", ["", "infer Exp\n-Relu\ndeny Tanh\n"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_policy_reads_back(folder, capsys, lines, dtype):
    (folder / "ops.txt").write_text(lines)
    text = printed(capsys, "--policy", "--op_policy=ops.txt", "--compute_dtype=" + dtype).out
    assert Policy.default(dtype).with_text(text) == Policy.default(dtype).with_text(lines)
    assert text.startswith("allow BatchMatMul\n")
    listed = inspected(capsys, "--policy", "--op_policy=ops.txt")
    assert ("Exp" in listed["infer"], "Relu" in listed["clear"]) == (bool(lines), not lines)


@pytest.mark.unit
@pytest.mark.parametrize(
    "argv, message",
    [
        ([], "GMP001: graphmp inspect: GRAPH is missing"),
        (["gone.meta"], "GMP003: gone.meta"),
        (["bad.meta"], "GMP008: bad.meta"),
        (["model.meta", "--compute_dtype=float8"], "GMP002: --compute_dtype=float8"),
        (["model.meta", "--fetch=nowhere:0"], "GMP002: --fetch=nowhere:0"),
        (["model.meta", "--op_policy=gone.txt"], "GMP003: --op_policy=gone.txt"),
        (["model.meta", "--keep_float32=("], "GMP002: --keep_float32=("),
    ],
)
def test_trouble_is_one_line_and_2(folder, capsys, argv, message):
    (folder / "bad.meta").write_bytes(b"\x01\x02")
    out, err = printed(capsys, *argv, status=2)
    assert out == "" and err.startswith("graphmp: error " + message) and err.count("\n") == 1


@pytest.mark.unit
def test_a_converted_graph_is_named_and_left(folder, capsys, trained):
    config = Config.make()
    done = rewrite(trained, config, Policy.default("float16")).meta_graph
    (folder / "converted.meta").write_bytes(serialize(done))
    assert (
        "GMP108 this graph was converted with the same flags"
        in printed(capsys, "converted.meta").out
    )
    out = printed(capsys, "converted.meta", "--compute_dtype=bfloat16").out
    assert (
        "GMP022" in out and "next         inspect the graph that this one was converted from" in out
    )
    (folder / "original.meta").write_bytes(serialize(trained))
    assert printed(capsys, "converted.meta", "--compute_dtype=bfloat16").out.endswith(
        "next         graphmp inspect original.meta\n"
    )
    assert inspected(capsys, "converted.meta", "--compute_dtype=bfloat16")["leave"] is True


@pytest.mark.unit
def test_a_graph_that_is_half_already(tmp_path, capsys):
    graph = tiny.meta_graph("x Placeholder dtype=float16", "y MatMul x x T=float16")
    (tmp_path / "half.meta").write_bytes(serialize(graph))
    out = printed(capsys, str(tmp_path / "half.meta")).out
    assert "already half precision" in out and out.splitlines()[-1].startswith(
        "next         nothing to do"
    )
    assert out.splitlines()[0].endswith("TensorFlow version unknown, 0 variables")


@pytest.mark.unit
def test_a_graph_def_in_text_without_training(tmp_path, capsys):
    graph = tiny.meta_graph(
        "x Placeholder dtype=float32",
        "w Const",
        "y MatMul x w T=float32",
        "z Exp y T=float32",
        w=np.eye(3, dtype=np.float32),
    )
    (tmp_path / "net.pbtxt").write_text(str(graph.graph_def))
    value = inspected(capsys, str(tmp_path / "net.pbtxt"))
    assert value["facts"]["gradient_scopes"] == {} and [row["code"] for row in value["notes"]] == [
        "GMP105"
    ]


@pytest.mark.unit
def test_control_characters_in_names_are_shown_escaped(tmp_path, capsys, monkeypatch):
    graph = tiny.meta_graph(
        "x Placeholder dtype=float32",
        "w Const",
        "y MatMul x w T=float32",
        "z Exp y T=float32",
        w=np.eye(3, dtype=np.float32),
    )
    graph.graph_def.node[3].name = "\x1b[31m"
    (tmp_path / "net.meta").write_bytes(serialize(graph))
    out = printed(capsys, str(tmp_path / "net.meta")).out
    assert "\\x1b[31m" in out and "\x1b" not in out
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", Terminal())
    run_command(["graphmp", "inspect", str(tmp_path / "net.meta")])
    assert (
        "\x1b[1;36mnodes by op" in sys.stdout.getvalue() and "\x1b[31m" not in sys.stdout.getvalue()
    )


@pytest.mark.unit
def test_an_output_that_lacks_the_letters(folder, monkeypatch):
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", ascii_only)
    os.rename("model.meta", "mod\u00e9l.meta")
    assert run_command(["graphmp", "inspect", "mod\u00e9l.meta"]) == 0
    assert b"mod\\xe9l.meta" in ascii_only.buffer.getvalue()


@pytest.mark.unit
def test_a_long_table_says_how_much_it_hides():
    lines = [
        text
        for _, text in section("rows", [("a", 1), ("bb", 1000), ("c", 3)], 2, ("name", "count"))
    ]
    assert lines == [
        "",
        "rows",
        "  name  count",
        "  a         1",
        "  bb    1,000",
        "  and 1 more: --json has them all",
    ]
    assert section("rows", []) == []


@pytest.mark.unit
@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (180e6, "180 MB"), (5e15, "5,000 TB")],
)
def test_size(count, text):
    assert size(count) == text


@pytest.mark.unit
def test_help_has_an_example(capsys):
    with pytest.raises(SystemExit) as ended:
        run_command(["graphmp", "inspect", "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert (
        "example:\n  graphmp inspect model.ckpt.meta" in out
        and "--keep_float32" in out
        and "--tag" in out
    )


@pytest.mark.slow
def test_nothing_but_the_result_in_a_process_of_its_own(folder):
    done = subprocess.run(
        [sys.executable, "-m", "graphmp", "inspect", "model.meta", "--json"],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout.decode())["facts"]["functions"] == 0


def test_the_command_is_there_before_tensorflow():
    script = "import sys, graphmp.cli.main; sys.exit('tensorflow' in sys.modules)"
    root = str(ROOT)
    assert (
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env=dict(os.environ, PYTHONPATH=root),
            check=False,
        ).returncode
        == 0
    )


@pytest.mark.unit
@recorded()
def test_a_real_graph(paths, capsys):
    path = next(
        (path for path in paths if path.name == "DeepBlurt__vae__model.ckpt.meta"), paths[0]
    )
    value = inspected(capsys, str(path))
    assert value["facts"]["nodes"] == len(read_graph(path).graph_def.node)
    assert {row["reason"].split(":")[0] for row in value["kept"]} <= set(RULES)
    assert all(
        row["next"] % 8 == 0 and 0 < row["next"] - row["size"] < 8
        for shape in value["shapes"]
        for row in shape["dimensions"]
    )
    assert (
        printed(capsys, str(path)).out.splitlines()[-1].startswith("next         graphmp convert ")
    )
