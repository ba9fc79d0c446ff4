"""The page of a diff as data and text; tests/browser has what a browser makes of it."""

from __future__ import annotations

import collections
import html as html_module
import itertools
import pathlib
import re

import pytest
import tensorflow.compat.v1 as tf

from graphmp.compare.api import Diff, compare
from graphmp.compare.changes import BodyPair, Change
from graphmp.compare.render import html
from graphmp.compare.render.page_data import page_data
from graphmp.compare.render.page_data.flow import flow_stages
from graphmp.compare.render.page_data.tree import FIELD, IN_AFTER, IN_BEFORE, SAME, SECTION, natural
from graphmp.compare.review import words
from graphmp.graph.structure.view import GraphView
from tests.support.page_policy import own_alone, policy
from tests.support.pages import (
    HOSTILE,
    TRAINED,
    TRAINED_REPORT,
    UNTRAINED,
    hostile,
    layers,
    page_json,
    sample,
    trained,
    view,
)
from tests.support.tiny import meta_graph

pytestmark = pytest.mark.unit

PARTS = pathlib.Path(html.__file__).parent / "page"


class Decoded:
    """The data of a page with numbers turned into what they stand for, as the scripts do it."""

    def __init__(self, diff):
        self.data = page_data(diff)
        self.strings = self.data["strings"]
        self.paths = []
        for depth, label, what in zip(
            *(self.data["rows"][name] for name in ("depth", "label", "what"))
        ):
            self.paths = self.paths + [self._scope(depth, what) + self.strings[label]]
        self.records = self._records()

    def _scope(self, depth, what):
        """What stands before a row's label: the path of the last row one level up."""
        if depth == 0 or what & FIELD:
            return ""
        row = max(
            row for row in range(len(self.paths)) if self.data["rows"]["depth"][row] == depth - 1
        )
        return self.paths[row] + "/"

    def _records(self):
        """(path, side): (op, device, main dtype, attributes, inputs)."""
        nodes, found, edges, record = (
            self.data["nodes"],
            {},
            iter(zip(self.data["nodes"]["above"], self.data["nodes"]["output"])),
            0,
        )
        for row, what in enumerate(self.data["rows"]["what"]):
            for side in [
                side
                for side in (IN_BEFORE, IN_AFTER)
                if what & side and not (what & SAME and side == IN_AFTER)
            ]:
                dtype, *pairs = self.data["sets"][nodes["attributes"][record]]
                texts = [
                    self.strings[number]
                    for pair in pairs
                    for number in self.data["pairs"][2 * pair : 2 * pair + 2]
                ]
                inputs = [
                    (above, output)
                    for above, output in (next(edges) for _ in range(nodes["inputs"][record]))
                ]
                rows = itertools.accumulate([row] + [-above for above, _ in inputs])
                inputs = [
                    (self.paths[source], output)
                    for source, (_, output) in zip(list(rows)[1:], inputs)
                ]
                words = (
                    self.strings[nodes["op"][record]],
                    self.strings[nodes["device"][record]],
                    self.strings[dtype],
                )
                found[self.paths[row], side] = (*words, dict(zip(texts[::2], texts[1::2])), inputs)
                record += 1
        assert record == len(nodes["op"])
        return found

    def what(self, path):
        return self.data["rows"]["what"][self.paths.index(path)]


def test_rows_are_the_union_of_both_sides_in_natural_order():
    assert Decoded(sample()).paths == [
        "conv1", "conv1/Conv2D", "conv1/kernel", "conv1/kernel_graphmp_float16",
        "conv2", "conv2/Conv2D", "conv2/kernel", "conv2/kernel_graphmp_float16",
        "conv10", "conv10/Conv2D", "conv10/Conv2D_graphmp_float32", "conv10/kernel", "conv10/kernel_graphmp_float16",
        "graphmp", "graphmp/loss_scale", "graphmp/loss_scale/scaled_loss",
        "images", "images_graphmp_float16", "init", "loss", "summary", "summary/loss", "tower_1", "tower_1/result",
        "library", "library/f", "library/f/x", "library/f/y",
        "meta graph", "collection_def/losses",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "path, what",
    [
        ("images", IN_BEFORE | IN_AFTER | SAME),
        ("conv1", 0),
        ("conv1/Conv2D", IN_BEFORE | IN_AFTER),
        ("images_graphmp_float16", IN_AFTER),
        ("summary/loss", IN_BEFORE),
        ("library", SECTION),
        ("collection_def/losses", FIELD),
    ],
)
def test_a_row_says_on_which_sides_it_is(path, what):
    assert Decoded(sample()).what(path) == what


