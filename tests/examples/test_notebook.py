"""The notebook in examples/: it runs from first to last cell, and so did the committed version."""

from __future__ import annotations

import html
import importlib
import importlib.util
import json
import os
import re

import pytest

from tests.support.places import ROOT

NOTEBOOK = ROOT / "examples" / "review.ipynb"
VARIABLE = "GRAPHMP_NOTEBOOK"  # set if it must run
MOST_BYTES = 600000
SUMMARY = r"\d+ changes: .*; all explained"


@pytest.fixture
def tool(monkeypatch):
    """tools/run_notebook.py; the test is skipped if a requirement is missing.

    With GRAPHMP_NOTEBOOK set it fails instead.
    """
    lacking = [name for name in ("ipykernel", "nbclient") if importlib.util.find_spec(name) is None]
    if lacking and VARIABLE in os.environ:
        pytest.fail("%s not installed" % " and ".join(lacking))
    if lacking:
        pytest.skip("%s not installed" % " and ".join(lacking))
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("run_notebook")


@pytest.fixture
def committed():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook):
    return [output for cell in code_cells(notebook) for output in cell["outputs"]]


def text(value):
    """A text of a notebook: one string, or in a file a list of lines."""
    return "".join(value)


def shows_what_it_should(notebook):
    """Assert the expected outputs.

    They are the page in its frame, for the conversion and for the diff, the summary line there and
    as text, and that no change is left out.
    """
    shown = [output["data"] for output in outputs(notebook) if "data" in output]
    frames = [text(data["text/html"]) for data in shown if "text/html" in data]
    assert len(frames) == 2
    for frame in frames:
        assert frame.startswith('<iframe sandbox="allow-scripts" srcdoc="&lt;!DOCTYPE html&gt;')
        assert frame.endswith("</iframe>")
        assert re.search('<p class="summary" title="%s' % SUMMARY, html.unescape(frame))
    printed = "".join(
        text(output["text"]) for output in outputs(notebook) if output["output_type"] == "stream"
    )
    assert re.search("^%s$" % SUMMARY, printed, re.MULTILINE)
    assert "failed" not in printed
    assert text(shown[-1]["text/plain"]) == "True"


def test_it_runs(tool, tmp_path):
    notebook = tool.executed(NOTEBOOK, tmp_path)
    shows_what_it_should(notebook)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.unit
def test_what_is_checked_in_has_been_run(committed):
    cells = code_cells(committed)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert {output["output_type"] for output in outputs(committed)} == {"execute_result", "stream"}
    shows_what_it_should(committed)


@pytest.mark.unit
def test_what_is_checked_in_tells_of_no_machine(committed):
    assert {output.get("name", "stdout") for output in outputs(committed)} == {"stdout"}
    assert all(cell["metadata"] == {} for cell in committed["cells"])
    assert committed["metadata"]["language_info"] == {"name": "python"}
    assert NOTEBOOK.stat().st_size < MOST_BYTES
