"""The forms of a diff: text, Markdown, JSON and its schema, patterns."""

from __future__ import annotations

import dataclasses
import json

import pytest

import graphmp
from graphmp.compare.api import Diff, compare
from graphmp.compare.categories import CATEGORIES
from graphmp.compare.changes import Change
from graphmp.compare.render import markdown
from graphmp.errors import GraphmpError
from graphmp.graph.io.messages import with_nodes_reversed
from graphmp.verify import Claim
from graphmp.wording import printable
from tests.support.corpus import recorded
from tests.support.places import ROOT
from tests.support.tiny import meta_graph, report

pytestmark = pytest.mark.unit

SCHEMA = json.loads(
    (ROOT / "graphmp" / "files" / "schema" / "graphmp.diff-1.schema.json").read_text("utf-8")
)
HOSTILE = "</script><img src=x onerror=alert(1)>|`[b]\x1b[31m\u202e&amp;"
CAST = "x_half Cast x SrcT=float32 DstT=float16"
BEFORE = meta_graph("x X", "y Relu x T=float32", "z NoOp")
AFTER = meta_graph("x X", CAST, "y Relu x_half T=float16", "z NoOp @/gpu:0")


def change(node, category="node added", before=None, after="NoOp", **fields):
    return Change(node, category, before, after, **fields)


def many(count, **fields):
    return tuple(
        change("n%05dx" % index, **fields) for index in range(count)
    )  # digits inside a word: no pattern


def alike(*names, **fields):
    return Diff(tuple(change(name, **fields) for name in names)).patterns()


@pytest.mark.parametrize(
    "diff, summary",
    [
        (Diff(()), "no changes"),
        (Diff(many(1)), "1 change: 1 node added"),
        (Diff(many(1), has_report=True), "1 change: 1 node added; 1 unexplained"),
        (Diff(many(2, reason="r"), has_report=True), "2 changes: 2 node added; all explained"),
        (
            Diff(many(2, reason="r"), has_report=True, stale=("x: gone",)),
            "2 changes: 2 node added; all explained; the report is stale",
        ),
        (
            Diff((), has_report=True, stale=("x: gone",)),
            "no changes; all explained; the report is stale",
        ),
        (
            Diff((change("a", "dtype", "x", "y"), *many(1200)), has_report=False),
            "1,201 changes: 1 dtype, 1,200 node added",
        ),
    ],
)
def test_summary_leads_every_text(diff, summary):
    assert diff.to_text().split("\n")[0] == summary
    assert diff.to_markdown().split("\n")[0] == "**%s**" % summary
    assert summary in diff.to_html()


def test_text():
    found = Diff(
        compare(BEFORE, AFTER, report(y="allow", x_half="cast")).changes,
        True,
        claims=(Claim("variables", "proved", "2 of 2 float32"),),
    )
    assert found.to_text() == (
        "4 changes: 1 device, 1 dtype, 1 edge via cast, 1 node added; 1 unexplained\n"
        "\n"
        "claims\n"
        "  proved          variables  2 of 2 float32\n"
        "\n"
        "unexplained (1)\n"
        "  z  device + /gpu:0  # unexplained\n"
        "\n"
        "other dtypes (1)\n"
        "  y  T float32 -> float16  # allow\n"
        "\n"
        "casts (1)\n"
        "  y  input 0 x -> x_half  # allow\n"
        "\n"
        "rest (1)\n"
        "  x_half  + Cast DstT=float16 SrcT=float32  # cast\n"
    )


def test_text_says_what_is_stale_and_stops_there():
    text = Diff(
        (), has_report=True, stale=tuple("n%d: op: A -> B" % number for number in range(12))
    ).to_text()
    assert "in the report, but not in these graphs (12)\n  n0: op: A -> B\n" in text
    assert "  n9: op: A -> B\n  and 2 more\n" in text
    assert "n10" not in text


def test_repeats_are_one_line():
    diff = Diff(
        tuple(
            change("layer_%d/w" % number, "dtype", "float32", "float16", part="T", reason="allow")
            for number in (1, 2, 3)
        )
    )
    assert "\n  layer_*/w  T float32 -> float16  x3  # allow\n" in diff.to_text()
    assert "  layer_*/w  T float32 -> float16  x3  # allow\n" in diff.to_markdown()
    for text in (diff.to_text(expand=True), diff.to_markdown(expand=True)):
        assert "layer_*" not in text
        assert "  layer_2/w  T float32 -> float16  # allow\n" in text


