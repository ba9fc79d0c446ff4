"""`graphmp explain GRAPH NODE`.

Why a node has its dtype, what led to it and which flag changes it.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.main import run_command
from graphmp.compare.categories import FUNCTION, META_GRAPH
from graphmp.compare.render import dot
from graphmp.config import Config
from graphmp.gate.reading import read_graph
from graphmp.graph.edit.mark import mark
from graphmp.graph.io.messages import serialize
from graphmp.inspect.explanation import explain, explain_by_report
from graphmp.inspect.rules import RULES
from graphmp.policy.policy import Policy
from graphmp.rewrite.pipeline import rewrite
from graphmp.verify import verify
from tests.support import tiny
from tests.support.classifiers import training_graph
from tests.support.corpus import recorded
from tests.support.places import environment
from tests.support.training_graphs import functions_for_loops, square, vectors


@pytest.fixture(scope="module")
def graphs():
    """The training graph and its conversion, as bytes."""
    original = training_graph()
    converted = rewrite(
        original, Config.make(keep_float32="^dense$"), Policy.default("float16")
    ).meta_graph
    return serialize(original), serialize(converted)


@pytest.fixture
def folder(tmp_path, monkeypatch, graphs):
    """The working folder.

    Model.meta, and out/ with original.meta and converted.meta, made with --keep_float32=^dense$.
    """
    (tmp_path / "out").mkdir()
    (tmp_path / "model.meta").write_bytes(graphs[0])
    (tmp_path / "out" / "original.meta").write_bytes(graphs[0])
    (tmp_path / "out" / "converted.meta").write_bytes(graphs[1])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys, *argv, status=0):
    assert run_command(["graphmp", "explain", *argv]) == status
    return capsys.readouterr()


def explained(capsys, *argv):
    return json.loads(printed(capsys, *argv, "--json").out)


def refused(capsys, *argv):
    out, err = printed(capsys, *argv, status=2)
    assert out == "" and err.count("\n") == 1
    return err


@pytest.mark.unit
def test_text(folder, capsys):
    out, err = printed(capsys, "model.meta", "exp")
    assert err == "" and re.sub(r"\d+ nodes?", "N nodes", out).splitlines() == [
        "Exp          exp",
        "",
        "T            float32, deny: Exp computes in float32",
        "rule         ops on the deny list compute in float32",
        "flag         --force_compute='^exp$' (changes N nodes)",
        "             --op_policy=FILE with the line `infer Exp` (changes N nodes)",
        "",
        "next         graphmp convert model.meta --force_compute='^exp$'",
    ]


@pytest.mark.unit
def test_json(folder, capsys):
    text = printed(capsys, "model.meta", "exp:0", "--json").out
    value = json.loads(text)
    assert json.dumps(value, indent=1, sort_keys=True) + "\n" == text
    assert set(value) == {
        "changes",
        "graph",
        "next",
        "node",
        "note",
        "notes",
        "op",
        "producer",
        "readers",
        "schema",
        "units",
    }
    assert (value["schema"], value["graph"], value["node"], value["op"]) == (
        "graphmp.explain/1",
        "model.meta",
        "exp",
        "Exp",
    )
    assert set(value["units"][0]) == {
        "ahead",
        "attribute",
        "chain",
        "dtype",
        "flags",
        "reason",
        "rule",
    }


@pytest.mark.unit
def test_the_chain_leads_from_the_source_to_the_node(folder, capsys):
    unit = explained(capsys, "model.meta", "attention")["units"][0]
    assert [(link["node"], link["dtype"]) for link in unit["chain"]] == [
        (name, "float32") for name in ("far/y", "far", "masked", "attention")
    ]
    assert (
        unit["chain"][0]["reason"].startswith("range guard: far/y holds")
        and unit["chain"][-1]["reason"] == unit["reason"]
    )
    lines = printed(capsys, "model.meta", "attention").out.splitlines()
    start = lines.index("led to it, from its source")
    assert [line.split()[0] for line in lines[start + 1 : start + 5]] == [
        "far/y",
        "far",
        "masked",
        "attention",
    ]
    assert (
        lines[start + 2].split() == ["far", "Mul", "float32"] + unit["chain"][1]["reason"].split()
    )


@pytest.mark.unit
def test_what_is_half_stands_between_ops_worth_it(folder, capsys):
    unit = explained(capsys, "model.meta", "relu")["units"][0]
    assert unit["dtype"] == "float16"
    assert (unit["chain"][0]["node"], unit["chain"][-1]["node"], unit["ahead"][-1]["node"]) == (
        "conv",
        "relu",
        "dense",
    )
    out = printed(capsys, "model.meta", "relu").out
    assert "\nand on to\n" in out and "\nflag         --keep_float32='^relu$'" in out


@pytest.mark.unit
@pytest.mark.parametrize(
    "node",
    [
        "exp",
        "attention",
        "far",
        "masked",
        "relu",
        "conv",
        "gradients/exp_grad/mul",
        "norm/FusedBatchNormV3",
        "loss",
    ],
)
def test_a_flag_does_what_it_says(folder, capsys, node):
    name = (
        node if node in read_graph("model.meta").SerializeToString().decode("latin-1") else "norm"
    )
    before = explained(capsys, "model.meta", name)["units"]
    for at, unit in enumerate(before):
        for flag in unit["flags"]:
            argv = shlex.split(flag["text"]) if flag["option"] else ["--op_policy=ops.txt"]
            (folder / "ops.txt").write_text(
                flag["text"].split("`")[1] if "`" in flag["text"] else ""
            )
            after = explained(capsys, "model.meta", name, *argv)["units"][at]
            assert {unit["dtype"], after["dtype"]} & {"float32"} and unit["dtype"] != after["dtype"]
    assert before[0]["flags"] or name == "loss"


@pytest.mark.unit
@pytest.mark.parametrize(
    "node, text",
    [
        (
            "query",
            (
                "variables keep their dtype, and so does what reads or defines them, or hands a"
                " value on to a write; no flag changes that"
            ),
        ),
        ("query/read", "float32, variable: "),
        ("loss", "float32, fetched: "),
        ("Adam/epsilon", "float32, range guard: "),
        ("labels", "no type to change: it reads and writes int32"),
    ],
)
def test_where_no_flag_helps(folder, capsys, node, text):
    graph = read_graph("model.meta")
    graph.collection_def["outputs"].node_list.value.append("loss:0")
    pathlib.Path("model.meta").write_bytes(serialize(graph))
    lines = printed(capsys, "model.meta", node).out.splitlines()
    assert text in "\n".join(lines) and lines[-1] == "next         graphmp inspect model.meta"
    assert ("flag         none changes it" in lines) == text.startswith("float32")


@pytest.mark.unit
def test_what_is_out_of_range_fits_bfloat16_and_is_spoilt_by_force(folder, capsys):
    flags = explained(capsys, "model.meta", "masked")["units"][0]["flags"]
    assert [(flag["text"], flag["remark"]) for flag in flags] == [
        ("--compute_dtype=bfloat16", ""),
        ("--force_compute='^masked$'", ""),
    ]
    value = explained(capsys, "model.meta", "far")
    assert [flag["remark"] for flag in value["units"][0]["flags"]] == [
        "what float16 can't hold becomes infinite or 0"
    ]
    assert value["next"] == "graphmp inspect model.meta"  # such a flag is told, not advised
    assert explained(capsys, "model.meta", "far/y")["units"][0]["flags"] == []


@pytest.mark.unit
def test_each_type_attribute_has_its_own_reason(folder, capsys):
    graph = read_graph("model.meta")
    norm = next(
        node.name
        for node in graph.graph_def.node
        if node.op.startswith("FusedBatchNorm") and "grad" not in node.name
    )
    lines = printed(capsys, "model.meta", norm).out
    if "U" in next(node.attr for node in graph.graph_def.node if node.name == norm):
        assert "\nU            float32, statistics: " in lines
    assert "\nT            float16, infer: between half-precision ops" in lines


@pytest.mark.unit
def test_flags_of_the_command_line_are_the_question(folder, capsys):
    unit = explained(
        capsys, "model.meta", "conv", "--keep_float32=^conv$", "--compute_dtype=bfloat16"
    )["units"][0]
    assert (unit["dtype"], unit["rule"]) == ("float32", RULES["user rule"])
    assert (
        unit["flags"][0]["text"] == "without --keep_float32='^conv$'"
        and not unit["flags"][0]["option"]
    )
    value = explained(capsys, "model.meta", "relu", "--keep_float32=^conv$", "--clip_norm=5")
    assert (
        value["next"] == "graphmp convert model.meta --clip_norm=5 '--keep_float32=^conv$'"
        " --keep_float32='^relu$'"
    )


@pytest.mark.unit
def test_an_inserted_cast_is_explained_by_its_two_ends(folder, capsys):
    for graph in ("model.meta", "out/converted.meta"):
        value = explained(capsys, graph, "exp_graphmp_float16")
        assert value["producer"] == {
            "node": "exp",
            "op": "Exp",
            "dtype": "float32",
            "reason": "deny: Exp computes in float32",
        }
        assert ["logits", "MatMul", "float16"] in [
            [link["node"], link["op"], link["dtype"]] for link in value["readers"]
        ]
        assert value["next"] == "graphmp explain %s exp" % graph
    out = printed(capsys, "model.meta", "exp_graphmp_float16").out
    assert (
        "\nwhy          inserted: a cast, where float32 and half precision meet\nof\n  exp  Exp "
        " float32"
        in out
        and "\nread by\n" in out
    )


@pytest.mark.unit
def test_float32_changes_no_dtype(folder, capsys):
    assert explained(capsys, "model.meta", "exp", "--compute_dtype=float32")["note"].startswith(
        "--compute_dtype=float32 changes no dtype"
    )
    assert "closest: exp" in refused(capsys, "model.meta", "expp", "--compute_dtype=float32")


@pytest.mark.unit
def test_a_converted_graph_is_explained_by_the_original_beside_it(folder, capsys):
    value = explained(capsys, "out/converted.meta", "dense")
    assert value["units"][0]["reason"] == "user rule: --keep_float32=^dense$"
    assert value["notes"] == [
        "a converted graph: explained by out/original.meta beside it and the flags of its"
        " conversion"
    ]
    assert (
        value["next"] == "graphmp inspect out/original.meta"
    )  # the one way is to leave a flag out
    assert "--compute_dtype: out/converted.meta is a converted graph" in refused(
        capsys, "out/converted.meta", "dense", "--compute_dtype=bfloat16"
    )
    assert "GMP002: node nothing: " in refused(capsys, "out/converted.meta", "nothing")


@pytest.mark.unit
def test_a_node_of_a_converted_graph_that_only_it_has(folder, capsys):
    graph = read_graph("out/converted.meta")
    graph.graph_def.node.add(name="graphmp/loss_scale/unscale/mul", op="NoOp")
    pathlib.Path("out/converted.meta").write_bytes(serialize(graph))
    assert explained(capsys, "out/converted.meta", "graphmp/loss_scale/unscale/mul")[
        "note"
    ].startswith("unscale: gradients are divided")


@pytest.mark.unit
def test_a_converted_graph_without_its_original(folder, capsys):
    os.remove("out/original.meta")
    value = explained(capsys, "out/converted.meta", "relu")
    assert value["notes"] == [
        "a converted graph, and out/original.meta is not there: nor is there a report.json"
        " beside it"
    ]
    assert (
        value["note"] == "nothing tells why"
        and value["next"] == "explain the graph that this one was converted from"
    )
    rows = [
        {
            "node": "relu",
            "change": "dtype of T: float32 -> float16",
            "reason": "clear: follows its neighbours",
        }
    ]
    pathlib.Path("out/report.json").write_text(
        json.dumps(
            {"changes": rows, "warnings": [{"code": "GMP102", "node": "exp", "message": "float32"}]}
        )
    )
    out = printed(capsys, "out/converted.meta", "relu:0").out
    assert (
        "explained by report.json beside it" in out
        and "\n  dtype of T: float32 -> float16  clear: follows its neighbours\n" in out
    )
    assert explained(capsys, "out/converted.meta", "exp")["changes"] == [
        {"change": "GMP102", "reason": "float32"}
    ]
    assert (
        explained(capsys, "out/converted.meta", "conv")["note"]
        == "the conversion did not change it"
    )
    assert "closest: relu" in refused(capsys, "out/converted.meta", "relus")
    for text in ("[]", "{", '{"changes": 1}'):
        pathlib.Path("out/report.json").write_text(text)
        assert explained(capsys, "out/converted.meta", "relu")["note"] == "nothing tells why"


@pytest.mark.unit
def test_the_recipe_is_explained_by_its_report(folder, capsys):
    graph = read_graph("out/converted.meta")
    mark(graph, Config.make(loss_scale=lambda step: step), "recipe")
    pathlib.Path("out/converted.meta").write_bytes(serialize(graph))
    pathlib.Path("out/report.json").write_text('{"changes": []}')
    value = explained(capsys, "out/converted.meta", "relu")
    assert (
        value["notes"][0].startswith("a converted graph, by the recipe")
        and value["next"] == "graphmp diff out/original.meta out/converted.meta"
    )


@pytest.mark.unit
def test_flags_that_only_python_can_say_are_passed_over(folder, capsys):
    graph = read_graph("out/converted.meta")
    mark(graph, Config.make(loss_scale=lambda step: step), "rewrite")
    text = graph.collection_def["graphmp"].bytes_list.value[0].decode()
    graph.collection_def["graphmp"].bytes_list.value[:] = [
        text.replace('"flags": {', '"flags": {"later": 1, ')
        .replace('_version": "', '_version": "9')
        .encode()
    ]
    pathlib.Path("out/converted.meta").write_bytes(serialize(graph))
    value = explained(capsys, "out/converted.meta", "dense")
    assert value["units"][0]["dtype"] == "float16" and value["notes"][1].startswith(
        "converted by graphmp 9"
    )


def function_graph():
    """A function with a matmul between an Exp and a Tanh, called, and another that only a
    tf.data pipeline uses.
    """
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, (4, 4), name="x")

        @tf.function
        def body(a, b):
            return tf.matmul(
                tf.tanh(tf.matmul(tf.exp(a, name="grow"), b, name="product"), name="bend"), b
            )

        tf.identity(body(x, x), name="y")
        tf.data.make_one_shot_iterator(
            tf.data.Dataset.from_tensors([1.0]).map(lambda v: tf.add(v, 1.0, name="plus"))
        ).get_next()
        return tf.train.export_meta_graph()


@pytest.mark.unit
def test_nodes_of_functions(tmp_path, monkeypatch, capsys):
    graph = function_graph()
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model.meta").write_bytes(serialize(graph))
    named = {
        node.name: "library/" + function.signature.name
        for function in graph.graph_def.library.function
        for node in function.node_def
    }
    error = refused(capsys, "model.meta", "bend")
    assert "not in the main graph but in functions; accepted are %s/bend" % named["bend"] in error
    unit = explained(capsys, "model.meta", named["bend"] + "/bend")["units"][0]
    assert (unit["dtype"], unit["chain"][0]["node"]) == ("float16", named["bend"] + "/product")
    assert unit["flags"][0]["text"] == "--keep_float32='^bend$'"
    inserted = explained(capsys, "model.meta", named["bend"] + "/grow_graphmp_float16")
    assert (inserted["producer"]["node"], inserted["readers"][0]["node"]) == (
        named["bend"] + "/grow",
        named["bend"] + "/product",
    )
    assert (
        "not rewritten inside" in explained(capsys, "model.meta", named["plus"] + "/plus")["note"]
    )
    assert "closest: %s/bend" % named["bend"] in refused(
        capsys, "model.meta", named["bend"] + "/bends"
    )


def trained_in_functions():
    """Training with a loop that is functions."""
    with tf.Graph().as_default():
        functions_for_loops()
        return tf.train.export_meta_graph()


def a_step_inside():
    """A function that trains: it holds the scale's nodes too."""
    with tf.Graph().as_default():
        x, w = vectors(), tf.get_variable("w", (12, 12), use_resource=True)

        @tf.function
        def step(x):
            value = w.read_value()
            (gradient,) = tf.gradients(square(tf.matmul(x, value)), [value])
            return w.assign_sub(0.1 * gradient)

        tf.identity(step(x), name="train")
        return tf.train.export_meta_graph()


