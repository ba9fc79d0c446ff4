"""The sizes and the table of tools/tuned_gallery.py."""

from __future__ import annotations

import json
import math

import pytest
import tensorflow.compat.v1 as tf

from tests.support.places import ROOT

pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(tf.__version__ < "2", reason="bfloat16 is measured on TensorFlow 2"),
]


@pytest.mark.parametrize(
    "sizes, seconds, found",
    [
        ({"width": 8, "batch_size": 4}, 0.060, {"width": 8, "batch_size": 4}),
        ({"width": 8, "batch_size": 4}, 0.030, {"width": 16, "batch_size": 4}),
        ({"width": 8, "batch_size": 4}, 0.020, {"width": 16, "batch_size": 8}),
        ({"batch_size": 4}, 0.010, {"batch_size": 32}),
        ({"batch_size": 4}, 0.001, {"batch_size": 256}),  # far from it, two doublings at once
    ],
)
def test_sizes_are_doubled_by_turns(tool, sizes, seconds, found):
    def step(tried):
        return seconds * math.prod(tried.values()) / math.prod(sizes.values())

    assert tool("tuned_gallery").enlarged(sizes, sizes, step)[0] == found


def test_a_step_that_stays_short_is_named(tool):
    with pytest.raises(tool("gallery").Failed, match=r"a step takes 0\.001 s with .*batch_size"):
        tool("tuned_gallery").enlarged({"batch_size": 1}, {"batch_size": 1}, lambda sizes: 0.001)


def test_sizes_of_before_are_enlarged_in_their_turn(tool):
    smoke, before = {"width": 8, "batch_size": 4}, {"width": 16, "batch_size": 4}
    enlarged = tool("tuned_gallery").enlarged
    assert enlarged(smoke, before, lambda sizes: 0.06)[0] == before
    found, _ = enlarged(smoke, before, lambda sizes: 0.006 * sizes["batch_size"])
    assert found == {"width": 32, "batch_size": 16}


def test_the_smoke_sizes_are_read_from_the_help(tool, monkeypatch):
    text = (
        "  --smoke  small sizes; other flags override it\n  --batch_size BATCH_SIZE\n"
        "        images a step (default 128; smoke\n        16)\n"
        "  --image_size IMAGE_SIZE\n        height (default 64; smoke 9)\n"
        "  --width WIDTH         channels (default 64; smoke 8)\n"
    )
    monkeypatch.setattr(tool("gallery"), "python", lambda *arguments: (0, text, ""))
    assert tool("tuned_gallery").smoke_sizes("x") == {"batch_size": 16, "width": 8}


def row(name="lstm", kept="tuned", load=1.0, **rounds):
    """A row whose rounds are given in milliseconds by the wall clock, a tenth by the processor."""
    return {
        "program": name,
        "kept": kept,
        "load": load,
        "device": "CPU",
        "tensorflow": "2.21.0",
        "date": "2026-11-24",
        "clock": "wall",
        "coverage": {"converted_ops": 3, "tensor_core_ops": 4},
        "predicted": {"bytes": 1.3, "tuned": 1.9},
        "rounds": {
            key: {"wall": list(each), "processor": [value / 10 for value in each]}
            for key, each in rounds.items()
        },
    }


FAST = {
    "float32": (50.0, 51.0, 50.0),
    "graphmp": (40.0, 40.8, 40.0),
    "tuned": (25.0, 25.5, 25.0),
    "tensorflow": (50.0, 51.0, 50.0),
}
SLOW = {
    "float32": (50.0, 51.0, 50.0),
    "graphmp": (60.0, 61.2, 60.0),
    "tuned": (100.0, 102.0, 100.0),
    "tensorflow": (40.0, 40.8, 40.0),
}


def test_the_table_has_both_means(tool):
    rows = [row("a", **FAST), row("b", kept="float32", **SLOW)]
    lines = tool("parts.tuned_table").text(rows)
    assert lines[2].startswith("| a | 50.3 ms | 1.25 [1.25, 1.25] | 2.00 [2.00, 2.00] | tuned |")
    assert "| 3 of 4 | 1.30 | 1.90 | 3 |" in lines[2]
    fallback, without = (line for line in lines if line.startswith("| with"))
    # a: 2, 1.6, 2; b: 1, 1, 0.8 with the fallback, 0.5, 0.5, 0.4 without
    assert fallback == "| with the fallback | 1.414 | 1.265 | 1.265 |"
    assert without == "| without it | 1.000 | 0.894 | 0.894 |"


