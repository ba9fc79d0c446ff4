"""The summary of a review.

Counted in the graphs, the same words on terminal, in Markdown and in what convert prints; and
changes by importance.
"""

from __future__ import annotations

import types

import pytest
import tensorflow.compat.v1 as tf

import graphmp
from graphmp.cli.summary import summary as printed
from graphmp.compare.api import Diff, compare
from graphmp.compare.changes import Change
from graphmp.compare.review import importance, summary, words
from graphmp.compare.review.summary import ModelClip
from graphmp.compare.review.words import rows
from graphmp.verify import Claim
from graphmp.wording import labelled
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

SECTIONS = ["matmuls and convolutions", "other dtypes", "casts", "loss scale", "rest"]


def trained(losses=1):
    """A dense network that tests of a summary can count.

    Two layers a loss, one of them kept float32 by a rule of the user's.
    """
    graph = tf.Graph()
    with graph.as_default():
        for number in range(losses):
            with tf.variable_scope("part_%d" % number):
                x = tf.placeholder(tf.float32, [32, 64], "x")
                hidden = tf.layers.dense(x, 64, tf.nn.relu, name="hidden")
                loss = tf.reduce_mean(tf.square(tf.layers.dense(hidden, 64, name="top")))
                optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
                optimizer.apply_gradients(
                    optimizer.compute_gradients(loss, tf.trainable_variables("part_%d" % number))
                )
    return graph


@pytest.fixture(scope="module")
def conversion():
    return graphmp.convert(trained(), keep_float32=["top/MatMul$"])


@pytest.fixture(scope="module")
def diff(conversion):
    return conversion.diff()


def texts(summary, label):
    """What the rows of a label say, those that go on from them included."""
    found, current = [], ""
    for row in rows(summary):
        current = row.label or current
        found += [row.text] if current == label else []
    return found


def test_numbers_are_those_of_the_report(conversion, diff):
    coverage, report = diff.summary.coverage, conversion.report
    assert (coverage.matmuls, coverage.half_matmuls) == (
        report["coverage"]["tensor_core_ops"],
        report["coverage"]["converted_ops"],
    )
    assert coverage.half_matmuls < coverage.matmuls
    assert dict(coverage.half_ops) == report["half_ops"]
    assert coverage.casts == report["graph"]["casts_inserted"]
    assert diff.summary.variables == (report["variables"]["count"], report["variables"]["float32"])
    (flow,), (loss,) = diff.summary.flows, report["losses"]
    assert (flow.scale, flow.check, flow.unscales, flow.gates) == (
        loss["scale"],
        loss["finite"],
        len(loss["unscale"]),
        len(loss["gated"]),
    )


def test_writes_whose_value_is_selected_are_counted_as_gated():
    with tf.Graph().as_default() as graph:
        rows_ = tf.placeholder(tf.int32, [32], "rows")
        embedded = tf.nn.embedding_lookup(tf.get_variable("embedding", [50, 64]), rows_)
        hidden = tf.layers.dense(embedded, 64, use_bias=False)
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        optimizer.minimize(tf.reduce_mean(tf.square(hidden)), step, name="train")
    conversion = graphmp.convert(graph)
    (flow,), (loss,) = conversion.diff().summary.flows, conversion.report["losses"]
    assert flow.gates == len(loss["gated"]) == 3  # a kernel, rows of the embedding, the step


def test_numbers_are_counted_not_read(conversion):
    lie = dict(
        conversion.report,
        coverage={"tensor_core_ops": 0, "converted_ops": 0},
        half_ops={},
        losses=[],
    )
    told = compare(conversion.before, conversion.after, lie).summary
    assert told.coverage == conversion.diff().summary.coverage
    assert told.flows == conversion.diff().summary.flows


def test_matmuls_in_float32_come_first_with_their_reason(diff):
    first, *others = diff.summary.stayed.ops
    assert (first.nodes, first.kind, first.is_matmul) == (("part_0/top/MatMul",), "user rule", True)
    assert not any(op.is_matmul for op in others)
    assert [op.bytes for op in others] == sorted((op.bytes for op in others), reverse=True)
    head, line = texts(diff.summary, "float32")[:2]
    assert head.startswith("1 matmul or convolution; ")
    assert "part_0/top/MatMul: user rule" in line
    assert (
        texts(diff.summary, "float32")[2]
        .split("; such as ")[0]
        .split(": ")[0]
        .split()[0]
        .endswith("%")
    )


def test_matmuls_outside_the_training_step_are_counted_too(diff):
    coverage = diff.summary.coverage._replace(matmuls=diff.summary.coverage.matmuls + 2)
    head = texts(diff.summary._replace(coverage=coverage), "float32")[0]
    assert head.startswith("1 matmul or convolution in a training step, 2 outside it; ")