def test_nodes_have_their_op_dtype_attributes_and_inputs_on_each_side():
    records = Decoded(sample()).records
    assert records["conv1/Conv2D", IN_BEFORE] == (
        "Conv2D",
        "",
        "float32",
        {"T": "float32"},
        [("images", 0), ("conv1/kernel", 0)],
    )
    assert records["conv1/Conv2D", IN_AFTER][2:] == (
        "float16",
        {"T": "float16"},
        [("images_graphmp_float16", 0), ("conv1/kernel_graphmp_float16", 0)],
    )
    assert records["images_graphmp_float16", IN_AFTER][2] == "float32→float16"
    assert records["init", IN_BEFORE][-1] == [("summary/loss", -1)]
    assert ("images", IN_AFTER) not in records  # the same as before


def test_a_renamed_node_is_one_row_with_both_names():
    decoded = Decoded(sample())
    row, old = decoded.data["rows"]["renamed"]
    assert (decoded.paths[row], decoded.strings[old]) == ("tower_1/result", "tower/out")
    assert decoded.records["loss", IN_BEFORE][-1] == [
        ("tower_1/result", 0)
    ]  # which reads it under its old name


def test_outputs_of_nodes_in_functions_are_named():
    body = tf.GraphDef()
    body.node.add(name="y", op="Split")
    graph = GraphView(body)
    graph._inputs["y"] = (graph_port("y", "out:1"),)
    assert Decoded(Diff((), bodies=(BodyPair("f", graph, graph, {}),))).records[
        "library/f/y", IN_BEFORE
    ][-1] == [("library/f/y", "out:1")]


def graph_port(node, output):
    from graphmp.graph.structure.view import Port

    return Port(node, output)


def test_changes_and_reasons_stand_at_their_rows():
    decoded = Decoded(sample())
    changes = decoded.data["changes"]
    rows = [decoded.paths[row] for row in changes["row"]]
    assert rows == [change.path for change in sample().changes]
    kept = [
        (decoded.paths[row], decoded.data["kinds"][kind])
        for row, kind in zip(decoded.data["kept"]["row"], decoded.data["kept"]["kind"])
    ]
    assert kept == [
        ("loss", "loss kept"),
        ("conv1/kernel", "variable kept"),
        ("conv2/kernel", "variable kept"),
        ("library/f/x", "pinned"),
    ]
    assert [decoded.strings[reason] for reason in changes["reason"]] == [
        change.reason for change in sample().changes
    ]


def test_counts_are_those_of_the_json_form():
    diff = sample()
    data, form = page_data(diff), diff.to_json()
    categories = collections.Counter(
        data["categories"][number] for number in data["changes"]["category"]
    )
    assert categories == collections.Counter(change["category"] for change in form["changes"])
    kinds = collections.Counter(
        data["kinds"][number]
        for number in data["changes"]["kind"] + data["kept"]["kind"]
        if number >= 0
    )
    assert kinds == collections.Counter(
        change.kind for change in diff.changes + diff.kept if change.kind
    )


def test_patterns_hold_every_change_once():
    data = page_data(layers(30))
    counts = collections.Counter(data["changes"]["pattern"])
    assert sum(counts.values()) == len(data["changes"]["row"])
    assert set(counts) == set(range(len(data["patterns"])))


def test_what_stayed_float32_has_patterns_too():
    decoded = Decoded(sample())
    patterns = decoded.data["patterns"]
    found = {
        decoded.paths[row]: patterns[number]
        for row, number in zip(decoded.data["kept"]["row"], decoded.data["kept"]["pattern"])
    }
    assert found["conv1/kernel"] == found["conv2/kernel"] != found["loss"]
    text, category = found["conv1/kernel"][:2]
    assert (decoded.strings[text], category) == ("conv*/kernel", -1)