def test_a_busy_machine_is_said_and_timed_by_the_processor(tool):
    table = tool("parts.tuned_table")
    lines = table.text([row("a", load=9.5, **FAST)])
    assert "| 5.0 ms |" in lines[2]
    assert any(line.startswith("- Load average up to 9.5: other work ran") for line in lines)
    assert not any("other work" in line for line in table.text([row("a", **FAST)]))


def test_what_is_known_too_roughly_is_named(tool):
    table = tool("parts.tuned_table")
    rough = row("b", **dict(FAST, tuned=(25.0, 35.0, 20.0)))
    assert table.widest(rough) > 0.03 and table.widest(row(**FAST)) < 0.001
    assert table.widest(row()) == math.inf
    assert "- Wider than 3%: b." in table.text([row("a", **FAST), rough])


def test_predictions_that_are_far_off_are_named(tool):
    rows = [row("a", **FAST), row("b", **dict(FAST, tuned=(40.0, 40.1, 40.0)))]
    lines = tool("parts.tuned_table").text(rows)
    assert "- Predicted within 10%, by bytes: 2 of 2." in lines
    assert "- Predicted within 10%, tuned: 1 of 2; not b." in lines


def test_the_sizes_that_are_checked_in(tool):
    rows = json.loads((ROOT / "examples" / "tuned_sizes.json").read_text())["programs"]
    names = [each["program"] for each in rows]
    assert names == sorted(names) and set(names) <= set(tool("gallery").programs())
    for each in rows:
        assert "--batch_size=%d" % each["batch_size"] in each["flags"]
        assert each["float32_ms"] >= 50


@pytest.mark.parametrize(
    "name",
    ["tuned.json", "tuned_avx512.json", "tuned_graphs.json", "tuned_graphs_avx512.json"],
)
def test_the_tables_in_the_docs_are_those_of_the_results(tool, name):
    rows = json.loads((ROOT / "examples" / name).read_text())["programs"]
    table = "\n".join(tool("parts.tuned_table").text(rows))
    assert table in (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    if "graphs" not in name:
        assert {row["program"] for row in rows} == set(tool("gallery").programs())


def test_the_graphs_of_a_folder_are_rows_of_one_batch_size(tool, tmp_path, capsys):
    for name in ("b.meta", "a.meta", "a.pb"):
        tmp_path.joinpath(name).write_bytes(b"")
    flags = ["measure", "--graphs=%s" % tmp_path, "--batch_size=4"]
    rows = tool("tuned_gallery").of_graphs(tool("tuned_gallery").parse(flags))
    assert [(row["program"], row["batch_size"], row["graph"]) for row in rows] == [
        (name, 4, str(tmp_path / (name + ".meta"))) for name in ("a", "b")
    ]
    with pytest.raises(SystemExit, match="2"):
        tool("tuned_gallery").parse([*flags, "c"])
    assert "found c, accepted: a, b" in capsys.readouterr().err


def test_a_program_that_cannot_be_measured_fails_the_command(tool, tmp_path, monkeypatch, capsys):
    """After the others."""
    for name in ("a.meta", "b.meta"):
        tmp_path.joinpath(name).write_bytes(b"")
    gallery, begun = tool("tuned_gallery"), []

    def timed(args, size, old, keep_row):
        begun.append(size["program"])
        if size["program"] == "a":
            raise gallery.gallery.Failed("it does not train")

    monkeypatch.setattr(gallery, "timed", timed)
    results = "--results=%s" % (tmp_path / "results.json")
    assert gallery.main(["measure", "--graphs=%s" % tmp_path, results]) == 1
    assert begun == ["a", "b"]
    assert capsys.readouterr().err == ("a: it does not train\ntuned_gallery: not measured: a\n")
