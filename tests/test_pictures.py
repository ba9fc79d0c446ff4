"""The pictures of README and docs.

Tools/screenshots.py made them, and what they show is today's output.

`docs/pictures.json` has the text of each; tests/tools/test_tools.py compares all of it in a
browser.
"""

from __future__ import annotations

import html
import importlib
import json
import pathlib
import re

import pytest
import tensorflow.compat.v1 as tf

from tests.support.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ANEW = "make the pictures anew: python tools/screenshots.py"


@pytest.fixture
def screenshots(monkeypatch):
    """The tool that makes the pictures."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    pytest.importorskip("rich")
    return importlib.import_module("screenshots")


def recorded():
    """What the pictures show: {"tensorflow": version, "text": {name: lines}}."""
    return json.loads((ROOT / "docs" / "pictures.json").read_text(encoding="utf-8"))


@pytest.mark.unit
def test_every_picture_of_readme_and_docs_is_made_by_the_tool(screenshots):
    made = {*screenshots.PAGES, screenshots.ON_A_TERMINAL}
    for page in PAGES:
        shown = re.findall(r"!\[[^\]]*\]\(([^)]+\.png)\)", page.read_text(encoding="utf-8"))
        assert {pathlib.PurePosixPath(path).name for path in shown} <= made, page
    assert set(recorded()["text"]) == made


@pytest.mark.slow
def test_the_numbers_in_the_pictures_are_those_of_today(screenshots, tmp_path):
    pictures = recorded()
    if tf.__version__ != pictures["tensorflow"]:
        pytest.skip("the pictures are of TensorFlow %s" % pictures["tensorflow"])
    screenshots.converted(tmp_path)
    (terminal,) = texts(tmp_path / "terminal.html", "<pre>(.*?)</pre>")
    lines = [line.strip() for line in terminal.splitlines()]
    assert [line for line in lines if line] == pictures["text"][screenshots.ON_A_TERMINAL], ANEW
    said = texts(
        tmp_path / "out" / "diff.html",
        '<title>(.*?)</title>|<p class="summary"[^>]*>(.*?)</p>|<dt>(.*?)</dt>|<dd>(.*?)</dd>',
    )
    assert len(said) > 10
    for name in screenshots.PAGES:
        assert set(said) <= set(pictures["text"][name]), ANEW


def texts(path, pattern):
    """What a pattern finds in a page, as text."""
    found = re.findall(
        pattern, path.read_text(encoding="utf-8").partition("<noscript>")[0], re.DOTALL
    )
    return [html.unescape(re.sub("<[^>]*>", "", "".join(parts))) for parts in found]