def test_the_way_of_the_loss_scale_is_stages_that_lead_to_rows():
    decoded = Decoded(trained())
    (stages,) = decoded.data["flow"]
    words = [
        (decoded.strings[title], decoded.strings[text], shape) for title, text, shape, _ in stages
    ]
    assert words == [
        ("loss", "loss", "plain"), ("\u00d7 scale", "fixed 128", "ours"), ("gradient code", "gradients", "scaled"),
        ("\u00f7 unscale", "2 divisions", "ours"), ("finite check", "all_finite", "ours"), ("clip", "none by graphmp", "absent"),
        ("gate", "2 writes", "ours"), ("update", "2 variables", "plain"),
    ]  # fmt: skip
    assert [[decoded.paths[row] for row in rows] for _, _, _, rows in stages][:4] == [
        ["loss"], ["graphmp/loss_scale/scaled_loss", "graphmp/loss_scale/current"], ["gradients"],
        ["graphmp/loss_scale/unscale", "graphmp/loss_scale/unscale_1"],
    ]  # fmt: skip


@pytest.mark.parametrize("is_after, place", [(True, 5), (False, 3)])
def test_the_model_s_own_clip_stands_where_it_is(is_after, place):
    clip = {
        "node": "gradients/second/MatMul",
        "after_unscale": is_after,
        "kind": "norm",
        "norm": 1.0,
    }
    loss = {**TRAINED_REPORT["losses"][0], "user_clips": [clip]}
    diff = compare(
        meta_graph(*UNTRAINED, rate=0.1),
        meta_graph(*TRAINED, rate=0.1),
        {**TRAINED_REPORT, "losses": [loss]},
    )
    stages = flow_stages(diff)[0]
    assert stages[place] == ("clip", "the model's own", "plain", ["gradients/second/MatMul"])
    assert len(stages) == 8


def test_matmuls_and_convolutions_are_named_for_the_map():
    decoded = Decoded(trained())
    assert [decoded.strings[op] for op in decoded.data["work"]] == ["MatMul"]


def test_checks_and_stale_rows_lead_to_rows_where_there_are_any():
    decoded = Decoded(sample())
    assert [[decoded.paths[row] for row in rows] for _, _, _, rows in decoded.data["claims"]] == [
        ["conv1/kernel", "conv2/kernel", "conv10/kernel"], ["graphmp/loss_scale/scaled_loss"], [],
    ]  # fmt: skip
    assert [row for _, row in decoded.data["stale"]] == [-1]


def test_a_diff_without_bodies_has_the_rows_of_its_changes():
    bare = Diff(sample().changes, kept=sample().kept)
    decoded = Decoded(bare)
    assert decoded.what("images_graphmp_float16") == IN_AFTER
    assert decoded.what("summary/loss") == IN_BEFORE
    assert decoded.what("conv1/Conv2D") & (IN_BEFORE | IN_AFTER) == IN_BEFORE | IN_AFTER
    assert decoded.strings[decoded.data["rows"]["renamed"][1]] == "tower/out"
    assert "library/f/y" in decoded.paths and "collection_def/losses" in decoded.paths
    assert bare.to_html().startswith("<!DOCTYPE html>")


def test_texts_are_stored_once_and_long_ones_short():
    graph = tf.GraphDef()
    for number in range(50):
        graph.node.add(name="n%d" % number, op="Op").attr["s"].s = b"long " * 1000
    data = page_data(Diff((), bodies=(BodyPair("", GraphView(graph), GraphView(graph), {}),)))
    assert len(data["sets"]) == 2 and len(data["pairs"]) == 2
    assert max(map(len, data["strings"])) < 200
    assert len(set(data["strings"])) == len(data["strings"])


def test_constants_show_their_first_elements():
    graph = GraphView(meta_graph("c Const", c=[1, 2, 3, 4, 5]).graph_def)
    attributes = Decoded(Diff((), bodies=(BodyPair("", graph, graph, {}),))).records[
        "c", IN_BEFORE
    ][3]
    assert attributes["value"] == "float32[5] 1.0, 2.0, 3.0, 4.0, ..."


def test_a_constant_that_would_fill_the_memory_shows_its_shape():
    graph = meta_graph("c Const", c=[1]).graph_def
    graph.node[0].attr["value"].tensor.tensor_shape.dim[0].size = 1 << 40
    attributes = Decoded(
        Diff((), bodies=(BodyPair("", GraphView(graph), GraphView(graph), {}),))
    ).records["c", IN_BEFORE][3]
    assert attributes["value"] == "float32[1099511627776]"