@pytest.mark.parametrize("build", [function_graph, trained_in_functions, a_step_inside])
def test_what_other_commands_print_is_explained(tmp_path, monkeypatch, capsys, build):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model.meta").write_bytes(serialize(build()))
    assert run_command(["graphmp", "convert", "model.meta", "-o", "out"]) == 0
    original, converted = map(read_graph, ("model.meta", "out/converted.meta"))
    report = json.loads(pathlib.Path("out/report.json").read_text())
    found = graphmp.diff(original, converted)
    changed = {c.path for c in found.changes if c.category not in (FUNCTION, META_GRAPH)}
    proved = {node for claim in verify(original, converted).claims for node in claim.nodes}
    warned = {row["node"] for row in report["warnings"] if row["node"]}
    assert any(path.startswith("library/") for path in changed)
    capsys.readouterr()
    paths = sorted(changed | proved | warned)
    for path in paths:
        assert explain_by_report(converted, report, path).node == path
        assert dot.render(found, path)
    for path in paths[:: len(paths) // 5]:
        assert explained(capsys, "out/converted.meta", path)["node"] == path


def loop_graph():
    """A loop whose variable is multiplied by a weight in each turn."""
    with tf.Graph().as_default():
        weight = tf.get_variable(
            "weight", initializer=np.eye(8, dtype=np.float32), use_resource=False
        )
        start = tf.matmul(tf.placeholder(tf.float32, (8, 8), name="x"), weight, name="start")
        result = tf.while_loop(
            lambda i, v: i < 3,
            lambda i, v: (i + 1, tf.tanh(tf.matmul(v, weight, name="turn"))),
            (0, start),
            name="loop",
        )[1]
        tf.matmul(result, weight, name="end")
        return tf.train.export_meta_graph()


@pytest.mark.unit
def test_loops(tmp_path, monkeypatch, capsys):
    graph = loop_graph()
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model.meta").write_bytes(serialize(graph))
    assert explained(capsys, "model.meta", "loop/Merge_1")["units"][0]["dtype"] == "float16"
    grouped = explained(capsys, "model.meta", "loop/Merge_1", "--keep_float32=^loop/Exit_1$")[
        "units"
    ][0]
    assert [link["node"] for link in grouped["chain"]] == ["loop/Exit_1", "loop/Merge_1"]
    assert (
        grouped["reason"].startswith("group: ")
        and grouped["flags"][0]["text"] == "without --keep_float32='^loop/Exit_1$'"
    )
    invariant = next(
        node.name
        for node in graph.graph_def.node
        if node.op == "Enter" and node.attr["is_constant"].b and node.attr["T"].type == 1
    )
    value = explained(
        capsys, "model.meta", invariant + "_graphmp_float16", "--keep_float32=%s$" % invariant
    )
    assert value["note"].startswith("inserted: a second entrance") and [
        link["node"] for link in value["readers"]
    ] == ["loop/turn"]


@pytest.mark.unit
def test_a_second_constant(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [
        "w Const",
        "x Placeholder dtype=float32",
        "y MatMul x w T=float32",
        "z Exp w T=float32",
    ]
    pathlib.Path("model.meta").write_bytes(
        serialize(tiny.meta_graph(*lines, w=np.eye(3, dtype=np.float32)))
    )
    value = explained(capsys, "model.meta", "w_graphmp_float16")
    assert value["note"].startswith("inserted: a second constant") and (
        value["producer"]["node"],
        value["readers"][0]["node"],
    ) == ("w", "y")


@pytest.mark.unit
def test_an_op_that_nobody_knows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model.meta").write_bytes(
        serialize(tiny.meta_graph("x Placeholder dtype=float32", "y Unheard x T=float32"))
    )
    assert explained(capsys, "model.meta", "y")["note"].startswith("GMP109: ")


@pytest.mark.unit
def test_a_graph_that_would_be_left_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("model.meta").write_bytes(
        serialize(tiny.meta_graph("x Placeholder dtype=float16", "y MatMul x x T=float16"))
    )
    value = explained(capsys, "model.meta", "y")
    assert (
        "already half precision" in value["notes"][0]
        and value["note"] == "no type to change: it reads and writes float16"
    )


@pytest.mark.unit
@pytest.mark.parametrize(
    "argv, message",
    [
        (["model.meta"], "GMP001: graphmp explain model.meta: NODE is missing"),
        (["model.meta", "denze"], "GMP002: node denze: the graph has no such node; closest: dense"),
        (
            ["model.meta", "gradients/FusedBatchNrm"],
            "GMP002: node gradients/FusedBatchNrm: the graph has no such node; closest: ",
        ),
        (["model.meta", "qqqqqq"], "GMP002: node qqqqqq: the graph has no such node"),
        (
            ["model.meta", "exp:7"],
            "GMP002: tensor exp:7: the node has no such output; accepted are exp, exp:0",
        ),
        (
            ["out/converted.meta", "dense_graphmp_float16:1"],
            "GMP002: tensor dense_graphmp_float16:1: the node has no such output",
        ),
        (["gone.meta", "dense"], "GMP003: gone.meta"),
        (["model.meta", "dense", "--loss_scale=much"], "GMP002: --loss_scale=much"),
        (["GMP999"], "GMP002: explain GMP999: no such code; accepted are GMP001 to GMP1"),
    ],
)
def test_trouble_is_one_line_and_2(folder, capsys, argv, message):
    assert refused(capsys, *argv).startswith("graphmp: error " + message)


@pytest.mark.unit
def test_codes(capsys):
    assert printed(capsys, "gmp012").out.startswith(
        "GMP012 (error, exit status 1)\n  The recipe does not fit"
    )
    assert explained(capsys, "GMP105")["code"] == "GMP105"


@pytest.mark.slow
def test_nothing_but_the_result_in_a_process_of_its_own(folder):
    done = subprocess.run(
        [sys.executable, "-m", "graphmp", "explain", "model.meta", "exp_graphmp_float16", "--json"],
        env=environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"") and json.loads(done.stdout.decode())[
        "producer"
    ]["node"] == "exp"


@pytest.mark.unit
@recorded()
def test_nodes_of_a_real_graph(paths):
    graph = read_graph(
        next((path for path in paths if path.name == "captured__mnistconv.meta"), paths[0])
    )
    for node in graph.graph_def.node[::15]:
        found = explain(graph, Config.make(), Policy.default("float16"), node.name)
        assert bool(found.units) != bool(found.note)
        for unit in found.units:
            assert (
                unit.rule
                and unit.chain[-1].node == node.name
                and unit.dtype in ("float16", "float32")
            )