@pytest.mark.parametrize(
    "names, text",
    [
        (["dense/kernel", "dense_1/kernel", "dense_2/kernel"], "dense*/kernel"),
        (["dense_1/kernel", "dense_2/kernel"], "dense_*/kernel"),
        (["layer1/w", "layer2/w"], "layer*/w"),
        (["block1/unit_1/conv1", "block1/unit_2/conv1"], "block1/unit_*/conv1"),
        (["a/Conv2D", "a_1/Conv2D"], "a*/Conv2D"),
        (["a_graphmp_float16", "a_1_graphmp_float16"], None),
        (["x/Conv2D", "x/Conv3D"], None),
        (["L2Loss_1", "L2Loss_2"], "L2Loss_*"),
        (["V2/a", "V3/a"], "V*/a"),
        (["a_1x", "a_2x"], None),
        (["a", "b"], None),
    ],
)
def test_patterns(names, text):
    found = alike(*names)
    assert [pattern.text for pattern in found] == ([text] if text else names)
    assert sum(len(pattern.changes) for pattern in found) == len(names)


@pytest.mark.parametrize("field", ["category", "part", "before", "after", "kind", "reason"])
def test_what_differs_in_more_than_numbers_is_no_pattern(field):
    first = change("a_1", "dtype", "b", "c", part="p", kind="k", reason="r")
    second = dataclasses.replace(
        first, node="a_2", **{field: {"category": "op"}.get(field, "other")}
    )
    assert len(Diff((first, second)).patterns()) == 2


def test_patterns_of_edges_take_in_what_they_read():
    changes = [
        change(
            "layer_%d/y" % n,
            "edge via cast",
            "layer_%d/x" % n,
            "layer_%d/x_graphmp_float16" % n,
            part="input 0",
        )
        for n in (1, 2)
    ]
    (pattern,) = Diff(tuple(changes)).patterns()
    assert (pattern.before, pattern.after) == ("layer_*/x", "layer_*/x_graphmp_float16")
    changes[1] = dataclasses.replace(changes[1], before="elsewhere")
    assert len(Diff(tuple(changes)).patterns()) == 2


def test_values_are_no_names():
    changes = tuple(
        change("c_%d" % n, "constant value", "float32[] 1e-0%d" % n, "float32[] 0") for n in (7, 8)
    )
    assert len(Diff(changes).patterns()) == 2


def test_the_unexplained_lead_their_category():
    diff = Diff((*many(3, reason="r"), change("zebra")), has_report=True)
    assert diff.patterns()[0].text == "zebra"
    assert diff.changes[-1].node == "zebra"
    assert diff.to_text().split("\n")[3] == "  zebra  + NoOp  # unexplained"


def test_markdown():
    diff = Diff(
        (
            change("a", "dtype", "float32", "float16", part="T", reason="allow"),
            change("b", reason="r"),
            change("c", "node removed", "NoOp", None),
        ),
        has_report=True,
        claims=(
            Claim("variables", "proved", "2 of 2 *float32*"),
            Claim("loss", "failed", "loss is float16"),
            Claim("x", "not applicable", "none"),
        ),
        stale=("d: op: A -> B",),
    )
    assert diff.to_markdown() == (
        "**3 changes: 1 node removed, 1 dtype, 1 node added; 1 unexplained; the report is stale**\n"
        "\n"
        "- [x] **variables** proved: 2 of 2 \\*float32\\*\n"
        "- [ ] **loss** failed: loss is float16\n"
        "- **x** not applicable: none\n"
        "\n"
        "```diff\n"
        "@@ unexplained (1) @@\n"
        "! unexplained: c  - NoOp\n"
        "@@ other dtypes (1) @@\n"
        "  a  T float32 -> float16  # allow\n"
        "@@ rest (1) @@\n"
        "+ b  + NoOp  # r\n"
        "! stale: d: op: A -> B\n"
        "```\n"
    )


@pytest.mark.parametrize("name", ["a|b", "`a`", "```", "````\n```", HOSTILE])
def test_markdown_holds_anything(name):
    lines = Diff((change(name, reason="r"),), has_report=True).to_markdown().splitlines()
    fence = lines[2][: -len("diff")]
    assert lines[-1] == fence
    assert set(fence) == {"`"}
    assert lines[4] == "+ %s  + NoOp  # r" % printable(name)
    assert fence not in lines[4]


@pytest.mark.parametrize("count", [10, 5000])
@pytest.mark.parametrize("letter", ["n", "\u00e9", "\u6f22"])
def test_markdown_fits_a_comment_and_says_what_it_leaves_out(count, letter):
    text = Diff(tuple(change("%s%05dx" % (letter * 40, n)) for n in range(count))).to_markdown(
        expand=True
    )
    assert len(text.encode("utf-8")) < markdown.MOST_BYTES
    shown = text.count("NoOp")
    assert shown == count or "%s lines left out" % format(count - shown, ",") in text
    assert (shown == count) == (count == 10)
    assert len(text.encode("utf-8")) > 0.9 * markdown.MOST_BYTES or count == 10