def test_the_way_of_the_scale_is_one_line(diff):
    counts, flow = texts(diff.summary, "loss")
    assert counts.startswith(
        "part_0/gradients: 1 seed, 4 gradients, 4 updates; scale dynamic from 32,768; clip none"
    )
    ((seed, product),) = diff.summary.flows[0].enters
    assert (seed.split("/")[:2], product) == (
        ["part_0", "gradients"],
        "graphmp/loss_scale/scaled_seed",
    )
    assert (
        flow == "graphmp/loss_scale/current -> x loss at %s -> 4 unscales -> all_finite -> 4 writes"
        " gated" % seed
    )


def test_each_loss_has_its_way():
    summary = graphmp.convert(trained(losses=2), loss_scale=128, clip_norm=5).diff().summary
    ways = [text for text in texts(summary, "loss") if "->" in text]
    assert [way.split(" -> ")[0] for way in ways] == [
        "graphmp/loss_scale/current",
        "graphmp/loss_scale_1/current",
    ]
    assert all(" -> clip_by_global_norm -> " in way for way in ways)
    assert [
        text
        for text in texts(summary, "loss")
        if "scale fixed 128; clip global norm 5 (graphmp's)" in text
    ]


def test_the_models_own_clip_is_told_from_graphmps(diff):
    own = ModelClip("clip/mul", "global norm", 5.0, (), False)
    reported = diff.summary.reported._replace(
        losses=(diff.summary.reported.losses[0]._replace(clips=(own, own)),)
    )
    counts, _, clip = texts(diff.summary._replace(reported=reported), "loss")
    assert counts.endswith("; clip global norm 5 (the model's own)")
    assert clip == "the model's own clip: clip/mul (and 1 more in report.json), BEFORE the unscale"
    silent = reported._replace(losses=(reported.losses[0]._replace(clips=None),))
    assert texts(diff.summary._replace(reported=silent), "loss")[0].endswith(
        "; no clip of graphmp's"
    )


def test_repaired_ops_are_named(diff):
    reported = diff.summary.reported._replace(repaired=3, repaired_ops=(("Sum", 2), ("Mean", 1)))
    line = texts(diff.summary._replace(reported=reported), "float16")[1]
    assert (
        line
        == "3 ops between them computed in float32 and cast back, as the policy says: Sum 2, Mean 1"
    )


def test_convert_prints_what_the_diff_begins_with(diff):
    said = [labelled(*row) for row in rows(diff.summary)]
    assert list(printed(diff, [], "next"))[: len(said)] == said
    assert diff.to_text().splitlines()[2 : 2 + len(said)] == said
    labels = [row.label for row in rows(diff.summary) if row.label]
    assert labels[1:] == [
        "engine",
        "float16",
        "float32",
        "variables",
        "loss",
        "casts",
        "proved",
        "versions",
    ]


def test_markdown_has_the_same_rows_as_a_table(diff):
    markdown = diff.to_markdown()
    table = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert [line.split(" | ")[0][2:] for line in table[1:]] == [
        row.label for row in rows(diff.summary)
    ][1:]
    assert "**clip** not applicable" not in markdown
    assert "**clip** not applicable" in diff.to_markdown(expand=True)
    assert (
        markdown.index("| engine |")
        < markdown.index("**variables**")
        < markdown.index("@@ matmuls")
    )


def test_without_a_report_it_says_so(conversion):
    bare = compare(conversion.before, conversion.after, names=("a.meta", "b.meta"))
    assert next(rows(bare.summary)).label == "a.meta"
    assert texts(bare.summary, "engine") == ["not known without the report of the conversion"]
    assert texts(bare.summary, "versions") == []
    assert texts(bare.summary, "loss") == [
        "scale dynamic from 32,768; no clip of graphmp's",
        *texts(conversion.diff().summary, "loss")[1:],
    ]
    assert [section.name for section in importance.sections(bare)] == SECTIONS


def test_a_report_of_other_graphs_is_said_to_be_one(conversion):
    strange = compare(conversion.before, meta_graph("x X"), conversion.report)
    (text,) = texts(strange.summary, "report")
    assert text.startswith("DOES NOT FIT: ")
    assert texts(strange.summary, "FAILED")[0].startswith("explained: ")


