"""`graphmp inspect --memory`, the command."""

from __future__ import annotations

import json

import pytest

from tests.support.memory_of_steps import printed

pytestmark = pytest.mark.unit


def test_text(folder, capsys):
    out, err = printed(capsys, "model.meta", "--memory")
    lines = out.splitlines()
    assert err == ""
    counted = (
        "unknown dimensions count as 32 (--batch_size=N: as N), a while loop as 32 iterations where"
        " the graph names no number"
    )
    assert lines[0] == "model.meta   by static shapes; " + counted
    assert lines[2:4] == ["memory of a step", " " * 42 + "original  float16"]
    table = {line[2:40].strip(): line[40:].split() for line in lines[4:] if line.startswith("  ")}
    assert table["activations kept for the backward pass"] == ["2.18", "kB", "1.92", "kB", "88%"]
    assert table["optimizer slots"] == ["832", "B", "832", "B", "100%"]
    assert "kept for the backward pass (float16): 1.92 kB, the largest" in lines
    assert any(line.startswith("      float32: infer: ") for line in lines)
    assert any(line.startswith("alive at the peak, when ") for line in lines)
    assert (
        lines[-1]
        == "next         graphmp convert model.meta, or: graphmp explain model.meta off, or:"
        " graphmp inspect model.meta --memory --measure"
    )


def test_json(folder, capsys):
    out = printed(capsys, "model.meta", "--memory", "--json", "--batch_size=8").out
    value = json.loads(out)
    assert json.dumps(value, indent=1, sort_keys=True) + "\n" == out
    assert (value["schema"], value["source"], value["unknown"], value["inferred"]) == (
        "graphmp.memory/1",
        "model.meta",
        8,
        True,
    )
    assert (
        value["original"]["activations"]["bytes"] == 548
        and value["converted"]["activations"]["bytes"] == 484
    )  # and the mean's divisor
    assert set(value["converted"]["activations"]["tensors"][0]) == {
        "tensor",
        "op",
        "dtype",
        "shape",
        "bytes",
        "reader",
        "reason",
    }
    assert value["measured"] is None and value["error"] == ""


def test_a_converted_graph_is_shown_alone(folder, capsys):
    out = printed(capsys, "converted.meta", "--memory", "--loss_scale=none").out
    assert "GMP108 this graph was converted with the same flags" in out and "(as it is)" in out
    value = json.loads(
        printed(capsys, "converted.meta", "--memory", "--loss_scale=none", "--json").out
    )
    beside = json.loads(
        printed(capsys, "model.meta", "--memory", "--loss_scale=none", "--json").out
    )["converted"]
    assert (
        value["converted"] is None
        and value["original"]["activations"]["bytes"] == beside["activations"]["bytes"]
    )
    assert value["original"]["peak"]["bytes"] == beside["peak"]["bytes"]


def test_a_graph_without_training_has_a_peak_alone(folder, capsys):
    out = printed(capsys, "net.meta", "--memory").out
    assert (
        "no training step was found" in out
        and "kept for the backward pass" not in out.split("memory of a step")[1]
    )
    assert (
        json.loads(printed(capsys, "net.meta", "--memory", "--json").out)["original"]["peak"][
            "node"
        ]
        == "y"
    )


@pytest.mark.parametrize(
    "argv, message",
    [
        (
            ["model.meta", "--memory", "--batch_size=-1"],
            "GMP002: --batch_size=-1: accepted are numbers above zero",
        ),
        (["model.meta", "--measure"], "GMP002: --measure: accepted only with --memory"),
        (
            ["model.meta", "--batch_size=8"],
            "GMP002: --batch_size: accepted only with --memory or --wire",
        ),
        (
            ["model.meta", "--memory", "--wire"],
            "GMP002: --cost, --memory, --policy and --wire: accepted is one of them",
        ),
        (
            ["model.meta", "--memory", "--measure", "--step_timeout=0"],
            "GMP002: --step_timeout=0: accepted are seconds",
        ),
        (["gone.meta", "--memory"], "GMP003: gone.meta"),
    ],
)
def test_trouble_is_one_line_and_2(folder, capsys, argv, message):
    out, err = printed(capsys, *argv, status=2)
    assert out == "" and err.startswith("graphmp: error " + message) and err.count("\n") == 1