@pytest.mark.parametrize("field", ["node", "before", "after", "reason", "part", "body"])
def test_names_are_text_everywhere(field):
    hostile = dataclasses.replace(
        change("n", "dtype", "b", "a", reason="r", part="p"), **{field: HOSTILE}
    )
    diff = Diff(
        (hostile,),
        has_report=True,
        names=(HOSTILE, HOSTILE),
        stale=(HOSTILE,),
        claims=(Claim("c", "failed", HOSTILE, (HOSTILE,)),),
    )
    for text in (diff.to_text(), diff.to_markdown()):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert printable(HOSTILE) in text
    assert diff.to_json()["changes"][0][field] == HOSTILE


def test_json():
    diff = compare(BEFORE, AFTER, report(y="allow"), ("a.meta", "b.meta"))
    value = diff.to_json()
    assert json.loads(json.dumps(value)) == value
    assert {
        key: value[key]
        for key in ("schema", "before", "after", "identical", "unexplained", "stale")
    } == {
        "schema": "graphmp.diff/1",
        "before": "a.meta",
        "after": "b.meta",
        "identical": False,
        "unexplained": 2,
        "stale": [],
    }
    assert value["counts"] == {"device": 1, "dtype": 1, "edge via cast": 1, "node added": 1}
    assert value["changes"][1] == {
        "body": "",
        "node": "y",
        "category": "dtype",
        "part": "T",
        "before": "float32",
        "after": "float16",
        "kind": "",
        "reason": "allow",
    }
    assert [pattern["count"] for pattern in value["patterns"]] == [1, 1, 1, 1]
    assert {check["name"]: check["status"] for check in value["checks"]}["explained"] == "failed"
    assert (
        compare(BEFORE, AFTER).to_json()["unexplained"],
        compare(BEFORE, AFTER).to_json()["stale"],
    ) == (None, None)


def conforms(value):
    """Whether a JSON value is what the schema says."""
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    return jsonschema.Draft7Validator(SCHEMA).is_valid(value)


@recorded(slice(1, None, 6), slow=slice(None), own=slice(2))
def test_the_schema_is_of_what_is_written(paths):
    value = compare(BEFORE, AFTER, report(y="allow", gone="x")).to_json()
    assert conforms(value)
    for path in paths:
        assert conforms(graphmp.convert(path).diff().to_json()), path.name


def test_the_schema_refuses_what_is_not():
    value = compare(BEFORE, AFTER, report(y="allow")).to_json()
    for key in value:
        assert not conforms({name: rest for name, rest in value.items() if name != key}), key
        assert not conforms({**value, key: 1.5}), key
    assert not conforms({**value, "more": 1})
    assert not conforms({**value, "counts": {"colour": 1}})
    assert SCHEMA["definitions"]["category"]["enum"] == list(CATEGORIES)


@recorded(slice(4, 6), own=slice(2))
def test_json_is_the_same_in_any_order_of_nodes(paths):
    texts = set()
    for path in paths:
        conversion = graphmp.convert(path)
        for before, after in (
            (conversion.original, conversion.meta_graph),
            [with_nodes_reversed(g) for g in (conversion.original, conversion.meta_graph)],
        ):
            value = compare(before, after, conversion.report).to_json()
            texts.add((path.name, json.dumps(value, indent=1, sort_keys=True)))
    assert len(texts) == len(paths)


def test_to_html_writes_the_file(tmp_path):
    diff = compare(BEFORE, AFTER)
    page = diff.to_html(tmp_path / "diff.html")
    assert (tmp_path / "diff.html").read_text(encoding="utf-8") == page
    with pytest.raises(GraphmpError, match="GMP004"):
        diff.to_html(str(tmp_path / "missing" / "diff.html"))


def test_to_model_explorer_writes_a_folder(tmp_path):
    command = compare(BEFORE, AFTER).to_model_explorer(tmp_path / "new" / "folder")
    assert command == "python %s" % (tmp_path / "new" / "folder" / "open.py")
    assert {path.name for path in (tmp_path / "new" / "folder").iterdir()} >= {
        "original.json",
        "converted.json",
        "sync_navigation.json",
        "open.py",
    }
    (tmp_path / "file").write_text("")
    with pytest.raises(GraphmpError, match="GMP004"):
        compare(BEFORE, AFTER).to_model_explorer(tmp_path / "file")


def test_every_category_is_shown_everywhere():
    diff = Diff(tuple(Change("n", category, "b", "a") for category in CATEGORIES))
    assert list(diff.counts()) == list(CATEGORIES)
    for text in (diff.to_text(), diff.to_markdown(), diff.to_html()):
        assert all(category in text for category in CATEGORIES)


@recorded(slice(1))
def test_two_conversions_of_one_graph(paths):
    """A diff of any two graphs: a dynamic scale against a fixed one."""
    first, second = (
        graphmp.convert(paths[0]).meta_graph,
        graphmp.convert(paths[0], loss_scale=128).meta_graph,
    )
    diff = compare(first, second)
    assert diff.changes
    assert "unexplained" not in diff.to_text()
    assert compare(diff.apply(first), second).identical