def test_two_graphs_that_have_nothing_to_do_with_each_other():
    found = compare(
        meta_graph("x MatMul T=float32"),
        meta_graph("y Relu T=float32", "v VariableV2 dtype=float32"),
    )
    assert texts(found.summary, "float32") == [
        "nothing computes in half precision: no matmul or convolution"
    ]
    assert texts(found.summary, "loss") == ["no loss scale in the graph"]
    assert texts(found.summary, "FAILED")[0].startswith("variables: ")
    assert [section.name for section in importance.sections(found)] == [
        "neither dtype nor cast nor loss scale"
    ]


def test_changes_go_by_importance(diff):
    found = importance.sections(diff)
    assert [section.name for section in found] == SECTIONS
    assert sum(section.size for section in found) == len(diff.changes)
    lines = diff.to_text().splitlines()
    assert len(lines) < 60
    assert sum("  graphmp/" in line for line in lines) < 12
    assert len(diff.to_text(expand=True).splitlines()) > len(diff.changes)


def test_the_unexplained_lead_and_are_not_folded(conversion):
    changes = [
        row
        for row in conversion.report["changes"]
        if not row["node"].startswith("graphmp/loss_scale/unscale")
    ]
    found = importance.sections(
        compare(conversion.before, conversion.after, dict(conversion.report, changes=changes))
    )
    assert found[0].name == "unexplained"
    assert [pattern.text for group in found[0].groups for pattern in group.patterns] == [
        "graphmp/loss_scale/unscale*"
    ]


def test_larger_nodes_come_first(diff):
    matmuls = next(section for section in importance.sections(diff) if section.name == SECTIONS[0])
    sizes = [
        sum(diff.work[change.path].bytes for change in group.changes) for group in matmuls.groups
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] > 0


def test_changes_of_the_same_nodes_are_one_line():
    changes = [Change("n_%d" % n, "op", "A", "B", "r", kind="infer") for n in (1, 2)]
    changes += [
        Change("n_%d" % n, "dtype", "float32", "float16", "r", "T", kind="infer") for n in (1, 2)
    ]
    text = Diff(tuple(changes), has_report=True).to_text()
    assert "  n_*  op A -> B, T float32 -> float16  x2  # r\n" in text


def test_what_is_not_shown_is_counted():
    text = Diff(
        tuple(
            Change("n%03dx" % n, "dtype", "float32", "float16", "r", "T", kind="infer")
            for n in range(50)
        )
    ).to_text()
    assert text.endswith("  and 30 more changes in 30 lines: --all shows them\n")


def test_a_claim_that_is_not_proved_is_named(diff):
    unclear = (
        Claim("scale cancels", "not proved", "roots", ("w",)),
        Claim("inputs", "not applicable", "none"),
    )
    summary = diff.summary._replace(claims=unclear)
    assert texts(summary, "not proved") == ["scale cancels: roots"]
    assert texts(summary, "proved") == ["nothing; 1 not applicable"]


@pytest.mark.unit
def test_a_clip_by_value_behind_graphmps_is_no_clip_by_a_norm(graph):
    """The values that it bounds are products with graphmp's factor."""
    x, weights = tf.placeholder(tf.float32, [4, 8]), tf.get_variable("weights", [8, 8])
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(tf.reduce_mean(tf.square(tf.matmul(x, weights))))
    optimizer.apply_gradients([(tf.minimum(tf.maximum(g, -5.0), 5.0), v) for g, v in pairs])
    report = graphmp.convert(graph, clip_norm=5.0, engine="rewrite").report
    kinds = [clip["kind"] for clip in report["losses"][0]["user_clips"]]
    assert report["losses"][0]["clip"] and set(kinds) == {"value"}


@pytest.mark.parametrize(
    "row, said",
    [
        ({"clip": "graphmp/clip", "user_clips": []}, "clip global norm 2 (graphmp's)"),
        ({"clip": "", "user_clips": []}, "clip none"),
        ({"clip": "", "user_clips": [], "calls": ["f"]}, "no clip of graphmp's"),
    ],
)
def test_a_loss_that_graphmp_doesnt_clip_has_no_clip_of_graphmps(row, said):
    """One in a function may have a clip of the model's own there, which the report doesn't name."""
    loss = summary._loss(row)
    found = types.SimpleNamespace(reported=types.SimpleNamespace(clip_norm=2.0))
    assert words._clip(loss, None, found) == said


@pytest.mark.unit
@pytest.mark.parametrize("scale", ["library/f/graphmp/loss_scale/current", ""])
def test_the_scale_of_a_loss_in_a_function_is_named(scale):
    loss = summary._loss({"gradient_scope": "library/f/gradients", "scale": scale, "calls": ["f"]})
    found = types.SimpleNamespace(reported=types.SimpleNamespace(clip_norm=None))
    said = "scale by %s;" % scale if scale else "scale none;"
    assert said in words._loss(loss, None, found)
