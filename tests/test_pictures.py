"""The pictures of README and docs: tools/screenshots.py made them, and what they show is today's output.

`docs/pictures.json` has the text of each; tests/test_tools.py compares all of it in a browser.
"""

from __future__ import annotations

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
    page = re.sub("<style>.*</style>|<[^>]*>", "", (tmp_path / "terminal.html").read_text(encoding="utf-8"), flags=re.DOTALL)
    terminal = [line.strip() for line in page.splitlines() if line.strip()]
    assert list(map(unescaped, terminal)) == [line for line in pictures["text"][screenshots.ON_A_TERMINAL] if line], ANEW
    page = (tmp_path / "out" / "diff.html").read_text(encoding="utf-8")
    for name in screenshots.PAGES:
        assert unescaped(re.search("<title>(.*?)</title>", page).group(1)) == pictures["text"][name][0], ANEW