@pytest.mark.parametrize(
    "labels",
    [
        ["conv2", "conv10"],
        ["a", "a_1", "a_2", "a_10"],
        ["Adam", "beta", "Conv"],
        ["x9", "x%s" % ("9" * 5000)],
    ],
)
def test_labels_sort_as_people_count(labels):
    backwards = labels[::-1]
    assert sorted(backwards, key=natural) == labels


def test_the_policy_admits_the_page_s_own_style_and_script_alone():
    page = sample().to_html()
    assert policy(page) == own_alone(page)


def test_the_page_refers_to_nothing_elsewhere():
    page = sample().to_html()
    assert set(re.findall(r"https?://[^\s'\"]*", page)) == {
        "http://www.w3.org/2000/svg"
    }  # a name, never loaded
    assert not re.search(r"\ssrc=|<link|@import|url\(|\son\w+=|\sstyle=", page)


def test_names_never_become_markup():
    page = hostile().to_html()
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page
    scripts = "".join(path.read_text(encoding="utf-8") for path in PARTS.glob("*.js"))
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", scripts
    )
    assert all(text.isprintable() for text in page_json(page)["strings"])


def test_the_title_names_model_dtype_and_coverage_and_the_summary_leads():
    page = trained().to_html()
    assert (
        re.search("<title>(.*)</title>", page).group(1)
        == "dense \u00b7 float16 \u00b7 1 of 4 matmuls and convolutions"
    )
    assert "<h1>dense \u00b7 float16 \u00b7 1 of 4 matmuls and convolutions</h1>" in page
    summary = page.split('<dl id="summary">')[1].split("</dl>")[0]
    lines = [html_module.unescape(text) for text in re.findall("<dd>(.*?)</dd>", summary)]
    assert (
        lines == [row.text for row in words.rows(trained().summary)][1:]
    )  # the first is the title's


def test_a_report_never_becomes_markup():
    report = {
        **TRAINED_REPORT,
        "source": HOSTILE,
        "engine": HOSTILE,
        "engine_reason": HOSTILE,
        "graphmp_version": HOSTILE,
    }
    page = compare(
        meta_graph(*UNTRAINED, rate=0.1), meta_graph(*TRAINED, rate=0.1), report
    ).to_html()
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page and "\x1b" not in page and "\u202e" not in page


def test_every_script_is_on_the_page():
    assert sorted(html.SCRIPTS) == sorted(path.stem for path in PARTS.glob("*.js"))


def test_the_same_diff_gives_the_same_bytes():
    assert sample().to_html() == sample().to_html()


def test_without_scripts_the_page_says_the_most_important():
    plain = sample().to_html().split("<noscript>")[1].split("</noscript>")[0]
    for line in ("<li>scale cancels failed: nothing divides by it</li>", "<h2>2 changes unexplained</h2>", "<li>summary/loss: node removed</li>",
                 "<h2>The report is stale</h2>", "<li>3 edge via cast</li>"):  # fmt: skip
        assert line in plain


def test_without_a_report_nothing_is_called_unexplained():
    page = Diff(sample().changes).to_html()
    assert "unexplained" not in page.split("<script", 1)[0].split("<body>")[1]
    assert page_json(page)["report"] is False


def test_identical_graphs_have_a_page_too():
    page = Diff((), bodies=(BodyPair("", view("a NoOp"), view("a NoOp"), {}),)).to_html()
    assert "no changes" in page and page_json(page)["changes"]["row"] == []


def test_a_notebook_gets_the_page_in_a_frame_that_may_only_run_scripts():
    frame = sample()._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="')
    assert (
        html_module.unescape(re.search(r'srcdoc="([^"]*)"', frame).group(1)) == sample().to_html()
    )


def test_layers_that_repeat_take_a_few_bytes_each():
    small, large = (len(layers(count).to_html()) for count in (100, 1000))
    assert (large - small) / (900 * 5) < 20  # bytes a node


def test_a_change_of_a_node_that_no_body_has_still_has_a_row():
    diff = Diff(
        (Change("new/x", "dtype", "float32", "float16", part="T"),),
        bodies=(BodyPair("", view("a NoOp"), view("a NoOp"), {}),),
    )
    assert Decoded(diff).paths == ["a", "new", "new/x"]
